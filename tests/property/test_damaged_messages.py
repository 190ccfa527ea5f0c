"""Whatever bytes arrive, they are a message or a PeerError, soon and in little memory.

A message that was read from damaged bytes is as good as any: it can be written, and comes back.
Tests in tests/interop compare with what Kafka reads in such bytes.
"""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sexton.base.errors import PeerError
from sexton.protocol import decode, decode_request, encode, encode_request, registry
from sexton.protocol.wire import Message
from tests.kafka_messages import kafkas_classes, mangled, random_message

KINDS: list[type[Message]] = [kind for kind, _ in kafkas_classes()]
EVERY = [(kind, version) for kind in KINDS for version in kind.VALID_VERSIONS]
TIMES = max(1, settings().max_examples // 20)


def read(kind: type[Any], data: bytes | memoryview, version: int) -> Any:
    try:
        return decode(kind, data, version)
    except PeerError as error:
        return error


def judge(kind: type[Any], data: bytes, version: int) -> bool:
    """Whether `data` is a message. Any error but PeerError is for the test to report."""
    message = read(kind, data, version)
    if isinstance(message, PeerError):
        assert message.subject == f"{kind.__name__} v{version}"
        assert isinstance(read(kind, memoryview(data), version), PeerError)
        return False
    again = encode(message, version)
    assert len(again) <= len(data)  # shorter where tags were unknown, or repeated, or a default
    # By their bytes, since a message with a NaN in it does not equal itself.
    assert encode(decode(kind, memoryview(data), version), version) == again
    assert encode(decode(kind, again, version), version) == again
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_mangled_message_is_a_message_or_a_peer_error(kind: type[Message]) -> None:
    random = Random(kind.__name__)
    for version in kind.VALID_VERSIONS:
        for _ in range(TIMES):
            data = encode(random_message(kind, version, random), version)
            assert judge(kind, data, version)
            judge(kind, mangled(random, data), version)


@pytest.mark.parametrize("kind", KINDS)
def test_every_cut_is_noticed(kind: type[Message]) -> None:
    random = Random(kind.__name__)
    for version in kind.VALID_VERSIONS:
        data = encode(random_message(kind, version, random), version)
        for size in random.sample(range(len(data)), min(len(data), 20)):
            assert not judge(kind, data[:size], version)
        assert not judge(kind, data + b"\0", version)


@given(st.sampled_from(EVERY), st.binary(max_size=200))
@settings(max_examples=10 * settings().max_examples)
def test_any_bytes_are_a_message_or_a_peer_error(
    what: tuple[type[Message], int], data: bytes
) -> None:
    kind, version = what
    judge(kind, data, version)


@given(st.binary(max_size=100))
@example(bytes(8))
def test_any_bytes_are_a_request_or_a_peer_error(data: bytes) -> None:
    for start in (b"", b"\0\x12\0\x03", b"\0\x01\0\x0c", b"\0\0\0\x09"):
        try:
            decode_request(start + data)
        except PeerError:
            pass


def test_mangled_requests_are_requests_or_peer_errors() -> None:
    random = Random(5)
    for api in registry.apis():
        for version in api.versions:
            message = random_message(api.request, version, random)
            payload = encode_request(message, version, 7, "client")[4:]
            for _ in range(5):
                try:
                    decode_request(mangled(random, payload))
                except PeerError:
                    pass


@pytest.mark.parametrize("fill", [0x00, 0x01, 0x02, 0x7F, 0xFF])
def test_memory_stays_a_small_multiple_of_the_message(fill: int) -> None:
    data = bytes([fill]) * 50_000
    for kind, version in EVERY[:: max(1, 100 // TIMES)]:
        judge(kind, data, version)  # compiles
        tracemalloc.start()
        try:
            judge(kind, data, version)
            assert tracemalloc.get_traced_memory()[1] < 60 * len(data)
        finally:
            tracemalloc.stop()
