"""Groups and members in `__consumer_offsets`, to bytes and back, as Apache Kafka writes them.

    key     says by its first two bytes what the record is about
    value   begins with its version, or is null: a tombstone

All kinds are stored messages of `protocol`; offsets are for `offset_log`. A key whose kind we do
not know is passed over, as Kafka does: a share group's, or a newer Kafka's.
"""

from __future__ import annotations

from sexton.base.errors import CorruptLog, SextonError
from sexton.machines.group_messages import GroupRecord
from sexton.machines.offset_log import TOPIC
from sexton.protocol.coordinator.consumer_offsets import (
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
)
from sexton.protocol.versioned import decode_key, decode_value, encode_key, encode_versioned

GROUP_METADATA_VERSION = 3  # Kafka has a fourth, which it does not write yet


def to_bytes(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value."""
    key, value = encode_key(record.key), record.value
    if value is None:
        return key, None
    if isinstance(value, GroupMetadataValue):
        return key, encode_versioned(value, GROUP_METADATA_VERSION)
    return key, encode_versioned(value, value.VALID_VERSIONS[-1])


def from_bytes(key: bytes | None, value: bytes | None, where: str) -> GroupRecord | None:
    """The record, or None if it is about something else than a group."""
    try:
        found = decode_key(TOPIC, key or b"")
        if found is None or isinstance(found, OffsetCommitKey | LegacyOffsetCommitKey):
            return None
        return GroupRecord(found, None if value is None else decode_value(TOPIC, found, value))
    except SextonError as error:
        raise CorruptLog(where, f"{error.subject}: {error.why}") from None
