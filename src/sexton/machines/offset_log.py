"""Committed offsets of `__consumer_offsets` to bytes and back, as Apache Kafka writes them.

    key     an OffsetCommitKey; an older Kafka's LegacyOffsetCommitKey says the same
    value   an OffsetCommitValue, or null: a tombstone

Version 1 is written for an offset that has its own time to expire, version 4 for all others. The
topic has records of other kinds, too; they are about groups and their members.
"""

from __future__ import annotations

from sexton.base.errors import CorruptLog, SextonError
from sexton.base.partitions import TopicPartition
from sexton.machines.offset_messages import NO_PRODUCER_ID, CommittedOffset, OffsetRecord
from sexton.protocol.coordinator.consumer_offsets import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from sexton.protocol.versioned import decode_key, decode_versioned, encode_key, encode_versioned

TOPIC = "__consumer_offsets"
_WITH_EXPIRY, _LATEST = 1, 4


def to_bytes(record: OffsetRecord) -> tuple[bytes, bytes | None]:
    """Key and value."""
    where, committed = record.partition, record.value
    key = encode_key(OffsetCommitKey(record.group, where.topic, where.partition))
    if committed is None:
        return key, None
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=committed.topic_id,
    )
    return key, encode_versioned(value, _WITH_EXPIRY if committed.expire_ms >= 0 else _LATEST)


def from_bytes(
    key: bytes | None, value: bytes | None, where: str, producer_id: int = NO_PRODUCER_ID
) -> OffsetRecord | None:
    """The record, or None if it is about something else than an offset.

    The producer id is that of the batch, if the batch is transactional.
    """
    try:
        found = decode_key(TOPIC, key or b"")
        if not isinstance(found, OffsetCommitKey | LegacyOffsetCommitKey):
            return None
        partition = TopicPartition(found.topic, found.partition)
        if value is None:
            return OffsetRecord(found.group, partition, None, producer_id)
        decoded = decode_versioned(OffsetCommitValue, value)
    except SextonError as error:
        raise CorruptLog(where, f"{error.subject}: {error.why}") from None
    committed = CommittedOffset(
        offset=decoded.offset,
        metadata=decoded.metadata,
        leader_epoch=decoded.leader_epoch,
        commit_ms=decoded.commit_timestamp,
        expire_ms=decoded.expire_timestamp,
        topic_id=bytes(decoded.topic_id),
    )
    return OffsetRecord(found.group, partition, committed, producer_id)
