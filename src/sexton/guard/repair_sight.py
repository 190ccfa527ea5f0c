"""Where are the replicas of a partition now, and which of them are in sync for certain?

Before a replica is thrown away enough others must be in sync. A broker that is cut off from its
controller goes on to say that all are. So the brokers of the replicas are asked, each by its own,
two at least if there are several:

    the highest leader epoch     is the newest; two must have it, and those with another have no say
    in sync                      those that are so in each of the newest: the worst counts
    min.insync.replicas          the highest that any of them has, now and not when it was planned
    replicas, or topic id        if they differ, somebody has old news: ask again, for a while

A topic that was deleted and made again is another one, whatever its name: it is not looked at.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import product
from typing import Final

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.admin import moving
from sexton.client.client import Client
from sexton.client.config_changes import TOPIC, described
from sexton.client.retrying import PASSING, until_it_works
from sexton.client.topology import PartitionPlace, Topology, may_be_same
from sexton.machines.guard_views import SEVERAL
from sexton.machines.repair import Sight

MIN_INSYNC: Final = "min.insync.replicas"
ANSWER_S: Final = 5.0  # a broker that takes longer has no say


@dataclass(frozen=True, slots=True)
class View:
    """A partition as one broker has it."""

    topic_id: bytes
    place: PartitionPlace
    brokers: frozenset[int]
    min_insync: int


async def look(client: Client, partition: TopicPartition, topic_id: str = "") -> Sight:
    """Who holds the partition is left to whoever asks; `topic_id`, if given: of this very topic."""
    return await until_it_works(lambda: _look(client, partition, topic_id))


async def _look(client: Client, partition: TopicPartition, topic_id: str) -> Sight:
    under_way = await moving(client, [partition])
    first = await client.topology([partition.topic])
    views = await _views(client, partition, first)
    enough = max(1, min(SEVERAL, len(first.brokers)))
    if len(views) < enough:
        why = f"only {len(views)} of {len(first.brokers)} brokers can be asked about its replicas"
        hint = "one alone may be out of date: make sure that more can be asked"
        raise PeerError(str(partition), why, hint)
    if topic_id:
        check_same(partition.topic, topic_id, *(view.topic_id for view in views))
    return _merged(partition, views, enough, bool(under_way))


class AnotherTopic(SextonError):
    """One of the same name: to wait for it is of no use."""


def check_same(topic: str, topic_id: str, *told: bytes) -> None:
    """Is it the very topic that is meant, as all have told?"""
    if not all(may_be_same(bytes.fromhex(topic_id), each) for each in told):
        why = "is not the one whose repair began, according to some broker"
        raise AnotherTopic(topic, why, "run it again when the brokers agree about that")


def _merged(partition: TopicPartition, views: list[View], enough: int, under_way: bool) -> Sight:
    epoch = max(view.place.leader_epoch for view in views)
    newest = [view for view in views if view.place.leader_epoch == epoch]
    place = newest[0].place
    alike = all(
        view.place.replicas == place.replicas and may_be_same(view.topic_id, other.topic_id)
        for view, other in product(newest, repeat=2)
    )
    if len(newest) < enough or not alike:
        why = "brokers do not agree about its leader and its replicas"
        hint = "one of them may be cut off from its controller: make sure that they agree"
        raise PeerError(str(partition), why, hint)
    return Sight(
        place.leader,
        epoch,
        place.replicas,
        tuple(node for node in place.isr if all(node in view.place.isr for view in newest)),
        under_way,
        frozenset.intersection(*(view.brokers for view in newest)),
        min_insync=max(view.min_insync for view in views),
    )


async def _views(client: Client, partition: TopicPartition, first: Topology) -> list[View]:
    """Those of brokers that have a replica, and of others if these are too few."""
    replicas = first.place(partition).replicas
    up = sorted(first.brokers, key=lambda node: (node not in replicas, node))
    holding = [node for node in up if node in replicas]
    asked = up[: max(SEVERAL, len(holding))]
    views = await asyncio.gather(*(_view(client, partition, node) for node in asked))
    return [view for view in views if view is not None]


async def _view(client: Client, partition: TopicPartition, node: int) -> View | None:
    try:
        async with asyncio.timeout(ANSWER_S):
            topology = await client.topology_by(node, [partition.topic])
            place = topology.place(partition)
            option = await described(client, (TOPIC, partition.topic), [MIN_INSYNC], node)
    except (TimeoutError, PeerError):
        return None
    except Refused as error:
        if error.error not in PASSING:
            raise
        return None
    topic_id = topology.topic(partition.topic).topic_id
    return View(topic_id, place, frozenset(topology.brokers), int(option[MIN_INSYNC].value or 1))
