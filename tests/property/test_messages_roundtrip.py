"""Any message of any class comes back from its bytes as it was, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.protocol import decode, encode, encode_into
from sexton.protocol.headers import RequestHeader, ResponseHeader
from sexton.protocol.wire import Buffer, Message
from tests.kafka_messages import kafkas_classes, messages

# Each example has a message of every version, so a few go a long way.
EXAMPLES = max(1, settings().max_examples // 30)
KINDS: list[type[Message]] = [kind for kind, _ in kafkas_classes()]


@pytest.mark.parametrize("kind", [*KINDS, RequestHeader, ResponseHeader])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_message_comes_back(kind: type[Any], data: st.DataObject) -> None:
    for version in kind.VALID_VERSIONS:
        message = data.draw(messages(kind, version), label=f"v{version}")
        encoded = encode(message, version)
        assert decode(kind, encoded, version) == message
        assert decode(kind, memoryview(bytearray(b"." + encoded)), version, 1) == message
        parts: list[Buffer] = []
        last = encode_into(bytearray(), message, version, parts)
        assert b"".join([*parts, last]) == encoded
