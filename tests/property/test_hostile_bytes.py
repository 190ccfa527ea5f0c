"""Whatever comes over a connection, in whatever pieces: requests that are answered, or the end.

The bytes are real requests, cut, mangled, repeated and mixed with others; a connection is judged by
a simpler reader that has all bytes at once. Nothing may be logged as an error: that is how a
connection says that it did not expect something.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sexton.base.errors import PeerError
from sexton.broker.connection import Connection, Slot
from sexton.broker.inbox import Inbox
from sexton.broker.limits import Limits, Shared
from sexton.broker.stream import Stream
from sexton.node import apis
from sexton.node.outside import Asked, Event
from sexton.protocol import decode_request, encode_request, registry
from sexton.protocol.frames import UnsupportedRequest, correlation_id
from sexton.protocol.messages.api_versions import ApiVersionsRequest
from sexton.protocol.messages.fetch import FetchRequest, FetchResponse
from sexton.protocol.messages.produce import ProduceRequest
from sexton.protocol.wire import Buffer
from tests.kafka_messages import mangled, random_message

LIMITS = Limits(socket_request_max_bytes=300_000, other_request_max_bytes=200_000)


class Pieces:
    """A stream that is not there: what is sent is kept, what is read comes in given pieces."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sent = b""
        self.reading = True
        self.closed = False
        self.waiting_bytes = 0
        self.peer_has_gone = False
        connection.attach(self)

    def send(self, parts: list[Buffer]) -> None:
        self.sent += b"".join(bytes(part) for part in parts)

    def pause(self) -> None:
        self.reading = False

    def resume(self) -> None:
        self.reading = True

    def close(self) -> None:
        if not self.closed:
            self.closed, self.reading = True, False
            self.connection.lost()

    def come(self, data: bytes, sizes: Iterator[int]) -> None:
        at = 0
        while at < len(data) and self.reading:
            buffer = self.connection.get_buffer(-1)
            assert len(buffer) > 0
            count = min(len(buffer), next(sizes), len(data) - at)
            buffer[:count] = data[at : at + count]
            self.connection.buffer_updated(count)
            at += count


class Unexpected(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            raise AssertionError(record.getMessage()) from (record.exc_info or (None, None))[1]


@contextmanager
def nothing_unexpected() -> Iterator[None]:
    handler, logger = Unexpected(), logging.getLogger("sexton.broker")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def frames(data: bytes) -> Iterator[bytes]:
    """As a reader would find them who has everything at once; ends where it would hang up."""
    at = 0
    while at + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, at)
        if not 0 <= size <= LIMITS.socket_request_max_bytes or at + 4 + size > len(data):
            return
        payload = data[at + 4 : at + 4 + size]
        key = struct.unpack_from(">h", payload)[0] if size >= 2 else 0
        if size > LIMITS.other_request_max_bytes and key != ProduceRequest.API_KEY:
            return
        yield payload
        at += 4 + size


def expected(data: bytes) -> tuple[list[int], list[type]]:
    """The numbers of the requests that are answered, and what a broker is asked."""
    answered: list[int] = []
    asked: list[type] = []
    for payload in frames(data):
        try:
            header, request = decode_request(payload)
        except UnsupportedRequest as error:
            if error.api_key != ApiVersionsRequest.API_KEY:
                break
            answered.append(error.correlation_id)
            continue
        except PeerError:
            break
        kind, version = type(request), header.request_api_version
        if isinstance(request, FetchRequest) and (
            request.replica_id >= 0 or request.replica_state.replica_id >= 0
        ):
            break
        wants_none = isinstance(request, ProduceRequest) and request.acks == 0
        if apis.offers(kind, version):
            asked.append(kind)
            if not wants_none:
                answered.append(header.correlation_id)
        elif wants_none or not hasattr(registry.find(kind.API_KEY).response(), "error_code"):  # type: ignore[union-attr]
            break
        else:
            answered.append(header.correlation_id)
    return answered, asked


def hostile(random: Random) -> bytes:
    out = b""
    for number in range(random.randrange(1, 12)):
        api = random.choice(registry.apis())
        version = random.choice(list(api.versions))
        frame = encode_request(
            random_message(api.request, version, random), version, number, "hypothesis"
        )
        match random.randrange(8):
            case 0:
                payload = mangled(random, frame[4:])
                frame = struct.pack(">i", len(payload)) + payload
            case 1:
                frame = mangled(random, frame)
            case 2:
                big = ProduceRequest(transactional_id="x" * 30_000, acks=-1)
                payload = encode_request(big, 9, number, None)[4:] + random.randbytes(
                    random.choice((0, 35_600, 70_000, 250_000, 300_000))
                )
                frame = struct.pack(">i", len(payload)) + payload
            case 3:
                frame = struct.pack(">i", random.choice((-1, 0, 7, 100, 299_999, 2**31 - 1)))
            case _:
                pass
        out += frame
    return out


@given(st.integers(0, 2**63), st.lists(st.integers(1, 70_000), min_size=1, max_size=20))
@example(0, [1])
def test_any_bytes_in_any_pieces(seed: int, sizes: list[int]) -> None:
    judge(Connection, seed, sizes)


class LosesBytes(Inbox):
    def _begin_large(self, first: int, size: int) -> None:
        super()._begin_large(first, size)
        if self._large_filled > 60_000:
            self._large = bytearray(len(self._large or b""))


class Forgetful(Connection):
    """Loses what it has read of a frame that lies across the end of its buffer."""

    def attach(self, stream: Stream) -> None:
        super().attach(stream)
        self._inbox = LosesBytes(self._shared.scratch)


class Hasty(Connection):
    """Answers when it can, not when it is its turn."""

    def ready(self, slot: Slot) -> None:
        self._slots.remove(slot)
        self._slots.appendleft(slot)
        super().ready(slot)


@pytest.mark.parametrize("broken", [Forgetful, Hasty])
def test_a_broken_connection_would_be_noticed(broken: type[Connection]) -> None:
    def is_noticed(seed: int) -> bool:
        try:
            judge(broken, seed, [50_000])
        except AssertionError:
            return True
        return False

    assert any(is_noticed(seed) for seed in range(100))


def judge(kind: type[Connection], seed: int, sizes: list[int]) -> None:
    data = hostile(Random(seed))
    asked: list[Asked] = []

    def deliver(event: Event) -> None:
        if not isinstance(event, Asked):
            return  # it was asked for, and nobody waits any more
        asked.append(event)
        if isinstance(event.request, FetchRequest):  # it holds up what is behind it
            event.caller.answer(FetchResponse())  # type: ignore[attr-defined]

    ended: list[Connection] = []
    shared = Shared()
    connection = kind("hypothesis", LIMITS, deliver, ended.append, shared=shared)
    stream = Pieces(connection)

    def pieces() -> Iterator[int]:
        while True:
            yield from sizes

    with nothing_unexpected():
        stream.come(data, pieces())
        answered, kinds = expected(data)
        assert [type(each.request) for each in asked] == kinds
        wanted = [each for each in asked if type(each.caller).__name__ == "Slot"]
        if not stream.closed:
            for each in Random(seed).sample(wanted, len(wanted)):
                api = registry.find(each.request.API_KEY)  # type: ignore[attr-defined]
                assert api is not None
                each.caller.answer(api.response())  # type: ignore[attr-defined]
            numbers = [correlation_id(payload) for payload in _answers(stream.sent)]
            assert numbers == answered
        stream.close()
    assert ended == [connection]
    assert shared.held_bytes == 0
    for each in asked:  # too late: nothing happens
        if type(each.caller).__name__ == "Slot":
            each.caller.answer(None)  # type: ignore[attr-defined]


def _answers(sent: bytes) -> Iterator[bytes]:
    while sent:
        (size,) = struct.unpack_from(">i", sent)
        yield sent[4 : 4 + size]
        sent = sent[4 + size :]
