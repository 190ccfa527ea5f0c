"""What clients can do to us: it costs them their connection, and nobody else anything.

After each attack an ordinary client is served, and nothing of the attacker is left.
"""

from __future__ import annotations

import gc
import os
import resource
import socket
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import pytest

from sexton.broker.host import Host
from sexton.broker.large_produce import _Walk
from sexton.broker.limits import Limits
from sexton.broker.listener import ListenerConfig
from sexton.broker.traffic import Requests
from sexton.node.outside import Asked, Event
from sexton.protocol import encode_request
from sexton.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sexton.protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from sexton.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sexton.protocol.messages.metadata import MetadataRequest
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sexton.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tests.kafka_messages import random_message
from tests.unit.broker.listening import Listening, Peer, wait_for

MIB = 1 << 20
KIB = 1 << 10


@contextmanager
def attacked(config: ListenerConfig | None = None) -> Iterator[Listening]:
    with Listening(config) as listening:
        yield listening
        listening.still_works()
        listening.wait_for(lambda: listening.listener.connection_count == 0, "all to leave")
        assert listening.listener.held_bytes == 0
        assert listening.listener._per_address == {}


def sized(size: int, rest: bytes = b"") -> bytes:
    return struct.pack(">i", size) + rest


# ── bytes that are no request ──


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * MIB + 1, 2**31 - 1])
def test_a_size_that_cannot_be_meant_ends_the_connection(size: int) -> None:
    with attacked() as listening, listening.connect() as peer:
        peer.send(sized(size, b"whatever"))
        assert peer.is_closed()
        assert listening.listener.traffic.hung_up == 1


@pytest.mark.parametrize("size", range(8))
def test_a_frame_that_is_shorter_than_any_header_ends_the_connection(size: int) -> None:
    with attacked() as listening, listening.connect() as peer:
        peer.send(sized(size, bytes(size)))
        assert peer.is_closed()


def test_only_produce_may_be_large() -> None:
    """Negative control: the same claim for Produce is waited for."""
    header = struct.pack(">hhi", ProduceRequest.API_KEY, 9, 1)
    with attacked() as listening, listening.connect() as peer, listening.connect() as producer:
        producer.send(sized(20 * MIB, header))
        peer.send(sized(20 * MIB, struct.pack(">hhi", MetadataRequest.API_KEY, 12, 1)))
        assert peer.is_closed()
        producer.send(bytes(1000))
        listening.wait_for(lambda: listening.listener.held_bytes > 1000)
        assert listening.listener.connection_count == 1


def test_a_large_produce_of_nothing_but_parts_is_not_decoded() -> None:
    """Negative control: one as large with records in it is."""
    start = encode_request(ProduceRequest(acks=-1), 9, 1, None)[4:-2]  # up to the topics
    number = 1_000_000
    count = bytes([(number + 1) & 127 | 128, (number + 1) >> 7 & 127 | 128, (number + 1) >> 14])
    empty = start + count + b"\x01\x01\x00" * number + b"\x00"
    records = PartitionProduceData(index=0, records=bytes(3 * MIB))
    full = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[records])])
    with attacked() as listening, listening.connect() as peer, listening.connect() as producer:
        for version in (3, 9, 12):
            producer.send(encode_request(full, version, 1, "x"))
        listening.wait_for(lambda: len(listening.node.asked) == 3)
        peer.send(sized(len(empty), empty))
        assert peer.is_closed()
        assert len(listening.node.asked) == 3
        # a small one of the same kind is a request like any other
        empty = start + b"\x03" + b"\x01\x01\x00" * 2 + b"\x00"
        with listening.connect() as other:
            other.send(sized(len(empty), empty))
            listening.wait_for(lambda: len(listening.node.asked) == 4)


@pytest.mark.parametrize("version", range(3, 14))
def test_the_walk_over_a_large_produce_ends_where_the_decoder_does(version: int) -> None:
    random = Random(version)
    for _ in range(50):
        payload = encode_request(
            random_message(ProduceRequest, version, random), version, 1, "client"
        )[4:]
        walk = _Walk(payload)
        walk.request()
        rest = len(payload) - walk.at
        assert rest == (1 if walk.flexible else 0)  # the request's own tagged fields


@pytest.mark.parametrize("version", [4, 12, 15, 17])
def test_nobody_fetches_in_the_name_of_a_broker(version: int) -> None:
    """What a follower has fetched counts as copied: an acknowledged record could be on no disk."""
    state = ReplicaState(2, 0) if version >= 15 else ReplicaState()
    request = FetchRequest(replica_id=2 if version < 15 else -1, replica_state=state)
    with attacked() as listening, listening.connect() as peer:
        peer.send(encode_request(request, version, 1, "x"))
        assert peer.is_closed()
        assert listening.node.asked == []


def test_a_consumer_gets_what_it_asks_for_within_limits() -> None:
    with attacked() as listening, listening.connect() as peer:
        for most in (1000, 2**31 - 1):
            request = FetchRequest(max_bytes=most, max_wait_ms=most)
            peer.send(encode_request(request, 12, 1, "x"))
        listening.wait_for(lambda: len(listening.node.asked) == 1)
        listening.answer(0, FetchResponse())
        listening.wait_for(lambda: len(listening.node.asked) == 2)
        first, second = (asked.request for asked in listening.node.asked)
        assert isinstance(first, FetchRequest) and isinstance(second, FetchRequest)
        assert (first.max_bytes, first.max_wait_ms) == (1000, 1000)
        assert (second.max_bytes, second.max_wait_ms) == (55 * MIB, 60_000)
        listening.answer(1, FetchResponse())


METADATA = encode_request(MetadataRequest([]), 1, 1, None)[4:]  # ends with the number of topics


@pytest.mark.parametrize(
    "payload",
    [
        METADATA[:-4] + struct.pack(">i", 2**31 - 1),  # topics
        METADATA[:-4] + struct.pack(">i", -2),
        METADATA[:-4] + struct.pack(">ih", 1, 32767),  # bytes in a name
        METADATA[:-4] + struct.pack(">ih", 1, -7),
        METADATA[:8] + struct.pack(">h", 32767) + b"client",  # bytes in the client id
        METADATA[:8] + struct.pack(">h", -9) + b"client",
        struct.pack(">hhih", 18, 3, 1, -1) + b"\xff" * 11,  # tagged fields
        struct.pack(">hhih", 18, 3, 1, -1) + b"\x00" + b"\xff\xff\xff\xff\x0f" + b"name",
        METADATA[:-4] + struct.pack(">ih", 1, 2) + b"\xff\xfe",  # not UTF-8
    ],
)
def test_lengths_that_lie_end_the_connection(payload: bytes) -> None:
    with attacked() as listening, listening.connect() as peer:
        peer.send(sized(len(payload), payload))
        assert peer.is_closed()
        assert listening.node.asked == []


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        bytes.fromhex("160301020001 0001fc0303") + bytes(600),  # a TLS hello
        b"\n" * 5_000,
        bytes(5_000),
        b"\xff" * 5_000,
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ],
    ids=["HTTP", "TLS", "newlines", "zeros", "ones", "SSH"],
)
def test_garbage_ends_the_connection(garbage: bytes) -> None:
    with attacked() as listening, listening.connect() as peer:
        peer.send(garbage)
        assert peer.is_closed()


def test_random_bytes_reach_nobody() -> None:
    random = Random(5)
    with attacked() as listening:
        for _ in range(100):
            with listening.connect() as peer:
                try:
                    data = random.randbytes(random.randrange(4, 2_000))
                    peer.send(data if random.random() < 0.3 else sized(len(data), data))
                except ConnectionError:
                    pass  # it has already been hung up on
        listening.wait_for(lambda: listening.listener.connection_count == 0)
        assert listening.node.asked == []


def test_what_was_asked_before_the_garbage_was_asked() -> None:
    with attacked() as listening, listening.connect() as peer:
        peer.send(encode_request(HeartbeatRequest("g"), 4, 1, "x") + sized(-5))
        assert peer.is_closed()
        listening.wait_for(lambda: len(listening.node.asked) == 1)
        listening.answer(0, HeartbeatResponse())  # to nobody


# ── memory ──


@contextmanager
def traced() -> Iterator[list[int]]:
    """The most memory that was used meanwhile, once it is over."""
    gc.collect()
    found: list[int] = []
    tracemalloc.start()
    try:
        yield found
    finally:
        found.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


def test_a_frame_that_is_only_announced_costs_nothing() -> None:
    header = struct.pack(">hhi", ProduceRequest.API_KEY, 9, 1)
    with attacked() as listening, ExitStack() as stack:
        peers = [stack.enter_context(listening.connect()) for _ in range(200)]
        with traced() as most:
            for peer in peers:
                peer.send(sized(100 * MIB, header))
            expected = len(peers) * (4 + len(header))
            listening.wait_for(lambda: listening.listener.traffic.bytes_in == expected)
        assert most[0] < len(peers) * 10 * KIB
        assert listening.listener.held_bytes == expected


def test_a_client_that_has_sent_large_frames_may_announce_little_more() -> None:
    """It has shown that it fills what it is given; so it is given 1 MiB in advance, and counted."""
    with attacked() as listening, listening.connect() as peer:
        peer.send(encode_request(SaslAuthenticateRequest(bytes(3 * MIB // 2)), 2, 1, "x"))
        listening.wait_for(lambda: len(listening.node.asked) == 1)
        listening.answer(0, SaslAuthenticateResponse())
        peer.frame()
        peer.send(sized(100 * MIB, struct.pack(">hhi", ProduceRequest.API_KEY, 9, 1)))
        listening.wait_for(lambda: listening.listener.held_bytes > 0)
        assert listening.listener.held_bytes == MIB


def test_who_does_not_take_answers_is_not_read_from_any_more() -> None:
    limits = Limits(answer_bytes_waiting=256 * KIB)
    request = encode_request(SaslAuthenticateRequest(b"x"), 2, 1, "x")
    answer = SaslAuthenticateResponse(auth_bytes=bytes(32 * KIB))
    with attacked(ListenerConfig(limits=limits)) as listening, listening.connect() as peer:
        listening.node.at_once[SaslAuthenticateRequest] = answer
        peer.socket.setblocking(False)
        sent = 0

        def is_stuck() -> bool:
            nonlocal sent
            try:
                while True:
                    sent += peer.socket.send(request * 100)
            except BlockingIOError:
                pass
            before = listening.listener.traffic.bytes_in
            listening.call(lambda: None)
            return listening.listener.held_bytes >= 256 * KIB and (
                listening.listener.traffic.bytes_in == before
            )

        with traced() as most:
            wait_for(is_stuck, "nothing to be read any more")
            stuck_at = listening.listener.traffic.bytes_in
            for _ in range(50):
                assert is_stuck()
        assert listening.listener.traffic.bytes_in == stuck_at < sent
        assert most[0] < 6 * MIB  # several requests are answered in a row before anybody looks
        # Negative control: who takes them is read from again.
        peer.socket.settimeout(10)
        taken = 0
        while listening.listener.traffic.bytes_in == stuck_at:
            taken += len(peer.socket.recv(1 << 16))
        assert taken > 0


def test_answers_that_wait_for_their_turn_count_too() -> None:
    """The first request is never answered; what is behind it must not pile up."""
    limits = Limits(answer_bytes_waiting=64 * KIB, requests_under_way=10_000)
    request = encode_request(ApiVersionsRequest("sexton", "1"), 4, 1, "x")
    config = ListenerConfig(limits=limits, connections_setup_max_ms=300)
    with attacked(config) as listening, listening.connect() as peer:
        peer.send(encode_request(HeartbeatRequest("g"), 4, 1, "x") + request * 5_000)
        counted = listening.listener.traffic.by_api.setdefault("ApiVersionsRequest", Requests())
        before = -1

        def is_stuck() -> bool:
            nonlocal before
            before, now = counted.answered, before
            return counted.answered == now > 0

        for _ in range(20):
            listening.wait_for(is_stuck)
        assert listening.listener.held_bytes < 250 * KIB
        assert 64 * KIB // 1000 < counted.answered < 500


def test_one_fetch_waits_at_a_time() -> None:
    """Negative control: other requests do not hold up what is behind them."""
    fetch = encode_request(FetchRequest(max_wait_ms=10_000), 12, 1, "x")
    with attacked() as listening, listening.connect() as peer:
        peer.send(encode_request(HeartbeatRequest("g"), 4, 1, "x") + fetch * 60)
        listening.wait_for(lambda: len(listening.node.asked) == 2)
        for number in range(1, 25):
            assert len(listening.node.asked) == number + 1
            listening.answer(number, FetchResponse())
            listening.wait_for(lambda: len(listening.node.asked) == number + 2)  # noqa: B023
        peer.socket.close()
        # While it waits, its end is noticed; and the broker is told what need not wait any more.
        listening.wait_for(lambda: len(listening.node.left) == 2)
        assert listening.node.left == [
            listening.node.asked[0].caller,
            listening.node.asked[-1].caller,
        ]
        assert listening.listener._per_address == {}


def test_nobody_has_many_requests_handled_in_a_row() -> None:
    """Another client's request is handled long before the last one of a flood."""
    flood = encode_request(ApiVersionsRequest("flood", "1"), 4, 1, "x") * 1_500
    with attacked() as listening, listening.connect() as peer, listening.connect() as other:
        listening.call(lambda: listening.listener.hold(True))
        peer.send(flood)
        other.send(encode_request(HeartbeatRequest("g"), 4, 1, "x"))
        counted = listening.listener.traffic.by_api.setdefault("ApiVersionsRequest", Requests())
        handled: list[int] = []
        deliver = listening.switchboard.deliver

        def watched(host: Host, event: Event) -> None:
            if isinstance(event, Asked) and isinstance(event.request, HeartbeatRequest):
                handled.append(counted.answered)
            deliver(host, event)

        listening.switchboard.deliver = watched  # type: ignore[method-assign]
        listening.call(lambda: listening.listener.hold(False))
        listening.wait_for(lambda: len(handled) == 1)
        assert handled[0] <= 200
        for _ in range(1_500):
            peer.frame()


def test_the_heaviest_goes_when_all_together_hold_too_much() -> None:
    config = ListenerConfig(connections_max_memory_bytes=8 * MIB)
    header = struct.pack(">hhi", ProduceRequest.API_KEY, 9, 1)
    with attacked(config) as listening, ExitStack() as stack:
        modest = stack.enter_context(listening.connect())
        modest.send(encode_request(HeartbeatRequest("g"), 4, 5, "x"))
        listening.wait_for(lambda: len(listening.node.asked) == 1)
        heavy = [stack.enter_context(listening.connect()) for _ in range(4)]
        for peer in heavy:
            try:
                peer.send(sized(90 * MIB, header + bytes(5 * MIB)))
            except ConnectionError:
                pass
        listening.wait_for(lambda: listening.listener.traffic.heaviest >= 3, "three to go")
        # On its own thread: while the fourth goes, another thread could see what it still holds.
        assert listening.call(lambda: listening.listener.held_bytes) <= 8 * MIB
        listening.answer(0, HeartbeatResponse())
        assert len(modest.frame()) > 4


def test_a_flood_without_answers_waits_in_the_kernel() -> None:
    """Nobody answers acks=0, so nothing but the queue itself can hold such a client back."""
    request = encode_request(ProduceRequest(transactional_id="x" * 1000, acks=0), 9, 1, None)
    with attacked() as listening, listening.connect() as peer:
        longest = 0
        deliver = listening.switchboard.deliver

        def watched(host: object, event: object) -> None:
            nonlocal longest
            deliver(host, event)  # type: ignore[arg-type]
            longest = max(longest, listening.switchboard.queued)

        listening.switchboard.deliver = watched  # type: ignore[method-assign]
        listening.switchboard._scheduled = True  # a long queue, as when many talk at once
        peer.socket.settimeout(0.3)
        try:
            while True:
                peer.send(request * 100)
        except TimeoutError:
            pass
        assert 1_000 < longest <= 4_096 + 1
        listening.call(listening.switchboard._work)
        listening.wait_for(lambda: listening.switchboard.queued == 0)
        listening.node.asked.clear()


# ── connections ──


def test_a_flood_of_connections_is_turned_away() -> None:
    config = ListenerConfig(max_connections_per_ip=20, connections_setup_max_ms=400)
    with attacked(config) as listening, ExitStack() as stack:
        ordinary = stack.enter_context(listening.connect())
        ordinary.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse)
        flood = [stack.enter_context(listening.connect()) for _ in range(100)]
        listening.wait_for(lambda: listening.listener.traffic.turned_away == 81)
        assert listening.listener.connection_count == 20
        ordinary.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse)
        for peer in flood:  # those who got in have said nothing, and go
            assert peer.is_closed()
        assert listening.listener.traffic.idled == 19
        ordinary.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse)


def test_there_are_only_so_many_connections() -> None:
    with attacked(ListenerConfig(max_connections=3)) as listening, ExitStack() as stack:
        peers = [stack.enter_context(listening.connect()) for _ in range(5)]
        listening.wait_for(lambda: listening.listener.traffic.turned_away == 2)
        assert [peer.is_closed() for peer in peers[3:]] == [True, True]


def test_a_request_that_never_ends_is_not_waited_for() -> None:
    config = ListenerConfig(connections_setup_max_ms=300)
    with attacked(config) as listening, listening.connect() as peer:
        peer.send(sized(50 * MIB, struct.pack(">hhi", ProduceRequest.API_KEY, 9, 1)))
        while listening.listener.connection_count:
            try:
                peer.send(b"x")  # it is heard of all the time
            except ConnectionError:
                break
        assert peer.is_closed()
        assert listening.listener.traffic.idled == 1


def test_an_idle_connection_is_closed_and_one_that_is_owed_an_answer_is_not() -> None:
    config = ListenerConfig(connections_max_idle_ms=200)
    with attacked(config) as listening, ExitStack() as stack:
        idle, owed = (stack.enter_context(listening.connect()) for _ in range(2))
        idle.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse)
        owed.send(encode_request(HeartbeatRequest("g"), 4, 1, "x"))
        assert idle.is_closed()
        listening.wait_for(lambda: listening.listener.connection_count == 1)
        listening.answer(0, HeartbeatResponse())
        owed.frame()
        assert owed.is_closed()


def test_connections_of_a_paused_broker_are_not_idle() -> None:
    config = ListenerConfig(connections_max_idle_ms=200, connections_setup_max_ms=200)
    with attacked(config) as listening, listening.connect() as peer:
        peer.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse)
        listening.call(listening.host.pause)
        listening.call(lambda: listening.listener.hold(True))
        peer.socket.settimeout(0.6)
        with pytest.raises(TimeoutError):
            peer.socket.recv(1)
        peer.socket.settimeout(10)
        listening.call(listening.host.resume)
        listening.call(lambda: listening.listener.hold(False))
        peer.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse)


def test_those_who_reset_their_connections_leave_nothing_behind() -> None:
    request = encode_request(SaslAuthenticateRequest(bytes(100)), 2, 1, "x")
    with attacked() as listening:
        for number in range(100):
            peer = listening.connect()
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if number % 2:
                peer.send(request * 3)
            peer.socket.close()
        listening.wait_for(lambda: listening.listener.connection_count == 0)
        for number in range(len(listening.node.asked)):
            listening.answer(number, SaslAuthenticateResponse(auth_bytes=bytes(10_000)))
        listening.wait_for(lambda: listening.listener.held_bytes == 0)


def test_a_reset_while_answers_wait_is_no_error() -> None:
    with attacked() as listening:
        peer = listening.connect()
        peer.send(encode_request(SaslAuthenticateRequest(b""), 2, 1, "x"))
        listening.wait_for(lambda: len(listening.node.asked) == 1)
        listening.answer(0, SaslAuthenticateResponse(auth_bytes=bytes(20 * MIB)))
        assert listening.listener.held_bytes > MIB
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.socket.close()


def test_when_no_descriptors_are_left_those_who_are_in_are_served() -> None:
    with attacked() as listening, listening.connect() as peer:
        peer.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        late = [socket.socket() for _ in range(5)]
        lowest = os.open(Path(__file__), os.O_RDONLY)  # the next one the kernel would give
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
            for each in late:
                each.connect(("127.0.0.1", listening.listener.port))
            for _ in range(100):
                peer.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse)
            assert listening.listener.traffic.connections == 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            os.close(lowest)
        listening.wait_for(lambda: listening.listener.traffic.connections == 6, "the late ones")
        for each in late:
            each.close()


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the kernel tells elsewhere")
def test_five_thousand_idle_connections_take_little() -> None:
    number = 5_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * number + 500:
        pytest.skip(f"only {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with attacked() as listening, ExitStack() as stack:
            request = encode_request(ApiVersionsRequest("x", "1"), 4, 1, "x")
            gc.collect()
            before = resident_bytes()
            peers: list[Peer] = []
            for _ in range(number):
                peers.append(stack.enter_context(listening.connect()))
                peers[-1].send(request)
            for peer in peers:
                peer.frame()
            gc.collect()
            grown = resident_bytes() - before
            print(f"{grown / number / KIB:.1f} KiB each, with the client's side")
            assert listening.listener.connection_count == number
            assert grown < number * 8 * KIB
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
