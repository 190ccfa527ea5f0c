"""An unclean election has cut a topic and it has grown since: does a stream read on, as if not?

No Spark is needed to ask. What was read last is on broker 1 alone, and broker 2 leads then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from sexton.client.epochs import parts_at
from sexton.spark import streaming
from sexton.spark.loss import DataLoss
from sexton.spark.options import parse
from sexton.spark.ranges import OffsetRange
from sexton.spark.streaming import SextonStreamReader
from sexton.testing.embedded import EmbeddedCluster
from tests.stores.unclean import changed_history

ALL = ReadAllAvailable()


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as running:
        running.create_topic("orders", [[1, 2]])
        yield running


def reader_of(cluster: EmbeddedCluster, **options: str) -> SextonStreamReader:
    where = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "orders"}
    return SextonStreamReader(parse({**where, **options}, streaming=True))


def write(cluster: EmbeddedCluster, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for _ in range(count):
        producer.produce("orders", b"v", partition=0)
    assert producer.flush(30) == 0


def read_to_6(cluster: EmbeddedCluster, reader: SextonStreamReader) -> dict[str, Any]:
    """The last three are on broker 1 alone."""
    write(cluster, 3)
    begun = reader.latestOffset({"orders": {"0": 0}}, ALL)
    cluster.kill(2)
    cluster.wait_for("orders", 0, lambda state: state.isr == (1,))
    write(cluster, 3)
    end = reader.latestOffset(begun, ALL)
    assert end["orders"]["0"] == 6
    return end


def edges_of(ranges: Sequence[InputPartition]) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in ranges if isinstance(each, OffsetRange)]


def test_other_records_at_the_same_offsets_are_noticed(cluster: EmbeddedCluster) -> None:
    """Also by a query that is started again: all is in its checkpoint."""
    reader = reader_of(cluster)
    end = read_to_6(cluster, reader)
    changed_history(cluster, "orders")
    write(cluster, 5)
    told = "orders-0: had been read up to offset 6, and its leader's log parts from that at 3"
    for each in (reader, reader_of(cluster)):
        with pytest.raises(DataLoss, match=told):
            each.latestOffset(end, ALL)
    accepting = reader_of(cluster, failOnDataLoss="false")
    assert accepting.latestOffset(end, ALL)["orders"]["0"] == 8


def test_a_batch_that_was_planned_before_is_not_read_from_another_log(
    cluster: EmbeddedCluster,
) -> None:
    """Spark runs it again, without asking how far to go: it has planned that, and died."""
    begun = {"orders": {"0": 0}}
    end = read_to_6(cluster, reader_of(cluster))
    reader = reader_of(cluster)
    assert edges_of(reader.partitions(begun, end)) == [(0, 6)]
    changed_history(cluster, "orders")
    write(cluster, 5)
    told = "orders-0: a batch was planned up to offset 6, and its leader's log parts from that at 3"
    with pytest.raises(DataLoss, match=told):
        reader_of(cluster).partitions(begun, end)
    accepting = reader_of(cluster, failOnDataLoss="false")
    assert edges_of(accepting.partitions(begun, end)) == [(0, 6)]
    del end["orders"]["epochs"]  # a control, as below
    assert edges_of(reader_of(cluster).partitions(begun, end)) == [(0, 6)]


def test_without_epochs_they_are_not(cluster: EmbeddedCluster) -> None:
    """The control: as Spark's own source keeps its offsets."""
    end = read_to_6(cluster, reader_of(cluster))
    del end["orders"]["epochs"]
    changed_history(cluster, "orders")
    write(cluster, 5)
    assert reader_of(cluster).latestOffset(end, ALL)["orders"]["0"] == 8


def test_another_leader_that_has_all_is_asked_once(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def counted(*arguments: Any) -> int | None:
        asked.append(arguments[2])
        return await parts_at(*arguments)

    monkeypatch.setattr(streaming, "parts_at", counted)
    reader = reader_of(cluster)
    write(cluster, 3)
    end = reader.latestOffset({"orders": {"0": 0}}, ALL)
    cluster.elect("orders", 0, 2)
    reader.partitions({"orders": {"0": 0}}, end)
    assert not asked  # it was planned a moment ago
    for _ in range(3):
        assert reader.latestOffset(end, ALL) == end  # no batch for that
    assert len(asked) == 1
    write(cluster, 1)
    after = reader.latestOffset(end, ALL)
    assert after["orders"]["0"] == 4
    assert after["orders"]["epochs"]["0"] > end["orders"]["epochs"]["0"]
