from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from sexton.audit.finding import AuditFinding
from sexton.report.audit_page import AuditPage
from sexton.report.audit_text import (
    NO_ROOM,
    TOPICS,
    audit_finding_lines,
    audit_finding_text,
    picture_lines,
    topic_rows,
    verdict_lines,
)
from sexton.report.findings import INDENT
from sexton.report.tables import print_rich
from tests.unit.report.audit_examples import (
    CLEAN,
    EACH,
    GAP,
    HOSTILE,
    MISSING,
    PAGE,
    STUCK,
    TOMBSTONE,
    window,
)

SHOWN = replace(PAGE, show_keys=True)


def test_the_logs_are_drawn_below_each_other() -> None:
    finding = replace(
        TOMBSTONE,
        windows=(
            window(1, "16 a=1, 19 c=1", first=16, end=20),
            window(3, "16 a=1, 17 k=1, 19 c=1", first=16, end=20),
        ),
    )
    one = TOMBSTONE.values[3]
    assert one is not None
    v = one[:4]  # a, c and k all have the value 1
    assert picture_lines(finding, SHOWN, 80) == [
        "            16      17      18  19",
        f"✓ broker 1  a={v}  ·       ·   c={v}",
        f"✗ broker 3  a={v}  k={v}  ·   c={v}",
        "  on all: LSO 20, HW 20",
        "  · no record, key=start of its value's hash",
    ]
    legend = picture_lines(finding, PAGE, 80)[-2:]
    assert " ".join(line.strip() for line in legend).endswith(
        "k the key in question, other keys and values as the start of their hash"
    )
    assert "in question" not in " ".join(picture_lines(STUCK, PAGE, 80)), "there is no such key"


def test_a_picture_for_which_there_is_no_room_is_said_to_be_left_out() -> None:
    def told(width: int) -> str:
        return " ".join(" ".join(audit_finding_lines(TOMBSTONE, SHOWN, width)).split())

    assert picture_lines(TOMBSTONE, SHOWN, 30) == []
    assert NO_ROOM in told(30)
    assert NO_ROOM not in told(80)


def test_keys_that_differ_late_look_different() -> None:
    finding = replace(
        TOMBSTONE, windows=(window(3, "16 user-17=1, 17 user-18=1, 18 z=1", first=16, end=19),)
    )
    row = picture_lines(finding, SHOWN, 80)[1]
    assert "user-17=" in row and "user-18=" in row
    alone = replace(finding, windows=(window(3, "16 customer-17=1", first=16, end=17),))
    assert "custo…=" in picture_lines(alone, SHOWN, 80)[1]
    far = "x" * 100
    both = replace(finding, windows=(window(3, f"16 {far}1=1, 17 {far}2=1", first=16, end=18),))
    assert "xxxxx…=" in picture_lines(both, SHOWN, 80)[1]  # no room: better short than nothing


def test_a_transaction_is_drawn_below_its_records() -> None:
    lines = picture_lines(STUCK, SHOWN, 80)
    commit, bracket = lines[1], lines[2]
    assert bracket.index("╰") == commit.index("b=")
    assert bracket.index("╯") == commit.index("COMMIT") + len("COMMIT") - 1
    assert "committed" in bracket
    stuck = [line for line in lines if "broker 3" in line or "open" in line or "LSO 101" in line]
    assert "past LSO" in stuck[0]
    assert stuck[1].endswith("▶")
    assert stuck[2] == "  LSO 101, HW 108"


def test_what_is_hidden_or_not_decided_looks_so() -> None:
    told = {True: "k=", False: "(k=", None: "k="}
    for shown, begins in told.items():
        log = window(3, "17 k=1", first=17, end=18)
        log = replace(log, slots=tuple(replace(slot, shown=shown) for slot in log.slots))
        row = picture_lines(replace(TOMBSTONE, windows=(log,)), SHOWN, 80)[1]
        assert begins in row
        assert ("?" in row) == (shown is None)
        assert (")" in row) == (shown is False)


@pytest.mark.parametrize("finding", EACH, ids=[each.code for each in EACH])
@pytest.mark.parametrize("page", [PAGE, SHOWN], ids=["digests", "keys"])
def test_every_finding_fits_eighty_columns(finding: AuditFinding, page: AuditPage) -> None:
    for width in (80, 120):
        lines = audit_finding_lines(finding, page, width)
        words, commands = lines[:-1], lines[-1:]
        assert max(map(len, words)) <= width
        assert commands[0].startswith(f"{INDENT}$ sexton ")  # in one piece, to be copied
        told = " ".join(" ".join(words).split())
        assert finding.verdict.because[1:] in told
        assert finding.remedy in told
        assert any("LSO" in line for line in words) == bool(finding.windows)  # it is drawn


def test_large_offsets_fit_too() -> None:
    base = 10**12
    shifted = replace(
        TOMBSTONE,
        offsets={1: None, 2: base + 18, 3: base + 17},
        windows=tuple(
            replace(
                each,
                first=each.first + base,
                end=each.end + base,
                last_stable=each.last_stable + base,
                high_watermark=each.high_watermark + base,
                slots=tuple(
                    replace(
                        slot,
                        offset=slot.offset + base,
                        last_offset=slot.last_offset + base,
                        base_offset=slot.base_offset + base,
                        batch_last=slot.batch_last + base,
                    )
                    for slot in each.slots
                ),
                gaps=tuple((start + base, end + base) for start, end in each.gaps),
            )
            for each in TOMBSTONE.windows
        ),
    )
    lines = picture_lines(shifted, SHOWN, 71)
    assert lines
    assert max(map(len, lines)) <= 71
    assert any("k=∅" in line for line in lines)
    assert any("k=" in line and "✗" in line for line in lines)


def test_too_narrow_for_a_picture_means_none() -> None:
    assert picture_lines(TOMBSTONE, PAGE, 20) == []
    assert audit_finding_lines(TOMBSTONE, PAGE, 20)  # the words still come


def test_a_key_cannot_steer_the_terminal() -> None:
    for key in (HOSTILE, "k\u202e\u2066".encode(), b"a\r\nb\t"):
        finding = replace(MISSING, key=key)
        text = "\n".join(audit_finding_lines(finding, SHOWN, 80))
        assert all(c.isprintable() or c == "\n" for c in text)


def test_colour_changes_no_character() -> None:
    for finding in EACH:
        plain = "\n".join(audit_finding_lines(finding, PAGE, 80))
        assert audit_finding_text(finding, PAGE, 80).plain == plain


def test_without_windows_the_words_stand_alone() -> None:
    lines = audit_finding_lines(GAP, PAGE)
    assert lines == [
        "note     offset-gap  events-1",
        "         Offsets 120 to 140 are on no replica, and nothing says why.",
        "         right  cannot be known. No replica holds them.",
        "         began  not known",
        "         → compare with what was written",
        "         → docs/runbook/offset-gap.md",
        "         $ sexton log verify --cleanup-policy delete LOG_DIR/events-1",
    ]


def test_the_verdict_says_what_it_rests_on() -> None:
    lines = list(verdict_lines(PAGE))
    assert lines[0].startswith("The replicas do not agree: ")
    assert "6 errors, 2 warnings, 1 note; read 18,064,995 records" in lines[1]
    assert lines[2:] == [
        "not shown: 2 findings acknowledged in the baseline",
        "note: Only records since 2026-11-15 06:00:00 UTC were compared.",
        "what to do: docs/how-to/when-the-audit-finds-something.md",
    ]
    assert len(list(verdict_lines(CLEAN))) == 2


def test_a_row_for_each_topic() -> None:
    rows = list(topic_rows(PAGE))
    assert all(len(row) == len(TOPICS) for row in rows)
    assert [row[:2] for row in rows] == [
        ("orders", "replicas differ"),
        ("payments", "replicas differ"),
        ("events", "not sound"),
        ("customers", "incomplete"),
    ]
    for_programs = list(topic_rows(PAGE, people=False))
    assert for_programs[0][1] == "differ"
    assert for_programs[0][6] == 7_225_998 * 104


def test_topics_stay_a_table_at_80_columns() -> None:
    console = Console(file=io.StringIO(), width=80)
    row = ("payments.billing.retry", "replicas agree", 12, 36, 1_234_567, 50_000, "120.4 MB", 0)
    print_rich(console, TOPICS, [row])
    assert isinstance(console.file, io.StringIO)
    heading, told, hidden = console.file.getvalue().splitlines()
    assert heading.split()[:3] == ["topic", "verdict", "parts"]
    assert told.startswith("payments.billing.retry replicas agree")
    assert hidden.startswith("in a wider terminal: ")
