"""A task's changelog as its leader has it: which one it is, where it ends, what it holds.

`bounds` is asked in a promotion after fencing, so what it says about the end must not be less than
what was ever acknowledged. That is the high watermark as a *consumer* is told it (KIP-207): a
leader that was just elected, and does not know yet what is committed, says so and no number. One
that was replaced, and has not heard of it, tells an old end; where the caller knows that there is
more, or a newer leader, it asks on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from sexton.base.errors import ConfigError, PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.admin import create_topic, standings
from sexton.client.client import Client
from sexton.client.configs import topic_configs
from sexton.client.connection import refused
from sexton.client.epochs import ends_at
from sexton.client.news import asked_around
from sexton.client.reading import PartitionReader
from sexton.client.replica import Isolation
from sexton.client.retrying import Patience, until_it_works
from sexton.client.topology import PartitionPlace
from sexton.machines.stores_events import Bounds, Lineage
from sexton.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sexton.stores.fetching import now_ms
from sexton.stores.rows import Rows, rows_of

_CONSUMER = -1
_LATEST = -1
_SINCE_KIP_207 = range(5, 1 << 15)
_PATIENCE = Patience(timeout_ms=30_000, backoff_ms=20)
CHANGELOG_OPTIONS = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class Changelog:
    topic: str
    lineage: Lineage
    delete_retention_ms: int


async def ensure(client: Client, topic: str, partitions: int, replication_factor: int) -> Changelog:
    """Made if it is not there; refused if it could lose state."""
    if topic not in (await client.topology([topic])).topics:
        try:
            await create_topic(client, topic, partitions, replication_factor, CHANGELOG_OPTIONS)
        except Refused as error:
            if error.error is not KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    async def look() -> Changelog:
        return await _found(client, topic, partitions)

    return await until_it_works(look, _PATIENCE)


async def _found(client: Client, topic: str, partitions: int) -> Changelog:
    topology = await client.topology([topic])
    found = topology.topic(topic)
    if len(found.partitions) != partitions:
        why = f"has {len(found.partitions)} partitions, and the input has {partitions}"
        hint = "state stays with the partition of its keys: make a new application id, or a topic"
        raise ConfigError(topic, why, hint)
    names = ("cleanup.policy", "delete.retention.ms")
    options = (await topic_configs(client, [topic], names))[topic]
    policy = options.get("cleanup.policy") or ""
    if {each.strip() for each in policy.split(",")} != {"compact"}:
        hint = "set cleanup.policy=compact: state that is old is state all the same"
        raise ConfigError(topic, f"has cleanup.policy={policy}", hint)
    lineage = Lineage(topology.cluster_id or "", found.topic_id)
    return Changelog(topic, lineage, int(options.get("delete.retention.ms") or 86_400_000))


async def bounds(
    client: Client,
    at: TopicPartition,
    position: int = -1,
    leader_epoch: int = -1,
    least_end: int = 0,
    least_epoch: int = -1,
) -> Bounds:
    async def ask() -> Bounds:
        place = await client.place(at)
        if 0 <= place.leader_epoch < least_epoch:
            why = f"{at} is said to be led in epoch {place.leader_epoch}, not {least_epoch}"
            raise Refused(KafkaError.NOT_LEADER_OR_FOLLOWER, why)
        found = await _bounds(client, place, position, leader_epoch)
        if found.high_watermark < least_end:
            why = f"{at} is said to end at {found.high_watermark}, and goes to {least_end}"
            raise Refused(KafkaError.NOT_LEADER_OR_FOLLOWER, why)
        return found

    return await asked_around(client, ask, _PATIENCE)


async def _bounds(
    client: Client, place: PartitionPlace, position: int, leader_epoch: int
) -> Bounds:
    if place.leader < 0:
        raise Refused(KafkaError.LEADER_NOT_AVAILABLE, f"nobody leads {place.partition}")
    high_watermark = await _high_watermark(client, place)
    standing = (await standings(client, place.leader, [place]))[:1]
    if not standing:
        raise Refused(KafkaError.NOT_LEADER_OR_FOLLOWER, f"{place.partition} has moved")
    said = standing[0]
    parts_at = None
    if leader_epoch >= 0 and position >= 0:
        parts_at = await ends_at(client, place, leader_epoch)
    log_end = max(said.log_end, high_watermark)
    epoch = place.leader_epoch  # by which it was asked: a leader of another one refuses
    return Bounds(said.log_start, high_watermark, log_end, said.mtro, parts_at, epoch)


async def _high_watermark(client: Client, place: PartitionPlace) -> int:
    topic, number = place.partition
    asked = ListOffsetsPartition(number, place.leader_epoch, _LATEST)
    request = ListOffsetsRequest(_CONSUMER, 0, [ListOffsetsTopic(topic, [asked])])
    connection = await client.broker(place.leader)
    answer = await connection.ask(request, _SINCE_KIP_207)
    try:
        told = answer.topics[0].partitions[0]
    except IndexError:
        why = f"ListOffsets of {place.partition} is answered without it"
        raise PeerError(connection.peer, why) from None
    if told.error_code:
        raise refused(told.error_code, f"the end of {place.partition}")
    return told.offset


async def mtro(client: Client, at: TopicPartition) -> int | None:
    """Below this, tombstones may be gone; None: a Kafka that cannot say."""
    place = await client.place(at)
    found = await standings(client, place.leader, [place]) if place.leader >= 0 else []
    return found[0].mtro if found else None


async def replay(
    client: Client, at: TopicPartition, topic_id: bytes, start: int, end: int, patience: Patience
) -> AsyncGenerator[Rows, None]:
    """[start, end), read_committed, some megabytes at a time; raises if it cannot be read whole."""
    reader = PartitionReader(client, at, topic_id=topic_id, patience=patience)
    position, asked_ms = start, now_ms()
    chunks = reader.read(start, end, isolation=Isolation.READ_COMMITTED)
    async with aclosing(chunks):
        async for chunk in chunks:
            rows = rows_of(at, chunk, position, end, asked_ms)
            position = rows.next_offset
            asked_ms = now_ms()
            yield rows
    if position < end:  # the rest was compacted away
        yield Rows(position, end, [], [], [], [], end, -1, 0, asked_ms, end)
