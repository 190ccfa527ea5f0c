"""Who leads, when a leader that was replaced may still say that it does?

A broker that is cut off from the controller, but not from us, hears of no election. It names itself
the leader, and what it tells of its log was true once:

    broker 1    t-0 is led by 1 in epoch 4; its log ends at 10       cut off
    broker 2    t-0 is led by 2 in epoch 5; its log ends at 20

Each election raises the leader's epoch, so of several answers the highest epoch is the newest. And
it is enough to ask the brokers that have a replica, and those that we were given first: a leader
that has acknowledged anything has heard that it leads, and it is one of them.

They are asked side by side, and one that says nothing is not waited for long. So a client that
reaches nobody but the replaced leader believes it still. It costs a question to each of these
brokers: for whoever would draw a conclusion from the answer, or has met with trouble.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sexton.client.client import Client
from sexton.client.retrying import NEWS_MS
from sexton.client.topology import Topic, Topology, may_be_same

ANSWER_MS = NEWS_MS


async def newest_topology(client: Client, topics: Iterable[str]) -> Topology:
    """These topics, with the newest leader of each partition that anybody names."""
    names = list(topics)
    told = await client.topology(names)
    places = [place for topic in told.topics.values() for place in topic.partitions.values()]
    having = sorted({node for place in places for node in place.replicas})
    others = await client.topologies(names, having, ANSWER_MS)
    found = {
        name: _newest(topic, [other.topics[name] for other in others if name in other.topics])
        for name, topic in told.topics.items()
    }
    return replace(told, topics=found)


def _newest(topic: Topic, others: Sequence[Topic]) -> Topic:
    """A topic that was made again begins with new epochs: only the same one's are compared."""
    same = [other for other in others if may_be_same(topic.topic_id, other.topic_id)]
    newest = dict(topic.partitions)
    for number, place in ((n, p) for other in same for n, p in other.partitions.items()):
        if number not in newest or place.leader_epoch > newest[number].leader_epoch:
            newest[number] = place
    return replace(topic, partitions=newest)
