"""A segment written at once has the files of one that was written batch by batch."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sexton.log.indexes import AbortedTransaction
from sexton.log.memory_disk import MemoryDisk
from sexton.log.segment import Segment
from sexton.log.segment_writer import SegmentWriter
from sexton.records.layout import headers_in
from tests.handmade import batch, record

BASE = 1000
ABORTED = [AbortedTransaction(7, 1000, 1003, 1004)]
batches = st.lists(
    st.tuples(
        st.integers(0, 3),  # offsets that were left out before it
        st.integers(1, 3),  # records
        st.integers(0, 60),  # bytes of a value
        st.one_of(st.just(-1), st.integers(0, 5)),  # max timestamp
    ),
    min_size=1,
    max_size=30,
)


def made(shapes: list[tuple[int, int, int, int]]) -> list[bytes]:
    offset, parts = BASE, []
    for gap, count, size, timestamp in shapes:
        offset += gap
        records = [record(n, value=bytes(size)) for n in range(count)]
        parts.append(batch(*records, base_offset=offset, max_timestamp=timestamp))
        offset += count
    return parts


@given(batches, st.sampled_from([0, 1, 100, 300, 4096]), st.integers(1, 9))
def test_both_ways_give_the_same_files(
    shapes: list[tuple[int, int, int, int]], interval: int, at_once: int
) -> None:
    parts = made(shapes)
    disk = MemoryDisk()
    one = Segment.attach(disk, "one", BASE, 5)
    for part in parts:
        one.append(part, list(headers_in(part, "one")), interval)
    for entry in ABORTED:
        one.add_aborted(entry)
    one.seal()
    one.sync()
    writer = SegmentWriter(disk, "other", BASE, 5, interval, "")
    for first in range(0, len(parts), at_once):
        data = b"".join(parts[first : first + at_once])
        assert len(writer.append(np.frombuffer(data, np.uint8))) == len(parts[first:][:at_once])
    other = writer.finish(ABORTED)
    assert disk.names("one") == disk.names("other")
    for name in disk.names("one"):
        assert disk.read(f"one/{name}") == disk.read(f"other/{name}"), name
    for field in (
        "offsets",
        "times",
        "aborted",
        "end_offset",
        "max_timestamp",
        "first_timestamp",
        "bytes_since_index",
    ):
        assert getattr(one, field) == getattr(other, field), field
