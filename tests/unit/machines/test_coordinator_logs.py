"""Records of Kafka's internal topics: the bytes are Kafka's, and so is what leads to them."""

from __future__ import annotations

import pytest

from sexton.base.errors import CorruptLog
from sexton.base.partitions import TopicPartition
from sexton.machines import offset_log, transaction_log
from sexton.machines.offset_messages import CommittedOffset, OffsetRecord
from sexton.machines.transaction_messages import (
    AddPartitions,
    Append,
    Appended,
    EndTransaction,
    Event,
    InitProducerId,
    Load,
    MarkersWritten,
    NeedProducerId,
    ProducerIdGranted,
    SendMarkers,
)
from sexton.machines.transaction_states import TV2, Status, Tombstone, TransactionRecord
from sexton.machines.transactions import Coordinator
from sexton.records import decode
from tests.kafka_data import data_directory

KeyAndValue = tuple[bytes | None, bytes | None]


def stored(version: str, topic: str) -> list[KeyAndValue]:
    """What Kafka itself wrote into one of its topics."""
    folder = data_directory(version) / f"{topic}-0"
    found = []
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        if data:
            found += [(record.key, record.value) for record in decode(data).records()]
    assert found
    return found


@pytest.mark.parametrize(("version", "transaction_version"), [("4.3.1", TV2), ("3.9.2", 0)])
def test_what_kafka_wrote_to_transaction_state_is_written_back(
    version: str, transaction_version: int
) -> None:
    for key, value in stored(version, "__transaction_state"):
        record = transaction_log.from_bytes(key, value, "here")
        assert record is not None
        assert transaction_log.to_bytes(record, transaction_version) == (key, value)


def test_what_kafka_wrote_to_consumer_offsets_is_written_back() -> None:
    seen = 0
    for key, value in stored("4.3.1", "__consumer_offsets"):
        record = offset_log.from_bytes(key, value, "here")
        if record is not None:
            assert offset_log.to_bytes(record) == (key, value)
            seen += 1
    assert seen


def test_an_older_kafkas_offsets_are_read() -> None:
    records = [
        offset_log.from_bytes(*pair, "here") for pair in stored("3.9.2", "__consumer_offsets")
    ]
    offsets = [record.value.offset for record in records if record is not None and record.value]
    assert offsets == [7]


def test_the_same_requests_make_the_same_records_as_kafkas() -> None:
    """A Java producer began, committed, and began again; Kafka wrote five records about it."""
    written = stored("4.3.1", "__transaction_state")
    records = [transaction_log.from_bytes(*pair, "here") for pair in written]
    times = [r.last_update_ms for r in records if isinstance(r, TransactionRecord)]
    name, where = "txn-open/p", (TopicPartition("txn-open", 0),)
    requests: list[tuple[Event, int]] = [
        (InitProducerId("", name, 900_000), times[0]),
        (AddPartitions("", name, 0, 0, where, TV2), times[1]),
        (EndTransaction("", name, 0, 0, True, TV2), times[2]),
        (AddPartitions("", name, 0, 1, where, TV2), times[4]),
    ]
    coordinator = Coordinator()
    coordinator.handle(Load([], 0), times[0])
    appended = []
    for request, now_ms in requests:
        waiting: list[Event] = [request]
        while waiting:
            for effect in coordinator.handle(waiting.pop(), now_ms):
                match effect:
                    case NeedProducerId(token):
                        waiting.append(ProducerIdGranted(token, 0))
                    case Append(token, record):
                        appended.append(transaction_log.to_bytes(record))
                        waiting.append(Appended(token))
                    case SendMarkers(token):
                        now_ms = times[3]
                        waiting.append(MarkersWritten(token, where[0]))
    assert appended == written


def test_a_rotation_survives_the_log() -> None:
    record = TransactionRecord(
        transactional_id="app",
        producer_id=7,
        producer_epoch=32767,
        timeout_ms=60_000,
        status=Status.PREPARE_ABORT,
        partitions=(TopicPartition("b", 1), TopicPartition("b", 0), TopicPartition("a", 2)),
        last_update_ms=5,
        start_ms=4,
        previous_producer_id=7,
        next_producer_id=8,
        version=TV2,
    )
    assert transaction_log.from_bytes(*transaction_log.to_bytes(record), "here") == record


def test_tombstones_survive_the_log() -> None:
    gone = Tombstone("app")
    assert transaction_log.from_bytes(*transaction_log.to_bytes(gone), "here") == gone
    no_offset = OffsetRecord("readers", TopicPartition("orders", 3), None)
    assert offset_log.from_bytes(*offset_log.to_bytes(no_offset), "here") == no_offset


def test_an_offset_with_a_time_to_expire_is_written_in_the_version_that_has_it() -> None:
    value = CommittedOffset(5, "here", commit_ms=1, expire_ms=9)
    record = OffsetRecord("readers", TopicPartition("orders", 3), value, producer_id=7)
    key, encoded = offset_log.to_bytes(record)
    assert encoded is not None and encoded[:2] == b"\0\1"
    assert offset_log.from_bytes(key, encoded, "here", producer_id=7) == record


def test_other_kinds_of_records_are_left_to_others() -> None:
    assert offset_log.from_bytes(b"\0\2\0\1a", b"\0\0", "here") is None
    assert transaction_log.from_bytes(b"\0\1\0\1a", b"\0\0", "here") is None


KEY = transaction_log.to_bytes(Tombstone("app"))[0]
OFFSET_KEY = offset_log.to_bytes(OffsetRecord("g", TopicPartition("t", 0), None))[0]
NO_SUCH_STATUS = b"\0\1" + bytes(14) + b"\x63" + b"\0" + bytes(17)


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, None), (b"", None), (KEY, b""), (KEY, b"\0\7"), (KEY, b"\0\1\0"), (KEY[:4], None)],
)
def test_a_damaged_transaction_record_is_named(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptLog, match="segment 3"):
        transaction_log.from_bytes(key, value, "segment 3")


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, None), (b"", None), (OFFSET_KEY, b""), (OFFSET_KEY, b"\0\7"), (OFFSET_KEY, b"\0\4\0")],
)
def test_a_damaged_offset_record_is_named(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptLog, match="segment 3"):
        offset_log.from_bytes(key, value, "segment 3")


def test_a_state_that_is_none_is_named() -> None:
    with pytest.raises(CorruptLog, match="status 99"):
        transaction_log.from_bytes(KEY, NO_SUCH_STATUS, "here")
