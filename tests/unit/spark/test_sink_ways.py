"""When does a micro-batch go through a single task, and when does the driver send it?"""

from __future__ import annotations

from typing import Any

import pytest

from sexton.spark import sink_ways
from sexton.spark.sink_ways import FEW_BYTES, FEW_ROWS, Way, Ways


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was looked at; all of it is one stage, but for the word "wide"."""
    seen: list[Any] = []

    def look(df: Any) -> bool:
        seen.append(df)
        return bool(df != "wide")

    monkeypatch.setattr(sink_ways, "is_narrow", look)
    return seen


def test_the_first_batch_goes_the_long_way_and_quick_ones_after_it_do_not(
    looks: list[Any],
) -> None:
    ways, df = Ways(), Any
    assert ways.choose(df, 60_000) is Way.LONG  # type: ignore[arg-type]
    assert looks == []
    ways.wrote(500_000, 60 << 20, packed=False)
    ways.took(1.0)
    assert ways.choose(df, 60_000) is Way.SHORT  # type: ignore[arg-type]
    ways.took(11.0)  # of 60 s, a sixth is 10
    assert ways.choose(df, 60_000) is Way.LONG  # type: ignore[arg-type]
    ways.took(1.0)
    assert ways.choose(df, 60_000) is Way.SHORT  # type: ignore[arg-type]
    assert looks == [df], "a query is looked at once"


@pytest.mark.parametrize(
    ("rows", "size", "way"),
    [
        (0, 0, Way.HERE),
        (FEW_ROWS - 1, FEW_BYTES - 1, Way.HERE),
        (FEW_ROWS, 1000, Way.SHORT),
        (10, FEW_BYTES, Way.SHORT),  # a few large ones
    ],
)
def test_the_driver_sends_what_was_small_the_last_time(
    looks: list[Any], rows: int, size: int, way: Way
) -> None:
    ways = Ways()
    ways.wrote(rows, size, packed=False)
    ways.took(0.1)
    assert ways.choose("narrow", 60_000) is way  # type: ignore[arg-type]
    ways.took(11.0)
    assert ways.choose("narrow", 60_000) is Way.LONG, "it was slow"  # type: ignore[arg-type]
    assert looks == ["narrow"]


@pytest.mark.parametrize(
    ("rows", "size", "at_once"),
    [
        (500_000, 60 << 20, 10_000),  # small ones: 1 MB is enough
        (1_000, 40 << 20, 100),  # of 41 kB each: 4 MB
        (3, 30 << 20, 1),  # larger than all that should go at once
        (0, 0, 1_024),  # nobody knows: perhaps 4 kB each
    ],
)
def test_rows_go_to_python_some_megabytes_at_once(rows: int, size: int, at_once: int) -> None:
    ways = Ways()
    ways.wrote(rows, size, packed=False)
    assert ways.at_once == at_once
    ways.wrote(0, 0, packed=False)
    assert ways.at_once == at_once, "an empty batch says nothing about rows"


def test_what_was_compressed_may_have_been_much_larger(looks: list[Any]) -> None:
    ways = Ways()
    ways.wrote(1_000, 400 << 10, packed=True)  # perhaps 6 kB each, and 6 MB in all
    ways.took(0.1)
    assert ways.choose("narrow", 60_000) is Way.SHORT  # type: ignore[arg-type]
    assert ways.at_once == 640
    assert looks == ["narrow"]


def test_a_query_of_several_stages_always_goes_the_long_way(looks: list[Any]) -> None:
    ways = Ways()
    ways.took(0.1)
    assert ways.choose("wide", 60_000) is Way.LONG  # type: ignore[arg-type]
    assert looks == ["wide"]


def test_a_session_that_does_not_tell_goes_the_long_way() -> None:
    assert not sink_ways.is_narrow(object())  # type: ignore[arg-type]
