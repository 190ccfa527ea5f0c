from __future__ import annotations

import pytest

from sexton.base.errors import CorruptLog
from sexton.records.columns import Record
from sexton.records.control import (
    ControlType,
    first_control_record,
    marker_batch,
    read_control,
)
from sexton.records.decoder import decode
from sexton.records.layout import CONTROL, TRANSACTIONAL, BatchHeader, Codec, headers_in
from tests.handmade import batch, field, framed, record
from tests.kafka_data import KafkaLog, data_directory, kafka_logs

MARKER = TRANSACTIONAL | CONTROL
COMMIT_KEY, EPOCH_7 = bytes.fromhex("0000 0001"), bytes.fromhex("0000 00000007")


def markers(log: KafkaLog) -> list[tuple[BatchHeader, bytes]]:
    """Every control batch with a record in it."""
    found = []
    for path in log.segments:
        data = path.read_bytes()
        found += [
            (header, data[position : position + header.size])
            for position, header in headers_in(data, path.name)
            if header.is_control and header.records_count
        ]
    return found


@pytest.mark.parametrize("log", kafka_logs("txn-*"), ids=str)
def test_markers_are_the_bytes_that_kafka_writes(log: KafkaLog) -> None:
    for header, written in markers(log):
        control = first_control_record(written, "x")
        assert control is not None
        assert control.coordinator_epoch is not None
        made = marker_batch(
            ControlType(control.type),
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            coordinator_epoch=control.coordinator_epoch,
            timestamp=header.base_timestamp,
        )
        # A broker sets offset and leader epoch when it appends; neither is under the checksum.
        assert made[8:12] + made[16:] == written[8:12] + written[16:]


def test_the_fixtures_have_markers_of_both_kinds() -> None:
    kinds = [
        control.name
        for log in kafka_logs("txn-*")
        for _, written in markers(log)
        if (control := first_control_record(written, "x"))
    ]
    assert kinds.count("COMMIT") >= 10
    assert kinds.count("ABORT") >= 10


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_is_read_alike_with_and_without_kernels(kind: ControlType) -> None:
    made = marker_batch(
        kind, producer_id=2**40, producer_epoch=3, coordinator_epoch=2**31 - 1, timestamp=99
    )
    (decoded,) = decode(made).records()
    assert isinstance(decoded, Record)
    control = first_control_record(made, "x")
    assert control == read_control(decoded.key, decoded.value, "x")
    assert control is not None
    assert (control.name, control.coordinator_epoch) == (kind.name, 2**31 - 1)
    assert control.ends_transaction
    header = BatchHeader.unpack(made)
    assert (header.producer_id, header.producer_epoch) == (2**40, 3)
    assert (header.base_sequence, header.max_timestamp) == (-1, 99)


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_krafts_own_control_records_end_no_transaction(version: str) -> None:
    log = KafkaLog(version, "metadata", data_directory(version) / "__cluster_metadata-0")
    controls = [first_control_record(written, "x") for _, written in markers(log)]
    assert controls
    for control in controls:
        assert control is not None
        assert (control.name, control.ends_transaction) == ("LEADER_CHANGE", False)
        assert control.coordinator_epoch is None
        assert control.value


def test_an_unknown_control_type_is_kept_as_it_is() -> None:
    key, value = bytes.fromhex("0005 0063 beef"), b"from the future"
    control = first_control_record(batch(record(key=key, value=value), attributes=MARKER), "x")
    assert control is not None
    assert (control.type, control.name) == (99, "UNKNOWN(99)")
    assert (control.key, control.value) == (key, value)
    assert (control.ends_transaction, control.coordinator_epoch) == (False, None)


def test_a_later_version_with_more_in_it_is_still_a_marker() -> None:
    control = read_control(COMMIT_KEY + b"more", EPOCH_7 + b"more", "x")
    assert (control.name, control.coordinator_epoch) == ("COMMIT", 7)


@pytest.mark.parametrize("value", [None, b"", EPOCH_7[:5]])
def test_a_marker_without_a_whole_value_has_no_coordinator_epoch(value: bytes | None) -> None:
    assert read_control(COMMIT_KEY, value, "x").coordinator_epoch is None


def test_a_marker_that_was_cleaned_away_says_nothing() -> None:
    assert first_control_record(batch(attributes=MARKER), "x") is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_control_key_of_less_than_four_bytes_is_corrupt(key: bytes | None) -> None:
    with pytest.raises(CorruptLog, match=r"key has . bytes, at least 4 are needed"):
        first_control_record(batch(record(key=key), attributes=MARKER), "x")


def test_a_compressed_control_batch_is_corrupt() -> None:
    packed = batch(record(key=COMMIT_KEY), attributes=MARKER | Codec.LZ4)
    with pytest.raises(CorruptLog, match="compressed, which Kafka never does"):
        first_control_record(packed, "x")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0" + field(COMMIT_KEY),
        b"\0\0\0" + field(b"1234567890")[:-1],
        b"\0\0\0" + field(COMMIT_KEY) + field(EPOCH_7)[:-1],
        b"\0\0\0" + field(COMMIT_KEY) + field(EPOCH_7),
        b"\0" + b"\xff" * 20,
    ],
    ids=["nothing", "no key", "no value", "short key", "short value", "no headers", "no end"],
)
def test_a_control_record_that_is_cut_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptLog, match="a control record ends outside its batch"):
        first_control_record(batch(framed(body), attributes=MARKER), "x")
