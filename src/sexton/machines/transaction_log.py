"""Records of `__transaction_state` to bytes and back, as Apache Kafka writes them.

    key     a TransactionLogKey
    value   a TransactionLogValue, or null: the transactional id has expired

Version 1, which knows the previous and the next producer id, is written from transaction version 1
on; before that a retry that spans a move of the coordinator is not recognised.
"""

from __future__ import annotations

from sexton.base.errors import CorruptLog, SextonError
from sexton.base.partitions import TopicPartition
from sexton.machines.transaction_states import TV1, TV2, Status, Tombstone, TransactionRecord
from sexton.protocol.coordinator.transaction_state import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from sexton.protocol.versioned import decode_key, decode_versioned, encode_key, encode_versioned

TOPIC = "__transaction_state"


def to_bytes(
    record: TransactionRecord | Tombstone, transaction_version: int = TV2
) -> tuple[bytes, bytes | None]:
    """Key and value, for a cluster of that transaction version."""
    key = encode_key(TransactionLogKey(record.transactional_id))
    if isinstance(record, Tombstone):
        return key, None
    version = 1 if transaction_version >= TV1 else 0
    return key, encode_versioned(_value(record, version), version)


def from_bytes(
    key: bytes | None, value: bytes | None, where: str
) -> TransactionRecord | Tombstone | None:
    """The record, or None for a kind that only a later Kafka knows."""
    try:
        found = decode_key(TOPIC, key or b"")
        if not isinstance(found, TransactionLogKey):
            return None
        if value is None:
            return Tombstone(found.transactional_id)
        decoded = decode_versioned(TransactionLogValue, value)
    except SextonError as error:
        raise CorruptLog(where, f"{error.subject}: {error.why}") from None
    if decoded.transaction_status not in set(Status):
        why = f"a transaction has the status {decoded.transaction_status}, which is none"
        raise CorruptLog(where, why)
    return _record(found.transactional_id, decoded)


def _value(record: TransactionRecord, version: int) -> TransactionLogValue:
    by_topic: dict[str, list[int]] = {}
    for partition in record.partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    partitions = [PartitionsSchema(topic, ids) for topic, ids in by_topic.items()]
    value = TransactionLogValue(
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.status,
        transaction_partitions=None if record.status is Status.EMPTY else partitions,
        transaction_last_update_timestamp_ms=record.last_update_ms,
        transaction_start_timestamp_ms=record.start_ms,
    )
    if version >= 1:
        value.previous_producer_id = record.previous_producer_id
        value.next_producer_id = record.next_producer_id
        value.client_transaction_version = record.version
    return value


def _record(transactional_id: str, value: TransactionLogValue) -> TransactionRecord:
    return TransactionRecord(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        status=Status(value.transaction_status),
        partitions=tuple(
            TopicPartition(schema.topic, partition)
            for schema in value.transaction_partitions or ()
            for partition in schema.partition_ids
        ),
        last_update_ms=value.transaction_last_update_timestamp_ms,
        start_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        version=value.client_transaction_version,
    )
