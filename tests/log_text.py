"""Record batches as one line of text each, for cases that tell a story.

    a=1 b=2          a batch with two plain records
    -b               a tombstone
    @7 a=1           transactional, from producer 7 (@7/2: in its epoch 2)
    ~7 a=1           idempotent only
    @7 commit        its transaction's marker; `abort` likewise (@7 commit c5: coordinator epoch 5)
    #40              in front of the records: the batch's first sequence number, if not the next one
    t1000            the batch's timestamp, if not the one the case has set

Printed batches have their first offset in front: `12 @7 a=1`, `(empty)` if cleaning left nothing in
them, and `(until 5000)` if what is in them may go at that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sexton.log.partition import PartitionLog
from sexton.records import Spans, decode, encode, rows
from sexton.records.control import ControlType, first_control_record, marker_batch
from sexton.records.layout import TRANSACTIONAL, BatchHeader, Codec

_MARKERS = {"commit": ControlType.COMMIT, "abort": ControlType.ABORT}


@dataclass(slots=True)
class Writer:
    """Turns lines into batches, and counts sequences so that the lines need not."""

    timestamp: int = 1000
    codec: Codec = Codec.NONE
    _next_sequence: dict[tuple[int, int], int] = field(default_factory=dict)

    def batch(self, line: str) -> bytes:
        words = line.split()
        producer, epoch, transactional = -1, -1, False
        sequence: int | None = None
        timestamp, coordinator_epoch = self.timestamp, 0
        items: list[str] = []
        for word in words:
            if word[0] in "@~":
                producer, epoch = (int(n) for n in (*word[1:].split("/"), "0")[:2])
                transactional = word[0] == "@"
            elif word[0] == "#":
                sequence = int(word[1:])
            elif word[0] == "t" and word[1:].isdigit():
                timestamp = int(word[1:])
            elif word[0] == "c" and word[1:].isdigit():
                coordinator_epoch = int(word[1:])
            else:
                items.append(word)
        if items[0] in _MARKERS:
            return marker_batch(
                _MARKERS[items[0]],
                producer_id=producer,
                producer_epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                timestamp=timestamp,
            )
        if producer >= 0 and sequence is None:
            sequence = self._next_sequence.get((producer, epoch), 0)
        if sequence is not None:
            self._next_sequence[producer, epoch] = sequence + len(items)
        return data_batch(
            items,
            timestamp=timestamp,
            producer=(producer, epoch, -1 if sequence is None else sequence),
            transactional=transactional,
            codec=self.codec,
        )


def data_batch(
    items: list[str],
    *,
    timestamp: int,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> bytes:
    """One batch of `key=value` and `-key` items."""
    keys = [item.removeprefix("-").partition("=")[0].encode() for item in items]
    values = [None if item[0] == "-" else item.partition("=")[2].encode() for item in items]
    columns = rows(
        np.full(len(items), timestamp, np.int64),
        Spans.from_list(keys),
        Spans.from_list(values),
        batch_rows=len(items),
        batch_bytes=1 << 30,
        codec=codec,
        attributes=TRANSACTIONAL if transactional else 0,
    )
    table = columns.headers_of_batches
    table["producer_id"], table["producer_epoch"], table["base_sequence"] = producer
    return encode(columns)


def at_offset(batch: bytes, offset: int, leader_epoch: int = 0) -> bytes:
    """The batch as a leader has put it into its log."""
    return offset.to_bytes(8, "big") + batch[8:12] + leader_epoch.to_bytes(4, "big") + batch[16:]


def describe(batch: bytes) -> str:
    """The line that a batch would be printed as."""
    header = BatchHeader.unpack(batch)
    words = [str(header.base_offset)]
    if header.has_producer:
        sign = "@" if header.is_transactional else "~"
        epoch = f"/{header.producer_epoch}" if header.producer_epoch else ""
        words.append(f"{sign}{header.producer_id}{epoch}")
    if header.records_count == 0:
        words.append("(empty)")
    elif header.is_control:
        marker = first_control_record(batch, "a case")
        assert marker is not None
        words.append(marker.name.lower())
    else:
        for record in decode(batch).records():
            key = (record.key or b"").decode()
            words.append(f"-{key}" if record.value is None else f"{key}={record.value.decode()}")
    if header.delete_horizon_ms is not None:
        words.append(f"(until {header.delete_horizon_ms})")
    return " ".join(words)


def batches_of(data: bytes) -> Iterator[bytes]:
    """Each whole batch of `data`."""
    position = 0
    while position + 61 <= len(data):
        size = BatchHeader.unpack(data, position).size
        if position + size > len(data):
            return
        yield data[position : position + size]
        position += size


def content(log: PartitionLog) -> list[bytes]:
    """Every batch of a log, in order."""
    return [
        segment.log.read_at(position, header.size)
        for segment, position, header in log.batches(log.segments[0].base_offset)
    ]
