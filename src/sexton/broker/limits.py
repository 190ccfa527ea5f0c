"""What may clients cost, each of them and all together?

Memory is bounded: what is read lands in a buffer that all connections share, and a connection keeps
the bytes that really came, not those that were announced; a client that does not take its answers
is not read from any more. What all connections of a listener hold together is counted, and when it
is too much the heaviest one goes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from sexton.broker.complaints import Complaints

log = logging.getLogger("sexton.broker.connection")

SMALL = 64 << 10  # frames up to this size pass through the shared buffer


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may cost."""

    socket_request_max_bytes: int = 100 << 20
    # Requests other than Produce; ours, not Kafka's. Small things become large ones when they are
    # decoded: a list of empty topics takes fifty times its bytes, and half a second for these.
    other_request_max_bytes: int = 2 << 20
    sasl_server_max_receive_size: int = 512 << 10  # of whoever has not said yet who they are
    # That were read and are not answered: then a connection is not read from; ours, not Kafka's.
    requests_under_way: int = 32
    # Of requests that are not answered: then a connection is not read from; ours, not Kafka's.
    request_bytes_under_way: int = 64 << 20
    # Of answers that are not taken: then a connection is not read from; ours, not Kafka's.
    answer_bytes_waiting: int = 32 << 20
    fetch_max_bytes: int = 55 << 20
    # Whatever a client asks for: its end may not have been noticed; ours, not Kafka's.
    fetch_wait_max_ms: int = 60_000


@dataclass(slots=True, eq=False)
class Shared:
    """What all connections of one listener have in common."""

    most_bytes: int = 512 << 20
    held_bytes: int = 0  # in requests that are being read or handled, and answers not yet taken
    too_much: Callable[[], None] = lambda: None  # somebody has to go
    crowded: Callable[[], bool] = lambda: False  # the broker has enough to do for now
    scratch: memoryview = field(default_factory=lambda: memoryview(bytearray(SMALL)))
    complaints: Complaints = field(default_factory=lambda: Complaints(log))

    def change(self, count: int) -> None:
        self.held_bytes += count
        if count > 0 and self.held_bytes > self.most_bytes:
            self.too_much()
