"""Replicas to audit, made of lines of text or of real logs, and the audit as `survey` runs it.

A line of text is a batch at its offset, as `tests.log_text` prints it, and more:

    0 k=1            a plain record            4-6 5:k=1       a batch of three, cleaned to one
    1 -k             a tombstone               7 ~7 (empty)    a batch that was emptied
    2 @7/3 k=1       in a transaction          8 @7 (marker)   a marker that was emptied
    3 @7/4 commit    its marker                9 k=1 !         with a checksum that is wrong
    4 k=1 ^2         by leader epoch 2

Which transactions are aborted, and how far the log is stable, is worked out as a broker does it
that has just these batches: a marker ends what its producer has open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sexton.audit.compare import (
    confirmed_spans,
    differing_buckets,
    key_suspicions,
    look_at,
    ranges_differing,
    span_suspicions,
)
from sexton.audit.facts import (
    BucketEntries,
    CoordinatorState,
    OpenTransaction,
    ReplicaFacts,
    Scope,
)
from sexton.audit.finding import AuditFinding
from sexton.audit.fold import Fold
from sexton.audit.looking import window_of
from sexton.audit.rules import (
    judge_alone,
    judge_gaps,
    judge_key,
    judge_open,
    judge_range,
    judge_span,
    merged,
)
from sexton.audit.waiting_rules import Behind, behind_another
from sexton.audit.window import Focus, LogWindow
from sexton.base.partitions import TopicPartition
from sexton.log.partition import PartitionLog
from sexton.records.control import ControlType, first_control_record, marker_batch
from sexton.records.layout import CONTROL, NO_LEADER_EPOCH, TRANSACTIONAL, BatchHeader
from tests import handmade
from tests.log_text import at_offset, content

PARTITION = TopicPartition("t", 0)
CHUNK_BATCHES = 3
Chunk = tuple[memoryview, list[tuple[int, int]]]


class Replica(Protocol):
    node: int

    @property
    def log_start(self) -> int: ...
    @property
    def last_stable(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    def batches(self) -> list[bytes]: ...
    def aborted(self, start: int, end: int) -> list[tuple[int, int]]: ...
    def open(self) -> list[OpenTransaction]: ...


def chunks(
    replica: Replica,
    start: int,
    end: int = 1 << 62,
    between: Callable[[], None] | None = None,
    *,
    undecided: bool = False,
) -> Iterator[Chunk]:
    """As Fetch answers with read_committed: whole batches from that of `start` on.

    `between` two answers anything may happen; the last one says that there is no more.
    `undecided`: without that isolation, up to the high watermark.
    """
    while True:
        until = min(end, replica.high_watermark if undecided else replica.last_stable)
        inside = [
            batch
            for batch in replica.batches()
            if (header := BatchHeader.unpack(batch)).last_offset >= start
            and header.base_offset < until
        ][:CHUNK_BATCHES]
        if not inside:
            return
        low = BatchHeader.unpack(inside[0]).base_offset
        start = BatchHeader.unpack(inside[-1]).next_offset
        yield memoryview(b"".join(inside)), [] if undecided else replica.aborted(low, start)
        if between is not None:
            between()


# ── a replica told as text ──


@dataclass(slots=True)
class TextReplica:
    node: int
    lines: list[str]
    log_start: int = 0
    end: int | None = None
    _batches: list[bytes] = field(default_factory=list)
    _aborted: list[tuple[int, int, int]] = field(default_factory=list)  # first, marker, producer
    _open: dict[int, tuple[int, int]] = field(default_factory=dict)  # producer -> first, epoch

    def __post_init__(self) -> None:
        self._batches = [batch_of(line) for line in self.lines]
        for batch in self._batches:
            self._replay(batch)

    def _replay(self, batch: bytes) -> None:
        header = BatchHeader.unpack(batch)
        producer = header.producer_id
        if header.is_control:
            marker = first_control_record(batch, "a case")
            if marker is not None and producer in self._open:
                first, _epoch = self._open.pop(producer)
                if marker.type == ControlType.ABORT:
                    self._aborted.append((first, header.base_offset, producer))
        elif header.is_transactional:
            self._open.setdefault(producer, (header.base_offset, header.producer_epoch))

    @property
    def high_watermark(self) -> int:
        if self.end is not None:
            return self.end
        return BatchHeader.unpack(self._batches[-1]).next_offset if self._batches else 0

    @property
    def last_stable(self) -> int:
        return min((first for first, _epoch in self._open.values()), default=self.high_watermark)

    def batches(self) -> list[bytes]:
        return self._batches

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        return [
            (first, producer)
            for first, marker, producer in self._aborted
            if marker >= start and first < end
        ]

    def open(self) -> list[OpenTransaction]:
        return [
            OpenTransaction(producer, epoch, first, 1000)
            for producer, (first, epoch) in self._open.items()
        ]


def batch_of(line: str) -> bytes:
    place, *words = line.split()
    base, _, last = place.partition("-")
    damaged = "!" in words
    producer, epoch, transactional, leader_epoch = -1, -1, False, NO_LEADER_EPOCH
    items = []
    for word in words:
        if word[0] in "@~":
            producer, epoch = (int(n) for n in (*word[1:].split("/"), "0")[:2])
            transactional = word[0] == "@"
        elif word[0] == "^":
            leader_epoch = int(word[1:])
        elif word != "!":
            items.append(word)
    kind = {"commit": ControlType.COMMIT, "abort": ControlType.ABORT}.get(items[0])
    if kind is not None:
        made = at_offset(
            marker_batch(
                kind,
                producer_id=producer,
                producer_epoch=epoch,
                coordinator_epoch=0,
                timestamp=1000 + int(base),
            ),
            int(base),
        )
    else:
        control = items == ["(marker)"]
        records = [] if items[0].startswith("(") else _records(int(base), items)
        made = handmade.batch(
            *records,
            base_offset=int(base),
            last_offset_delta=int(last or int(base) + max(len(records) - 1, 0)) - int(base),
            base_timestamp=1000 + int(base),
            max_timestamp=1000 + int(base),
            producer_id=producer,
            producer_epoch=epoch,
            attributes=(TRANSACTIONAL if transactional or control else 0)
            | (CONTROL if control else 0),
        )
    made = made[:12] + leader_epoch.to_bytes(4, "big", signed=True) + made[16:]
    if damaged:
        made = made[:-1] + bytes([made[-1] ^ 1])
    return made


def _records(base: int, items: list[str]) -> list[bytes]:
    records = []
    for place, item in enumerate(items):
        at, colon, rest = item.partition(":")
        delta = int(at) - base if colon else place
        text = rest if colon else item
        key, _, value = text.removeprefix("-").partition("=")
        gone = text.startswith("-")
        records.append(
            handmade.record(delta, key=key.encode(), value=None if gone else value.encode())
        )
    return records


# ── a replica that is a real log ──


@dataclass(slots=True)
class LogReplica:
    node: int
    log: PartitionLog

    @property
    def log_start(self) -> int:
        return self.log.segments[0].base_offset

    @property
    def last_stable(self) -> int:
        return self.log.last_stable_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def batches(self) -> list[bytes]:
        return content(self.log)

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        return [
            (entry.first_offset, entry.producer_id)
            for entry in self.log.aborted_between(start, end)
        ]

    def open(self) -> list[OpenTransaction]:
        return [
            OpenTransaction(producer, 0, first, 1000)
            for first, producer in sorted(self.log.producers.open_transactions())
        ]


# ── the audit ──


@dataclass(slots=True)
class Audit:
    """All looks at some replicas, one after the other; something may happen in between."""

    replicas: Sequence[Replica]
    compacted: bool = True
    coordinator: dict[int, CoordinatorState | None] = field(default_factory=dict)
    most_keys: int = 1000
    most_entries: int = 1000
    now_ms: int = 1_000_000
    assigned: int = 0  # replicas; more than are there: some are silent
    between: Callable[[], None] | None = None

    def scope(self) -> Scope:
        stable = [each.last_stable for each in self.replicas]
        free = [
            each.last_stable
            for each in self.replicas
            if each.last_stable == each.high_watermark or each.last_stable == max(stable)
        ]
        start = max(each.log_start for each in self.replicas)
        return Scope(PARTITION, start, min(free), self.compacted, seed=0x5EED)

    def findings(self) -> list[AuditFinding]:
        scope = self.scope()
        facts = [self.facts(each, scope) for each in self.replicas]
        again = [self.facts(each, self.scope()) for each in self.replicas]
        found = judge_open(
            facts, again, self.coordinator, now_ms=self.now_ms, windows=self._starts(facts),
            searched=self._searched(behind_another(facts, again)), replicas=self.assigned,
        )  # fmt: skip
        for each in facts:
            found += judge_alone(each)
        if not self.compacted:
            found += judge_gaps(facts)
            for first, end in ranges_differing(facts):
                found += judge_range(
                    PARTITION, [self.window(each, first, end, None) for each in self.replicas]
                )
        suspected = span_suspicions(facts)
        buckets = differing_buckets(facts) if self.compacted else frozenset()
        if buckets or suspected:
            found += self._second_look(self.scope(), buckets, suspected)
        return merged(found)

    def _second_look(self, scope: Scope, buckets, suspected) -> list[AuditFinding]:  # type: ignore[no-untyped-def]
        spans = [each.span for each in suspected]
        entries = [self.entries(each, scope, buckets, spans) for each in self.replicas]
        findings: list[AuditFinding | None] = []
        if self.compacted:
            for each in key_suspicions(entries):
                windows = self._windows(*look_at(each))
                findings += judge_key(each, windows, replicas=len(self.replicas))
        findings += [
            judge_span(each, self._windows(*look_at(each)))
            for each in confirmed_spans(suspected, entries)
        ]
        return [each for each in findings if each is not None]

    def facts(self, replica: Replica, scope: Scope) -> ReplicaFacts:
        fold = Fold(scope, most_keys=self.most_keys)
        while True:
            for data, aborted in chunks(replica, scope.start, between=self.between):
                fold.take(data, aborted)
            if not fold.again():
                break
        return ReplicaFacts.from_json(
            fold.facts(replica.node, **_offsets(replica), open=replica.open()).to_json()
        )

    def entries(self, replica: Replica, scope: Scope, buckets, spans) -> BucketEntries:  # type: ignore[no-untyped-def]
        fold = Fold(scope, buckets=buckets, spans=spans, most_entries=self.most_entries)
        for data, aborted in chunks(replica, scope.start, between=self.between):
            fold.take(data, aborted)
        return BucketEntries.from_json(fold.entries(replica.node, **_offsets(replica)).to_json())

    def window(self, replica: Replica, first: int, end: int, focus: Focus | None) -> LogWindow:
        return window_of(
            replica.node,
            first,
            end,
            chunks(replica, first, end, self.between),
            log_start=replica.log_start,
            last_stable=replica.last_stable,
            high_watermark=replica.high_watermark,
            focus=focus,
        )

    def _windows(self, first: int, end: int, focus: Focus) -> dict[int, LogWindow]:
        return {each.node: self.window(each, first, end, focus) for each in self.replicas}

    def _starts(self, facts: Sequence[ReplicaFacts]) -> list[LogWindow]:
        starts = {each.start_offset for one in facts for each in one.open}
        return [
            self.window(replica, start, start + 10, None)
            for start in sorted(starts)
            for replica in self.replicas
        ]

    def _searched(self, behind: Sequence[Behind]) -> list[LogWindow]:
        return [
            window_of(
                replica.node,
                each.transaction.start_offset,
                each.end,
                chunks(replica, each.transaction.start_offset, each.end, undecided=True),
                log_start=replica.log_start,
                last_stable=replica.last_stable,
                high_watermark=replica.high_watermark,
            )
            for each in behind
            for replica in self.replicas
        ]


def _offsets(replica: Replica) -> dict[str, int]:
    return {
        "log_start": replica.log_start,
        "last_stable": replica.last_stable,
        "high_watermark": replica.high_watermark,
        "log_end": replica.high_watermark,
        "read_to": replica.last_stable,
    }
