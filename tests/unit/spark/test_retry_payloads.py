"""Fewer payloads are read than are due: does each round still have a message that may be tried?"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sexton.machines.retry_records import RetryRecord
from sexton.machines.retry_rounds import Item, Lane
from sexton.spark.retry_attempt import Attempt

RECORD = RetryRecord(b"k", b"k", b"v", (), 5)


class FirstOnly:
    """There is room for one: the one that was written first."""

    def payloads(self, _name: object, wanted: Iterable[tuple[int, int]], _most: int) -> Any:
        first, _ = min(wanted, key=lambda each: each[1])
        return {first: RECORD}


def lane_of(key: bytes, *offsets: int) -> Lane:
    lane = Lane(key)
    lane.items = [Item(number, key, 1, -1, offset, lane) for number, offset in enumerate(offsets)]
    return lane


@pytest.mark.parametrize("offsets", [(20, 30), (100, 20, 30), (100, 200, 20)])
def test_the_first_of_a_key_is_read_before_those_that_wait_for_it(offsets: tuple[int, ...]) -> None:
    """Also if it was written after them, as one whose lock was lost and is held anew may be."""
    lane = lane_of(b"a", *offsets)
    taken = SimpleNamespace(retry_lanes=[lane], orders=SimpleNamespace(skipped=[]))
    attempt = SimpleNamespace(
        pipeline=SimpleNamespace(topics=SimpleNamespace(main="orders")),
        loop=SimpleNamespace(run=lambda found: found),
        _reading=FirstOnly(),
    )
    found = Attempt._payloads(cast("Attempt", attempt), cast("Any", {0: taken}))
    assert [item.id for item in lane.items] == [0]
    assert found == {0: {0: RECORD}}
