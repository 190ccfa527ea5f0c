"""What kafka-dump-log would print, made from what *we* read in the same files."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from sexton.log.indexes import OffsetIndex, TimeIndex, parse_aborted
from sexton.log.snapshots import ProducerEntry, parse_snapshot
from sexton.records.columns import Record
from sexton.records.control import read_control
from sexton.records.decoder import decode
from sexton.records.layout import NO_SEQUENCE, BatchHeader, Codec, sequence_after

_KRAFT = re.compile(r"LeaderChange: \{.*\}$", re.MULTILINE)
_NO_BATCH = re.compile(r"(lastTimestamp: -?\d+) $", re.MULTILINE)  # 3.9 leaves a space there


def dump_file(path: Path, *, data: bool = True) -> str:
    """One file of a log, as `kafka-dump-log --deep-iteration [--print-data-log]` prints it."""
    base_offset, raw = int(path.stem), path.read_bytes()
    match path.suffix:
        case ".log":
            lines = [f"Log starting offset: {base_offset}", *_log(raw, data)]
        case ".index":
            offsets = OffsetIndex.parse(raw)
            entries = [offsets[row] for row in range(len(offsets))]
            lines = [f"offset: {base_offset + e.offset} position: {e.position}" for e in entries]
        case ".timeindex":
            times = TimeIndex.parse(raw)
            told = [times[row] for row in range(len(times))]
            lines = [f"timestamp: {e.timestamp} offset: {base_offset + e.offset}" for e in told]
        case ".txnindex":
            lines = [
                f"version: 0 producerId: {e.producer_id} firstOffset: {e.first_offset}"
                f" lastOffset: {e.last_offset} lastStableOffset: {e.last_stable_offset}"
                for e in parse_aborted(raw, path.name)
            ]
        case ".snapshot":
            lines = [_producer(entry) for entry in parse_snapshot(raw, path.name)]
        case _:
            raise ValueError(path.name)
    return "".join(f"{line}\n" for line in lines)


def comparable(golden: str) -> str:
    """Kafka's text without the inside of KRaft's own control records, which 4.x spells out."""
    return _NO_BATCH.sub(r"\1", _KRAFT.sub("controlType: LEADER_CHANGE(2)", golden))


def _log(raw: bytes, data: bool) -> list[str]:
    columns = decode(raw)
    records = list(columns.records())
    lines = []
    position = 0
    for index, first in enumerate(columns.first_row[:-1].tolist()):
        header = BatchHeader.unpack(columns.headers_of_batches[index].tobytes())
        lines.append(_batch(header, position))
        last = int(columns.first_row[index + 1])
        lines += [_record(header, record, data) for record in records[first:last]]
        position += header.size
    return lines


def _batch(header: BatchHeader, position: int) -> str:
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset}"
        f" count: {header.records_count} baseSequence: {header.base_sequence}"
        f" lastSequence: {header.last_sequence} producerId: {header.producer_id}"
        f" producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch}"
        f" isTransactional: {_bool(header.is_transactional)}"
        f" isControl: {_bool(header.is_control)}"
        f" deleteHorizonMs: {_optional(header.delete_horizon_ms)}"
        f" position: {position} {_time(header)}: {header.max_timestamp} size: {header.size}"
        f" magic: {header.magic} compresscodec: {Codec(header.codec).name.lower()}"
        f" crc: {header.crc} isvalid: true"
    )


def _record(header: BatchHeader, record: Record, data: bool) -> str:
    sequence = NO_SEQUENCE
    if header.base_sequence >= 0:
        sequence = sequence_after(header.base_sequence, record.offset - header.base_offset)
    names = ",".join(name for name, _ in record.headers)
    line = (
        f"| offset: {record.offset} {_time(header)}: {record.timestamp}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
        f" sequence: {sequence} headerKeys: [{names}]"
    )
    if header.is_control:
        control = read_control(record.key, record.value, "dump")
        if control.ends_transaction:
            return f"{line} endTxnMarker: {control.name} coordinatorEpoch: {_epoch(record)}"
        return f"{line} controlType: {control.name}({control.type})"
    if data:
        line += "" if record.key is None else f" key: {_text(record.key)}"
        line += "" if record.value is None else f" payload: {_text(record.value)}"
    return line


def _epoch(record: Record) -> int:
    assert record.value is not None
    epoch: int = struct.unpack_from(">hi", record.value)[1]
    return epoch


def _producer(entry: ProducerEntry) -> str:
    open_first = None if entry.open_first_offset < 0 else entry.open_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.epoch}"
        f" coordinatorEpoch: {entry.coordinator_epoch}"
        f" currentTxnFirstOffset: {_optional(open_first)} lastTimestamp: {entry.timestamp}"
    )
    if entry.last_offset < 0:
        return line
    first_sequence = sequence_after(entry.last_sequence, -entry.offset_delta)
    return line + (
        f" firstSequence: {first_sequence} lastSequence: {entry.last_sequence}"
        f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta}"
        f" timestamp: {entry.timestamp}"
    )


def _time(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _bool(value: bool) -> str:
    return str(value).lower()


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
