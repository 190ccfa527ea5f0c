"""Which replicas are there? Not as one broker alone has it.

A broker that is cut off from its controller goes on to answer, with what it knew before. Replicas
that were added since, and topics that were made since, would be read by nobody, and all that it
knows of would seem to agree. So a few others are asked as well:

    broker 1    t-0 on 2, 3                       cut off
    broker 2    t-0 on 2, 3, 4    u-0 on 2, 3     t-0 is read on three brokers, and u-0 as well

Of a partition the highest leader epoch is the newest. Within one a replica may have been added, so
what any of them names is read; who is not in sync for one of them is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sexton.base.errors import SextonError
from sexton.client.client import Client
from sexton.client.retrying import NEWS_MS
from sexton.client.topology import PartitionPlace, Topic, Topology, may_be_same

VIEWS = 3  # who was asked first may be among them


async def assigned(client: Client, topics: Sequence[str] | None) -> Topology:
    """These topics or all. Whoever is asked next has no older news than the first, as far as seen.

    One that says nothing for some time has no say.
    """
    told = await client.topology(topics)
    others = await asyncio.gather(
        *(_as_known_to(client, node, topics) for node in sorted(told.brokers)[:VIEWS])
    )
    merged = told
    for other in others:
        if other is not None:
            merged = replace(merged, topics=_merged(merged.topics, other.topics))
    if merged.topics != told.topics:
        client.look_elsewhere()
    return merged


async def _as_known_to(client: Client, node: int, topics: Iterable[str] | None) -> Topology | None:
    try:
        async with asyncio.timeout(NEWS_MS / 1000):
            return await client.topology_by(node, topics)
    except (TimeoutError, SextonError):
        return None


def _merged(known: dict[str, Topic], others: dict[str, Topic]) -> dict[str, Topic]:
    merged = dict(known)
    for name, topic in others.items():
        if name not in known:
            merged[name] = topic
        elif may_be_same(known[name].topic_id, topic.topic_id):
            places = dict(known[name].partitions)
            for number, place in topic.partitions.items():
                places[number] = _newest(places.get(number, place), place)
            merged[name] = replace(known[name], partitions=places)
    return merged


def _newest(one: PartitionPlace, other: PartitionPlace) -> PartitionPlace:
    if one.leader_epoch != other.leader_epoch:
        return max(one, other, key=lambda place: place.leader_epoch)
    return replace(
        one,
        replicas=tuple(dict.fromkeys((*one.replicas, *other.replicas))),
        isr=tuple(node for node in one.isr if node in other.isr),
    )
