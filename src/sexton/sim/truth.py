"""What really happened to one partition, written down while it happened.

A record is true once it is below the high watermark of a leader. From then on it has its offset for
good, and if it is part of a transaction, the transaction's own marker says how it ended. Cleaning
removes records from logs but nothing from here. So whatever any replica shows can be compared:

    for each key, the last committed record below an offset   (`last_before`)
    for each record, what it was and how its transaction ended (`entries`)

After a loss that was declared, what the elected replica has becomes the truth.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from sexton.log.partition import PartitionLog
from sexton.protocol.messages.fetch import PartitionData
from sexton.records.control import ControlType, first_control_record
from sexton.records.few import FewRecord, few_records
from sexton.records.layout import HEADER_BYTES, BatchHeader


class Outcome(Enum):
    PLAIN = "plain"
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"

    @property
    def visible(self) -> bool:
        return self in (Outcome.PLAIN, Outcome.COMMITTED)


@dataclass(slots=True)
class Entry:
    offset: int
    key: bytes
    value: bytes | None
    producer_id: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a log, looked at once and then remembered: logs are read again and again."""

    header: BatchHeader
    records: tuple[FewRecord, ...]
    ends: ControlType | None  # for a marker that still says something


@lru_cache(maxsize=200_000)
def look_at(data: bytes) -> Batch:
    header = BatchHeader.unpack(data)
    if header.is_control:
        control = first_control_record(data, "simulation")
        kind = ControlType(control.type) if control and control.ends_transaction else None
        return Batch(header, (), kind)
    return Batch(header, tuple(few_records(data, "simulation")), None)


def batches(log: PartitionLog, start: int, end: int) -> Iterable[Batch]:
    for segment, position, header in log.batches(start, end):
        if header.base_offset >= start:
            yield look_at(segment.log.read_at(position, header.size))


def fetched(data: PartitionData) -> Iterator[tuple[Batch, bool]]:
    """Every whole batch of an answer, and whether its list of aborted transactions hides it."""
    ahead = sorted((e.first_offset, e.producer_id) for e in data.aborted_transactions or ())
    aborting: dict[int, None] = {}  # producers, until their marker
    records, position = bytes(data.records or b""), 0
    while position + HEADER_BYTES <= len(records):
        end = position + BatchHeader.unpack(records, position).size
        if end > len(records):
            break
        batch = look_at(records[position:end])
        header, position = batch.header, end
        while ahead and ahead[0][0] <= header.last_offset:
            aborting[ahead.pop(0)[1]] = None
        if batch.ends == ControlType.ABORT:
            aborting.pop(header.producer_id, None)
        yield batch, header.is_transactional and header.producer_id in aborting


@dataclass(slots=True)
class Truth:
    end: int = 0  # the highest high watermark that a leader ever had
    epoch: int = -1  # of the last leader that was elected
    lost_before_epoch: int = -1  # leaders of earlier epochs do not count any more
    entries: dict[int, Entry] = field(default_factory=dict)
    markers: dict[int, tuple[int, ControlType]] = field(default_factory=dict)  # by offset
    losses: int = 0
    _open: dict[int, list[Entry]] = field(default_factory=dict)  # by producer id
    _by_key: dict[bytes, list[tuple[int, bytes | None]]] = field(default_factory=dict)
    _ends: dict[int, list[int]] = field(default_factory=dict)  # markers of each producer id

    def learn(self, log: PartitionLog, start: int, high_watermark: int) -> list[str]:
        """A leader's high watermark has moved; returns what contradicts what was true before."""
        wrong = []
        for batch in batches(log, start, high_watermark):
            wrong += self._take(batch)
        self.end = max(self.end, high_watermark)
        return wrong

    def _take(self, batch: Batch) -> list[str]:
        header = batch.header
        if header.base_offset < self.end:
            return self._contradictions(batch)
        if batch.ends is not None:
            self._mark(header.base_offset, header.producer_id, batch.ends)
            return []
        for record in batch.records:
            outcome = Outcome.OPEN if header.is_transactional else Outcome.PLAIN
            key = record.key or b""
            entry = Entry(record.offset, key, record.value, header.producer_id, outcome)
            self.entries[record.offset] = entry
            if outcome is Outcome.OPEN:
                self._open.setdefault(header.producer_id, []).append(entry)
            else:
                self._remember(entry)
        return []

    def _contradictions(self, batch: Batch) -> list[str]:
        """Offsets of another leader's: they must hold the same records."""
        return [
            f"offset {record.offset} is given a second time"
            for record in batch.records
            if not self.holds(record)
        ]

    def holds(self, record: FewRecord) -> bool:
        """Was this written, at this offset?"""
        entry = self.entries.get(record.offset)
        return entry is not None and (entry.key, entry.value) == (record.key or b"", record.value)

    def _mark(self, offset: int, producer_id: int, kind: ControlType) -> None:
        self.markers[offset] = (producer_id, kind)
        self._ends.setdefault(producer_id, []).append(offset)
        self._settle(producer_id, kind)

    def _settle(self, producer_id: int, kind: ControlType) -> None:
        committed = kind == ControlType.COMMIT
        for entry in self._open.pop(producer_id, []):
            entry.outcome = Outcome.COMMITTED if committed else Outcome.ABORTED
            if committed:
                self._remember(entry)

    def _remember(self, entry: Entry) -> None:
        insort(self._by_key.setdefault(entry.key, []), (entry.offset, entry.value))

    # ── asked of it ──

    @property
    def keys(self) -> list[bytes]:
        return list(self._by_key)

    def last_before(self, key: bytes, end: int) -> tuple[int, bytes | None] | None:
        """The last committed record of a key below `end`, as (offset, value)."""
        history = self._by_key.get(key, [])
        index = bisect_left(history, (end,))
        return history[index - 1] if index else None

    def is_superseded(self, key: bytes, end: int) -> bool:
        """Is there a committed record of the key at or after `end`? It may have removed others."""
        history = self._by_key.get(key, [])
        return bool(history) and history[-1][0] >= end

    def first_open(self) -> int | None:
        firsts = [entries[0].offset for entries in self._open.values() if entries]
        return min(firsts, default=None)

    def marker_after(self, producer_id: int, offset: int) -> int | None:
        """Where the transaction ended that this producer had open at an offset."""
        ends = self._ends.get(producer_id, [])
        index = bisect_left(ends, offset)
        return ends[index] if index < len(ends) else None

    # ── after a loss ──

    def lose_after(self, end: int) -> None:
        """Nothing at or after `end` is true any more."""
        self.losses += 1
        kept = [entry for offset, entry in sorted(self.entries.items()) if offset < end]
        markers = {offset: m for offset, m in sorted(self.markers.items()) if offset < end}
        self._rebuild(kept, markers, end)

    def become(self, log: PartitionLog, end: int, *, others_discard: bool) -> None:
        """Whatever this log holds below `end` is the truth now.

        Unless the others discard theirs they may hold what this one has cleaned away since.
        """
        self.losses += 1
        before = {} if others_discard else self.entries
        self._rebuild([], {}, 0)
        self.learn(log, 0, end)
        for offset, entry in before.items():
            if offset < end and entry.outcome is not Outcome.OPEN:
                self.entries.setdefault(offset, entry)

    def _rebuild(
        self, kept: list[Entry], markers: dict[int, tuple[int, ControlType]], end: int
    ) -> None:
        self.entries, self._open, self._by_key, self.markers, self._ends = {}, {}, {}, {}, {}
        events: list[tuple[int, Entry | tuple[int, ControlType]]] = []
        events += [(entry.offset, entry) for entry in kept]
        events += list(markers.items())
        for offset, event in sorted(events, key=lambda pair: pair[0]):
            if isinstance(event, Entry):
                if event.outcome is not Outcome.PLAIN:
                    event.outcome = Outcome.OPEN
                    self._open.setdefault(event.producer_id, []).append(event)
                else:
                    self._remember(event)
                self.entries[offset] = event
            else:
                self._mark(offset, *event)
        self.end = end
