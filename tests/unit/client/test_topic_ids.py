"""A cluster is upgraded from a Kafka without topic ids: some brokers say an id, others none.

Whoever says none says nothing about it; two ids are two topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from sexton.base.errors import Refused
from sexton.base.partitions import TopicPartition
from sexton.client.agreeing import agree_on_topics
from sexton.client.client import Client
from sexton.client.reading import NO_ID, PartitionReader, TopicReplaced
from sexton.client.topology import Topic, Topology

ONE, OTHER = b"1" * 16, b"2" * 16
SAME = [(ONE, ONE), (ONE, NO_ID), (NO_ID, ONE), (NO_ID, NO_ID)]


def told(topic_id: bytes) -> Topology:
    return Topology("c", 1, {}, {"orders": Topic("orders", topic_id, False, {})})


class Leader:
    def __init__(self, topic_id: bytes) -> None:
        self._topic_id = topic_id

    async def topology_by(self, _node: int, _topics: Iterable[str]) -> Topology:
        return told(self._topic_id)


def agree(found: bytes, leaders: bytes) -> None:
    asked = [(1, "orders")]
    asyncio.run(agree_on_topics(cast("Client", Leader(leaders)), told(found), asked))


def check(wanted: bytes, found: bytes) -> None:
    at = TopicPartition("orders", 0)
    PartitionReader(cast("Client", None), at, topic_id=wanted)._check_id(told(found))


@pytest.mark.parametrize(("one", "other"), SAME)
def test_whoever_has_none_disagrees_with_nobody(one: bytes, other: bytes) -> None:
    agree(one, other)
    check(one, other)


def test_two_ids_are_two_topics() -> None:
    with pytest.raises(Refused, match=r"broker 1 .* knows another topic of that name"):
        agree(ONE, OTHER)
    with pytest.raises(TopicReplaced):
        check(ONE, OTHER)
