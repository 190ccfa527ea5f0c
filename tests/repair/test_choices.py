"""What a person has decided about a key is written, with all that goes with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from sexton.audit.finding import AuditFinding, Verdict
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.guard.repair_choices import Choice, publish
from sexton.records import Record, decode
from sexton.testing.embedded import EmbeddedCluster

AT = TopicPartition("orders", 0)
HEADERS = (("trace", b"1"), ("nothing", None), ("trace", b"2"))
FINDING = AuditFinding(
    "missing-record", "error", AT, (1,), "m", b"k", {1: 0}, {1: "aa"}, (),
    Verdict(None, "unknown", "gone"), None, None, "r", (),
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as started:
        started.create_topic(AT.topic, 1)
        producer = Producer({"bootstrap.servers": started.bootstrap_servers})
        producer.produce(AT.topic, b"v" * 50_000, b"k", headers=[*HEADERS])
        assert producer.flush(60) == 0
        yield started


def written(cluster: EmbeddedCluster, choice: Choice) -> Record:
    """The record that comes of it."""

    async def work() -> Record:
        async with Client(cluster.bootstrap_servers) as client:
            offset = await publish(client, choice, [FINDING])
            async for chunk in client.replica(AT, 1).read(offset):
                for record in decode(chunk.data).records():
                    if record.offset == offset:
                        return record
        raise AssertionError("it is not there")

    return asyncio.run(work())


def test_a_value_that_is_kept_keeps_its_headers(cluster: EmbeddedCluster) -> None:
    record = written(cluster, Choice(AT, b"k", keep=True, broker=1))
    assert (record.key, record.value, record.headers) == (b"k", b"v" * 50_000, HEADERS)


def test_a_tombstone_has_neither_value_nor_headers(cluster: EmbeddedCluster) -> None:
    record = written(cluster, Choice(AT, b"k", keep=False))
    assert (record.key, record.value, record.headers) == (b"k", None, ())
