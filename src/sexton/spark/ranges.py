"""The unit of reading: a range of offsets of one partition, on its leader or on one replica.

Spark pickles each range and hands it to a task somewhere. A task that is run again reads the same
range again, so what a retry gives is what the first attempt would have given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from sexton.base.partitions import TopicPartition
from sexton.log.inspect.paths import PartitionFiles

# Who is read for (partition, replica); without a replica its leader.
Leaders = Mapping[tuple[TopicPartition, int | None], int]


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    at: TopicPartition
    start: int
    end: int
    topic_id: bytes
    node: int | None = None  # None: whoever leads
    max_bytes_per_s: float | None = None  # this range's share

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class FileRange(InputPartition):
    at: TopicPartition
    files: PartitionFiles
    first: int | None
    last: int | None


class Nothing(InputPartition):
    """Spark wants at least one partition."""

    def __init__(self) -> None:
        super().__init__(None)


def split(
    ranges: Sequence[OffsetRange], least: int | None, most_records: int | None
) -> list[OffsetRange]:
    """The same offsets in ranges of at most so many, and at least so many ranges altogether.

    A log is cut by its offsets, so pieces of a compacted one may differ in records.
    """
    pieces = [each for each in ranges if each.size > 0]
    if most_records is not None:
        pieces = [p for each in pieces for p in _cut(each, -(-each.size // most_records))]
    if least is not None and 0 < len(pieces) < least:
        whole = sum(each.size for each in pieces)
        pieces = [p for each in pieces for p in _cut(each, max(1, -(-each.size * least // whole)))]
    return pieces


def _cut(whole: OffsetRange, parts: int) -> Iterable[OffsetRange]:
    parts = min(parts, whole.size)
    edges = [whole.start + whole.size * number // parts for number in range(parts + 1)]
    for start, end in pairwise(edges):
        yield replace(whole, start=start, end=end)


def with_shares(
    ranges: Sequence[OffsetRange],
    leaders: Leaders,
    max_bytes_per_s: float | None,
) -> list[OffsetRange]:
    """Each range with its share of what may be read from its broker, should all run at once."""
    if max_bytes_per_s is None:
        return list(ranges)
    readers = Counter(leaders[each.at, each.node] for each in ranges)
    return [
        replace(each, max_bytes_per_s=max_bytes_per_s / readers[leaders[each.at, each.node]])
        for each in ranges
    ]
