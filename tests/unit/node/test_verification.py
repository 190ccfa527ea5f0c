"""Who is let into a transaction on whose word?"""

from __future__ import annotations

import dataclasses

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node.replica import Replica
from sexton.node.verification import Question, Verification, Verified
from sexton.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.unit.node.small_cluster import SmallCluster

AT = TopicPartition("orders", 0)
ZOMBIE = Question("writer", 7, epoch=0, adds=True, knows_abortable=True)
SUCCESSOR = Question("writer", 7, epoch=1, adds=True, knows_abortable=True)


class Coordinator:
    """Is asked, and answers when it is told to."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.verification = Verification(self._verify)
        self.asked: dict[int, Verified] = {}  # by epoch
        self.heard: list[tuple[int, KafkaError]] = []

    def _verify(
        self, _id: str, _producer: int, epoch: int, at: TopicPartition, _adds: bool, then: Verified
    ) -> None:
        assert at == AT and epoch not in self.asked
        self.asked[epoch] = then

    def ask(self, question: Question) -> None:
        epoch = question.epoch
        self.verification.ask(self.replica, question, lambda e: self.heard.append((epoch, e)))

    def answer(self, question: Question, error: KafkaError) -> None:
        self.asked.pop(question.epoch)(error)


@pytest.fixture(scope="module")
def replica() -> Replica:
    cluster = SmallCluster(1)
    cluster.ask(CreateTopicsRequest([CreatableTopic(AT.topic, 1, 1)]), 7)
    cluster.wait(1_000)
    return cluster.broker(1).replicas.get(AT)


@pytest.mark.parametrize("first", [ZOMBIE, SUCCESSOR])
def test_a_zombie_and_its_successor_are_each_told_their_own(
    replica: Replica, first: Question
) -> None:
    coordinator = Coordinator(replica)
    coordinator.ask(first)
    coordinator.ask(SUCCESSOR if first is ZOMBIE else ZOMBIE)
    coordinator.answer(ZOMBIE, KafkaError.PRODUCER_FENCED)
    assert coordinator.heard == [(0, KafkaError.INVALID_PRODUCER_EPOCH)]
    coordinator.answer(SUCCESSOR, KafkaError.NONE)
    assert coordinator.heard[1:] == [(1, KafkaError.NONE)]


def test_who_asks_the_same_waits_for_one_answer_in_turn(replica: Replica) -> None:
    coordinator = Coordinator(replica)
    for _ in range(3):
        coordinator.ask(SUCCESSOR)
    coordinator.answer(SUCCESSOR, KafkaError.NONE)
    assert coordinator.heard == [(1, KafkaError.NONE)] * 3


def test_a_marker_ends_whatever_its_producer_is_being_asked_about(replica: Replica) -> None:
    coordinator = Coordinator(replica)
    coordinator.ask(ZOMBIE)
    coordinator.ask(SUCCESSOR)
    coordinator.verification.ended(AT, 8)
    coordinator.verification.ended(AT, 7)
    coordinator.answer(ZOMBIE, KafkaError.NONE)
    coordinator.answer(SUCCESSOR, KafkaError.NONE)
    assert [error for _, error in coordinator.heard] == [KafkaError.INVALID_TXN_STATE] * 2


def test_a_word_from_an_earlier_term_counts_for_nothing(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another broker led meanwhile, and may have written the marker that ended the transaction."""
    coordinator = Coordinator(replica)
    coordinator.ask(SUCCESSOR)
    later = dataclasses.replace(replica.record, leader_epoch=replica.leader_epoch + 2)
    monkeypatch.setattr(replica, "record", later)
    coordinator.answer(SUCCESSOR, KafkaError.NONE)
    assert coordinator.heard == [(1, KafkaError.NOT_LEADER_OR_FOLLOWER)]
    coordinator.ask(SUCCESSOR)
    coordinator.answer(SUCCESSOR, KafkaError.NONE)
    assert coordinator.heard[1:] == [(1, KafkaError.NONE)]
