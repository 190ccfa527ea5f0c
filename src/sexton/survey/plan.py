"""Which replicas are compared, and over which offsets?

Replicas that keep up are compared up to the lowest of their last stable offsets. One that does not
(out of the ISR, or its last stable offset held back while its log goes on) would drag all others
down with it; so it is compared on its own with one that does, up to where it stands itself.

    broker 1   ────────────────────────│  last stable offset 900   ┐ compared up to 880
    broker 2   ──────────────────────│    last stable offset 880   ┘
    broker 3   ─────────│                 last stable offset 310     with broker 1, up to 310

Below the highest log start there is nothing to compare, and with `since` nothing before that time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sexton.audit.facts import Scope
from sexton.base.errors import ConfigError, PeerError, SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.configs import topic_configs
from sexton.client.disk_room import log_directories
from sexton.client.replica import ReplicaOffsets
from sexton.client.topology import PartitionPlace, Topology
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


@dataclass(frozen=True, slots=True)
class Plan:
    cluster_id: str | None
    partitions: tuple[PartitionPlan, ...]
    left_out: int  # partitions, by sampling
    seed: int


async def plan(client: Client, wanted: Wanted, seed: int | None = None) -> Plan:
    topology = await client.topology(None if wanted.internal else wanted.topics or None)
    configs = await _configs(client, _chosen(topology, wanted), wanted)
    places = [
        place
        for name in configs
        for place in topology.topics[name].partitions.values()
    ]  # fmt: skip
    seed = random.SystemRandom().getrandbits(63) if seed is None else seed
    sampled = _sample(places, wanted.sample_partitions, seed)
    gate = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def one(place: PartitionPlace) -> PartitionPlan:
        async with gate:
            planned = await _planned(client, place, configs[place.partition.topic], wanted, seed)
        if not _is_behind(planned):
            return planned
        await asyncio.sleep(NEWS_S)
        async with gate:
            return await _planned(client, place, configs[place.partition.topic], wanted, seed)

    planned = await asyncio.gather(*map(one, sampled))
    sized = await _with_sizes(client, planned)
    return Plan(topology.cluster_id, tuple(sized), len(places) - len(sampled), seed)


async def _with_sizes(client: Client, plans: Sequence[PartitionPlan]) -> list[PartitionPlan]:
    """For those who want to know how long it will take; not everybody may ask."""
    known: dict[int, dict[TopicPartition, int]] = {}
    for node in sorted({node for each in plans for node in each.stands}):
        try:
            directories = await log_directories(client, node)
            known[node] = {at: size for each in directories for at, size in each.sizes.items()}
        except SextonError:
            known[node] = {}
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
        hint = "see `sexton cluster topics -b ...` for those there are"
        raise ConfigError(", ".join(missing), "there is no such topic", hint)
    if wanted.topics:
        beside = [topic.name for topic in topology.topics.values() if topic.internal]
        return [*wanted.topics, *(sorted(beside) if wanted.internal else ())]
    return sorted(
        topic.name
        for topic in topology.topics.values()
        if (wanted.internal if topic.internal else wanted.all_compacted)
    )  # fmt: skip


async def _configs(
    client: Client, names: list[str], wanted: Wanted
) -> dict[str, Mapping[str, str | None]]:
    found = await topic_configs(client, names, (CLEANUP_POLICY, DELETE_RETENTION_MS))
    if wanted.topics:
        return {name: found[name] for name in names}
    return {name: found[name] for name in names if _is_compacted(found[name])}


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


async def _planned(
    client: Client,
    place: PartitionPlace,
    config: Mapping[str, str | None],
    wanted: Wanted,
    seed: int,
) -> PartitionPlan:
    settings = settings_of(wanted.settings)
    places: dict[int, Place] = {
        node: BrokerPlace(wanted.bootstrap_servers, settings, node) for node in place.replicas
    }
    stands, unreadable = await look(client, place.partition, place.replicas)
    start = 0
    if wanted.since_ms is not None and stands:
        try:
            start = await _offset_of(client, place, wanted.since_ms)
        except SextonError as error:  # nothing of it is compared, and everyone is told
            why = f"{error.subject}: {error.why}"
            stands, unreadable = {}, tuple((node, why) for node in place.replicas)
    compacted = _is_compacted(config)
    groups = grouped(place.partition, compacted, place.isr, stands, start=start, seed=seed)
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
    client: Client, partition: TopicPartition, nodes: Sequence[int]
) -> tuple[dict[int, ReplicaOffsets], tuple[tuple[int, str], ...]]:
    """Where each replica stands, and those that cannot be asked, with the reason."""
    stands: dict[int, ReplicaOffsets] = {}
    unreadable: list[tuple[int, str]] = []
    for node in nodes:
        try:
            stands[node] = await client.replica(partition, node).offsets()
        except SextonError as error:
            unreadable.append((node, f"{error.subject}: {error.why}"))
    return stands, tuple(unreadable)


async def _offset_of(client: Client, place: PartitionPlace, time_ms: int) -> int:
    """Where the leader's first record from this time on is; its log end if there is none."""
    if place.leader < 0:
        raise PeerError(str(place.partition), "has no leader to ask for an offset by time")
    return await client.replica(place.partition, place.leader).offset_at(time_ms)


def grouped(
    partition: TopicPartition,
    compacted: bool,
    isr: Sequence[int],
    stands: Mapping[int, ReplicaOffsets],
    *,
    start: int,
    seed: int,
) -> tuple[Group, ...]:
    """Those that keep up with each other; then each other one with one of these."""
    if not stands:
        return ()
    furthest = max(each.last_stable for each in stands.values())
    current = [
        node
        for node, each in stands.items()
        if node in isr and not (each.last_stable < furthest <= each.high_watermark)
    ]
    if not current:
        current = [max(stands, key=lambda node: stands[node].last_stable)]

    def group(nodes: Sequence[int]) -> Group:
        begin = max(start, *(stands[node].log_start for node in nodes))
        end = min(stands[node].last_stable for node in nodes)
        return Group(Scope(partition, begin, max(begin, end), compacted, seed), tuple(nodes))

    alone = [group((current[0], node)) for node in stands if node not in current]
    return (group(current), *alone)
