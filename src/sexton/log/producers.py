"""What a log knows of its producers: sequences, epochs, open transactions, the last stable offset.

Everything here follows from the batches of the log, in order, so it can always be worked out again
by replaying them; a snapshot (`snapshots`) saves most of that work after a restart.

    check(batch)   before a client's batch is appended: is it the next one, a repeat, or wrong?
    apply(batch)   after any batch is appended or replayed

A transaction is open from its first data batch to its marker. It stays *unstable* until that marker
is below the high watermark, for until then another leader might never have heard of it:

    last stable offset = min(high watermark, first offset of every unstable transaction)

A marker ends whatever transaction its producer id has open, as in Apache Kafka, even one whose own
marker was lost. That is how a missing marker turns aborted data into committed data, and the reason
markers may go only when every replica no longer needs them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.log.indexes import AbortedTransaction
from sexton.log.snapshots import ProducerEntry
from sexton.records.control import ControlRecord, ControlType
from sexton.records.layout import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader, sequence_after

REMEMBERED_BATCHES = 5  # as many as a producer may have under way: a repeat is one of these
NO_COORDINATOR_EPOCH = -1


class AppendedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return sequence_after(self.last_sequence, -self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class Producer:
    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = -1
    open_first_offset: int | None = None
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Of its last data batch that is still remembered; -1 if there is none."""
        return self.batches[-1].last_offset if self.batches else -1

    def enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()  # sequences start again at 0


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int  # of its marker
    aborted: bool


@dataclass(slots=True)
class Producers:
    """The state after every batch below `end_offset`."""

    end_offset: int = 0
    known: dict[int, Producer] = field(default_factory=dict)
    # First offset -> producer id, of open transactions. Each starts at the log's end, so the first
    # key is the lowest.
    _open: dict[int, int] = field(default_factory=dict)
    # Ended, but the marker is not known to be below the high watermark.
    _unreplicated: dict[int, EndedTransaction] = field(default_factory=dict)

    # ── asked of it ──

    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that is open or not yet safely ended."""
        first = next(iter(self._open), None)
        if self._unreplicated:
            ended = min(self._unreplicated)
            return ended if first is None else min(first, ended)
        return first

    def open_transactions(self) -> list[tuple[int, int]]:
        """(first offset, producer id) of each, lowest first."""
        return list(self._open.items())

    def aborted_entry(self, ended: EndedTransaction) -> AbortedTransaction:
        """What the transaction index says of a transaction that has just been aborted.

        Its last stable offset is where a reader may stop looking: the first transaction still open.
        """
        stable = next(iter(self._open), ended.last_offset + 1)
        return AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable)

    def to_snapshot(self) -> list[ProducerEntry]:
        return [
            ProducerEntry(
                producer_id=p.producer_id,
                epoch=p.epoch,
                last_sequence=p.last_sequence,
                last_offset=p.last_offset,
                offset_delta=p.batches[-1].offset_delta if p.batches else 0,
                timestamp=p.last_timestamp,
                coordinator_epoch=p.coordinator_epoch,
                open_first_offset=-1 if p.open_first_offset is None else p.open_first_offset,
            )
            for p in self.known.values()
        ]

    @classmethod
    def from_snapshot(cls, entries: Iterable[ProducerEntry], end_offset: int) -> Producers:
        state = cls(end_offset)
        for entry in entries:
            producer = Producer(
                entry.producer_id, entry.epoch, entry.coordinator_epoch, entry.timestamp
            )
            if entry.last_offset >= 0:
                producer.batches.append(
                    AppendedBatch(
                        entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp
                    )
                )
            if entry.open_first_offset >= 0:
                producer.open_first_offset = entry.open_first_offset
            state.known[entry.producer_id] = producer
        opened = ((e.open_first_offset, e.producer_id) for e in state.to_snapshot())
        state._open = dict(sorted(o for o in opened if o[0] >= 0))
        return state

    # ── before a client's batch is appended ──

    def check(self, header: BatchHeader, marker: ControlRecord | None) -> AppendedBatch | None:
        """None if the batch may be appended, the earlier batch if it is a repeat; else Refused."""
        producer = self.known.get(header.producer_id)
        if not header.has_producer or producer is None:
            return None
        if header.is_control:
            _check_marker(producer, header, marker)
            return None
        # A coordinator writes a client's offsets for it, without numbers and never twice.
        numbered = header.base_sequence != NO_SEQUENCE
        repeat = _repeat(producer, header)
        if repeat is None:
            _check_data(producer, header, numbered)
        return repeat

    # ── after a batch was appended, or while the log is replayed ──

    def apply(self, header: BatchHeader, marker: ControlRecord | None) -> EndedTransaction | None:
        """Takes in the next batch of the log; returns the transaction it ended, if any."""
        self.end_offset = header.next_offset
        if not header.has_producer:
            return None
        if header.is_control:
            if marker and marker.ends_transaction:
                return self._end(header, marker)
            self._outlived(header)
            return None
        producer = self._enter(header)
        producer.batches.append(
            AppendedBatch(
                header.last_sequence,
                header.last_offset,
                header.last_offset_delta,
                header.max_timestamp,
            )
        )
        producer.last_timestamp = header.max_timestamp
        if header.is_transactional and producer.open_first_offset is None:
            producer.open_first_offset = header.base_offset
            self._open[header.base_offset] = producer.producer_id
        return None

    def _enter(self, header: BatchHeader) -> Producer:
        producer = self.known.get(header.producer_id)
        if producer is None:
            producer = self.known[header.producer_id] = Producer(header.producer_id)
        producer.enter_epoch(header.producer_epoch)
        return producer

    def _end(self, header: BatchHeader, marker: ControlRecord) -> EndedTransaction | None:
        producer = self._enter(header)
        producer.coordinator_epoch = marker.coordinator_epoch or 0
        producer.last_timestamp = header.max_timestamp
        first = producer.open_first_offset
        if first is None:
            return None
        producer.open_first_offset = None
        del self._open[first]
        aborted = marker.type == ControlType.ABORT
        ended = EndedTransaction(producer.producer_id, first, header.last_offset, aborted)
        self._unreplicated[first] = ended
        return ended

    def _outlived(self, header: BatchHeader) -> None:
        """An emptied marker ends nothing, but its epoch still counts: it was kept for that.

        Apache Kafka does not look at it, and after a restart lets in what the marker had fenced. A
        producer of whom nothing else is left stays unknown here, too: any sequence may be next. And
        a transaction whose marker this replica has missed keeps its epoch: in a later one it would
        pass for a transaction that the coordinator knows of.
        """
        producer = self.known.get(header.producer_id)
        if producer is None or producer.open_first_offset is not None:
            return
        if header.producer_epoch > producer.epoch:
            producer.enter_epoch(header.producer_epoch)
            producer.last_timestamp = header.max_timestamp

    def high_watermark_reached(self, offset: int) -> None:
        """Transactions whose marker is below the high watermark are settled for good."""
        if self._unreplicated:
            self._unreplicated = {
                first: ended
                for first, ended in self._unreplicated.items()
                if ended.last_offset >= offset
            }

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Forgets producers that have been silent this long and have nothing open."""
        gone = [
            producer.producer_id
            for producer in self.known.values()
            if producer.open_first_offset is None
            and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self.known[producer_id]
        return gone

    def check_invariants(self) -> None:
        firsts = list(self._open)
        assert firsts == sorted(firsts)
        for first, producer_id in self._open.items():
            assert self.known[producer_id].open_first_offset == first
        for producer in self.known.values():
            assert producer.open_first_offset is None or producer.open_first_offset in self._open
            assert producer.last_offset < self.end_offset


def _repeat(producer: Producer, header: BatchHeader) -> AppendedBatch | None:
    if header.producer_epoch != producer.epoch or header.base_sequence == NO_SEQUENCE:
        return None
    last_sequence = header.last_sequence
    for batch in producer.batches:
        if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
            return batch
    return None


def _check_data(producer: Producer, header: BatchHeader, numbered: bool) -> None:
    who = f"producer {producer.producer_id}"
    if header.producer_epoch < producer.epoch:
        why = f"{who} writes with epoch {header.producer_epoch}, the latest is {producer.epoch}"
        raise Refused(KafkaError.INVALID_PRODUCER_EPOCH, why)
    if not numbered:
        pass
    elif header.producer_epoch > producer.epoch:
        # An unknown earlier epoch means that its records are gone; any sequence may come next.
        if header.base_sequence != 0 and producer.epoch != NO_PRODUCER_EPOCH:
            why = f"{who} starts epoch {header.producer_epoch} at sequence {header.base_sequence}"
            raise Refused(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, why)
    elif header.base_sequence != (expected := sequence_after(producer.last_sequence, 1)):
        # Where a marker has brought the epoch and no batch has come yet, 0 is next.
        why = f"{who} sends sequence {header.base_sequence}, {expected} is next"
        raise Refused(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, why)
    if producer.open_first_offset is not None and not header.is_transactional:
        why = f"{who} has a transaction open since offset {producer.open_first_offset}"
        raise Refused(KafkaError.INVALID_TXN_STATE, f"{why} and sends a plain batch")


def _check_marker(producer: Producer, header: BatchHeader, marker: ControlRecord | None) -> None:
    who = f"a marker for producer {producer.producer_id}"
    if header.producer_epoch < producer.epoch:
        why = f"{who} has epoch {header.producer_epoch}, the latest is {producer.epoch}"
        raise Refused(KafkaError.INVALID_PRODUCER_EPOCH, why)
    epoch = marker.coordinator_epoch if marker is not None else None
    if epoch is not None and epoch < producer.coordinator_epoch:
        latest = producer.coordinator_epoch
        why = f"{who} comes from coordinator epoch {epoch}, the latest is {latest}"
        raise Refused(KafkaError.TRANSACTION_COORDINATOR_FENCED, why)
