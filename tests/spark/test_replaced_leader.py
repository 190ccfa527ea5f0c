"""A leader was replaced and has not heard of it: is all read that was written since?

broker 1    led, is cut off from the others, and has the first five of ten records
broker 2    leads now

No Spark is needed to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sexton.base.partitions import TopicPartition
from sexton.client.appending import append
from sexton.client.client import Client
from sexton.spark.options import parse
from sexton.spark.planning import plan_ranges, with_client
from sexton.spark.reading import read_range
from sexton.testing.embedded import EmbeddedCluster

AT = TopicPartition("t", 0)


async def write(servers: str, numbers: range) -> None:
    async with Client(servers) as client:
        for number in numbers:
            await append(client, AT, [(b"k", b"%d" % number)])


@pytest.fixture(scope="module")
def cut() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic(AT.topic, [[1, 2, 3]])
        asyncio.run(write(cluster.bootstrap_servers, range(5)))
        cluster.isolate(1)
        cluster.wait_for(AT.topic, 0, lambda state: state.leader != 1)
        servers = ",".join(cluster.address_of(node) for node in (2, 3))
        asyncio.run(write(servers, range(5, 10)))
        yield cluster


@pytest.mark.parametrize("more", [{}, {"includeTransactions": "true"}, {"failOnDataLoss": "false"}])
def test_a_replaced_leader_is_not_asked_for_the_end(
    cut: EmbeddedCluster, more: dict[str, str]
) -> None:
    where = {"kafka.bootstrap.servers": cut.bootstrap_servers, "subscribe": AT.topic}
    options = parse({**where, **more})
    ranges = asyncio.run(with_client(options, lambda client: plan_ranges(client, options)))
    batches = [batch for wanted in ranges for batch in read_range(options, wanted)]
    values = [row["value"] for batch in batches for row in batch.to_pylist()]
    assert values == [b"%d" % number for number in range(10)]
