"""Which replicas are compared, and over which offsets?

Replicas that keep up are compared up to the lowest of their last stable offsets. One that does not
(out of the ISR, or its last stable offset held back while its log goes on) would drag all others
down with it; so it is compared on its own with one that does, up to where it stands itself.

    broker 1   ────────────────────────│  last stable offset 900   ┐ compared up to 880
    broker 2   ──────────────────────│    last stable offset 880   ┘
    broker 3   ─────────│                 last stable offset 310     with broker 1, up to 310

Where old records are deleted there is nothing to compare below the highest log start; where nothing
is, the leader says where the log begins, and one that begins later has lost something. With `since`
nothing is compared before that time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sexton.audit.facts import Scope
from sexton.base.errors import Refused, SextonError, no_such_partition, no_such_topic
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.config_changes import describe_topics
from sexton.client.configs import PATIENCE, topic_configs, values_of
from sexton.client.disk_room import log_directories
from sexton.client.replica import ReplicaOffsets
from sexton.client.retrying import until_it_works
from sexton.client.topology import PartitionPlace, Topology
from sexton.survey.assigned import assigned
from sexton.survey.places import BrokerPlace, Place, settings_of

CLEANUP_POLICY, DELETE_RETENTION_MS = "cleanup.policy", "delete.retention.ms"
QUESTIONS_AT_ONCE = 64
NEWS_S = (
    0.6  # a follower hears of the high watermark with its next fetch, which waits half a second
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be audited, and how gently."""

    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()  # of a topic that is named here, only these
    all_compacted: bool = False
    internal: bool = False  # __consumer_offsets and __transaction_state too
    since_ms: int | None = None  # a time; records from then on
    since_told: str = ""  # the same in the user's words: an age means another time in each run
    sample_partitions: float | None = None  # this share of them
    max_bytes_per_s: int | None = None  # from each broker
    most_keys: int | None = None  # in the memory of one task; None: the rules' own default


@dataclass(frozen=True, slots=True)
class Group:
    """Replicas that are compared with each other."""

    scope: Scope
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    partition: TopicPartition
    compacted: bool
    delete_retention_ms: int
    leader: int
    isr: tuple[int, ...]
    places: Mapping[int, Place]  # of every assigned replica
    stands: Mapping[int, ReplicaOffsets]  # of those that answer
    groups: tuple[Group, ...]
    unreadable: tuple[tuple[int, str], ...]  # (broker, why)
    sizes: Mapping[int, int] = field(default_factory=dict)  # bytes, of those whose size is known
    topic_id: str = ""  # empty: nobody says


@dataclass(frozen=True, slots=True)
class Plan:
    cluster_id: str | None
    partitions: tuple[PartitionPlan, ...]
    left_out: int  # partitions, by sampling
    seed: int
    hidden: Mapping[str, str] = field(default_factory=dict)  # topics we may not know of, and why


async def plan(client: Client, wanted: Wanted, seed: int | None = None) -> Plan:
    topology = await assigned(client, None if wanted.internal else wanted.topics or None)
    configs, hidden = await _configs(client, _chosen(topology, wanted), wanted)
    places = _places(topology, configs, wanted.partitions)
    seed = random.SystemRandom().getrandbits(63) if seed is None else seed
    sampled = _sample(places, wanted.sample_partitions, seed)
    silent = await _silent(client, sampled)
    gate = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def one(place: PartitionPlace) -> PartitionPlan:
        config = configs[place.partition.topic]
        async with gate:
            planned = await _planned(client, place, config, wanted, seed, silent)
        if not _is_behind(planned):
            return planned
        before = max(each.last_stable for each in planned.stands.values())
        await asyncio.sleep(NEWS_S)
        async with gate:
            return await _planned(client, place, config, wanted, seed, silent, before)

    planned = await asyncio.gather(*map(one, sampled))
    sized = await _with_sizes(client, planned)
    ids = {topic.name: topic.topic_id.hex() for topic in topology.topics.values()}
    sized = [replace(each, topic_id=ids[each.partition.topic]) for each in sized]
    left_out = len(places) - len(sampled)
    return Plan(topology.cluster_id, tuple(sized), left_out, seed, hidden)


async def _with_sizes(client: Client, plans: Sequence[PartitionPlan]) -> list[PartitionPlan]:
    """For those who want to know how long it will take; not everybody may ask.

    Brokers tell of all that they hold: of a large cluster only what is asked for is kept.
    """
    wanted: dict[int, set[TopicPartition]] = {}
    for each in plans:
        for node in each.stands:
            wanted.setdefault(node, set()).add(each.partition)
    gate = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def sizes(node: int) -> dict[TopicPartition, int]:
        async with gate:
            try:
                told = [each.sizes for each in await log_directories(client, node)]
            except SextonError:
                return {}
            return {at: size for each in told for at, size in each.items() if at in wanted[node]}

    known = dict(zip(wanted, await asyncio.gather(*map(sizes, wanted)), strict=True))
    return [
        replace(
            each,
            sizes={
                node: known[node][each.partition]
                for node in each.stands
                if each.partition in known[node]
            },
        )
        for each in plans
    ]


# ── which ──


def _chosen(topology: Topology, wanted: Wanted) -> list[str]:
    missing = [name for name in wanted.topics if name not in topology.topics]
    if missing:
        raise no_such_topic(*missing)
    if wanted.topics:
        beside = [topic.name for topic in topology.topics.values() if topic.internal]
        return [*wanted.topics, *(sorted(beside) if wanted.internal else ())]
    return sorted(
        topic.name
        for topic in topology.topics.values()
        if (wanted.internal if topic.internal else wanted.all_compacted)
    )  # fmt: skip


def _places(
    topology: Topology, names: Iterable[str], only: Sequence[TopicPartition]
) -> list[PartitionPlace]:
    for at in only:
        if at.topic in topology.topics and at.partition not in topology.topics[at.topic].partitions:
            raise no_such_partition(*at, len(topology.topics[at.topic].partitions))
    return [
        place
        for name in names
        for place in topology.topics[name].partitions.values()
        if is_meant(place.partition, only)
    ]


def is_meant(partition: TopicPartition, only: Sequence[TopicPartition]) -> bool:
    """Is it one of these, or of a topic that none of them belongs to?"""
    return partition in only or all(each.topic != partition.topic for each in only)


async def _configs(
    client: Client, names: list[str], wanted: Wanted
) -> tuple[dict[str, Mapping[str, str | None]], dict[str, str]]:
    """Of the topics that are meant; and those of which we may not know whether they are, and why"""
    options = (CLEANUP_POLICY, DELETE_RETENTION_MS)
    if wanted.topics:
        found = await topic_configs(client, names, options)
        return {name: found[name] for name in names}, {}
    described = await until_it_works(lambda: describe_topics(client, names, options), PATIENCE)
    gone = [name for name, error in described.failed.items() if _is_gone(error)]
    if gone:  # or one broker has not heard of them yet
        client.look_elsewhere()
        again = await until_it_works(lambda: describe_topics(client, gone, options), PATIENCE)
        described.found.update(again.found)
        for name in again.found:
            del described.failed[name]
    found = values_of(described)
    hidden = {
        name: _why_hidden(error) for name, error in described.failed.items() if not _is_gone(error)
    }
    compacted = [name for name in names if name in found and _is_compacted(found[name])]
    return {name: found[name] for name in compacted}, hidden


def _why_hidden(error: SextonError) -> str:
    """Without the topic's name: there may be hundreds, for one reason."""
    if isinstance(error, Refused) and error.error is KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return "this user may not see its options (it takes DESCRIBE_CONFIGS)"
    return f"{error.subject}: {error.why}"


def _is_gone(error: SextonError) -> bool:
    """It was deleted since we were told of it, which is nothing to wonder at."""
    return isinstance(error, Refused) and error.error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def _is_compacted(config: Mapping[str, str | None]) -> bool:
    return "compact" in (config.get(CLEANUP_POLICY) or "")


def _sample(
    places: Sequence[PartitionPlace], share: float | None, seed: int
) -> list[PartitionPlace]:
    if share is None:
        return list(places)
    count = max(1, round(len(places) * share))
    chosen = random.Random(seed).sample(range(len(places)), min(count, len(places)))
    return [places[at] for at in sorted(chosen)]


# ── how far ──


async def _silent(client: Client, places: Iterable[PartitionPlace]) -> dict[int, str]:
    """Brokers that cannot be reached, and why: each is tried once, however much it holds."""

    async def why(node: int) -> str | None:
        try:
            await client.broker(node)
        except SextonError as error:
            return f"{error.subject}: {error.why}"
        return None

    nodes = sorted({node for place in places for node in place.replicas})
    tried = await asyncio.gather(*map(why, nodes))
    return {node: told for node, told in zip(nodes, tried, strict=True) if told is not None}


async def _planned(
    client: Client,
    place: PartitionPlace,
    config: Mapping[str, str | None],
    wanted: Wanted,
    seed: int,
    silent: Mapping[int, str],
    stable_before: int | None = None,
) -> PartitionPlan:
    settings = settings_of(wanted.settings)
    places: dict[int, Place] = {
        node: BrokerPlace(wanted.bootstrap_servers, settings, node) for node in place.replicas
    }
    stands, unreadable = await look(client, place.partition, place.replicas, silent)
    start = 0
    if wanted.since_ms is not None:
        start, failed = await _offset_of(client, place.partition, stands, wanted.since_ms)
        stands = {node: each for node, each in stands.items() if node not in failed}
        unreadable = (*unreadable, *failed.items())
    compacted = _is_compacted(config)
    groups = grouped(
        place.partition,
        compacted,
        place.isr,
        stands,
        start=start,
        seed=seed,
        leader=place.leader,
        deletes=not compacted or "delete" in (config.get(CLEANUP_POLICY) or ""),
        stable_before=stable_before,
    )
    return PartitionPlan(
        place.partition,
        compacted,
        int(config.get(DELETE_RETENTION_MS) or 86_400_000),
        place.leader,
        place.isr,
        places,
        stands,
        groups,
        unreadable,
    )


def _is_behind(planned: PartitionPlan) -> bool:
    """Does a replica in sync know less than the others? Then there is less to compare."""
    known = {each.last_stable for node, each in planned.stands.items() if node in planned.isr}
    return len(known) > 1


async def look(
    client: Client, partition: TopicPartition, nodes: Sequence[int], silent: Mapping[int, str]
) -> tuple[dict[int, ReplicaOffsets], tuple[tuple[int, str], ...]]:
    """Where each replica stands, and those that cannot be asked, with the reason."""
    stands: dict[int, ReplicaOffsets] = {}
    unreadable: list[tuple[int, str]] = []
    for node in nodes:
        if node in silent:
            unreadable.append((node, silent[node]))
            continue
        try:
            stands[node] = await client.replica(partition, node).offsets()
        except SextonError as error:
            unreadable.append((node, f"{error.subject}: {error.why}"))
    return stands, tuple(unreadable)


async def _offset_of(
    client: Client, partition: TopicPartition, stands: Mapping[int, ReplicaOffsets], time_ms: int
) -> tuple[int, dict[int, str]]:
    """Where the first record from this time on is, and those that cannot say, with the reason.

    Every replica is asked: cleaners may have removed it everywhere but on the one that is wrong.
    Who has nothing since then names its end, which may be long ago, and does not count.
    """
    offsets: dict[int, int] = {}
    failed: dict[int, str] = {}
    for node in stands:
        try:
            offsets[node] = await client.replica(partition, node).offset_at(time_ms)
        except SextonError as error:
            failed[node] = f"{error.subject}: {error.why}"
    held = [offset for node, offset in offsets.items() if offset < stands[node].high_watermark]
    return min(held, default=max(offsets.values(), default=0)), failed


def grouped(
    partition: TopicPartition,
    compacted: bool,
    isr: Sequence[int],
    stands: Mapping[int, ReplicaOffsets],
    *,
    start: int,
    seed: int,
    leader: int = -1,
    deletes: bool = True,
    stable_before: int | None = None,
) -> tuple[Group, ...]:
    """Those that keep up with each other; then each other one with one of these.

    `stable_before`: how far somebody was a moment ago. Beside live writes the high watermark of a
    follower never comes to where its leader is, but to where that was.
    """
    if not stands:
        return ()
    furthest = max(each.last_stable for each in stands.values())
    ended = {furthest, furthest if stable_before is None else stable_before}
    current = [
        node
        for node, each in stands.items()
        if node in isr
        and not any(each.last_stable < known <= each.high_watermark for known in ended)
    ]
    if not current:
        current = [max(stands, key=lambda node: stands[node].last_stable)]

    def group(nodes: Sequence[int]) -> Group:
        begin = max(start, beginning(stands, nodes, leader, deletes=deletes))
        end = min(stands[node].last_stable for node in nodes)
        scope = Scope(partition, begin, max(begin, end), compacted, seed, deletes)
        return Group(scope, tuple(nodes))

    alone = [group((current[0], node)) for node in stands if node not in current]
    return (group(current), *alone)


def beginning(
    stands: Mapping[int, ReplicaOffsets], nodes: Sequence[int], leader: int, *, deletes: bool
) -> int:
    """Where the logs of these replicas begin, or should.

    Retention deletes on each broker by itself. Where it does not, brokers refuse DeleteRecords as
    well, and logs begin where that of their leader does.
    """
    if not deletes and leader in stands:
        return stands[leader].log_start
    return max(stands[node].log_start for node in nodes)
