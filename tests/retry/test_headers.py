"""A header whose name is not UTF-8 is no reason to stop: it is shown as Java's client shows it."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from sexton.base.partitions import TopicPartition
from sexton.client.appending import append_batch
from sexton.client.client import Client
from sexton.records.columns import Spans, write_headers
from sexton.records.encoder import Encoder, rows
from sexton.retry import Message, OrderedRetry
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import AT_ONCE, committed, until_drained

SHOWN = (("trace", b"1"), ("�", b"2"))


@pytest.fixture
def servers(kafka: EmbeddedCluster) -> str:
    """Three messages of one key; the second has a name that no client of today would write."""
    kafka.create_topic("orders", 1)
    servers = kafka.bootstrap_servers

    async def write() -> None:
        async with Client(servers) as client:
            for value, name in ((b"1", b"n"), (b"2", b"\xff"), (b"3", b"n")):
                batch = _batch(b"k", value, name)
                await append_batch(client, TopicPartition("orders", 0), batch)

    asyncio.run(write())
    return servers


def _batch(key: bytes, value: bytes, name: bytes) -> bytes:
    headers = write_headers([("trace", b"1"), ("?", b"2")]).replace(b"?", name)
    columns = rows(
        np.array([1_000], np.int64),
        Spans.from_list([key]),
        Spans.from_list([value]),
        headers=Spans.from_list([headers]),
    )
    return bytes(Encoder().encode(columns).data)


@pytest.mark.parametrize("looks", [False, True])
def test_a_message_with_such_a_header_waits_and_dies_like_any_other(
    servers: str, looks: bool
) -> None:
    """Whoever asked confluent-kafka for them a second time would crash the process."""
    seen: list[Any] = []

    def handle(message: Message) -> None:
        if looks:
            assert message.header("trace") == b"1"
        if message.attempts == 0 or message.value == b"2":
            raise ValueError("not yet")
        seen.append((message.value, message.headers))

    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers, backoff=AT_ONCE,
        max_attempts=3,
    ) as retry:  # fmt: skip
        until(lambda: len(seen) == 2, "the first and the third")
        until_drained(retry)
        with committed(servers, "orders.g.dead") as letters:
            [letter] = letters.until(1)
    assert [value for value, _ in seen] == [b"1", b"3"]
    assert tuple(letter.headers() or ())[:2] == SHOWN


def test_a_function_that_tells_keys_may_look_at_them(servers: str) -> None:
    told: list[Any] = []
    seen: list[bytes] = []

    def key(polled: Any) -> bytes:
        told.append(tuple(polled.headers()))
        return bytes(polled.key())

    def handle(message: Message) -> None:
        if message.attempts == 0:
            raise ValueError("not yet")
        seen.append(message.value)

    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers, backoff=AT_ONCE, key=key
    ):
        until(lambda: len(seen) == 3, "all of them")
    assert seen == [b"1", b"2", b"3"]
    assert SHOWN in told
