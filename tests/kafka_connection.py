"""One connection to a Kafka broker, for tests that want to say exactly what is sent."""

from __future__ import annotations

import socket
import struct
from typing import Any, Self, TypeVar

from sexton.protocol import decode_response, encode_request
from sexton.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sexton.protocol.wire import Response

R = TypeVar("R", bound=Response)

GROUP, TRANSACTION = 0, 1  # the kinds of coordinator


class Connection:
    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.stream = self.socket.makefile("rb")
        self.sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        self.socket.close()

    def send(self, request: Any, version: int, kind: type[R]) -> R:
        """One request, and its answer."""
        self.sent += 1
        self.socket.sendall(encode_request(request, version, self.sent, "sexton"))
        (size,) = struct.unpack(">i", self.stream.read(4))
        correlation_id, response = decode_response(kind, self.stream.read(size), version)
        assert correlation_id == self.sent
        return response

    def has_coordinator(self, name: str, kind: int) -> bool:
        """Whether there is one; asking makes the broker create its topic."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
        return not self.send(request, 4, FindCoordinatorResponse).coordinators[0].error_code
