"""Instances that die, stand still, wake up, come and go: order holds, nothing is lost or twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sexton.base.partitions import TopicPartition as Place
from sexton.client.client import Client
from sexton.retry import Message, OrderedRetry
from sexton.retry.membership import membership
from sexton.retry.producing import CommitFailed, Limits, TransactionalWriter
from sexton.retry.records_out import Part
from sexton.retry.topics import Names
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.fleet import Fleet, fleet
from tests.retry.harness import (
    OUT,
    PATIENCE_S,
    SOON,
    CommittedReader,
    Flaky,
    committed,
    disorder,
    send,
    until_drained,
)

QUICK_GROUPS = {"group.min.session.timeout.ms": 500}


@pytest.fixture
def servers(start_kafka: object) -> Iterator[str]:
    with EmbeddedCluster(brokers=1, options=QUICK_GROUPS) as kafka:
        kafka.create_topic("orders", 3)
        kafka.create_topic(OUT, 3)
        yield kafka.bootstrap_servers


def _all_once_and_in_order(outputs: CommittedReader, count: int, workers: Fleet) -> None:
    until(lambda: outputs.poll() >= count, f"{count} outputs", PATIENCE_S, workers.told)
    outputs.poll(1.0)  # a second one of something would come now
    assert disorder(message.value() for message in outputs.messages) == [], workers.told()
    assert len(outputs.messages) == count


@pytest.mark.parametrize("options", [(), ("--instance", "pod-0")], ids=["any name", "its own name"])
def test_a_killed_instance_leaves_nothing_undone(
    servers: str, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """kill -9 while a handler runs; the next one begins where the last transaction ended."""
    count = send(servers, "orders", keys=30, numbers=range(10))
    gate = ("--gate", str(tmp_path), "--session-timeout-ms", "1500")
    with fleet(servers, tmp_path) as workers, committed(servers, OUT) as outputs:
        first = workers.start(*gate, *options)
        until(lambda: any(tmp_path.glob("at-*")), "it is inside", PATIENCE_S, workers.told)
        first.kill()
        (tmp_path / "open").touch()
        workers.start(*gate, *options)
        _all_once_and_in_order(outputs, count, workers)


def test_without_transactions_nothing_is_lost_and_first_effects_are_in_order(
    servers: str, tmp_path: Path
) -> None:
    """`compensating` cannot promise that outputs appear once; it can promise the rest."""
    send(servers, "orders", keys=30, numbers=range(10))
    how = ("--gate", str(tmp_path), "--session-timeout-ms", "1500", "--mode", "compensating")
    wanted = {b"%d:%d" % (key, number) for key in range(30) for number in range(10)}
    with fleet(servers, tmp_path) as workers, committed(servers, OUT) as outputs:
        first = workers.start(*how)
        until(lambda: any(tmp_path.glob("at-*")), "it is inside", PATIENCE_S, workers.told)
        first.kill()
        (tmp_path / "open").touch()
        workers.start(*how)
        seen: dict[bytes, None] = {}

        def all_of_them() -> bool:
            outputs.poll()
            seen.update(dict.fromkeys(message.value() for message in outputs.messages))
            return seen.keys() == wanted

        until(all_of_them, "every message", PATIENCE_S, workers.told)
    assert disorder(seen) == []


def test_a_paused_instance_that_wakes_up_changes_nothing(servers: str, tmp_path: Path) -> None:
    """SIGSTOP inside a handler until the group has gone on without it, then SIGCONT."""
    count = send(servers, "orders", keys=30, numbers=range(10))
    gate = ("--gate", str(tmp_path), "--session-timeout-ms", "1500")
    with fleet(servers, tmp_path) as workers, committed(servers, OUT) as outputs:
        zombie = workers.start(*gate)
        until(lambda: any(tmp_path.glob("at-*")), "it is inside", PATIENCE_S, workers.told)
        zombie.pause()
        (tmp_path / "open").touch()
        workers.start(*gate)
        until(lambda: outputs.poll() >= count, "the other does it all", PATIENCE_S, workers.told)
        zombie.resume()
        count += send(servers, "orders", keys=30, numbers=range(10, 20))
        _all_once_and_in_order(outputs, count, workers)
        zombie.wait_until_ready()  # it is back in the group, and of use


def test_whoever_is_not_in_the_group_commits_nothing(servers: str) -> None:
    """A consumer that was thrown out is nobody to Kafka, which lets nobodies commit."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    nobody = consumer.consumer_group_metadata()
    assert not membership(nobody).counts
    offset = TopicPartition("orders", 0, 7, "")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "control"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([offset], nobody, 30)
    producer.commit_transaction(30)  # the negative control: it was accepted
    assert consumer.committed([TopicPartition("orders", 0)], 30)[0].offset == 7

    names = Names.of("orders", "g")
    settings = {"bootstrap.servers": servers, "transactional.id": "ours"}
    writer = TransactionalWriter(settings, names, Limits())
    with pytest.raises(CommitFailed) as caught:
        writer.write([_moves_to(8)], membership(nobody))
    assert caught.value.how == "fenced"
    assert consumer.committed([TopicPartition("orders", 0)], 30)[0].offset == 7
    consumer.close()


def _moves_to(position: int) -> Part:
    from sexton.machines.retry_records import TaskName, Watermark
    from sexton.machines.retry_rounds import Commit

    commit = Commit(position, Watermark(position, 3))
    return Part(TaskName("orders", 0), commit, None, TopicPartition("orders", 0, position, ""))


def test_instances_come_and_go(servers: str) -> None:
    """A second and a third one join while messages wait, then all but one leave."""
    flaky = Flaky(frozenset(range(0, 30, 3)), times=2)
    options: dict[str, Any] = {"topic": "orders", "group": "g", "bootstrap_servers": servers}
    count = send(servers, "orders", keys=30, numbers=range(10))
    with committed(servers, OUT) as outputs, OrderedRetry(flaky, backoff=SOON, **options) as first:
        first.wait_until_ready(PATIENCE_S)
        with OrderedRetry(flaky, backoff=SOON, **options) as second:
            count += send(servers, "orders", keys=30, numbers=range(10, 20))
            with OrderedRetry(flaky, backoff=SOON, **options) as third:
                until(
                    lambda: all(len(each.standings) == 1 for each in (first, second, third)),
                    "one partition each",
                    PATIENCE_S,
                )
                count += send(servers, "orders", keys=30, numbers=range(20, 30))
                until(lambda: outputs.poll() >= count // 2, "half of it", PATIENCE_S)
        until(lambda: len(first.standings) == 3, "all partitions again", PATIENCE_S)
        outputs.until(count)
        until_drained(first)
        outputs.poll(0.5)
        assert first.count("reports", code="stale-lock") == 0
    assert disorder(message.value() for message in outputs.messages) == []
    assert len(outputs.messages) == count
    assert flaky.overlaps == 0


def test_sigterm_ends_it_in_good_order(servers: str, tmp_path: Path) -> None:
    """Whoever was inside the handler is let finish, and what it did is committed."""
    count = send(servers, "orders", keys=30, numbers=range(10))
    gate = ("--gate", str(tmp_path), "--failing", "0")
    with fleet(servers, tmp_path) as workers, committed(servers, OUT) as outputs:
        worker = workers.start(*gate)
        until(lambda: any(tmp_path.glob("at-*")), "it is inside", PATIENCE_S, workers.told)
        before = outputs.poll()
        worker.process.send_signal(15)
        (tmp_path / "open").touch()
        assert worker.process.wait(PATIENCE_S) == 0, workers.told()
        assert "left" in worker.told()
        until(lambda: outputs.poll() > before, "its last round", PATIENCE_S)
        workers.start(*gate)
        _all_once_and_in_order(outputs, count, workers)


def test_a_broker_that_dies_costs_a_pause(tmp_path: Path) -> None:
    """The leader of everything is killed in the middle; the transaction under way is in doubt."""
    with EmbeddedCluster(brokers=3, options={"offsets.topic.replication.factor": 3}) as kafka:
        kafka.create_topic("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        kafka.create_topic(OUT, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        servers = kafka.bootstrap_servers
        flaky = Flaky(frozenset({2, 5}), times=2)
        count = send(servers, "orders", keys=30, numbers=range(10))
        with OrderedRetry(
            flaky, topic="orders", group="g", bootstrap_servers=servers, backoff=SOON, max_batch=20
        ) as retry:  # fmt: skip
            until(lambda: len(flaky.story) > count // 4, "it is under way", PATIENCE_S)
            kafka.kill(1)
            count += send(servers, "orders", keys=30, numbers=range(10, 12))
            with committed(servers, OUT) as outputs:
                outputs.until(count)
                until_drained(retry)
                kafka.restart(1)
                outputs.poll(0.5)
                assert disorder(message.value() for message in outputs.messages) == []
                assert len(outputs.messages) == count


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_a_round_that_is_cut_short_loses_nothing(servers: str, strategy: str) -> None:
    """A second instance joins while the first has polled far more than it has handled."""
    slow = threading.Event()  # never set: a handler that waits for something else

    def handle(message: Message) -> None:
        slow.wait(0.02)
        message.send(OUT, message.value, message.key)

    options: dict[str, Any] = {
        "topic": "orders", "group": "g", "bootstrap_servers": servers,
        "settings": {"partition.assignment.strategy": strategy},
    }  # fmt: skip
    count = send(servers, "orders", keys=30, numbers=range(10))
    with committed(servers, OUT) as outputs, OrderedRetry(handle, **options) as first:
        first.wait_until_ready(PATIENCE_S)
        with OrderedRetry(handle, **options) as second:
            until(lambda: bool(second.standings), "it has joined", PATIENCE_S)
            count += send(servers, "orders", keys=30, numbers=range(10, 12))
            outputs.until(count)
        outputs.poll(0.5)
    assert disorder(message.value() for message in outputs.messages) == []
    assert len(outputs.messages) == count


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_a_handler_that_outlasts_the_patience_of_its_group(servers: str, strategy: str) -> None:
    """A partition is to be given up, its handler does not end, and nobody polls meanwhile: the
    group goes on without this instance, and nothing that it did counts."""
    inside, go_on = threading.Event(), threading.Event()

    def stuck(message: Message) -> None:
        inside.set()
        assert go_on.wait(PATIENCE_S)
        message.send(OUT, message.value, message.key)

    def handle(message: Message) -> None:
        message.send(OUT, message.value, message.key)

    options: dict[str, Any] = {
        "topic": "orders", "group": "g", "bootstrap_servers": servers,
        "settings": {
            "partition.assignment.strategy": strategy, "max.poll.interval.ms": "1500",
            "session.timeout.ms": "1500", "heartbeat.interval.ms": "200",
        },
    }  # fmt: skip
    count = send(servers, "orders", keys=30, numbers=range(5))
    with committed(servers, OUT) as outputs, OrderedRetry(stuck, **options) as first:
        assert inside.wait(PATIENCE_S)
        with OrderedRetry(handle, **options) as second:
            until(lambda: outputs.poll() >= count, "the other does it all", PATIENCE_S)
            assert len(second.standings) == 3
            go_on.set()
            until(lambda: first.count("starts", why="assigned") > 3, "it is back", PATIENCE_S)
            count += send(servers, "orders", keys=30, numbers=range(5, 8))
            outputs.until(count)
        outputs.poll(0.5)
    assert disorder(message.value() for message in outputs.messages) == []
    assert len(outputs.messages) == count


def test_whoever_waits_for_a_coordinator_ends_when_he_is_told_to() -> None:
    """It may be away for long: its topic has one replica here, and that is dead."""
    one_each = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1}
    with EmbeddedCluster(3, options=one_each) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]])
        servers = cluster.bootstrap_servers
        with _nothing_to_do(servers) as first:
            first.wait_until_ready(PATIENCE_S)

        async def coordinator() -> int:
            async with Client(servers) as client:
                return (await client.place(Place("__consumer_offsets", 0))).leader

        cluster.kill(asyncio.run(coordinator()))
        waits = _nothing_to_do(servers).start()
        ending = threading.Thread(target=waits.close, daemon=True)
        ending.start()
        ending.join(PATIENCE_S / 3)
        assert not ending.is_alive()


def _nothing_to_do(servers: str) -> OrderedRetry:
    return OrderedRetry(lambda _: None, topic="orders", group="g", bootstrap_servers=servers)
