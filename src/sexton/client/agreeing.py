"""Do the brokers that will answer for a topic know the same topic by its name?

Brokers hear one after the other that a topic was deleted and made again. Whoever is asked for its
id may have old news, and offsets that its leaders tell would be taken for another topic's. So these
are asked for the id, too: one request to each broker, however many partitions it has. A cluster
without topic ids agrees as soon as all of them know the name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.news import until_whole
from sexton.client.retrying import NEWS_MS
from sexton.client.topology import Topology, may_be_same

_BACKOFF_MS: Final = 100


async def known(client: Client, names: Collection[str]) -> Topology:
    """These topics as their leaders know them; one that is left out no broker has heard of.

    Who has old news is asked again, and others are. What cannot be agreed on soon, since a leader
    is down say, is as whoever was asked last has it.
    """

    async def is_known(found: Topology) -> bool:
        return all(name in found.topics for name in names) and await _leaders_agree(client, found)

    ask = partial(client.topology, sorted(names))
    return await until_whole(client, ask, is_known, NEWS_MS, _BACKOFF_MS)


async def _leaders_agree(client: Client, found: Topology) -> bool:
    asked = [
        (place.leader, topic.name)
        for topic in found.topics.values()
        for place in topic.partitions.values()
        if place.leader >= 0
    ]
    try:
        async with asyncio.timeout(NEWS_MS / 1000):
            await agree_on_topics(client, found, asked)
    except (TimeoutError, PeerError, Refused):
        return False
    return True


async def agree_on_topics(
    client: Client, found: Topology, asked: Iterable[tuple[int, str]]
) -> None:
    """Refused, as what passes, if one of these brokers knows another topic of the name, or none."""
    names: dict[int, dict[str, None]] = {}
    for node, name in asked:
        names.setdefault(node, {})[name] = None
    told = await asyncio.gather(*(client.topology_by(*each) for each in names.items()))
    for node, theirs in zip(names, told, strict=True):
        for name in names[node]:
            told_of = theirs.topics.get(name)
            if told_of is None or not may_be_same(told_of.topic_id, found.topics[name].topic_id):
                why = f"broker {node} has a part of {name}, and knows another topic of that name"
                raise Refused(KafkaError.LEADER_NOT_AVAILABLE, why)
