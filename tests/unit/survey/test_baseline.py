"""What people wrote into a baseline is theirs: writing it anew keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.survey.baseline import load_baseline, write_baseline


@dataclass(frozen=True)
class Found:
    identity: str


FIRST, SECOND, THIRD = Found("torn/orders-0"), Found("torn/orders-1"), Found("torn/orders-2")


def explain(path: Path, found: Found, why: str) -> None:
    """As a person does, in an editor."""
    told = json.loads(path.read_text())
    for each in told["acknowledged"]:
        if each["identity"] == found.identity:
            each["why"] = why
    path.write_text(json.dumps(told))


def reasons_in(path: Path) -> dict[str, str]:
    return {each["identity"]: each["why"] for each in json.loads(path.read_text())["acknowledged"]}


def test_reasons_stay_when_the_file_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    write_baseline(path, [FIRST, SECOND])
    explain(path, FIRST, "ticket 1234")
    write_baseline(path, [FIRST, THIRD])
    assert reasons_in(path) == {FIRST.identity: "ticket 1234", THIRD.identity: ""}


def test_reasons_go_along_into_another_file(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    write_baseline(old, [FIRST])
    explain(old, FIRST, "ticket 1234")
    write_baseline(new, [FIRST, SECOND], load_baseline(old))
    assert reasons_in(new) == {FIRST.identity: "ticket 1234", SECOND.identity: ""}


def test_a_file_that_is_something_else_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("something else")
    with pytest.raises(ConfigError, match="is not a baseline"):
        write_baseline(path, [FIRST])
    assert path.read_text() == "something else"
    path.write_text("")
    write_baseline(path, [FIRST])
    assert reasons_in(path) == {FIRST.identity: ""}
