"""An unclean election of main's leader: an offset may be one among other messages.

    broker 1    leads main, and has everything; broker 2 is away
    group       has committed 6, of which 3 to 5 are on broker 1 alone
                ── broker 1 goes, broker 2 comes back and is made the leader ──
    main        other messages come at 3, 4, 5 and 6
    group       must not go on at 6: three that were acknowledged would never be handled

While main ends before the offset, that alone tells (`test_main_is_cut`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition as Place
from sexton.client.client import Client
from sexton.lab.looking import replica_logs
from sexton.machines.retry_records import MAIN_ID, Command, TaskName
from sexton.retry import Message, OrderedRetry, Retry, commanding
from sexton.retry.epochs import Epochs
from sexton.retry.inflow import Inflow
from sexton.retry.topics import Names
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import PATIENCE_S, send
from tests.stores.harness import delete_before
from tests.stores.unclean import changed_history, made_leader

PARTED = "orders-0: parts at 3 from what was handled, and the group g has committed 6"


class Stage:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster, self.servers = cluster, cluster.bootstrap_servers
        self.handled: list[bytes] = []

    def service(self, *failing: bytes, **more: Any) -> OrderedRetry:
        def handle(message: Message) -> None:
            if message.value in failing:
                raise Retry("the other service is down", after_s=0.1)
            self.handled.append(message.value)

        return OrderedRetry(
            handle, topic="orders", group="g", bootstrap_servers=self.servers, replication=3, **more
        )

    def elects(self, leader: int) -> None:
        self.cluster.elect("orders", 0, leader)

    def send(self, *numbers: int) -> None:
        send(self.servers, "orders", 1, numbers)

    def wait_for(self, retry: OrderedRetry, position: int) -> None:
        def is_there() -> bool:
            return [each.position for each in retry.standings if each.ready] == [position]

        until(is_there, f"all up to {position} is handled", PATIENCE_S)

    def handles_6(self, retry: OrderedRetry) -> None:
        """The last three are on broker 1 alone."""
        self.send(0, 1, 2)
        self.wait_for(retry, 3)
        self.cluster.kill(2)
        self.cluster.wait_for("orders", 0, lambda state: state.isr == (1,))
        self.send(3, 4, 5)
        self.wait_for(retry, 6)

    def is_cut_and_grows(self) -> None:
        changed_history(self.cluster, "orders")
        self.send(6, 7, 8, 9)

    def committed(self) -> TopicPartition:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "g"})
        try:
            [found] = consumer.committed([TopicPartition("orders", 0)], PATIENCE_S)
        finally:
            consumer.close()
        return found

    def set_offset(self, to: int) -> None:
        """As kafka-consumer-groups.sh does it."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        offsets = ConsumerGroupTopicPartitions("g", [TopicPartition("orders", 0, to)])
        admin.alter_consumer_group_offsets([offsets])["g"].result(PATIENCE_S)

    def skip(self, *ids: int) -> None:
        """As `sexton retry skip` does it, and no instance runs."""

        async def ask() -> None:
            names, name = Names.of("orders", "g"), TaskName("orders", 0)
            async with Client(self.servers) as client:
                for each in ids:
                    await commanding.send(client, names, name, Command("skip", each))

        asyncio.run(ask())


def values(*numbers: int) -> list[bytes]:
    return [b"0:%d" % number for number in numbers]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with EmbeddedCluster(3) as cluster:
        cluster.create_topic("orders", [[1, 2]])
        yield Stage(cluster)


@pytest.mark.parametrize("mode", ["transactional", "compensating"])
def test_a_topic_that_was_cut_and_has_grown_again_is_not_read_on(
    stage: Stage, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Until an operator has looked, and says from where."""
    with stage.service(mode=mode) as retry:
        stage.handles_6(retry)
    stage.is_cut_and_grows()
    with stage.service(mode=mode) as retry:
        until(lambda: PARTED in caplog.text, "told", PATIENCE_S)
        assert [each.ready for each in retry.standings] == [False]
    assert stage.handled == values(*range(6))
    stage.set_offset(3)
    with stage.service(mode=mode) as retry:
        stage.wait_for(retry, 7)
    assert stage.handled == values(*range(10))


def led_before(stage: Stage) -> None:
    """Broker 1 leads again, with 3, 4 and 5 of its first time, which nobody has handled.

    4 is committed: the last message before it is of the time in which broker 2 led.
    """
    cluster = stage.cluster
    with stage.service() as retry:
        stage.send(0, 1, 2)
        stage.wait_for(retry, 3)
    cluster.kill(2)
    cluster.wait_for("orders", 0, lambda state: state.isr == (1,))
    stage.send(3, 4, 5)
    changed_history(cluster, "orders")
    with stage.service() as retry:
        stage.send(6)
        stage.wait_for(retry, 4)
    cluster.kill(2)
    cluster.wait_for("orders", 0, lambda state: state.leader == -1)
    cluster.restart(1)
    made_leader(cluster, "orders")
    stage.send(7)


def test_nor_one_whose_leader_had_led_before(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """It names an end behind the offset, but of its own time: of the next it has nothing."""
    led_before(stage)
    with stage.service() as retry:
        told = "orders-0: has nothing of leader epoch"
        until(lambda: told in caplog.text, "told", PATIENCE_S)
        assert [each.ready for each in retry.standings] == [False]
    assert list(dict.fromkeys(stage.handled)) == values(0, 1, 2, 6)
    stage.set_offset(3)
    with stage.service() as retry:
        stage.wait_for(retry, 7)
    assert list(dict.fromkeys(stage.handled)) == values(0, 1, 2, 6, 3, 4, 5, 7)


@pytest.mark.parametrize("mode", ["transactional", "compensating"])
def test_what_waits_is_not_taken_for_what_has_its_offset_now(stage: Stage, mode: str) -> None:
    """Of the same key, and not the same. To give up what waits is an operator's right."""
    with stage.service(b"0:4", mode=mode, max_attempts=10_000) as retry:
        stage.handles_6(retry)
    stage.is_cut_and_grows()
    stage.set_offset(3)
    retry = stage.service(mode=mode).start()
    until(lambda: retry._failed is not None, "it ends", PATIENCE_S)
    why = "orders-0-4: waits, and the main topic has another message at its offset now"
    with pytest.raises(ConfigError, match=why):
        retry.close()
    stage.skip(4, 5)
    with stage.service(mode=mode) as retry:
        stage.wait_for(retry, 7)
    # A commit that came to nothing when broker 2 went is done again, so once at least.
    assert list(dict.fromkeys(stage.handled)) == values(0, 1, 2, 3, 6, 7, 8, 9)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, main is not read."""
    right, is_slow = Inflow._poll, threading.Event()
    paused: list[bool] = []

    def poll(inflow: Inflow, timeout_s: float) -> list[Any]:
        owned = inflow._owned.values()
        if is_slow.is_set() and not paused:
            inflow.pause(owned)
            paused.append(True)
        elif paused and not is_slow.is_set():
            inflow.resume(owned)
            paused.clear()
        return right(inflow, timeout_s)

    monkeypatch.setattr(Inflow, "_poll", poll)
    return is_slow


def test_nor_by_an_owner_that_runs(
    stage: Stage, slow: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with stage.service() as retry:
        stage.handles_6(retry)
        slow.set()
        stage.is_cut_and_grows()
        slow.clear()
        until(lambda: PARTED in caplog.text, "told", PATIENCE_S)
    assert stage.handled == values(*range(6))
    assert stage.committed().offset == 6


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_nor_if_its_leader_had_led_before(
    stage: Stage, slow: threading.Event, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    """What it has from then, 4 and 5, comes next, and is older than what was handled. Its 3 nobody
    would ever handle. Compacted or not: what is there tells."""
    cluster = stage.cluster
    cluster.alter_topic("orders", {"cleanup.policy": policy})
    with stage.service() as retry:
        stage.send(0, 1, 2)
        stage.wait_for(retry, 3)
        for topic in ("__consumer_offsets", "__transaction_state"):
            cluster.elect(topic, 0, 3)
        slow.set()
        cluster.kill(2)
        cluster.wait_for("orders", 0, lambda state: state.isr == (1,))
        stage.send(3, 4, 5)
        changed_history(cluster, "orders")
        stage.send(6)
        slow.clear()
        stage.wait_for(retry, 4)
        slow.set()
        cluster.kill(2)
        cluster.wait_for("orders", 0, lambda state: state.leader == -1)
        cluster.restart(1)
        made_leader(cluster, "orders")
        stage.send(7)
        slow.clear()
        until(lambda: "may not have all that was read before" in caplog.text, "told", PATIENCE_S)
        until(lambda: retry.count("starts") > 1, "it is started again", PATIENCE_S)
    # A commit that came to nothing when broker 2 went is done again, so once at least.
    assert list(dict.fromkeys(stage.handled)) == values(0, 1, 2, 6)
    assert stage.committed().offset == 4


def test_a_new_leader_that_has_everything_is_read_on(stage: Stage) -> None:
    """Under an owner that runs, and by the next one; and no task is started again for it."""
    with stage.service() as retry:
        for number, leader in ((0, 2), (1, 1), (2, 2)):
            stage.send(number)
            stage.wait_for(retry, number + 1)
            assert stage.committed().leader_epoch == number
            stage.elects(leader)
        assert retry.count("starts") == 1
    stage.send(3)
    with stage.service() as retry:
        stage.wait_for(retry, 4)
        assert retry.count("starts") == 1
    assert stage.handled == values(*range(4))
    assert stage.committed().leader_epoch == 3


def test_nor_does_one_seem_to_lack_what_it_has_aborted(stage: Stage) -> None:
    """The first that it wrote is shown to nobody: offsets are left out where its epoch begins."""
    with stage.service() as retry:
        stage.send(0)
        stage.wait_for(retry, 1)
        stage.elects(2)
        writer = Producer({"bootstrap.servers": stage.servers, "transactional.id": "w"})
        writer.init_transactions(PATIENCE_S)
        writer.begin_transaction()
        writer.produce("orders", b"never")
        assert writer.flush(PATIENCE_S) == 0
        writer.abort_transaction(PATIENCE_S)
        stage.send(1)
        stage.wait_for(retry, 4)  # behind a record and its marker
        assert retry.count("starts") == 1
    assert stage.handled == values(0, 1)


def test_an_offset_that_is_committed_again_says_the_same(stage: Stage) -> None:
    """A message that had to wait is done with; of the new leader there is none yet."""
    stage.send(0)
    with stage.service(b"0:0") as retry:
        stage.wait_for(retry, 1)
    stage.elects(2)
    with stage.service() as retry:
        until(lambda: retry.count("attempts", outcome="done") == 1, "it is done", PATIENCE_S)
    found = stage.committed()
    assert (found.offset, found.leader_epoch) == (1, 0)
    assert "W=1" in (found.metadata or "")


def cleaned(stage: Stage) -> None:
    stage.cluster.clean(force=True)
    assert list(replica_logs(stage.servers, "orders")[1].stored) == [2], "not even a batch"


def deleted(stage: Stage) -> None:
    delete_before(stage.servers, Place("orders", 0), 2)


@pytest.mark.parametrize("leader", [1, 3])
@pytest.mark.parametrize(
    ("compaction", "forget"),
    [("coordinated", cleaned), ("independent", cleaned), ("coordinated", deleted)],
)
def test_nor_does_a_log_seem_cut_that_has_forgotten_an_epoch(
    compaction: Literal["coordinated", "independent"],
    forget: Callable[[Stage], None],
    leader: int,
) -> None:
    """Nothing of it is left. Broker 3 copies that, and has never seen any of it."""
    with EmbeddedCluster(3, compaction=compaction) as cluster:
        cluster.create_topic("orders", [[1, 2]], {"cleanup.policy": "compact,delete"})
        stage = Stage(cluster)
        with stage.service() as retry:
            stage.send(0)
            stage.wait_for(retry, 1)
            stage.elects(2)
            stage.send(1)
            stage.wait_for(retry, 2)
        stage.elects(1)
        stage.send(2)
        forget(stage)
        cluster.reassign("orders", 0, [leader])
        assert stage.committed().leader_epoch == 1
        with stage.service() as retry:
            stage.wait_for(retry, 3)
            assert retry.count("starts") == 1
    assert stage.handled == values(0, 1, 2)


def test_the_epochs_of_another_topic_say_nothing_of_this_one(stage: Stage) -> None:
    """Somebody has said that it is the same one, moved with its offsets; epochs do not move."""
    stage.send(0)
    with stage.service() as retry:
        stage.wait_for(retry, 1)
    consumer = Consumer({"bootstrap.servers": stage.servers, "group.id": "g"})
    said = (stage.committed().metadata or "").rstrip("\0")
    consumer.commit(offsets=[TopicPartition("orders", 0, 1, said, 7)], asynchronous=False)
    consumer.close()
    producer = Producer({"bootstrap.servers": stage.servers})
    producer.produce("orders.g.locks", key=MAIN_ID, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    stage.send(1)
    with stage.service() as retry:
        stage.wait_for(retry, 2)
    assert stage.committed().leader_epoch == 0


class Read:
    """A message, as far as it matters here."""

    def __init__(self, offset: int, epoch: int | None) -> None:
        self.offset, self.leader_epoch = (lambda: offset), (lambda: epoch)


def test_each_position_has_the_epoch_of_the_message_before_it() -> None:
    epochs = Epochs(2)
    assert epochs.take([Read(5, 2), Read(6, 2)], 5) == []
    assert epochs.take([Read(8, 2), Read(10, 3), Read(11, 5)], 7) == [(9, 2, 3), (11, 3, 5)]
    assert epochs.take([Read(12, 5)], 12) == []
    assert epochs.take([Read(15, 6)], 13) == [(13, 5, 6)]
    assert [epochs.before(each) for each in (5, 10, 11, 12, 15, 16)] == [2, 2, 3, 5, 5, 6]


def test_what_was_put_back_is_taken_again() -> None:
    epochs = Epochs()
    assert epochs.take([Read(5, 0), Read(8, 1)], 5) == [(6, 0, 1)]
    assert epochs.take([Read(8, 1)], 8) == [(6, 0, 1)]  # which is where it was put back to
    assert epochs.take([Read(5, 0)], 5) == []
    assert (epochs.latest, epochs.before(6)) == (0, 0)
    assert epochs.take([Read(8, 1)], 6) == [(6, 0, 1)]


def test_of_one_log_epochs_never_fall() -> None:
    epochs = Epochs(2)
    doubts = epochs.take([Read(8, 2), Read(9, 1), Read(10, 3)], 8)
    assert [(each, each.is_sure) for each in doubts] == [((9, 2, 1), True), ((10, 1, 3), False)]


def test_what_is_not_known_is_not_asked_for() -> None:
    """Of a message as Kafka wrote it before there were epochs; or set by hand, with none."""
    epochs = Epochs()
    assert epochs.take([Read(5, None), Read(6, 0), Read(7, None), Read(8, 1)], 5) == []
    assert [epochs.before(each) for each in (5, 6, 7, 8, 9)] == [-1, -1, 0, -1, 1]
