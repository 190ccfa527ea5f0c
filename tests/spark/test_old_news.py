"""A broker has not heard yet that a topic was deleted and made again: what is planned by it?

No Spark is needed to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.topology import Topology
from sexton.spark import asking, planning
from sexton.spark.loss import DataLoss
from sexton.spark.options import SourceOptions, parse
from sexton.spark.planning import plan_ranges, with_client
from sexton.spark.streaming import SextonStreamReader
from sexton.testing.embedded import EmbeddedCluster

RECORDS = 7


def options_for(cluster: EmbeddedCluster, topic: str) -> SourceOptions:
    where = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    return parse({**where, "startingOffsets": "earliest"}, streaming=True)


def made_again(cluster: EmbeddedCluster, topic: str) -> tuple[Topology, Topology]:
    """What brokers said of a topic, and say now; now there are RECORDS in it."""
    cluster.create_topic(topic, [[1, 2]])
    before = told_of(cluster, topic)
    cluster.delete_topic(topic)
    cluster.create_topic(topic, [[1, 2]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for _ in range(RECORDS):
        producer.produce(topic, b"v", partition=0)
    assert producer.flush(30) == 0
    return before, told_of(cluster, topic)


def told_of(cluster: EmbeddedCluster, topic: str) -> Topology:
    async def look() -> Topology:
        async with Client(cluster.bootstrap_servers) as client:
            return await client.topology([topic])

    return asyncio.run(look())


def first_hear(monkeypatch: pytest.MonkeyPatch, news: Topology, times: int = 1) -> None:
    """So often, whoever plans is told these news."""
    left = times

    class Behind(Client):
        async def topology(self, topics: Iterable[str] | None = None) -> Topology:
            nonlocal left
            left -= 1
            return news if left >= 0 else await super().topology(topics)

    monkeypatch.setattr(planning, "Client", Behind)


def stands(topology: Topology, topic: str, offset: int) -> dict[str, Any]:
    return {topic: {"id": topology.topic(topic).topic_id.hex(), "0": offset}}


def test_old_news_do_not_end_a_stream_of_the_topic_that_is_there(
    three: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, now = made_again(three, "planned-anew")
    first_hear(monkeypatch, before, times=2)
    reader = SextonStreamReader(options_for(three, "planned-anew"))
    end = reader.latestOffset(stands(now, "planned-anew", 3), ReadAllAvailable())
    leader_epoch = now.place(TopicPartition("planned-anew", 0)).leader_epoch
    assert end["planned-anew"].pop("epochs") == {"0": leader_epoch}
    assert end == stands(now, "planned-anew", RECORDS)


def test_offsets_of_a_new_topic_are_not_taken_for_the_old_ones(
    three: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "NEWS_MS", 200)  # it is true, and all brokers say so
    before, _ = made_again(three, "planned-old")
    first_hear(monkeypatch, before)
    reader = SextonStreamReader(options_for(three, "planned-old"))
    with pytest.raises(DataLoss, match="planned-old was deleted and made again"):
        reader.latestOffset(stands(before, "planned-old", 3), ReadAllAvailable())


def test_a_query_that_begins_means_the_topic_that_is_there(
    three: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, now = made_again(three, "begun-anew")
    options = options_for(three, "begun-anew")
    first_hear(monkeypatch, before)
    (wanted,) = asyncio.run(with_client(options, lambda client: plan_ranges(client, options)))
    assert wanted.topic_id == now.topic("begun-anew").topic_id
    first_hear(monkeypatch, before)
    assert SextonStreamReader(options).initialOffset() == stands(now, "begun-anew", 0)
