"""Kafka's files as a DataFrame: segments, partitions or whole data directories, without a broker.

They are read by what inspects logs (`log.inspect`), which knows damage when it sees it. A batch or
a file that cannot be read is an error, unless `failOnDataLoss` is off: a DataFrame cannot carry a
note that something is missing from it.

There is no broker to say what is committed. With read_committed a record is shown when a marker in
these files says so; data of a transaction without a marker is left out, and what follows it is not,
though a consumer would wait there. Paths are those that executors see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sexton.base.errors import ConfigError, CorruptLog
from sexton.base.findings import Finding
from sexton.base.partitions import TopicPartition
from sexton.client.replica import Isolation
from sexton.log.inspect.blocks import Block, blocks
from sexton.log.inspect.outcomes import UNKNOWN
from sexton.log.inspect.paths import PartitionFiles, find
from sexton.log.inspect.selection import PLAIN, Selection
from sexton.log.inspect.table import COMMIT
from sexton.spark.arrow import ArrowMaker, Origin, Rows
from sexton.spark.bounds import At, Bound, Edge
from sexton.spark.options import SourceOptions
from sexton.spark.ranges import FileRange
from sexton.spark.visible import shown_rows

RENAMED = -1  # in place of a partition's number: its directory does not tell
_HINT = "to read the rest, set failOnDataLoss to false"
_LAST = (1 << 63) - 1


def plan_files(options: SourceOptions) -> list[FileRange]:
    found = find(options.paths)
    if found.wrong:
        raise found.wrong[0]
    if found.unreadable and options.fail_on_data_loss:
        where, why = found.unreadable[0]
        raise CorruptLog(where, why, _HINT)
    places = [(_partition(files), files) for files in found.partitions]
    taken = [each for each in places if options.topics is None or options.topics.takes(each[0])]
    if not taken:
        raise ConfigError("path", "holds none of the topics that are asked for")
    ranges = [_range(options, *each) for each in taken if not _is_empty(options, each[0])]
    if options.least_partitions is not None and len(ranges) < options.least_partitions:
        ranges = [piece for whole in ranges for piece in _by_segment(whole)]
    return ranges


def _partition(files: PartitionFiles) -> TopicPartition:
    name = files.name.partition("/")[0]
    try:
        return TopicPartition.from_directory(name)
    except ConfigError:
        return TopicPartition(name, RENAMED)


def _is_empty(options: SourceOptions, at: TopicPartition) -> bool:
    """From the end on, or to the beginning: nothing, wherever in the files that is."""
    return options.start.of(at) is Edge.LATEST or options.end.of(at) is Edge.EARLIEST


def _range(options: SourceOptions, at: TopicPartition, files: PartitionFiles) -> FileRange:
    first, end = _offset(options.start, at), _offset(options.end, at)
    return FileRange(at, files, first, None if end is None else end - 1)


def _offset(bound: Bound, at: TopicPartition) -> int | None:
    """None: the beginning or end of the files, whichever this is a bound of."""
    place = bound.of(at)
    if isinstance(place, At):
        return place.offset
    assert isinstance(place, Edge), "options refuse times for files"
    return None


def _by_segment(whole: FileRange) -> Iterator[FileRange]:
    """One range for each segment; the later ones stay known, for the markers in them."""
    for segment in whole.files.segments:
        later = tuple(s for s in whole.files.onwards(segment) if s != segment)
        files = replace(whole.files, segments=(segment,), whole=False, later=later)
        yield FileRange(whole.at, files, whole.first, whole.last)


def read_files(options: SourceOptions, wanted: FileRange) -> Iterator[Any]:
    """The records of some segments of one partition as Arrow batches."""
    number = None if wanted.at.partition == RENAMED else wanted.at.partition
    origin = Origin(wanted.at.topic, number, None, str(wanted.files.directory))
    maker = ArrowMaker(options.columns, origin)
    troubles = _Troubles(options.fail_on_data_loss)
    selection = Selection(first_offset=wanted.first, last_offset=wanted.last)
    for block in blocks(wanted.files, selection, troubles.report, troubles.skip):
        troubles.check()
        rows = _rows(options, wanted, block)
        yield from maker.batches(Rows(block.columns, rows, block.outcome))
    troubles.check()


def _rows(options: SourceOptions, wanted: FileRange, block: Block) -> Any:
    first = 0 if wanted.first is None else wanted.first
    end = _LAST if wanted.last is None else wanted.last + 1
    if options.isolation is not Isolation.READ_COMMITTED:
        return shown_rows(block.columns, first, end, None, with_control=options.with_transactions)
    if options.fail_on_data_loss and np.any(block.outcome == UNKNOWN):
        why = "what decides about some of its transactions cannot be read"
        raise CorruptLog(str(block.segment.path), why, _HINT)
    hidden = (block.outcome != COMMIT) & (block.outcome != PLAIN)
    return shown_rows(block.columns, first, end, hidden, with_control=False)


class _Troubles:
    """The first thing that makes the result less than was asked for."""

    def __init__(self, fatal: bool) -> None:
        self._fatal = fatal
        self._first: CorruptLog | None = None

    def report(self, finding: Finding) -> None:
        if finding.severity == "error":
            self.skip(finding.where, finding.message)

    def skip(self, where: str, why: str) -> None:
        if self._first is None:
            self._first = CorruptLog(where, why, _HINT)

    def check(self) -> None:
        if self._fatal and self._first is not None:
            raise self._first
