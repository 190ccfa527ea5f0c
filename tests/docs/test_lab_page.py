"""The page about the lab names every scenario there is, and no other."""

from __future__ import annotations

import re

from sexton.lab.divergences import LAB
from sexton.lab.stores_eos import STORIES
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs/how-to/see-replicas-diverge.md").read_text(encoding="utf-8")


def test_every_scenario_has_its_line() -> None:
    section = PAGE.partition("\n## The scenarios\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == [*LAB, *STORIES]


def test_who_has_an_early_form_is_said() -> None:
    said = PAGE.partition("`--early` plays\n")[2].partition(" in that form")[0]
    early = [name for name, scenario in LAB.items() if scenario.has_early_form]
    assert re.findall("`([a-z-]+)`", said) == early
