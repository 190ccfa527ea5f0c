"""Can everybody read the pages? Contrast as WCAG 2 counts it, light and dark; and the keyboard."""

from __future__ import annotations

import re

import pytest

from sexton.guard import page as guard_page
from sexton.report import audit_style
from sexton.report.html_parts import table, with_commands

READABLE = 4.5  # WCAG 2, level AA, for text of any size

# What is written in which colour, on what.
REPORT = [
    *((ink, back) for ink in ("ink", "soft", "note") for back in ("back", "card")),
    ("ink", "code"),
    *((kind, f"{kind}-back") for kind in ("bad", "warn", "good", "note")),
    *((each, "card") for each in ("t0", "t1", "t2", "t3", "good", "bad")),
    ("ink", "value"), ("soft", "value"), ("ink", "grave"), ("ink", "mark-back"),
    ("soft", "mark-back"), ("ink", "warn-back"),
]  # fmt: skip
GUARD = [(ink, "page") for ink in ("dim", "bad", "warn", "ice", "good")]
GUARD_BACK = {"light": "#ffffff", "dark": "#121212"}  # the browser's own, by color-scheme


def colours(style: str, scheme: str) -> dict[str, str]:
    light, _, dark = style.partition("prefers-color-scheme")
    found = dict(re.findall(r"--([\w-]+): ?(#[0-9a-f]{3,6})\b", light))
    if scheme == "dark":
        found |= dict(re.findall(r"--([\w-]+): ?(#[0-9a-f]{3,6})\b", dark))
    return found


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_counted_as_others_count_it() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777", "#fff") == pytest.approx(4.48, abs=0.01)  # the known near miss


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "back"), REPORT)
def test_reports_can_be_read(ink: str, back: str, scheme: str) -> None:
    known = colours(audit_style.CSS, scheme)
    assert contrast(known[ink], known[back]) >= READABLE


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "back"), GUARD)
def test_the_guards_page_can_be_read(ink: str, back: str, scheme: str) -> None:
    known = colours(guard_page.STYLE, scheme) | {"page": GUARD_BACK[scheme]}
    assert contrast(known[ink], known[back]) >= READABLE


def test_what_is_wider_than_the_page_can_be_moved_by_the_keyboard() -> None:
    assert 'tabindex="0" role="region" aria-label="table"' in table([("topic", "")], [["orders"]])


def test_a_command_in_a_remedy_is_set_as_one_and_cannot_be_more() -> None:
    assert with_commands("run `sexton repair`, <b>now</b>") == (
        "run <code>sexton repair</code>, &lt;b&gt;now&lt;/b&gt;"
    )
