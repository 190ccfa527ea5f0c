"""The indexes of a segment against a plain list of their entries, also when the file is damaged."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from sexton.log.indexes import OffsetEntry, OffsetIndex, TimeEntry, TimeIndex

small = st.integers(-2, 12)
offset_entries = st.lists(st.tuples(small, small))
tails = st.binary(max_size=11)


def rising_offsets(entries: list[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    last = (-1, -1)
    for entry in entries:
        if entry[0] <= last[0] or entry[1] <= last[1]:
            break
        kept.append(entry)
        last = entry
    return kept


def rising_times(entries: list[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for entry in entries:
        if (kept and (entry[0] <= kept[-1][0] or entry[1] < kept[-1][1])) or (
            not kept and entry == (0, 0)
        ):
            break
        kept.append(entry)
    return kept


@given(st.one_of(offset_entries, offset_entries.map(sorted)), tails.filter(lambda t: len(t) < 8))
def test_an_offset_index_is_what_rises_from_its_start(
    entries: list[tuple[int, int]], tail: bytes
) -> None:
    data = b"".join(struct.pack(">ii", *entry) for entry in entries)
    index = OffsetIndex.parse(data + tail)
    expected = rising_offsets(entries)
    assert [index[row] for row in range(len(index))] == expected
    assert index.pack() == data[: len(expected) * 8]
    assert index.size_bytes == len(expected) * 8
    for wanted in range(-3, 14):
        before = [position for offset, position in expected if offset <= wanted]
        assert index.position_before(wanted) == (before[-1] if before else 0)
        after = [offset for offset, position in expected if position >= wanted]
        assert index.offset_after(wanted) == (after[0] if after else None)
    for cut in range(-3, 14):
        shorter = OffsetIndex.parse(data)
        shorter.truncate(cut)
        assert len(shorter) == sum(offset < cut for offset, _ in expected)


@given(st.one_of(offset_entries, offset_entries.map(sorted)), tails)
def test_a_time_index_is_what_rises_from_its_start(
    entries: list[tuple[int, int]], tail: bytes
) -> None:
    data = b"".join(struct.pack(">qi", *entry) for entry in entries)
    index = TimeIndex.parse(data + tail)
    expected = rising_times(entries)
    assert [index[row] for row in range(len(index))] == expected
    assert index.pack() == data[: len(expected) * 12]
    assert index.size_bytes == len(expected) * 12
    for cut in range(-3, 14):
        shorter = TimeIndex.parse(data)
        shorter.truncate(cut)
        assert len(shorter) == sum(offset < cut for _, offset in expected)


def test_appending_gives_the_bytes_of_the_file() -> None:
    offsets, times = OffsetIndex(), TimeIndex()
    written = offsets.append(OffsetEntry(3, 0)) + offsets.append(OffsetEntry(9, 4200))
    assert OffsetIndex.parse(written) == offsets
    told = times.append(TimeEntry(1000, 3)) + times.append(TimeEntry(900, 9))
    assert TimeIndex.parse(told) == times
    assert len(times) == 1
