"""Does a stream read every record once, over batches and restarts, and notice what it cannot?"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as AdminPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sexton.base.partitions import TopicPartition
from sexton.spark import asking
from sexton.spark.loss import DataLoss
from sexton.spark.options import parse
from sexton.spark.ranges import OffsetRange
from sexton.spark.streaming import Offsets, SextonStreamReader, _at_most, following
from sexton.testing.embedded import EmbeddedCluster

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
IDS = {"orders": b"1" * 16}


def produce(cluster: EmbeddedCluster, topic: str, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(first, end):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(30) == 0


def test_a_stream_goes_on_where_it_stopped(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    three.create_topic("flow", [[1, 2, 3], [2, 3, 1]])
    produce(three, "flow", 0, 20)
    batches: list[list[int]] = []

    def run() -> None:
        stream = (
            spark.readStream.format("sexton")
            .option("kafka.bootstrap.servers", three.bootstrap_servers)
            .option("subscribe", "flow")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "12")
            .option("columns", "value")
            .load()
        )
        query = (
            stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(lambda df, _: batches.append([int(row.value) for row in df.collect()]))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    assert sorted(chain(*batches)) == list(range(20))
    assert [len(batch) for batch in batches] == [12, 8]
    batches.clear()
    produce(three, "flow", 20, 26)
    run()
    assert sorted(chain(*batches)) == list(range(20, 26))
    three.delete_topic("flow")
    three.create_topic("flow", [[1, 2, 3], [2, 3, 1]])
    produce(three, "flow", 0, 40)  # more than before: by the offsets alone all would seem well
    with pytest.raises(StreamingQueryException, match="flow was deleted and made again"):
        run()


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"id": (b"1" * 16).hex()}, "replanned was deleted and made again"),
        ({"1": 4}, "replanned-1 is gone"),
    ],
)
def test_a_planned_batch_of_what_is_gone_since_is_a_loss_that_may_be_accepted(
    three: EmbeddedCluster,
    known: dict[str, object],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark comes with it again at each start, until it is read."""
    monkeypatch.setattr(asking, "NEWS_MS", 200)  # nobody here will hear of it
    if three.partition("replanned") is None:
        three.create_topic("replanned", [[1, 2, 3]])
    where = {"kafka.bootstrap.servers": three.bootstrap_servers, "subscribe": "replanned"}
    planned = {"replanned": known}, {"replanned": {**known, "0": 0}}
    with pytest.raises(DataLoss, match=why):
        SextonStreamReader(parse(where, streaming=True)).partitions(*planned)
    accepts = parse({**where, "failOnDataLoss": "false"}, streaming=True)
    assert SextonStreamReader(accepts).partitions(*planned) == []


# ── where the next batch ends ──


def test_a_limit_is_shared_in_proportion() -> None:
    begun = Offsets({A: 0, B: 10}, IDS)
    now = Offsets({A: 90, B: 20}, IDS)
    assert following(begun, {A: 0, B: 0}, now, None, True).next == {A: 90, B: 20}
    assert following(begun, {A: 0, B: 0}, now, 10, True).next == {A: 9, B: 11}


def test_what_was_read_before_is_no_loss_if_the_target_does_not_know_it() -> None:
    """With Trigger.AvailableNow; what is new to both is left for the next run."""
    begun, now = Offsets({A: 5}, IDS), Offsets({A: 9, B: 3}, IDS)
    for target, end in (({}, 5), ({A: 4}, 5), ({A: 7}, 7), ({A: 20}, 9)):
        wanted = _at_most(now, Offsets(target, IDS), begun)
        assert following(begun, {A: 0, B: 0}, wanted, None, True).next == {A: end}


def test_a_new_partition_is_read_from_its_beginning() -> None:
    begun, now = Offsets({A: 5}, IDS), Offsets({A: 5, B: 7}, IDS)
    assert following(begun, {A: 0, B: 0}, now, None, True).next == {A: 5, B: 7}
    with pytest.raises(DataLoss, match=r"orders-1: offsets \[0, 3\) are gone"):
        following(begun, {A: 0, B: 3}, now, None, True)
    assert following(begun, {A: 0, B: 3}, now, 2, False).next == {A: 5, B: 5}


@pytest.mark.parametrize(
    ("earliest", "now", "why"),
    [
        ({A: 6}, Offsets({A: 9}, IDS), r"orders-0: offsets \[5, 6\) are gone"),
        ({A: 0}, Offsets({A: 3}, IDS), "orders-0 ends at 3; it had been read up to offset 5"),
        ({B: 0}, Offsets({B: 3}, IDS), "orders-0 is gone; it had been read up to offset 5"),
        ({A: 0}, Offsets({A: 9}, {"orders": b"2" * 16}), "orders was deleted and made again"),
    ],
)
def test_losses_are_noticed(earliest: dict[TopicPartition, int], now: Offsets, why: str) -> None:
    with pytest.raises(DataLoss, match=why):
        following(Offsets({A: 5}, IDS), earliest, now, None, True)
    following(Offsets({A: 5}, IDS), earliest, now, None, False)  # asked to go on with what is left


def test_a_broker_without_topic_ids_does_not_make_a_topic_another() -> None:
    """As some are while a cluster is upgraded from a Kafka that has none."""
    none = {"orders": bytes(16)}
    for before, after in ((IDS, none), (none, IDS)):
        found = following(Offsets({A: 5}, before), {A: 0}, Offsets({A: 9}, after), None, True)
        assert found.next == {A: 9}


def test_offsets_survive_json() -> None:
    offsets = Offsets({A: 5, B: 0}, IDS)
    assert Offsets.from_json(offsets.to_json()) == offsets
    assert offsets.to_json() == {"orders": {"id": (b"1" * 16).hex(), "0": 5, "1": 0}}


def test_epochs_are_kept_with_the_offsets_that_leaders_named() -> None:
    begun = Offsets({A: 5, B: 3}, IDS, {A: 1, B: 1})
    now = Offsets({A: 9, B: 3}, IDS, {A: 2, B: 2})
    found = following(begun, {A: 0, B: 0}, now, None, True)
    assert found == Offsets({A: 9, B: 3}, IDS, {A: 2, B: 1})  # B has only another leader: no batch
    assert Offsets.from_json(found.to_json()) == found
    assert found.to_json() == {
        "orders": {"id": (b"1" * 16).hex(), "epochs": {"0": 2, "1": 1}, "0": 9, "1": 3}
    }


def test_a_checkpoint_of_sparks_own_source_is_taken_up() -> None:
    """It knows no ids; the next batch does."""
    spark_s = {"orders": {"0": 5, "1": 0}}
    begun, now = Offsets.from_json(spark_s), Offsets({A: 9, B: 2}, IDS)
    assert begun == Offsets({A: 5, B: 0}) and begun.to_json() == spark_s
    assert following(begun, {A: 0, B: 0}, now, 2, True) == Offsets({A: 6, B: 1}, IDS)


def test_a_batch_that_sparks_own_source_has_planned_is_read(three: EmbeddedCluster) -> None:
    three.create_topic("taken-up", [[1, 2, 3]])
    options = parse(
        {"kafka.bootstrap.servers": three.bootstrap_servers, "subscribe": "taken-up"},
        streaming=True,
    )
    reader = SextonStreamReader(options)
    (range_,) = reader.partitions({"taken-up": {"0": 3}}, {"taken-up": {"0": 8}})
    assert isinstance(range_, OffsetRange)
    assert (range_.start, range_.end, len(range_.topic_id)) == (3, 8, 16)


def test_what_retention_took_from_a_planned_batch_is_noticed(three: EmbeddedCluster) -> None:
    """Its partition was new when the batch was planned, so that nothing says where it began."""
    three.create_topic("planned", [[1, 2, 3], [2, 3, 1]])
    produce(three, "planned", 0, 12)
    admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
    for done in admin.delete_records([AdminPartition("planned", 1, 4)]).values():
        done.result(10)
    planned = {"planned": {"0": 0}}, {"planned": {"0": 6, "1": 6}}
    settings = {"kafka.bootstrap.servers": three.bootstrap_servers, "subscribe": "planned"}
    with pytest.raises(DataLoss, match=r"planned-1: offsets \[0, 4\) are gone"):
        SextonStreamReader(parse(settings, streaming=True)).partitions(*planned)
    lenient = parse({**settings, "failOnDataLoss": "false"}, streaming=True)
    ranges = SextonStreamReader(lenient).partitions(*planned)
    assert [(each.start, each.end) for each in ranges if isinstance(each, OffsetRange)] == [
        (0, 6), (4, 6),
    ]  # fmt: skip
