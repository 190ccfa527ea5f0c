"""The page about compatibility says what the broker does."""

from __future__ import annotations

import re
from pathlib import Path

from sexton.node import apis
from sexton.node.topic_options import TOPIC_OPTIONS
from sexton.protocol import registry

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md"


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if re.match(r"\| \S", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_is_what_brokers_offer() -> None:
    answered = PAGE.read_text().split("## Not answered")[0]
    told = {row[1]: (row[0], row[2]) for row in rows(answered) if row[0].isdigit()}
    offered = {
        each.name: (
            str(each.key),
            str(each.first) if each.first == each.last else f"{each.first} to {each.last}",
        )
        for each in apis.OFFERED
    }
    assert told == offered


def test_what_is_left_out_is_named() -> None:
    left_out = PAGE.read_text().split("## Not answered")[1].split("## Topics")[0]
    named = {name for row in rows(left_out) for name in row[0].split(", ")} - {"API", "---"}
    offered = {each.name for each in apis.OFFERED}
    ours = {api.name for api in registry.apis() if api.module.startswith("sexton.")}
    assert named == ours - offered


def test_options_without_effect_are_named() -> None:
    topics = PAGE.read_text().split("without effect: ")[1].split(".\n")[0]
    without = [o.name for o in TOPIC_OPTIONS.values() if o.about.startswith("Kept, without effect")]
    assert re.findall(r"`([a-z0-9.]+)`", topics) == without
