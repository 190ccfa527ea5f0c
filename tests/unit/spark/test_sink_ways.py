"""When does a micro-batch go through a single task?"""

from __future__ import annotations

from typing import Any

import pytest

from sexton.spark import sink_ways
from sexton.spark.sink_ways import Ways


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was looked at; all of it is one stage, but for the word "wide"."""
    seen: list[Any] = []

    def look(df: Any) -> bool:
        seen.append(df)
        return bool(df != "wide")

    monkeypatch.setattr(sink_ways, "is_narrow", look)
    return seen


def test_the_first_batch_goes_the_long_way_and_small_ones_after_it_do_not(
    looks: list[Any],
) -> None:
    ways, df = Ways(), Any
    assert not ways.short(df, 60_000)  # type: ignore[arg-type]
    assert looks == []
    ways.took(1.0)
    assert ways.short(df, 60_000)  # type: ignore[arg-type]
    ways.took(11.0)  # of 60 s, a sixth is 10
    assert not ways.short(df, 60_000)  # type: ignore[arg-type]
    ways.took(1.0)
    assert ways.short(df, 60_000)  # type: ignore[arg-type]
    assert looks == [df], "a query is looked at once"


def test_a_query_of_several_stages_always_goes_the_long_way(looks: list[Any]) -> None:
    ways = Ways()
    ways.took(0.1)
    assert not ways.short("wide", 60_000)  # type: ignore[arg-type]
    assert looks == ["wide"]


def test_a_session_that_does_not_tell_goes_the_long_way() -> None:
    assert not sink_ways.is_narrow(object())  # type: ignore[arg-type]
