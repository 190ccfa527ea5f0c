"""Which files are read, for the offsets that were asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sexton.spark.files import plan_files
from sexton.spark.options import parse
from sexton.spark.ranges import Nothing
from sexton.spark.source import SextonReader

Planned = dict[int, tuple[int | None, int | None]]  # by partition: first and last offset


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for number in range(3):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"t-{number}" / f"{0:020}.log").write_bytes(b"")
    return tmp_path


def planned(place: Path, **offsets: dict[str, int]) -> Planned:
    bounds = {name: json.dumps({"t": told}) for name, told in offsets.items()}
    ranges = plan_files(parse({"path": str(place), **bounds}))
    return {each.at.partition: (each.first, each.last) for each in ranges}


def test_a_partition_is_read_from_where_to_where_it_was_asked(place: Path) -> None:
    assert planned(place) == dict.fromkeys(range(3), (None, None))
    found = planned(
        place, startingOffsets={"0": 5, "1": -2, "2": 0}, endingOffsets={"0": 9, "1": -1, "2": 1}
    )
    assert found == {0: (5, 8), 1: (None, None), 2: (0, 0)}


def test_from_the_end_on_there_is_nothing(place: Path) -> None:
    assert planned(place, startingOffsets={"0": -1, "1": -2, "2": 7}) == {
        1: (None, None),
        2: (7, None),
    }


def test_to_the_beginning_there_is_nothing(place: Path) -> None:
    assert planned(place, endingOffsets={"0": -2, "1": -1, "2": 7}) == {
        1: (None, None),
        2: (None, 6),
    }


def test_spark_gets_a_partition_all_the_same(place: Path) -> None:
    nothing = json.dumps({"t": dict.fromkeys("012", -1)})
    (only,) = SextonReader(parse({"path": str(place), "startingOffsets": nothing})).partitions()
    assert isinstance(only, Nothing)
