"""Where partitions begin and end, asked of their leaders, many at a time.

ListOffsets goes to the leader of each partition, one request for each broker. Partitions whose
leader has moved, or that have none for the moment, are asked for again with fresh metadata; the
others' answers are kept. Either every partition has an answer in the end, or an error names one.

Each question names the leader's epoch. A broker that led before, and has not heard that it leads
again, would answer with the end that it knew then: what was written meanwhile would be missing. One
that was replaced, and has not heard of it, answers just so, in its own epoch. Whoever concludes
something from the end asks for the `newest` leader that any broker with a replica names; whoever
looks again in a moment would rather be quick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.client.newest import newest_topology
from sexton.client.replica import Isolation
from sexton.client.retrying import PATIENT, Patience, Trying
from sexton.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

LATEST, EARLIEST = -1, -2  # in place of a time
NOT_FOUND = -1  # in place of an offset: no record from this time on
Trouble = PeerError | Refused


class Listed(NamedTuple):
    """What a leader said."""

    offset: int
    leader_epoch: int  # in which it leads; -1: nobody knows


async def list_offsets(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    patience: Patience = PATIENT,
    *,
    newest: bool = False,
) -> dict[TopicPartition, int]:
    """The offset of the first record from a time on (or `LATEST`, `EARLIEST`) for each partition.

    `LATEST` is the high watermark, or with read_committed the last stable offset.
    """
    told = await list_by_epoch(client, wanted, isolation, patience, newest=newest)
    return {at: each.offset for at, each in told.items()}


async def list_by_epoch(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    patience: Patience = PATIENT,
    *,
    newest: bool = False,
) -> dict[TopicPartition, Listed]:
    """The same, and who says so: whoever comes back later can ask its successor (`epochs`)."""
    found: dict[TopicPartition, Listed] = {}
    trying = Trying(patience)
    while True:
        missing = {at: time for at, time in wanted.items() if at not in found}
        if not missing:
            return found
        try:
            by_leader = await _by_leader(client, missing, newest)
            asking = [_ask(client, node, some, isolation) for node, some in by_leader.items()]
            troubles: list[Trouble] = []
            for offsets, trouble in await asyncio.gather(*asking):
                found.update(offsets)
                troubles += [trouble] if trouble is not None else []
            if troubles:
                raise troubles[0]
        except (PeerError, Refused) as error:
            await trying.pause(error)
            client.look_elsewhere()


async def _by_leader(
    client: Client, wanted: Mapping[TopicPartition, int], newest: bool
) -> dict[int, dict[TopicPartition, ListOffsetsPartition]]:
    topics = list(dict.fromkeys(at.topic for at in wanted))
    topology = await (newest_topology(client, topics) if newest else client.topology(topics))
    by_leader: dict[int, dict[TopicPartition, ListOffsetsPartition]] = {}
    for at, time in wanted.items():
        place = topology.place(at)
        if place.leader < 0:
            raise Refused(KafkaError.LEADER_NOT_AVAILABLE, f"nobody leads {at}")
        asked = ListOffsetsPartition(at.partition, place.leader_epoch, time)
        by_leader.setdefault(place.leader, {})[at] = asked
    return by_leader


async def _ask(
    client: Client,
    node: int,
    wanted: Mapping[TopicPartition, ListOffsetsPartition],
    isolation: Isolation,
) -> tuple[dict[TopicPartition, Listed], Trouble | None]:
    """One broker's answers, and the first thing that went wrong with it, if any did."""
    topics: dict[str, ListOffsetsTopic] = {}
    for at, asked in wanted.items():
        topics.setdefault(at.topic, ListOffsetsTopic(at.topic, [])).partitions.append(asked)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=list(topics.values())
    )
    try:
        answer = await (await client.broker(node)).ask(request)
    except (PeerError, Refused) as error:
        return {}, error
    found: dict[TopicPartition, Listed] = {}
    trouble: Trouble | None = None
    for told in answer.topics:
        for partition in told.partitions:
            at = TopicPartition(told.name, partition.partition_index)
            if partition.error_code:
                trouble = trouble or refused(partition.error_code, f"offsets of {at}")
            elif at in wanted:
                found[at] = Listed(partition.offset, wanted[at].current_leader_epoch)
    if len(found) < len(wanted) and trouble is None:
        trouble = PeerError(f"broker {node}", "answers ListOffsets without all that was asked for")
    return found, trouble
