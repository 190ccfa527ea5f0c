"""Does the leader's log have what was read from an earlier one? Its epochs tell (KIP-320).

    read up to 8, the last record of epoch 2
    ──▶ where does epoch 2 end in your log?    at 8 or later: all of it is there
                                               at 5: that log parts from the one that was read there

After an unclean election other records may stand at the same offsets, however long the log is by
then. A log from which an epoch was deleted or cleaned away names the beginning of what follows it,
which is no sooner, and an epoch before the one that was asked for, if it has any. So does a leader
that has nothing of what was read: it had led before, and has more of its own from then than its
successor wrote. Where nothing is ever cleaned away, that tells as well. A leader of an earlier
epoch than that which was read is not asked: it was replaced, and has not heard of it.
"""

from __future__ import annotations

from typing import NamedTuple

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import Connection, refused
from sexton.client.news import asked_around
from sexton.client.retrying import Patience
from sexton.client.topology import PartitionPlace
from sexton.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


class EpochEnd(NamedTuple):
    """What a leader says of an epoch that it was asked for."""

    epoch: int  # this one, or the last before it that its log has
    offset: int  # where that ends


async def epoch_end(
    client: Client, at: TopicPartition, epoch: int, least_epoch: int, patience: Patience
) -> EpochEnd | None:
    """By the word of a leader of `least_epoch` or a later one; None: unknown.

    Whoever has read to a later offset, the last record of that epoch, has read what is gone.
    """

    async def ask() -> EpochEnd | None:
        place = await client.place(at)
        if place.leader < 0 or 0 <= place.leader_epoch < least_epoch:
            raise Refused(KafkaError.LEADER_NOT_AVAILABLE, f"nobody is said to lead {at} now")
        return await _end_of(client, place, epoch)

    return await asked_around(client, ask, patience)


async def parts_at(
    client: Client, at: TopicPartition, epoch: int, least_epoch: int, patience: Patience
) -> int | None:
    """Where that epoch ends, for who cannot tell if it was cleaned away."""
    found = await epoch_end(client, at, epoch, least_epoch, patience)
    return None if found is None else found.offset


async def ends_at(client: Client, place: PartitionPlace, epoch: int) -> int | None:
    """The same, of this leader."""
    found = await _end_of(client, place, epoch)
    return None if found is None else found.offset


async def _end_of(client: Client, place: PartitionPlace, epoch: int) -> EpochEnd | None:
    connection = await client.broker(place.leader)
    told = await end_of_epoch(connection, place.partition, place.leader_epoch, epoch)
    return EpochEnd(told.leader_epoch, told.end_offset) if told.end_offset >= 0 else None


async def end_of_epoch(
    leader: Connection, at: TopicPartition, leader_epoch: int, epoch: int
) -> EpochEndOffset:
    """`leader_epoch`: in which it leads; a broker with other ideas refuses."""
    asked = OffsetForLeaderPartition(at.partition, leader_epoch, epoch)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(at.topic, [asked])])
    answer = await leader.ask(request)
    try:
        told = answer.topics[0].partitions[0]
    except IndexError:
        why = f"OffsetForLeaderEpoch of {at} is answered without it"
        raise PeerError(leader.peer, why) from None
    if told.error_code:
        raise refused(told.error_code, f"epochs of {at}")
    return told
