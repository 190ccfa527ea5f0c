"""Does a row that fails block its key and nothing else, and is every output there once, in order?

Batches are made by hand here (`retry_pipelines`); `test_retry_stream` has a query.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.client.admin import reassign
from sexton.client.appending import append
from sexton.client.client import Client
from sexton.machines.retry_pending import Pending
from sexton.machines.retry_records import Command, TaskName, Watermark, command_record
from sexton.machines.retry_task import Task
from sexton.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from sexton.retry import Dead, Drop, Retry
from sexton.retry.letters import read_letters
from sexton.retry.topics import Names
from sexton.spark import Message, Output
from sexton.spark.retry import pipeline_of
from sexton.spark.retry_handling import outputs_of
from sexton.spark.retry_reading import TELL_AGAIN_MS, Owned
from sexton.spark.retry_tick import Alarm, TickReader, now_ms
from sexton.spark.sink_protocol import PREFIX, STEPS, TooSlow
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.spark.retry_pipelines import ROWS, SETTINGS, Driver, handle, locks, outputs, pipeline
from tests.spark.sink_faults import Injected, committed, fail_at, trouble, until_over


def test_a_failing_row_blocks_its_key_whoever_dies_on_the_way(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    ours = pipeline(three, "storm")
    Driver(spark, ours).run(0, range(12))
    # 1 and 8 have failed; 7 waits behind 1 (key-1), and nobody behind 8 (key-2). All others flow.
    assert sorted(int(value or b"") for *_, value in outputs(three, "storm")) == [
        0, 2, 3, 4, 5, 6, 9, 10, 11
    ]  # fmt: skip
    held = locks(three, ours)
    assert {key: (lock.attempts, lock.key) for key, lock in held.items()} == {
        b"storm-1-0": (1, b"key-1"),
        b"storm-1-3": (0, b"key-1"),
        b"storm-0-4": (1, b"key-2"),
    }
    # A driver dies at each step, the last one after it has committed: its successor finds it done.
    for step in STEPS:
        with pytest.raises((Injected, PythonException), match=f"{step} of batch 1"):
            Driver(spark, ours, fail_at(step, tmp_path / step, batch=1)).run(1, range(12, 24))
    last = Driver(spark, ours)
    last.run(1, range(12, 24))
    last.settle(2)
    assert locks(three, ours) == {}
    assert trouble(outputs(three, "storm"), ROWS) == ["lost: [15]"]
    ((partition, key, value),) = committed(three, ours.topics.dead, 2)
    assert (partition, key, value) == (1, b"key-3", b"15")


def test_an_operator_frees_a_held_key(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """3 reaches its ceiling and holds key-3, where 9 waits behind it."""
    down = tmp_path / "down"
    down.touch()

    def handle(message: Message) -> list[Output]:
        if message.value == b"3" and down.exists():
            raise Dead("the service does not know 3")
        return [Output(message.value, message.key, (("by", b"test"),))]

    ours = pipeline(three, "held", handle)
    ours = replace(ours, settings=replace(ours.settings, at_ceiling="held"))
    driver = Driver(spark, ours)
    driver.run(0, range(12))
    assert locks(three, ours)[b"held-1-1"].dead
    ((_, _, letter),) = committed(three, ours.topics.dead, 2)
    assert letter == b"3"
    assert asyncio.run(letters(three, ours.topics.names, TaskName("held", 1))) == [(1, True)]
    down.unlink()
    told = command_record(TaskName("held", 1), Command("redrive", 1), "token")
    asyncio.run(tell(three, TopicPartition(ours.topics.retry, 1), told))
    driver.run(1, ())  # obeys it
    driver.settle(2)
    assert locks(three, ours) == {}
    assert trouble(outputs(three, "held"), 12) == []


async def letters(cluster: EmbeddedCluster, names: Names, name: TaskName) -> list[tuple[int, bool]]:
    """Of which messages, and did it hold its key?"""
    async with Client(cluster.bootstrap_servers) as client:
        return [(each.id, each.held) for each in (await read_letters(client, names, name)).letters]


async def tell(cluster: EmbeddedCluster, at: TopicPartition, told: tuple[bytes, bytes]) -> None:
    async with Client(cluster.bootstrap_servers) as client:
        await append(client, at, [told])


def test_what_waits_is_tried_though_kafka_has_forgotten_how_far_its_partition_was_read(
    spark: SparkSession, three: EmbeddedCluster
) -> None:
    """As it does a week after the last row of a quiet partition, while others keep the marker."""
    ours = pipeline(three, "quiet")
    Driver(spark, ours).run(0, range(12))
    asyncio.run(forget(three, f"{PREFIX}{ours.name}", "quiet"))
    last = Driver(spark, ours)
    last.run(1, ())
    assert b"quiet-1-0" not in locks(three, ours)
    last.settle(2)
    assert trouble(outputs(three, "quiet"), 12) == []


async def forget(cluster: EmbeddedCluster, group: str, topic: str) -> None:
    """The offsets of two partitions; only the group's coordinator does it."""
    partitions = [OffsetDeleteRequestPartition(number) for number in range(2)]
    request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, partitions)])
    async with Client(cluster.bootstrap_servers) as client:
        told = [await (await client.broker(node)).ask(request) for node in cluster.node_ids]
    (done,) = (each for each in told if each.error_code == 0)
    assert [each.error_code for each in done.topics[0].partitions] == [0, 0]


def test_a_position_that_stays_is_told_again_before_kafka_forgets_it() -> None:
    owned = Owned(Task(TaskName("orders", 0), SETTINGS, Random(1), 7, 2, Pending()), tail_from=0)
    seven = Watermark(7, 2)
    assert not owned.is_told(7, seven, 1_000)
    owned.told, owned.told_at_ms = (7, seven), 1_000
    assert owned.is_told(7, seven, 1_000 + TELL_AGAIN_MS - 1)
    assert not owned.is_told(7, seven, 1_000 + TELL_AGAIN_MS)
    assert not owned.is_told(8, seven, 1_000)


def test_a_batch_that_kafka_has_timed_out_before_its_commit_gets_more_time(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    ours = pipeline(three, "hurried")
    ours = replace(ours, sink=replace(ours.sink, timeout_ms=3_000))
    asked, over = tmp_path / "asked", tmp_path / "over"

    def late(step: str, _batch: int) -> None:
        if step == "answered" and not asked.exists():
            asked.touch()
            until(over.exists, "the end of the transaction")

    def watch() -> None:
        until(asked.exists, "a batch that is sent")
        until_over(three, ours.name)
        over.touch()

    with ThreadPoolExecutor() as beside:
        watching = beside.submit(watch)
        with pytest.raises(TooSlow, match=r"transaction.timeout.ms \(3000\)"):
            Driver(spark, ours, late).run(0, range(2))
        watching.result()


def test_a_pipeline_in_which_nothing_waits_is_committed_every_hour_all_the_same(
    spark: SparkSession, three: EmbeddedCluster
) -> None:
    """Else Kafka would forget its marker, and refuse the row that ends a quiet week."""
    driver = Driver(spark, pipeline(three, "calm"))
    before = now_ms()
    driver.run(0, range(1))
    assert before + TELL_AGAIN_MS <= driver.due_ms <= now_ms() + TELL_AGAIN_MS


def test_a_query_that_runs_does_not_mind_that_replicas_are_moved(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    """Then the main topic has more of them, for a time; only who begins looks at that."""
    for topic in ("moved", "moved-out"):
        three.create_topic(topic, [[1], [1]])
    ours = pipeline_of(
        handle, topic="moved", output_topic="moved-out", settings=SETTINGS,
        bootstrap_servers=three.bootstrap_servers,
    )  # fmt: skip
    driver = Driver(spark, ours, fail_at("answered", tmp_path / "answered", batch=1))
    driver.run(0, range(12))
    asyncio.run(move(three, "moved", [1, 2]))
    until(lambda: all(replicas(three, "moved", n) == 2 for n in range(2)), "two replicas", 60)
    with pytest.raises((Injected, PythonException)):  # and starts again, with a look at the topics
        driver.run(1, range(12, 24))
    driver.run(1, range(12, 24))
    with pytest.raises(ConfigError, match="has 1 replicas and needs 2"):
        Driver(spark, ours).run(2, ())
    accepts = Driver(spark, replace(ours, replication=1))
    accepts.run(2, ())
    accepts.settle(3)
    assert trouble(outputs(three, "moved"), ROWS) == ["lost: [15]"]


def replicas(cluster: EmbeddedCluster, topic: str, partition: int) -> int:
    state = cluster.partition(topic, partition)
    return 0 if state is None else len(state.replicas)


async def move(cluster: EmbeddedCluster, topic: str, nodes: list[int]) -> None:
    places = [TopicPartition(topic, number) for number in range(2)]
    async with Client(cluster.bootstrap_servers) as client:
        await reassign(client, dict.fromkeys(places, nodes))


def test_a_reader_ticks_when_a_retry_is_due() -> None:
    alarm = Alarm()
    reader = TickReader(alarm.path)
    begun = reader.initialOffset()
    first = reader.latestOffset(begun, None)  # type: ignore[arg-type]
    assert first["tick"] > begun["tick"]  # a run begins with one
    alarm.set(now_ms() + 3_600_000)
    assert reader.latestOffset(first, None) == first  # type: ignore[arg-type]
    reader.prepareForTriggerAvailableNow()
    alarm.set(now_ms() - 1)
    assert reader.latestOffset(first, None)["tick"] > first["tick"]  # type: ignore[arg-type]


def test_what_a_handler_returns_is_understood() -> None:
    assert outputs_of(None, b"k") == []
    assert outputs_of([b"1", Output("2", "other")], b"k") == [
        Output(b"1", b"k"),
        Output("2", "other"),
    ]
    told = outputs_of(Output(b"1", headers=(("by", "me"), ("at", None))), b"k")  # type: ignore[arg-type]
    assert told == [Output(b"1", headers=(("by", b"me"), ("at", None)))]
    wrong = [3, Output(b"1", headers=(("n", 3),)), Output(b"1", headers=((3, b"n"),))]  # type: ignore[arg-type]
    for each in (*wrong, Output(b"1", topic=b"t"), Output(b"1", key=3)):  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            outputs_of([each], b"k")
    with pytest.raises(UnicodeEncodeError):  # the handler's fault, and not that of the batch
        outputs_of("\ud800", b"k")


class NotToday(Drop):
    """A handler's own word for it, of a module that only the tests have."""


def test_what_a_handler_raises_is_understood_in_tasks(
    spark: SparkSession, three: EmbeddedCluster
) -> None:
    """0 is dropped, 1 mapped to dead, 2 dead, and 3 is not due for an hour."""

    def handle(message: Message) -> bytes | None:
        match message.value:
            case b"0":
                raise NotToday("it is Sunday")
            case b"1":
                raise KeyError("nobody knows it")
            case b"2":
                raise Dead("it never will be")
            case b"3":
                raise Retry("come back later", after_s=3600)
        return message.value

    ours = replace(pipeline(three, "said", handle), errors={LookupError: Dead})
    before = now_ms()
    Driver(spark, ours).run(0, range(6))
    assert sorted(int(value or b"") for *_, value in outputs(three, "said")) == [4, 5]
    letters = committed(three, ours.topics.dead, 2)
    assert sorted(value or b"" for *_, value in letters) == [b"1", b"2"]
    ((key, lock),) = locks(three, ours).items()
    assert key == b"said-1-1" and lock.not_before_ms >= before + 3_600_000


def test_what_cannot_work_is_refused_with_words() -> None:
    where: dict[str, Any] = {
        "topic": "a", "output_topic": "b", "settings": SETTINGS, "bootstrap_servers": "kafka:9092",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="another topic of this pipeline"):
        pipeline_of(handle, **{**where, "output_topic": "a"})
    with pytest.raises(ConfigError, match="is not one of Retry"):
        pipeline_of(handle, errors={ValueError: KeyError}, **where)  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="cannot be the name of a topic"):
        pipeline_of(handle, retry_topic="a b", **where)
