"""May these bytes be appended? What a log asks of batches before it takes them.

    from_producer   exactly one batch, whole and of sound checksum, that a producer may send at all;
                    the leader then gives it an offset and its epoch (`stamp`)
    check_records   those in it: a consumer can read them, a compacted topic finds their keys
    from_leader     what a fetch brought: the whole batches of it, as they are, if they continue the
                    log; one that is cut at the end is left for the next fetch

Whether a producer may send this batch *now* is asked of `producers`.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.log.compressed import plain_records
from sexton.log.keyless import first_keyless
from sexton.records.control import ControlRecord, first_control_record
from sexton.records.layout import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    NO_SEQUENCE,
    BatchHeader,
    Codec,
    headers_in,
    read_header,
)

Placed = tuple[int, BatchHeader]  # a batch's position and header
Marker = ControlRecord | None

_OFFSET, _LENGTH, _EPOCH = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">i")
_CODECS = frozenset(Codec)


def from_producer(
    batch: bytes | bytearray | memoryview, most_bytes: int, from_client: bool, where: str
) -> tuple[BatchHeader, Marker]:
    """The header of the one batch in a request, and its control record; else Refused."""
    try:
        header = read_header(batch, 0, where)
        if header.size != len(batch):  # several, or a part of one
            count = sum(1 for _ in headers_in(batch, where))
            raise Refused(KafkaError.INVALID_RECORD, f"{count} batches in one request, not 1")
    except CorruptLog as error:
        raise Refused(KafkaError.CORRUPT_MESSAGE, error.why) from None
    if header.size > most_bytes:
        why = f"the batch has {header.size} bytes, max.message.bytes is {most_bytes}"
        raise Refused(KafkaError.MESSAGE_TOO_LARGE, why)
    if not crc_matches(batch, 0, header):
        raise Refused(KafkaError.CORRUPT_MESSAGE, "the checksum does not match")
    refusal = _refusal(header, from_client)
    if refusal is not None:
        raise Refused(KafkaError.INVALID_RECORD, refusal)
    return header, first_control_record(batch, where) if header.is_control else None


def _refusal(header: BatchHeader, from_client: bool) -> str | None:
    """Why a leader does not take this batch from a producer, or None."""
    if header.records_count != header.last_offset_delta + 1:
        return f"{header.records_count} records, but offsets for {header.last_offset_delta + 1}"
    if header.codec not in _CODECS:
        return f"compression codec {header.codec} does not exist"
    if header.is_control and from_client:
        return "a client may not write control batches"
    numbered = header.base_sequence != NO_SEQUENCE or header.is_control
    if header.has_producer and not numbered and from_client:
        return f"producer {header.producer_id} sends no sequence number"
    if header.is_transactional and not header.has_producer:
        return "a transactional batch without a producer id"
    return None


def check_records(
    batch: bytearray | memoryview, header: BatchHeader, compacts: bool, where: str
) -> None:
    """Refused if nobody could read what is compressed, or a compacted topic misses a key."""
    try:
        if header.codec:
            records = plain_records(batch, header, where)
        else:
            records = bytes(batch[HEADER_BYTES:])
        keyless = first_keyless(records, header.records_count, where) if compacts else None
    except CorruptLog as error:
        raise Refused(KafkaError.INVALID_RECORD, error.why) from None
    if keyless is not None:
        why = f"{where} is compacted, and record {keyless} of the batch has no key"
        raise Refused(KafkaError.INVALID_RECORD, why, "give each record a key")


def stamp(batch: bytearray | memoryview, offset: int, leader_epoch: int) -> BatchHeader:
    """Gives a batch its place in the log; neither field is under the CRC."""
    _OFFSET.pack_into(batch, 0, offset)
    _EPOCH.pack_into(batch, 12, leader_epoch)
    return BatchHeader.unpack(batch)


def set_append_time(batch: bytearray | memoryview, header: BatchHeader, now_ms: int) -> None:
    """All its records are of this time from now on."""
    struct.pack_into(">h", batch, 21, header.attributes | LOG_APPEND_TIME)
    struct.pack_into(">q", batch, 35, now_ms)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[CRC_START:]))


def from_leader(
    data: bytes | bytearray | memoryview, log_end: int, where: str
) -> tuple[bytes, list[Placed], list[Marker]]:
    """The whole batches of what was fetched, and each one's control record; else CorruptLog."""
    whole = bytes(data[: _whole_batches_end(data)])
    headers = list(headers_in(whole, where))
    markers: list[Marker] = []
    expected = log_end
    for position, header in headers:
        if header.base_offset < expected:
            raise _bad_fetch(where, header, f"the log already ends at {expected}")
        if not crc_matches(whole, position, header):
            raise _bad_fetch(where, header, "the checksum does not match")
        expected = header.next_offset
        marker = None
        if header.is_control:
            marker = first_control_record(whole[position : position + header.size], where)
        markers.append(marker)
    return whole, headers, markers


def _bad_fetch(where: str, header: BatchHeader, why: str) -> CorruptLog:
    return CorruptLog(f"{where}, fetched batch at offset {header.base_offset}", why)


def _whole_batches_end(data: bytes | bytearray | memoryview) -> int:
    """Where the last whole batch of `data` ends."""
    position = 0
    while position + LENGTH_END <= len(data):
        length: int = _LENGTH.unpack_from(data, position + 8)[0]
        if length < 0 or position + LENGTH_END + length > len(data):
            break
        position += LENGTH_END + length
    return position


def crc_matches(data: bytes | bytearray | memoryview, position: int, header: BatchHeader) -> bool:
    view = memoryview(data)[position + CRC_START : position + header.size]
    return bool(crc32c(view) == header.crc)
