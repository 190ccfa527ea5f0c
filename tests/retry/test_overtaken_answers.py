"""A leader is slow to say where its log begins or ends, and a partition has begun meanwhile.

librdkafka takes an answer that a seek has overtaken as none: it asks again, and goes to where the
next answer says (its issue 2256). If that was the end, whatever had come since the start would
never be handled, and nobody would be told.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sexton.node.list_offsets import ListOffsets
from sexton.protocol.messages.list_offsets import ListOffsetsRequest
from sexton.retry import OrderedRetry
from sexton.testing import EmbeddedCluster
from tests.retry.harness import OUT, Flaky, committed, send

LOOK_AGAIN_MS = 10
ROUNDS = 8  # librdkafka asks again after half a second, and fetches nothing meanwhile


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, librdkafka is told no offsets of the main topic."""
    event = threading.Event()
    find = ListOffsets.handle

    def handle(self: Any, caller: Any, request: ListOffsetsRequest, version: int) -> None:
        is_theirs = caller.connection.client_id == "rdkafka"
        names = [topic.name for topic in request.topics]
        if is_theirs and names == ["orders"] and not event.is_set():
            later = self._site.outside.after
            later(LOOK_AGAIN_MS, lambda: handle(self, caller, request, version))
            return
        find(self, caller, request, version)

    monkeypatch.setattr(ListOffsets, "handle", handle)
    yield event
    event.set()


@pytest.mark.parametrize("settings", [{}, {"partition.assignment.strategy": "range"},
    {"group.protocol": "consumer"}, {"auto.offset.reset": "latest"}],
    ids=["cooperative", "eager", "KIP-848", "latest"])  # fmt: skip
def test_what_comes_while_a_leader_is_slow_is_handled(
    overtaken: threading.Event, settings: dict[str, Any]
) -> None:
    with EmbeddedCluster(brokers=1) as kafka:
        servers = kafka.bootstrap_servers
        for topic in ("orders", OUT):
            kafka.create_topic(topic, 1)
        with OrderedRetry(
            Flaky(frozenset()), topic="orders", group="g", bootstrap_servers=servers,
            settings=settings,
        ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
            retry.wait_until_ready()
            overtaken.set()
            for number in range(ROUNDS):
                send(servers, "orders", keys=1, numbers=[number])
                assert len(outputs.until(number + 1)) == number + 1
