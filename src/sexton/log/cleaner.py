"""One cleaning pass over one log: read it, decide, write what stays, put it in place.

    begin     in a moment: which segments, and what is known of producers (`cleaner_plan.Source`)
    prepare   for as long as it takes, in any thread:
                plan     forward over the headers: the fate of each batch
                mark     backward over the records, chunk by chunk, with the set of keys met so far
                gather   what stays of a chunk, while it is still in the CPU's cache
                write    new files beside the old ones, complete and synced
    swap      in a moment: they take the place of the old ones (`cleaner_swap`)

A pass covers a prefix of the log and does not change an offset. Preparing touches sealed segments
only, so records may be appended and read meanwhile; `swap` notices if the log was cut, closed or
robbed of a segment, and then nothing has happened. A crash at any moment leaves each segment either
as it was or cleaned.

The set of keys starts small. If it fills up, the pass starts over with one that is large enough; if
that would be larger than allowed, keys are dealt with in parts, one reading of the log each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1

from sexton.base.errors import CorruptLog
from sexton.log.cleaner_bounds import Bounds
from sexton.log.cleaner_chunk import Work
from sexton.log.cleaner_pile import Pile
from sexton.log.cleaner_plan import Chunk, Group, Source, plan
from sexton.log.cleaner_report import Cleaned, CleanerOptions, Tally, Waiting
from sexton.log.cleaner_swap import Prepared
from sexton.log.names import CLEANED, LOG
from sexton.log.partition import PartitionLog
from sexton.log.segment import Segment
from sexton.log.segment_writer import SegmentWriter
from sexton.log.workshop import MOST_FULL, KeySet, Workshop
from sexton.records.decoder import scan
from sexton.records.tables import Array

__all__ = ["Cleaned", "CleanerOptions", "Pass", "Prepared", "Tally", "Waiting", "begin", "clean"]

FIRST_SLOTS = 1 << 21  # 16 MiB: room for 1.6 million keys before a pass has to start over
SPILL = f"cleaner.spill{CLEANED}"


def clean(
    log: PartitionLog, bounds: Bounds, options: CleanerOptions, shop: Workshop | None = None
) -> Cleaned:
    """Cleans [0, bounds.end) of the log. The caller has made sure that the bounds are safe."""
    prepared = begin(log, bounds, options, shop).prepare()
    assert prepared is not None, "nobody else has had a chance to change the log"
    if options.dry_run:
        prepared.discard()
        return prepared.cleaned
    swapped = prepared.swap(bounds.now_ms)
    assert swapped
    return prepared.cleaned


def begin(
    log: PartitionLog, bounds: Bounds, options: CleanerOptions, shop: Workshop | None = None
) -> Pass:
    """Takes down all that a pass needs to know. Every pass that was begun is to be prepared.

    `shop` is memory to work in, for those who clean again and again.
    """
    assert not log.closed and not log.being_cleaned
    assert bounds.end <= log.last_stable_offset
    assert bounds.end <= log.active.base_offset
    log.being_cleaned = True
    source = Source.of(log, bounds.end)
    return Pass(log, log.revision, source, bounds, options, shop or Workshop())


@dataclass(slots=True)
class Pass:
    """A pass from its beginning until its outcome is known; `prepare` it once."""

    log: PartitionLog
    revision: int  # of the log, when the pass began
    source: Source
    bounds: Bounds
    options: CleanerOptions
    shop: Workshop

    @property
    def is_in_vain(self) -> bool:
        """Can nothing come of it any more?"""
        return self.log.closed or self.log.revision != self.revision

    def prepare(self) -> Prepared | None:
        """Reads and judges the records and writes what stays.

        None if the log was changed or closed meanwhile, which may look like damage. Failures, such
        as a damaged log or a full disk, are raised. In both cases nothing is left behind. Wait
        for its end before you open a log anew that you have closed: both would write the same
        files.
        """
        output = _Output(self)
        try:
            _Reading(self, output).run()
        except Exception as error:
            prepared = output.prepared()
            prepared.discard()
            if self.is_in_vain and isinstance(error, _InVain | CorruptLog | OSError):
                return None
            raise
        prepared = output.prepared()
        if self.is_in_vain:
            prepared.discard()
            return None
        return prepared


class _InVain(Exception):
    pass


class _SetFull(Exception):
    """The set has no room for all the keys of the next chunk."""

    def __init__(self, keys: int, records: int) -> None:
        self.keys = keys  # met so far
        self.records = records  # looked at so far


class _Reading:
    """Reads the log from its last chunk to its first, as often as it takes."""

    def __init__(self, run: Pass, output: _Output) -> None:
        self._run = run
        self._output = output
        self._plan = plan(run.source, run.bounds)
        self._records = sum(c.records for group in self._plan for c in group.chunks)
        self._most_slots = max(run.options.set_bytes // 8, 64)
        for_all = int(self._records / MOST_FULL) + 64
        self._slots = min(FIRST_SLOTS, for_all, self._most_slots)
        self._parts = 1
        self._readings = 0

    def run(self) -> None:
        while True:
            try:
                self._read_all()
                self._output.tally.readings = self._readings
                return
            except _SetFull as full:
                self._output.start_over()
                self._grow(full)

    def _grow(self, full: _SetFull) -> None:
        """A set for as many keys as there seem to be, and a few more; twice as large at least."""
        keys = expected_keys(full.keys * self._parts, full.records, self._records)
        slots = int(max(1.2 * keys / MOST_FULL, 2 * self._slots * self._parts)) + 64
        self._parts = -(-slots // self._most_slots)
        self._slots = -(-slots // self._parts)

    def _read_all(self) -> None:
        """Once for each part of the keys; the last time what stays is written."""
        marks: dict[tuple[int, int], Array] = {}
        for part in range(self._parts):
            self._readings += 1
            seed = self._run.options.seed
            keys = self._run.shop.key_set(self._slots, part, self._parts, seed)
            self._read(keys, marks, last=part == self._parts - 1)

    def _read(self, keys: KeySet, marks: dict[tuple[int, int], Array], *, last: bool) -> None:
        done = 0
        for group in reversed(self._plan):
            for chunk in reversed(group.chunks):
                if self._run.is_in_vain:
                    raise _InVain
                work = self._work(chunk)
                name = chunk.segment, chunk.start
                if not work.mark(keys, self._run.bounds.tombstones, marks.pop(name, None)):
                    raise _SetFull(keys.used, done)
                done += chunk.records
                if last:
                    self._output.add(work)
                else:
                    marks[name] = work.marks
            if last:
                self._output.finish(group)

    def _work(self, chunk: Chunk) -> Work:
        segment = self._run.source.segments[chunk.segment]
        return Work(self._run.shop, segment.log, chunk, segment.path(LOG))


def expected_keys(keys: int, records: int, all_records: int) -> int:
    """How many keys there will be, if `records` of `all_records` had so many different ones.

    As if each record drew its key from a bag of K: after n draws K (1 - exp(-n/K)) were drawn. The
    repeats so far tell K; without any, every record may have a key of its own.
    """
    if keys >= records:
        return all_records
    low, high = 1e-9, 1e3  # of x = n/K, which solves keys / n = (1 - exp(-x)) / x
    for _ in range(60):
        x = (low * high) ** 0.5
        low, high = (x, high) if -expm1(-x) / x > keys / records else (low, x)
    bag = records / low
    return min(int(-bag * expm1(-all_records / bag)) + 1, all_records)


class _Output:
    """What stays: a pile for the group that is under way, and a file for each one that is done."""

    def __init__(self, run: Pass) -> None:
        self._run = run
        self._pile = Pile(run.log.disk, f"{run.source.directory}/{SPILL}", run.shop.blocks)
        self._ready: list[tuple[list[Segment], Segment]] = []
        self.tally, self._waiting = Tally(), Waiting()

    def add(self, work: Work) -> None:
        horizon = self._run.bounds.now_ms + self._run.options.delete_retention_ms
        work.gather(horizon, self.tally, self._pile)

    def finish(self, group: Group) -> None:
        """All of a group has been judged: out with it."""
        bounds = self._run.bounds
        if self._run.options.dry_run:
            for part in self._pile.parts():
                self._waiting.note(scan(part).headers, bounds)
        else:
            source, first = self._run.source, group.segments[0]
            writer = SegmentWriter(
                self._run.log.disk, source.directory, first.base_offset, first.created_ms,
                source.config.index_interval_bytes, CLEANED,
            )  # fmt: skip
            self._ready.insert(0, (group.segments, writer.segment))
            for part in self._pile.parts():
                self._waiting.note(writer.append(part), bounds)
            writer.finish(group.aborted)
        self._pile.clear()

    def start_over(self) -> None:
        """Forgets everything."""
        self._pile.clear()
        for _old, fresh in self._ready:
            fresh.remove()
        self._ready, self.tally, self._waiting = [], Tally(), Waiting()

    def prepared(self) -> Prepared:
        self._pile.clear()
        cleaned = Cleaned(self._run.bounds.end, self.tally, self._waiting)
        return Prepared(self._run.log, self._run.revision, cleaned, self._ready)
