"""Does a client wait longer for an answer than it lets a broker take?

Else it hangs up while the broker still waits, for replicas say, and never hears for what.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from sexton.base.partitions import TopicPartition
from sexton.client.admin import create_topic, delete_topic, elect, reassign
from sexton.client.appending import append
from sexton.client.client import Client
from sexton.client.connection import ClientConfig, Connection
from sexton.client.producing import BatchSender
from sexton.client.transacting import init_producer_id
from sexton.records.columns import Spans
from sexton.records.encoder import encode, rows
from sexton.stores.producing import TaskProducer
from sexton.testing.embedded import EmbeddedCluster

AT = TopicPartition("t", 0)
REQUESTS = {
    "CreateTopicsRequest", "ProduceRequest", "ElectLeadersRequest",
    "AlterPartitionReassignmentsRequest", "DeleteTopicsRequest",
}  # fmt: skip


@pytest.fixture
def given_ms(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """How long each request lets its broker take."""
    seen: list[tuple[str, int]] = []
    ask = Connection.ask

    async def watched(self: Connection, request: Any, *given: Any) -> Any:
        if hasattr(request, "timeout_ms"):
            seen.append((type(request).__name__, request.timeout_ms))
        return await ask(self, request, *given)

    monkeypatch.setattr(Connection, "ask", watched)
    return seen


async def each_request(config: ClientConfig, bootstrap_servers: str) -> None:
    value = Spans.from_list([b"v"])
    async with Client(bootstrap_servers, config) as client:
        await create_topic(client, AT.topic, 1, 1)
        await append(client, AT, [(b"k", b"v")])
        sender = BatchSender(client, await init_producer_id(client, "x", 60_000))
        await sender.send(AT, bytearray(encode(rows(np.array([5]), value, value))))
        await sender.flush()
        task = TaskProducer(client, "of a store", "g", 60_000)
        await task.initialise()
        await task.send({AT: [bytearray(encode(rows(np.array([6]), value, value)))]})
        await task.abort()
        await elect(client, [AT])
        await reassign(client, {AT: [1]})
        await delete_topic(client, AT.topic)


@pytest.mark.parametrize("request_timeout_ms", [30_000, 5_000])
def test_whoever_asks_waits_longer_than_a_broker_may_take(
    request_timeout_ms: int, given_ms: list[tuple[str, int]]
) -> None:
    config = ClientConfig(request_timeout_ms=request_timeout_ms)
    with EmbeddedCluster(brokers=1) as cluster:
        asyncio.run(each_request(config, cluster.bootstrap_servers))
    assert {name for name, _ in given_ms} == REQUESTS
    assert [each for each in given_ms if not 0 < each[1] < request_timeout_ms] == []
