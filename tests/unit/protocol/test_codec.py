"""What the codec does with values and bytes that do not fit: it says which field it was."""

from __future__ import annotations

import re
import struct
import tracemalloc
from dataclasses import dataclass
from typing import Any

import pytest

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.protocol import EncodeError, decode, decode_from, encode, encode_into, wire
from sexton.protocol.messages.api_versions import ApiVersionsResponse
from sexton.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
)
from sexton.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sexton.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from sexton.protocol.wire import Message


def refusal(kind: type[Message], data: bytes, version: int) -> str:
    """Why `data` is no such message; the same whether it is bytes or a view."""
    with pytest.raises(PeerError) as of_bytes:
        decode(kind, data, version)
    with pytest.raises(PeerError) as of_view:
        decode(kind, memoryview(data), version)
    assert str(of_bytes.value) == str(of_view.value)
    return str(of_bytes.value)


def test_a_message_is_what_the_protocol_guide_says() -> None:
    # By hand, from the grammar: version 1 has int32 counts, version 9 is flexible.
    message = MetadataRequest(topics=[MetadataRequestTopic(name="ab")])
    assert encode(message, 1) == b"\0\0\0\x01\0\x02ab"
    # A uuid comes in version 10; here: count 2 - 1, length 3 - 1, no tags; two flags; no tags.
    assert encode(message, 9) == b"\x02\x03ab\0" + b"\x01\0\0" + b"\0"


def test_a_field_that_was_not_given_has_kafkas_default() -> None:
    request = FetchRequest(max_wait_ms=500)
    assert (request.max_bytes, request.session_epoch, request.cluster_id) == (2**31 - 1, -1, None)
    assert request.topics == [] and request.topics is not FetchRequest().topics


def test_records_are_a_view_of_what_was_decoded_and_not_a_copy() -> None:
    batch = bytes(range(256)) * 40
    partition = PartitionProduceData(index=3, records=batch)
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    data = encode(request, 9)
    for given in (data, bytearray(data), memoryview(data)):
        decoded = decode(ProduceRequest, given, 9)
        view = decoded.topic_data[0].partition_data[0].records
        assert isinstance(view, memoryview) and view == batch
        assert view.obj is (data if isinstance(given, memoryview) else given)
        assert decoded == request


@pytest.mark.parametrize("make", [bytearray, memoryview, lambda data: memoryview(data).cast("I")])
def test_records_may_be_any_buffer_when_they_are_encoded(make: Any) -> None:
    def request(records: Any) -> ProduceRequest:
        partition = PartitionProduceData(records=records)
        return ProduceRequest(topic_data=[TopicProduceData(partition_data=[partition])])

    batch = bytes(range(200))
    assert encode(request(make(batch)), 9) == encode(request(batch), 9)


@pytest.mark.parametrize("version", [4, 12])
def test_in_parts_large_records_are_not_copied(version: int) -> None:
    large, small = bytes(5000), b"small"
    partitions = [PartitionData(records=records) for records in (large, small, large)]
    message = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    parts: list[wire.Buffer] = []
    last = encode_into(bytearray(b"head"), message, version, parts)
    assert b"".join([*parts, last]) == b"head" + encode(message, version)
    assert [part is large for part in parts] == [False, True, False, True]


def test_unknown_tagged_fields_are_passed_over() -> None:
    data = encode(FindCoordinatorRequest(key_type=1, coordinator_keys=["g"]), 4)
    assert data.endswith(b"\0")
    unknown = b"\x02" + b"\x05\x03abc" + b"\xff\xff\x03\0"
    decoded = decode(FindCoordinatorRequest, data[:-1] + unknown, 4)
    assert decoded.coordinator_keys == ["g"]


def test_known_tagged_fields_are_found_in_any_order_and_among_unknown_ones() -> None:
    plain = encode(ApiVersionsResponse(), 3)
    tags = b"\x03" + b"\x03\x01\x01" + b"\x09\x01x" + b"\x01\x08" + struct.pack(">q", 77)
    decoded = decode(ApiVersionsResponse, plain[:-1] + tags, 3)
    assert decoded == ApiVersionsResponse(zk_migration_ready=True, finalized_features_epoch=77)


def test_a_nullable_struct_comes_back() -> None:
    for cursor in (None, RequestCursor("t", 4)):
        message = DescribeTopicPartitionsRequest(cursor=cursor)
        assert decode(DescribeTopicPartitionsRequest, encode(message, 0), 0) == message


def test_an_error_may_be_given_by_its_name_and_comes_back_as_its_number() -> None:
    message = SaslHandshakeResponse(error_code=KafkaError.UNSUPPORTED_SASL_MECHANISM)
    assert decode(SaslHandshakeResponse, encode(message, 1), 1).error_code == 33


def test_a_message_inside_other_bytes() -> None:
    data = encode(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    message, end = decode_from(SaslHandshakeRequest, b"..." + data + b"..", 0, 3)
    assert (message.mechanism, end) == ("PLAIN", 3 + len(data))


# Bytes that are no message.


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "mechanism: the message ends after 0 of its 2 bytes"),
        (b"\0", "mechanism: the message ends after 1 of its 2 bytes"),
        (b"\0\x05PLAI", "mechanism: it is to have 5 bytes, but 4 are left"),
        (b"\xff\xff", "mechanism: it is null, which this version does not allow"),
        (b"\xff\xfe", "mechanism: its length is -2"),
        (b"\0\x02\xc3\x28", "mechanism: not UTF-8: invalid continuation byte at byte 0"),
        (b"\0\x01x!", "1 bytes follow the end of the message"),
    ],
)
def test_what_is_wrong_with_a_plain_message(data: bytes, why: str) -> None:
    assert refusal(SaslHandshakeRequest, data, 1) == f"SaslHandshakeRequest v1: {why}"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "key_type: the message ends after 0 of its 1 bytes"),
        (b"\0", "coordinator_keys: the message ends after 0 of its 1 bytes"),
        (b"\0\0", "coordinator_keys: it is null, which this version does not allow"),
        (b"\0\x80", "coordinator_keys: the message ends before it"),
        (
            b"\0\xff\xff\xff\xff\x7f",
            "coordinator_keys: its varint has more than 32 bits",
        ),
        (b"\0\x80\x80\x80\x80\x80\x01", "coordinator_keys: its varint has more than 32 bits"),
        (b"\0\xff\xff\xff\xff\x0fxx", "coordinator_keys: 4294967294 elements of a byte cannot be"),
        (
            b"\0\x02\x85\x80\x02",
            "coordinator_keys: a string of 32772 bytes, where Kafka allows 32767",
        ),
        (b"\0\x02\x05abc", "coordinator_keys: it is to have 4 bytes, but 3 are left"),
        (b"\0\x01\x01\x07\x09x", "tagged fields: tag 7 is to have 9 bytes, but 1 are left"),
        (b"\0\x01\x01\x07", "tagged fields: the message ends before it"),
        (b"\0\x01\xff\xff\xff\xff\x0f", "tagged fields: the message ends before it"),
    ],
)
def test_what_is_wrong_with_a_flexible_message(data: bytes, why: str) -> None:
    assert refusal(FindCoordinatorRequest, data, 4).startswith(f"FindCoordinatorRequest v4: {why}")


def test_the_field_that_the_message_ends_in_is_named_among_those_read_together() -> None:
    data = encode(FetchRequest(), 4)
    assert [refusal(FetchRequest, data[:size], 4) for size in (3, 8, 16, 20)] == [
        "FetchRequest v4: replica_id: the message ends after 3 of its 4 bytes",
        "FetchRequest v4: min_bytes: the message ends after 0 of its 4 bytes",
        "FetchRequest v4: isolation_level: the message ends after 0 of its 1 bytes",
        "FetchRequest v4: topics: the message ends after 3 of its 4 bytes",
    ]


def test_a_nested_field_is_named_by_its_path() -> None:
    partition = FetchPartition(partition=1, fetch_offset=2, partition_max_bytes=3)
    message = FetchRequest(topics=[FetchTopic(topic="t", partitions=[partition] * 2)])
    assert refusal(FetchRequest, encode(message, 4)[:-1], 4) == (
        "FetchRequest v4: topics.partitions: "
        "2 elements of at least 16 bytes cannot be in the 31 bytes that are left"
    )
    message.topics[0].topic = "\0" * 5
    broken = encode(message, 4).replace(bytes(5), b"\0\0\xff\0\0")
    assert "FetchRequest v4: topics.topic: not UTF-8" in refusal(FetchRequest, broken, 4)


def test_a_tagged_field_must_be_as_long_as_it_says() -> None:
    plain = encode(ApiVersionsResponse(), 3)[:-1]
    longer = refusal(ApiVersionsResponse, plain + b"\x01\x01\x07" + bytes(8), 3)
    assert "finalized_features_epoch: it is 1 bytes longer than its tag says" in longer
    shorter = refusal(ApiVersionsResponse, plain + b"\x01\x03\x02\x01\0", 3)
    assert "zk_migration_ready: it is 1 bytes shorter than its tag says" in shorter


def test_a_struct_is_there_or_it_is_null() -> None:
    data = encode(DescribeTopicPartitionsRequest(), 0)
    assert data[-2:] == b"\xff\0"
    why = "cursor: before it is a 1, or -1 if it is null, but here is 2"
    assert why in refusal(DescribeTopicPartitionsRequest, data[:-2] + b"\x02\0", 0)


def test_a_count_that_lies_costs_no_memory() -> None:
    data = b"\0\0\0\0" * 5 + b"\0" + b"\x7f\xff\xff\xff" + bytes(100)
    refusal(FetchRequest, data, 4)  # compiles
    tracemalloc.start()
    try:
        refusal(FetchRequest, data, 4)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


# Messages that have no bytes.


def test_a_version_that_does_not_exist() -> None:
    for call in (
        lambda: encode(FetchRequest(), 99),
        lambda: decode(FetchRequest, b"", 3),
        lambda: decode(FetchRequest, memoryview(b""), 3),
    ):
        with pytest.raises(Refused, match="FetchRequest has versions 4 to 18, not") as refused:
            call()
        assert refused.value.error is KafkaError.UNSUPPORTED_VERSION


def test_a_value_that_a_version_has_no_place_for_is_refused_unless_it_may_be_ignored() -> None:
    forgetful = FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="t")])
    with pytest.raises(Refused, match="FetchRequest v4 has no field forgotten_topics_data") as no:
        encode(forgetful, 4)
    assert no.value.error is KafkaError.UNSUPPORTED_VERSION
    assert encode(FetchRequest(rack_id="r"), 4) == encode(FetchRequest(), 4)


@dataclass(slots=True)
class Inner:
    number: int = wire.int8()


@dataclass(slots=True)
class Deep:
    names: list[str] = wire.array(wire.string)


@dataclass(slots=True)
class Everything(Message):
    VALID_VERSIONS = range(2)
    FLEXIBLE_VERSIONS = range(1, 2)

    small: int = wire.int8()
    unsigned: int = wire.uint32()
    text: str = wire.string()
    data: bytes = wire.bytes_()
    uuid: bytes = wire.uuid()
    numbers: list[int] = wire.array(wire.int16)
    uuids: list[bytes] = wire.array(wire.uuid)
    texts: list[str] = wire.array(wire.string)
    inners: list[Inner] = wire.array(Inner)
    inner: Inner = wire.struct(Inner)
    deeps: list[Deep] = wire.array(Deep)
    deep: Deep = wire.struct(Deep)
    tagged: int = wire.int8(versions="1+", tag=0)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"small": 128}, "small: .*-128 <= number <= 127.* (it is 128)"),
        ({"unsigned": -1}, "unsigned: .* (it is -1)"),
        ({"unsigned": "x"}, "unsigned: .* (it is 'x')"),
        ({"text": None}, "text: 'NoneType' object has no attribute 'encode' (it is None)"),
        ({"text": "\ud800"}, "text: 'utf-8' codec can't encode"),
        ({"text": "x" * 40_000}, "text: "),
        ({"data": None}, "data: memoryview: a bytes-like object is required"),
        ({"data": "text"}, "data: memoryview: a bytes-like object is required"),
        ({"uuid": bytes(15)}, "uuid: a uuid has 16 bytes"),
        ({"uuids": [bytes(17)]}, "uuids: a uuid has 16 bytes"),
        ({"numbers": [1, 40_000]}, "numbers: "),
        ({"numbers": None}, "numbers: object of type 'NoneType' has no len() (it is None)"),
        ({"texts": ["a", 5]}, "texts: 'int' object has no attribute 'encode' (it is 5)"),
        ({"inners": [Inner(1), Inner(999)]}, "inners.number: "),
        ({"inners": [Inner(1), 5]}, "inners.number: 'int' object has no attribute 'number'"),
        ({"inner": None}, "inner.number: 'NoneType' object has no attribute 'number'"),
        ({"deep": None}, "deep.names: 'NoneType' object has no attribute 'names'"),
        ({"deeps": [None]}, "deeps.names: 'NoneType' object has no attribute 'names'"),
        ({"deeps": [Deep([None])]}, "deeps.names: 'NoneType' object has no attribute 'encode'"),  # type: ignore[list-item]
    ],
)
def test_a_value_of_the_wrong_kind_is_named(change: dict[str, Any], why: str, version: int) -> None:
    message = Everything(uuids=[bytes(16)], inners=[Inner()])
    encode(message, version)
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(EncodeError) as error:
        encode(message, version)
    # What Python says of it differs a little from version to version; `.*` stands for that.
    pattern = re.escape(f"Everything v{version}: {why}").replace(re.escape(".*"), ".*")
    assert re.match(pattern, str(error.value))


def test_a_tagged_value_of_the_wrong_kind_is_named() -> None:
    with pytest.raises(EncodeError, match=r"Everything v1: tagged: .*\(it is 300\)"):
        encode(Everything(tagged=300), 1)
    with pytest.raises(Refused, match="has no field tagged"):
        encode(Everything(tagged=3), 0)
