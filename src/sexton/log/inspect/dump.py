"""Records and batches as objects, with all that Kafka knows about each.

The end of the way from a file to a screen: until here everything was columns. What all records of a
batch share is worked out once a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sexton.log.inspect.blocks import Block
from sexton.log.inspect.outcomes import NAMES
from sexton.log.inspect.transactions import NOWHERE
from sexton.records import Codec
from sexton.records.columns import read_headers
from sexton.records.control import ControlRecord, read_control
from sexton.records.layout import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LENGTH_END,
    LOG_APPEND_TIME,
    NO_SEQUENCE,
    TRANSACTIONAL,
    sequence_after,
)
from sexton.records.tables import field

Headers = tuple[tuple[str, bytes | None], ...]


class DumpedRecord(NamedTuple):
    """One record; None where Kafka has nothing to say."""

    partition: str
    segment: str
    position: int  # of its batch in the segment
    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None
    leader_epoch: int | None
    codec: str
    transactional: bool
    outcome: str | None  # committed, aborted, open; None: not in a transaction
    marker_offset: int | None  # of the marker that decided it
    control: ControlRecord | None


class DumpedBatch(NamedTuple):
    """One batch header, emptied batches included."""

    partition: str
    segment: str
    position: int
    size: int
    base_offset: int
    last_offset: int
    records: int
    codec: str
    max_timestamp: int
    timestamp_type: str
    delete_horizon: int | None
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    last_sequence: int | None
    leader_epoch: int | None
    transactional: bool
    control: bool
    outcome: str | None
    marker_offset: int | None
    crc: str


def records(block: Block) -> Iterator[DumpedRecord]:
    """The rows of a block as objects."""
    columns, rows = block.columns, block.record_rows()
    if not len(rows):
        return
    batch = columns.batch[rows]
    facts = {b: _BatchFacts.read(block, b) for b in np.unique(batch).tolist()}
    delta = columns.offset[rows] - field(columns.headers_of_batches, "base_offset")[batch]
    data = zip(
        columns.offset[rows].tolist(),
        columns.timestamp[rows].tolist(),
        columns.key.take(rows).to_list(),
        columns.value.take(rows).to_list(),
        columns.headers.take(rows).to_list(),
        batch.tolist(),
        delta.tolist(),
        strict=True,
    )
    name, segment = block.partition, block.segment.path.name
    for offset, timestamp, key, value, headers, of, ahead in data:
        fact = facts[of]
        sequence = None if fact.sequence is None else sequence_after(fact.sequence, ahead)
        control = control_record(key, value) if fact.control else None
        yield DumpedRecord(
            name,
            segment,
            fact.position,
            offset,
            timestamp,
            fact.timestamp_type,
            key,
            value,
            read_headers(headers),
            fact.producer_id,
            fact.producer_epoch,
            sequence,
            fact.leader_epoch,
            fact.codec,
            fact.transactional,
            fact.outcome,
            fact.marker_offset,
            control,
        )


def control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    """What the control record says; one whose key is too short is kept as it is, as UNKNOWN(-1)."""
    if key is None or len(key) < 4:
        return ControlRecord(-1, key or b"", value)
    return read_control(key, value, "control record")


def batches(block: Block) -> Iterator[DumpedBatch]:
    """The batches of a block as objects."""
    for row in block.batch_rows().tolist():
        yield _batch(block, row)


def _batch(block: Block, row: int) -> DumpedBatch:
    header = block.columns.headers_of_batches[row]
    fact = _BatchFacts.read(block, row)
    attributes, base = int(header["attributes"]), int(header["base_offset"])
    delta = int(header["last_offset_delta"])
    sequence = fact.sequence
    return DumpedBatch(
        block.partition,
        block.segment.path.name,
        fact.position,
        LENGTH_END + int(header["batch_length"]),
        base,
        base + delta,
        int(header["records_count"]),
        fact.codec,
        int(header["max_timestamp"]),
        fact.timestamp_type,
        int(header["base_timestamp"]) if attributes & DELETE_HORIZON else None,
        fact.producer_id,
        fact.producer_epoch,
        sequence,
        None if sequence is None else sequence_after(sequence, delta),
        fact.leader_epoch,
        fact.transactional,
        fact.control,
        fact.outcome,
        fact.marker_offset,
        f"{int(header['crc']):08x}",
    )


class _BatchFacts(NamedTuple):
    """What all records of a batch share, in the words of the output."""

    position: int
    timestamp_type: str
    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None
    leader_epoch: int | None
    codec: str
    transactional: bool
    control: bool
    outcome: str | None
    marker_offset: int | None

    @classmethod
    def read(cls, block: Block, row: int) -> _BatchFacts:
        header = block.columns.headers_of_batches[row]
        attributes, producer = int(header["attributes"]), int(header["producer_id"])
        codec, sequence = attributes & CODEC_MASK, int(header["base_sequence"])
        leader_epoch, marker = int(header["partition_leader_epoch"]), int(block.marker[row])
        return cls(
            position=int(block.position[row]),
            timestamp_type="LogAppendTime" if attributes & LOG_APPEND_TIME else "CreateTime",
            producer_id=None if producer < 0 else producer,
            producer_epoch=None if producer < 0 else int(header["producer_epoch"]),
            sequence=None if sequence == NO_SEQUENCE else sequence,
            leader_epoch=None if leader_epoch < 0 else leader_epoch,
            codec=Codec(codec).name.lower() if codec <= max(Codec) else f"unknown({codec})",
            transactional=bool(attributes & TRANSACTIONAL),
            control=bool(attributes & CONTROL),
            outcome=NAMES.get(int(block.outcome[row])),
            marker_offset=None if marker == NOWHERE else marker,
        )
