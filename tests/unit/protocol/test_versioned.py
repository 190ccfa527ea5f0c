"""Keys and values of internal topics, and what consumers tell each other."""

from __future__ import annotations

import pytest

from sexton.base.errors import PeerError, Refused
from sexton.protocol import (
    decode_key,
    decode_value,
    decode_versioned,
    encode_key,
    encode_versioned,
)
from sexton.protocol.coordinator.consumer_offsets import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from sexton.protocol.coordinator.consumer_protocol import ConsumerProtocolSubscription
from sexton.protocol.coordinator.transaction_state import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from sexton.records import decode as decode_records
from tests.kafka_data import DATA

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def test_a_key_starts_with_its_kind_and_not_with_a_version() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert encode_key(key) == b"\0\x01" + b"\0\x01g" + b"\0\x01t" + b"\0\0\0\x03"
    assert decode_key(OFFSETS, encode_key(key)) == key
    assert encode_key(GroupMetadataKey(group="g")) == b"\0\x02\0\x01g"
    legacy = LegacyOffsetCommitKey(group="g", topic="t", partition=3)
    assert decode_key(OFFSETS, encode_key(legacy)) == legacy


def test_a_key_of_an_unknown_kind_is_nothing_and_a_broken_key_an_error() -> None:
    assert decode_key(OFFSETS, b"\x03\xe7whatever") is None
    with pytest.raises(PeerError, match="a key in __consumer_offsets: it starts with 2 bytes"):
        decode_key(OFFSETS, b"\0")
    with pytest.raises(PeerError, match="OffsetCommitKey v0: group: it is to have 9 bytes"):
        decode_key(OFFSETS, b"\0\x01\0\x09g")


def test_a_value_starts_with_its_version() -> None:
    key, value = OffsetCommitKey(), OffsetCommitValue(offset=5, metadata="m", commit_timestamp=6)
    for version in OffsetCommitValue.VALID_VERSIONS:
        data = encode_versioned(value, version)
        assert data[:2] == bytes([0, version])
        assert decode_value(OFFSETS, key, data) == value
    with pytest.raises(Refused, match="OffsetCommitValue has no version 9"):
        decode_value(OFFSETS, key, b"\0\x09" + data)


def test_a_transaction_is_stored_in_both_versions() -> None:
    key = TransactionLogKey(transactional_id="tx")
    partitions = [PartitionsSchema(topic="t", partition_ids=[0, 1])]
    value = TransactionLogValue(producer_id=7, producer_epoch=1, transaction_partitions=partitions)
    for version in (0, 1):
        assert decode_value(TRANSACTIONS, key, encode_versioned(value, version)) == value
    value.previous_producer_id = 6
    assert decode_value(TRANSACTIONS, key, encode_versioned(value, 1)) == value
    with pytest.raises(Refused, match="has no field previous_producer_id"):
        encode_versioned(value, 0)


def test_a_subscription_from_a_newer_consumer_is_read_as_far_as_we_know_it() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], generation_id=4, rack_id="r")
    newer = b"\0\x09" + encode_versioned(subscription, 3)[2:] + b"more"
    with pytest.raises(Refused, match="has no version 9"):
        decode_versioned(ConsumerProtocolSubscription, newer)
    read = decode_versioned(ConsumerProtocolSubscription, newer, from_the_future=True)
    assert read == subscription


def stored(topic: str, version: str) -> list[tuple[bytes, bytes | None]]:
    """The records that real Kafka wrote to an internal topic, markers left out."""
    return [
        (record.key, record.value)
        for path in sorted(DATA.glob(f"kafka-{version}/data-directory/data/{topic}-*/*.log"))
        for record in decode_records(path.read_bytes()).records()
        if record.key is not None and len(record.key) > 4
    ]


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
@pytest.mark.parametrize("topic", [OFFSETS, TRANSACTIONS])
def test_what_real_kafka_stored_is_read_and_written_again(topic: str, version: str) -> None:
    pairs = stored(topic, version)
    assert pairs
    for key_data, value_data in pairs:
        key = decode_key(topic, key_data)
        assert key is not None and encode_key(key) == key_data
        if value_data is not None:
            value = decode_value(topic, key, value_data)
            assert encode_versioned(value, int.from_bytes(value_data[:2])) == value_data
