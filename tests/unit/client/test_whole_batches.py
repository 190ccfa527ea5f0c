"""The two ways to find the whole batches of an answer must not differ."""

from __future__ import annotations

import numpy as np
import pytest

from sexton.client import whole_batches as client
from sexton.client.whole_batches import MANY_BYTES, Whole, few, whole_batches
from sexton.records import Spans, encode, rows

BATCHES, ROWS = 40, 100
FIRST = 500  # offset


def log() -> bytes:
    count = BATCHES * ROWS
    value = Spans.from_list([b"v" * 100] * count)
    times = np.full(count, 1_700_000_000_000)
    return encode(
        rows(times, value, value, base_offset=FIRST, batch_rows=ROWS, batch_bytes=1 << 20)
    )


DATA = log()
SIZE = len(DATA) // BATCHES  # of each batch: they are all alike


def test_this_log_is_long_enough_for_the_kernel() -> None:
    assert len(DATA) > MANY_BYTES
    assert len(DATA) == BATCHES * SIZE


@pytest.mark.parametrize("way", [whole_batches, few])
@pytest.mark.parametrize(("cut", "whole"), [(0, 40), (1, 39), (SIZE - 20, 39), (SIZE, 39)])
def test_a_batch_that_was_cut_is_left_out(way: object, cut: int, whole: int) -> None:
    found = way(memoryview(DATA)[: len(DATA) - cut], FIRST)  # type: ignore[operator]
    assert found == Whole(whole * SIZE, FIRST + whole * ROWS, None)


@pytest.mark.parametrize("way", [whole_batches, few])
def test_what_is_no_batch_is_said_with_the_place_before_it(way: object) -> None:
    data = bytearray(DATA)
    data[30 * SIZE + 16] = 9  # the magic of the 31st
    found = way(memoryview(data), FIRST)  # type: ignore[operator]
    assert (found.end, found.next_offset) == (30 * SIZE, FIRST + 30 * ROWS)
    assert "magic" in found.fault


def test_batches_below_what_was_asked_for_do_not_lead_back() -> None:
    for way in (whole_batches, few):
        assert way(memoryview(DATA), FIRST + 10_000).next_offset == FIRST + 10_000


def test_nothing_is_nothing_and_a_few_batches_need_no_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert whole_batches(memoryview(b""), 7) == Whole(0, 7, None)
    monkeypatch.setattr(client, "_many", None)  # a call would fail
    assert whole_batches(memoryview(DATA)[: 2 * SIZE], FIRST).end == 2 * SIZE
    with pytest.raises(TypeError):
        whole_batches(memoryview(DATA), FIRST)
