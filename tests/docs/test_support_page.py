"""The versions that we say were tried are those that the tests use."""

from __future__ import annotations

import re
from pathlib import Path

import sexton
from sexton.base import tested
from sexton.testing.jar_lock import shipped_versions
from tools import make_licences

ROOT = Path(__file__).parents[2]


def test_they_are_the_locked_ones() -> None:
    lock = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8")
    (locked,) = re.findall(r"^pyspark==(\S+)", lock, re.MULTILINE)
    assert locked == tested.SPARK[0]  # others were tried by hand, as the page says
    assert set(shipped_versions()) == set(tested.KAFKA)


def test_the_page_names_them() -> None:
    page = (ROOT / "docs/reference/support.md").read_text(encoding="utf-8")
    for version in (*tested.PYTHON, *tested.SPARK, *tested.KAFKA):
        assert version in page


def test_the_licences_are_those_of_what_is_installed() -> None:
    assert make_licences.PAGE.read_text(encoding="utf-8") == make_licences.page(), (
        "write it again: .venv/bin/python tools/make_licences.py"
    )


def test_the_newest_changes_are_those_of_this_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changes, re.MULTILINE)
    assert newest is not None and newest[1] in (sexton.__version__, "Unreleased")
    assert f"\n## {sexton.__version__} - " in changes
