"""A handler that does not come back holds up its whole instance: people are told where it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from sexton.retry import OrderedRetry, watching
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import PATIENCE_S


def send(servers: str, value: bytes, partition: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("orders", value, value, partition)
    assert producer.flush(PATIENCE_S) == 0


class Hanging:
    """Comes back from `hang` when it may."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.handled: list[bytes] = []

    def one(self, message: Any) -> None:
        if message.value == b"hang":
            assert self.may_go.wait(PATIENCE_S)
        self.handled.append(message.value)

    def many(self, messages: list[Any]) -> None:
        for message in messages:
            self.one(message)

    async def awaited(self, message: Any) -> None:
        await asyncio.to_thread(self.one, message)

    async def many_awaited(self, messages: list[Any]) -> None:
        await asyncio.to_thread(self.many, messages)


KINDS: dict[str, tuple[Callable[[Hanging], Any], dict[str, Any]]] = {
    "one by one": (lambda hanging: hanging.one, {}),
    "by many workers": (lambda hanging: hanging.one, {"workers": 8}),
    "in lists": (lambda hanging: hanging.many, {"batch": True}),
    "awaited": (lambda hanging: hanging.awaited, {"workers": 8}),
    "awaited in lists": (lambda hanging: hanging.many_awaited, {"batch": True}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_who_does_not_come_back_is_told_of(
    kafka: EmbeddedCluster,
    kind: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "SLOW_S", 0.5)
    kafka.create_topic("orders", 2)
    servers, hanging = kafka.bootstrap_servers, Hanging()
    handler, how = KINDS[kind]
    with OrderedRetry(
        handler(hanging), topic="orders", group="g", bootstrap_servers=servers, **how
    ) as retry:
        retry.wait_until_ready()
        send(servers, b"hang", 0)
        until(lambda: caplog.text.count("orders-0-0: the handler has been at it") > 1, "told twice")
        slow, other = sorted(retry.standings, key=lambda standing: standing.partition)
        assert slow.handling_s > 0.5 and other.handling_s == 0
        assert 'sexton_retry_handling_seconds{topic="orders",group="g",partition="0"}' in (
            retry.metrics()
        )
        hanging.may_go.set()
        send(servers, b"next", 1)
        until(lambda: hanging.handled == [b"hang", b"next"], "it goes on", PATIENCE_S)
        until(lambda: not any(each.handling_s for each in retry.standings), "nothing runs")


def test_a_message_that_failed_and_hangs_in_its_retry_is_told_of(
    kafka: EmbeddedCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SLOW_S", 0.5)
    kafka.create_topic("orders", 1)
    servers, hanging = kafka.bootstrap_servers, Hanging()

    def handle(message: Any) -> None:
        if not message.attempts:
            raise ValueError("not yet")
        hanging.one(message)

    with OrderedRetry(handle, topic="orders", group="g", bootstrap_servers=servers):
        send(servers, b"hang", 0)
        until(lambda: "orders-0-0: the handler has been at it" in caplog.text, "told", PATIENCE_S)
        hanging.may_go.set()
        until(lambda: hanging.handled == [b"hang"], "it is handled", PATIENCE_S)
