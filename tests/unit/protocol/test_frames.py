"""Whole requests and responses, with their headers: known ones, unknown ones, and our own."""

from __future__ import annotations

import struct
from typing import TypeVar

import pytest

from sexton.base.errors import PeerError
from sexton.protocol import (
    UnknownApi,
    UnsupportedRequest,
    UnsupportedVersion,
    correlation_id,
    decode_request,
    decode_response,
    encode_request,
    encode_request_parts,
    encode_response,
    encode_response_parts,
    registry,
)
from sexton.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sexton.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sexton.protocol.wire import Request, Response
from tests.unit.protocol.private_api import CollectPartition, CollectRequest, CollectResponse

R = TypeVar("R", bound=Response)


def payload_of(frame: bytes) -> bytes:
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    return frame[4:]


@pytest.mark.parametrize("version", [4, 11, 12, 18])
@pytest.mark.parametrize("client_id", [None, "", "me"])
def test_a_request_comes_back_with_its_header(version: int, client_id: str | None) -> None:
    request = FetchRequest(max_wait_ms=500)
    payload = payload_of(encode_request(request, version, 7, client_id))
    for given in (payload, bytearray(payload), memoryview(payload)):
        header, decoded = decode_request(given)
        assert decoded == request
        assert (header.request_api_key, header.request_api_version) == (1, version)
        assert (header.correlation_id, header.client_id) == (7, client_id)


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_a_response_comes_back_with_its_correlation_id(version: int) -> None:
    payload = payload_of(encode_response(FetchResponse(throttle_time_ms=3), version, 99))
    assert correlation_id(payload) == 99
    decoded = decode_response(FetchResponse, payload, version)
    assert decoded == (99, FetchResponse(throttle_time_ms=3))


@pytest.mark.parametrize("version", [0, 3, 4])
def test_an_api_versions_response_never_has_tags_in_its_header(version: int) -> None:
    payload = payload_of(encode_response(ApiVersionsResponse(error_code=35), version, 5))
    assert payload[:6] == b"\0\0\0\x05\0\x23"
    assert decode_response(ApiVersionsResponse, payload, version)[1].error_code == 35


def test_frames_in_parts_are_the_same_frames() -> None:
    for records in (bytes(10_000), b"few", None):
        partition = PartitionProduceData(records=records)
        request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[partition])])
        fetched = FetchableTopicResponse(partitions=[PartitionData(records=records)])
        response = FetchResponse(responses=[fetched])
        joined = b"".join(encode_request_parts(request, 9, 1, "me"))
        assert joined == encode_request(request, 9, 1, "me")
        joined = b"".join(encode_response_parts(response, 12, 1))
        assert joined == encode_response(response, 12, 1)


def test_a_frame_that_ends_with_large_records_has_no_empty_part() -> None:
    partition = PartitionProduceData(records=bytes(10_000))
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    assert [len(part) > 0 for part in encode_request_parts(request, 3, 1, None)] == [True, True]


def test_an_unknown_key_can_be_told_from_an_unknown_version_and_both_can_be_answered() -> None:
    with pytest.raises(UnknownApi, match="request 999 v0: there is no API with the key 999") as no:
        decode_request(struct.pack(">hhi", 999, 0, 42))
    assert (no.value.api_key, no.value.api_version, no.value.correlation_id) == (999, 0, 42)
    with pytest.raises(UnsupportedVersion, match="ApiVersions has versions 0 to 4") as no_version:
        decode_request(struct.pack(">hhi", 18, 77, 43))
    assert no_version.value.correlation_id == 43
    assert isinstance(no_version.value, UnsupportedRequest)
    assert isinstance(no_version.value, PeerError)


@pytest.mark.parametrize("size", range(13))
def test_a_request_that_is_cut_off(size: int) -> None:
    whole = payload_of(encode_request(ApiVersionsRequest(), 0, 1, "me"))
    assert len(whole) == 12
    if size < 12:
        with pytest.raises(PeerError):
            decode_request(whole[:size])
    else:
        assert decode_request(whole[:size])[1] == ApiVersionsRequest()


def test_a_response_that_is_cut_off() -> None:
    with pytest.raises(PeerError, match="a header has at least 4 bytes, but here are 3"):
        correlation_id(b"abc")
    with pytest.raises(PeerError, match="ResponseHeader v0: correlation_id: the message ends"):
        decode_response(FetchResponse, b"abc", 4)


def test_an_api_of_our_own_is_like_any_other() -> None:
    partitions = [CollectPartition(bytes(range(16)), 3, 9)]
    request = CollectRequest(node_id=1, partitions=partitions, reason="asked", urgent=True)
    header, decoded = decode_request(payload_of(encode_request(request, 1, 5, "broker-1")))
    assert (decoded, header.client_id) == (request, "broker-1")
    response = CollectResponse(clean_offsets=[2**40, -1])
    payload = payload_of(encode_response(response, 0, 5))
    assert decode_response(CollectResponse, payload, 0) == (5, response)
    api = registry.find(20_999)
    assert api is not None and (api.name, api.request) == ("Collect", CollectRequest)


def test_the_class_of_an_answer_is_known_to_a_type_checker() -> None:
    def send(request: Request[R], answer: R) -> R:
        return answer

    answer: CollectResponse = send(CollectRequest(), CollectResponse())
    assert answer.error_code == 0


def test_two_apis_cannot_have_one_key() -> None:
    class OtherRequest(CollectRequest):
        pass

    class OtherResponse(CollectResponse):
        pass

    with pytest.raises(AssertionError, match="two APIs have the key 20999"):
        registry.register(OtherRequest, OtherResponse)
    registry.register(CollectRequest, CollectResponse)  # once more is fine
