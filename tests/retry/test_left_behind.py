"""A thread that hung and was left behind commits nothing when it wakes up.

Its messages have been handled again by then, and it still has the generation of a member that
counts. So what it has in hand would be there twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from sexton.machines.retry_records import TaskName, Watermark
from sexton.machines.retry_rounds import Commit
from sexton.retry.membership import Membership, membership
from sexton.retry.producing import (
    CommitFailed,
    Committer,
    CompensatingWriter,
    Limits,
    Receipt,
    TransactionalWriter,
)
from sexton.retry.records_out import Part, Record
from sexton.retry.topics import Names
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import PATIENCE_S

NAMES = Names.of("orders", "g")
POSITION = 5


class Hanging:
    """What makes a call hang, and lets it go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()


class HangingPart(Part):
    """Its last lock is released when it may go on; then come the offsets and the commit."""

    hanging: Hanging

    def second(self, names: Names, ends: Any) -> Iterator[Record]:
        self.hanging.reached.set()
        assert self.hanging.go_on.wait(PATIENCE_S)
        yield from super().second(names, ends)


def hanging_part(hanging: Hanging) -> Part:
    at = TopicPartition("orders", 0, POSITION, "")
    commit = Commit(POSITION, Watermark(POSITION, 1))
    commit.lock_tombstones = [b"orders-0-4"]
    part = HangingPart(TaskName("orders", 0), commit, None, at)
    HangingPart.hanging = hanging
    return part


@pytest.fixture
def consumer(kafka: EmbeddedCluster) -> Iterator[Consumer]:
    for topic in ("orders", *NAMES.beside):
        kafka.create_topic(topic, 1)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "g",
            "enable.auto.commit": False,
            # What is committed now; as a rule one is told only when no transaction is open.
            "isolation.level": "read_uncommitted",
        }
    )
    consumer.subscribe(["orders"])

    def is_member() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment()) and _member(consumer).counts

    until(is_member, "a place in the group", PATIENCE_S)
    yield consumer
    consumer.close()


@pytest.fixture
def committer(kafka: EmbeddedCluster) -> Iterator[Committer]:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "ours"}
    made = Committer(lambda: TransactionalWriter(settings, NAMES, Limits()), "commits")
    yield made
    made.close(10.0)


def woken_up(committer: Committer, member: Membership) -> Future[Receipt]:
    """What became of a commit that hung, was left behind and went on."""
    hanging = Hanging()
    committer.open().result(PATIENCE_S)
    future = committer.submit([hanging_part(hanging)], member)
    assert hanging.reached.wait(PATIENCE_S)
    committer.leave_behind().result(PATIENCE_S)
    hanging.go_on.set()
    future.exception(PATIENCE_S)
    return future


def opened_at_once(committer: Committer) -> Future[Receipt]:
    """As `open`, without a look at the brokers."""
    del committer
    future: Future[Receipt] = Future()
    future.set_result({})
    return future


WITHOUT = {"nothing": (), "the word": ("leave",), "the fence": ("open",)}


@pytest.mark.parametrize("without", WITHOUT)
def test_what_was_left_behind_does_not_commit(
    consumer: Consumer, committer: Committer, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    """Each of the two is enough."""
    _take_away(monkeypatch, WITHOUT[without])
    future = woken_up(committer, _member(consumer))
    assert isinstance(future.exception(), CommitFailed)
    assert _committed(consumer) < 0


@pytest.mark.parametrize("without", ["nothing", "the word"])
def test_it_does_not_fence_the_one_in_its_place(
    consumer: Consumer, committer: Committer, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    """Whoever is fenced takes another producer of the same name; unless it was told not to."""
    _take_away(monkeypatch, WITHOUT[without])
    woken_up(committer, _member(consumer))
    written = committer.submit([_part()], _member(consumer))
    failed = written.exception(PATIENCE_S)
    if without == "nothing":
        assert failed is None and _committed(consumer) == POSITION
    else:
        assert isinstance(failed, CommitFailed) and failed.how == "fenced"


def test_without_both_it_commits(
    consumer: Consumer, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""
    _take_away(monkeypatch, ("leave", "open"))
    future = woken_up(committer, _member(consumer))
    assert future.result() == {0: {}}
    assert _committed(consumer) == POSITION


@pytest.mark.parametrize("leaves", [True, False])
def test_without_transactions_it_releases_nothing_any_more(
    kafka: EmbeddedCluster, consumer: Consumer, leaves: bool
) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True}
    writer = CompensatingWriter(settings, NAMES, Limits())
    member = _member(consumer)
    if leaves:
        writer.leave()
        with pytest.raises(CommitFailed, match="left behind"):
            writer.write([_part()], member)
    else:
        assert writer.write([_part()], member) == {0: {}}
    _, end = consumer.get_watermark_offsets(TopicPartition(NAMES.locks, 0), 30)
    assert end == (0 if leaves else 1)


def _take_away(monkeypatch: pytest.MonkeyPatch, rules: tuple[str, ...]) -> None:
    if "leave" in rules:
        monkeypatch.setattr(TransactionalWriter, "leave", lambda _self: None)
    if "open" in rules:
        monkeypatch.setattr(Committer, "open", opened_at_once)


def _part() -> Part:
    hanging = Hanging()
    hanging.go_on.set()
    return hanging_part(hanging)


def _member(consumer: Consumer) -> Membership:
    return membership(consumer.consumer_group_metadata())


def _committed(consumer: Consumer) -> int:
    return consumer.committed([TopicPartition("orders", 0)], 30)[0].offset
