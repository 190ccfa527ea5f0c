"""What is taken for the topics that there are, when brokers hear of them one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import cast

import pytest

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.agreeing import known
from sexton.client.client import Client
from sexton.client.retrying import NEWS_MS
from sexton.client.topology import PartitionPlace, Topic, Topology

OLD_ID, NEW_ID = b"1" * 16, b"2" * 16
LEADER = 2


def topology(topic_id: bytes) -> Topology:
    at = TopicPartition("in", 0)
    place = PartitionPlace(at, LEADER, 0, (1, LEADER), (1, LEADER), ())
    return Topology("c", 1, {}, {"in": Topic("in", topic_id, False, {0: place})})


NOTHING = Topology("c", 1, {}, {})


class Brokers:
    """Whoever is asked first has other news than the leader, and whoever is asked next."""

    def __init__(self, first: Topology, leader: Topology | None) -> None:
        self._first, self._leader = first, leader
        self.doubts = 0
        self.before_an_answer: Callable[[], None] = lambda: None

    async def topology(self, _: Iterable[str]) -> Topology:
        self.before_an_answer()
        return topology(NEW_ID) if self.doubts else self._first

    async def topology_by(self, node: int, _: Iterable[str]) -> Topology:
        assert node == LEADER
        if self._leader is None:
            raise PeerError("broker 2", "does not answer")
        return self._leader

    def look_elsewhere(self) -> None:
        self.doubts += 1

    def told(self) -> bytes:
        found = asyncio.run(known(cast("Client", self), ["in"]))
        return found.topic("in").topic_id


def test_old_news_of_a_topic_that_was_made_again_are_not_believed() -> None:
    brokers = Brokers(topology(OLD_ID), topology(NEW_ID))
    assert brokers.told() == NEW_ID
    assert brokers.doubts == 1


def test_what_the_leader_says_as_well_is_believed_at_once() -> None:
    brokers = Brokers(topology(NEW_ID), topology(NEW_ID))
    assert brokers.told() == NEW_ID
    assert brokers.doubts == 0


def test_a_leader_that_is_down_does_not_keep_anybody_from_starting() -> None:
    assert Brokers(topology(NEW_ID), None).told() == NEW_ID


def test_a_broker_that_was_slow_is_not_believed_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is down, say, was tried before it; and it has not heard of the topic."""
    brokers = Brokers(NOTHING, topology(NEW_ID))
    real, late_s = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: real() + sum(late_s))
    brokers.before_an_answer = lambda: None if brokers.doubts else late_s.append(2 * NEWS_MS / 1000)
    assert brokers.told() == NEW_ID
    assert brokers.doubts == 1
