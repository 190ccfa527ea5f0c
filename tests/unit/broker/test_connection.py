"""What a connection promises to those who keep to the protocol."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.broker.limits import Limits
from sexton.broker.listener import ListenerConfig
from sexton.node import apis
from sexton.protocol import decode_response, encode_request, registry
from sexton.protocol.frames import correlation_id
from sexton.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sexton.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sexton.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from sexton.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from sexton.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.unit.broker.listening import Listening, Peer

UNSUPPORTED_VERSION = 35


@pytest.fixture
def listening() -> Iterator[Listening]:
    with Listening() as running:
        yield running
        running.still_works()


def heartbeat(number: int) -> bytes:
    return encode_request(HeartbeatRequest(f"group {number}"), 4, number, "test")


def carrying(size: int, number: int) -> bytes:
    """A request of about so many bytes, whatever they are."""
    token = Random(number).randbytes(size)
    return encode_request(SaslAuthenticateRequest(token), 2, number, "test")


# ── order ──


def test_answers_come_in_the_order_of_requests(listening: Listening) -> None:
    with listening.connect() as peer:
        peer.send(b"".join(map(heartbeat, range(5))))
        listening.wait_for(lambda: len(listening.node.asked) == 5, "all five")
        for number in (4, 1, 0, 3, 2):
            listening.answer(number, HeartbeatResponse(throttle_time_ms=number))
        for number in range(5):
            answer = decode_response(HeartbeatResponse, peer.frame(), 4)
            assert answer == (number, HeartbeatResponse(throttle_time_ms=number))


def test_an_answer_that_is_ready_waits_for_those_before_it(listening: Listening) -> None:
    with listening.connect() as peer:
        peer.send(heartbeat(0) + encode_request(ApiVersionsRequest("x", "1"), 3, 1, "test"))
        listening.wait_for(lambda: listening.listener.held_bytes > 300, "the second answer")
        peer.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            peer.frame()
        peer.socket.settimeout(10)
        listening.answer(0, HeartbeatResponse())
        assert [correlation_id(peer.frame()), correlation_id(peer.frame())] == [0, 1]


def test_a_second_answer_to_one_request_is_nothing(listening: Listening) -> None:
    with listening.connect() as peer:
        peer.send(heartbeat(0) + heartbeat(1))
        listening.wait_for(lambda: len(listening.node.asked) == 2)
        for _ in range(3):
            listening.answer(1, HeartbeatResponse())
        listening.answer(0, HeartbeatResponse())
        listening.answer(0, HeartbeatResponse())
        assert [correlation_id(peer.frame()), correlation_id(peer.frame())] == [0, 1]
        assert listening.listener.held_bytes == 0


def test_an_answer_to_somebody_who_has_gone_is_nothing(listening: Listening) -> None:
    with listening.connect() as peer:
        peer.send(heartbeat(0))
        listening.wait_for(lambda: len(listening.node.asked) == 1)
    listening.wait_for(lambda: listening.listener.connection_count == 0)
    listening.answer(0, HeartbeatResponse())
    assert listening.listener.held_bytes == 0


def test_an_answer_that_cannot_be_written_costs_its_connection_only(listening: Listening) -> None:
    with listening.connect() as peer, listening.connect() as other:
        for each in (peer, other):
            each.send(heartbeat(0))
        listening.wait_for(lambda: len(listening.node.asked) == 2)
        first = listening.node.asked[0].caller.connection.peer  # type: ignore[attr-defined]
        mine = f"127.0.0.1:{peer.socket.getsockname()[1]}"
        listening.answer(0, HeartbeatResponse(throttle_time_ms=1 << 40))
        listening.answer(1, HeartbeatResponse())
        broken, whole = (peer, other) if first == mine else (other, peer)
        assert broken.is_closed()
        assert correlation_id(whole.frame()) == 0


def test_no_more_requests_are_taken_than_may_be_under_way() -> None:
    with Listening(ListenerConfig(limits=Limits(requests_under_way=3))) as listening:
        with listening.connect() as peer:
            peer.send(b"".join(map(heartbeat, range(10))))
            listening.wait_for(lambda: len(listening.node.asked) == 3)
            for number in range(10):
                listening.wait_for(lambda: len(listening.node.asked) > number)  # noqa: B023
                assert len(listening.node.asked) <= number + 3
                listening.answer(number, HeartbeatResponse())
            assert [correlation_id(peer.frame()) for _ in range(10)] == list(range(10))
        listening.still_works()


def test_a_held_connection_goes_on_where_it_was(listening: Listening) -> None:
    with listening.connect() as peer:
        peer.send(heartbeat(0))
        listening.wait_for(lambda: len(listening.node.asked) == 1)
        listening.call(lambda: listening.listener.hold(True))
        peer.send(heartbeat(1) + heartbeat(2))
        listening.answer(0, HeartbeatResponse())
        assert correlation_id(peer.frame()) == 0
        assert len(listening.node.asked) == 1
        listening.call(lambda: listening.listener.hold(False))
        listening.wait_for(lambda: len(listening.node.asked) == 3)


# ── frames, however they come ──


SIZES = (0, 1, 100, 65_000, 65_510, 65_536, 70_000, 300_000, 1_100_000, 2_000_000, 5, 200_000)


def received(listening: Listening) -> list[Any]:
    return [asked.request for asked in listening.node.asked]


def test_frames_may_come_byte_by_byte(listening: Listening) -> None:
    frames = b"".join(map(heartbeat, range(20)))
    with listening.connect() as peer:
        for at in range(len(frames)):
            peer.send(frames[at : at + 1])
        listening.wait_for(lambda: len(listening.node.asked) == 20)
    assert [each.group_id for each in received(listening)] == [f"group {n}" for n in range(20)]


@pytest.mark.parametrize("seed", range(4))
def test_frames_may_be_cut_and_joined_anywhere(seed: int, listening: Listening) -> None:
    random = Random(seed)
    sizes = random.sample(SIZES, len(SIZES))
    data = b"".join(carrying(size, number) for number, size in enumerate(sizes))
    with listening.connect() as peer:
        at = 0
        while at < len(data):
            count = random.choice((1, 3, 5_000, 65_536, 400_000))
            peer.send(data[at : at + count])
            at += count
        listening.wait_for(lambda: len(listening.node.asked) == len(sizes))
    tokens = [Random(number).randbytes(size) for number, size in enumerate(sizes)]
    assert [each.auth_bytes for each in received(listening)] == tokens


def test_large_answers_arrive_whole(listening: Listening) -> None:
    with listening.connect() as peer:
        peer.send(b"".join(carrying(0, number) for number in range(3)))
        listening.wait_for(lambda: len(listening.node.asked) == 3)
        api = registry.find(SaslAuthenticateRequest.API_KEY)
        assert api is not None
        tokens = [Random(number).randbytes(10_000_000) for number in range(3)]
        for number, token in enumerate(tokens):
            listening.answer(number, api.response(error_message=None, auth_bytes=token))  # type: ignore[call-arg]
        for number, token in enumerate(tokens):
            correlation, answer = decode_response(api.response, peer.frame(), 2)
            assert (correlation, answer.auth_bytes) == (number, token)  # type: ignore[attr-defined]


# ── what this broker does not speak ──


def raw(key: int, version: int, rest: bytes = b"\0\0" * 8) -> bytes:
    payload = struct.pack(">hhi", key, version, 9) + rest
    return struct.pack(">i", len(payload)) + payload


def test_whoever_asks_what_we_speak_in_a_later_version_is_told(listening: Listening) -> None:
    with listening.connect() as peer:
        peer.send(raw(ApiVersionsRequest.API_KEY, 99))
        correlation, answer = decode_response(ApiVersionsResponse, peer.frame(), 0)
        assert (correlation, answer.error_code) == (9, UNSUPPORTED_VERSION)
        keys = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert keys == {ApiVersionsRequest.API_KEY: (0, 4)}
        assert peer.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse).error_code == 0


def test_a_known_api_that_is_not_offered_is_refused_where_there_is_room(
    listening: Listening,
) -> None:
    with listening.connect() as peer:
        request = UpdateFeaturesRequest()
        answer = peer.ask(request, 1, UpdateFeaturesResponse)
        assert answer.error_code == UNSUPPORTED_VERSION
        peer.send(heartbeat(3))  # and the connection goes on
        listening.wait_for(lambda: len(listening.node.asked) == 1)


def not_offered() -> Iterator[tuple[int, int]]:
    offered = {each.key: range(each.first, each.last + 1) for each in apis.OFFERED}
    for api in registry.apis():
        for version in api.versions:
            if version not in offered.get(api.key, ()):
                yield api.key, version


def test_nobody_waits_for_an_answer_that_does_not_come(listening: Listening) -> None:
    """Every API and version that is not offered: an answer, or the connection closes."""
    tried = 0
    for key, version in [*not_offered(), (999, 0), (-1, 0), (0, 0), (3, 99), (3, -1), (32767, 7)]:
        with listening.connect() as peer:
            api = registry.find(key)
            if api is not None and version in api.versions:
                peer.send(encode_request(api.request(), version, 9, "test"))
            else:
                peer.send(raw(key, version))
            try:
                assert correlation_id(peer.frame()) == 9
            except (EOFError, ConnectionError):
                pass
        tried += 1
    assert tried > 10
    assert listening.node.asked == []


def test_nobody_answers_who_wants_no_answer(listening: Listening) -> None:
    with listening.connect() as peer:
        peer.send(encode_request(ProduceRequest(acks=0), 9, 1, "test") + heartbeat(2))
        listening.wait_for(lambda: len(listening.node.asked) == 2)
        listening.answer(0, HeartbeatResponse())  # a mistake of the node
        listening.answer(1, HeartbeatResponse())
        assert correlation_id(peer.frame()) == 2


def test_who_wants_no_answer_hears_of_an_error_by_the_end_of_the_connection(
    listening: Listening,
) -> None:
    """Else it would not ask who leads now, and all that it sends would be lost."""
    refused = PartitionProduceResponse(0, KafkaError.NOT_LEADER_OR_FOLLOWER)
    with listening.connect() as peer:
        peer.send(encode_request(ProduceRequest(acks=0), 9, 1, "test"))
        listening.wait_for(lambda: len(listening.node.asked) == 1)
        listening.answer(
            0, ProduceResponse([TopicProduceResponse("t", partition_responses=[refused])])
        )
        assert peer.is_closed()


def test_a_failure_ends_a_connection_without_an_answer(listening: Listening) -> None:
    def fail(peer: Peer) -> None:
        listening.wait_for(lambda: bool(listening.node.asked))
        listening.call(lambda: listening.node.asked[-1].caller.fail())  # type: ignore[attr-defined]
        assert peer.is_closed()

    for request in (heartbeat(0), encode_request(ProduceRequest(acks=0), 9, 1, "test")):
        with listening.connect() as peer:
            listening.node.asked.clear()
            peer.send(request)
            fail(peer)
