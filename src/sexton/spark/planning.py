"""From options to ranges: which partitions are there, and which offsets of them are meant?

    options ──▶ partitions ──▶ (earliest, latest) of each ──▶ [start, end), checked ──▶ ranges

Everything is settled here, once, on the driver: "latest" becomes a number, and so does a time. A
task then knows exactly what it owes. Whoever asks for offsets that are not there is told before
anything is read, unless `failOnDataLoss` is off.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sexton.base.errors import ConfigError, PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.agreeing import agree_on_topics
from sexton.client.client import Client
from sexton.client.listing import (
    EARLIEST,
    LATEST,
    NOT_FOUND,
    Listed,
    list_by_epoch,
    list_offsets,
)
from sexton.client.replica import Isolation
from sexton.client.retrying import until_it_works
from sexton.client.topology import PartitionPlace, Topology, may_be_same
from sexton.spark.asking import ARE_THEY_UP, REMEDY, answer_to, with_news
from sexton.spark.bounds import At, Bound, Edge, From
from sexton.spark.loss import begins_later, ends_earlier
from sexton.spark.options import EACH, SourceOptions, Topics
from sexton.spark.ranges import Leaders, OffsetRange, split, with_shares

T = TypeVar("T")
AT_ONCE = 32  # replicas that are asked for their offsets side by side


@dataclass(frozen=True, slots=True)
class Extent:
    """What there is of one partition, or of one replica of it."""

    at: TopicPartition
    topic_id: bytes
    leader: int  # or the replica that is meant
    earliest: int
    latest: int  # high watermark, or last stable offset
    log: str  # for people
    node: int | None = None  # None: whoever leads


async def with_client(
    options: SourceOptions, work: Callable[[Client], Awaitable[T]], *, is_running: bool = False
) -> T:
    """`is_running`: a stream, which has met these brokers before and waits for them."""
    remedy = REMEDY if is_running else ARE_THEY_UP
    async with Client(options.bootstrap_servers, options.client_config()) as client:
        what, meet = f"the cluster at {options.bootstrap_servers}", client.any_broker
        try:
            await answer_to(client, meet, options.patience, what, at_first=not is_running)
            remedy = REMEDY
            return await work(client)
        except PeerError as error:
            raise PeerError(error.subject, error.why, error.hint or remedy) from error


async def plan_ranges(client: Client, options: SourceOptions) -> list[OffsetRange]:
    """The ranges of a batch."""
    topology, chosen = await partitions_of(client, options)
    extents = await _extents(client, options, topology, chosen)
    _no_strangers(options.start, chosen)
    _no_strangers(options.end, chosen)
    starts = await _places(client, extents, options.start, options)
    ends = await _places(client, extents, options.end, options)
    ranges = []
    for extent, start, end in zip(extents, starts, ends, strict=True):
        first, stop = _checked(extent, start, end, options)
        ranges.append(OffsetRange(extent.at, first, stop, extent.topic_id, extent.node))
    leaders: Leaders = {(extent.at, extent.node): extent.leader for extent in extents}
    pieces = split(ranges, options.least_partitions, options.most_records)
    return with_shares(pieces, leaders, options.max_bytes_per_s)


# ── which partitions ──


async def partitions_of(
    client: Client,
    options: SourceOptions,
    read_before: Collection[TopicPartition] = (),
    ids: Mapping[str, bytes] | None = None,
) -> tuple[Topology, list[TopicPartition]]:
    """Those that the user means, in order; what was named and is not there is an error.

    What was read before, under these ids, is there: a broker that does not know it has old news,
    unless all say so.
    """
    topics = options.topics
    assert topics is not None, "without a path there are topics"
    named = list(topics.names) or list(dict.fromkeys(at.topic for at in topics.assigned))
    asked = None if topics.pattern is not None else named
    expected = [*topics.assigned, *(at for at in read_before if topics.takes(at))]

    def has_all(found: Topology) -> bool:
        return all(_is_there(found, name) for name in named) and all(
            _is_there(found, at.topic)
            and at.partition in (topic := found.topics[at.topic]).partitions
            and may_be_same((ids or {}).get(at.topic, topic.topic_id), topic.topic_id)
            for at in expected
        )

    async def ask() -> Topology:
        found = await client.topology(asked)
        await _confirm(client, options, found)
        return found

    what = f"metadata of {', '.join(named) or 'all topics'}"
    topology = await with_news(client, ask, has_all, options.patience, what)
    for name in named:
        if not _is_there(topology, name):
            raise await _no_topic(client, options, name)
    names = named if topics.pattern is None else _matching(topology, topics.pattern)
    found = [at for name in sorted(names) for at in _partitions(topology, name) if topics.takes(at)]
    _all_assigned(topics, found)
    return topology, found


async def _confirm(client: Client, options: SourceOptions, found: Topology) -> None:
    """Do those who will answer for the partitions know the same topics, by their ids?"""
    topics = options.topics
    assert topics is not None
    names = found.topics if topics.pattern is None else _matching(found, topics.pattern)
    places = (place for name in names for place in found.topics[name].partitions.values())
    await agree_on_topics(
        client,
        found,
        (
            (node, place.partition.topic)
            for place in places
            if topics.takes(place.partition)
            for node in _read_from(place, options)
        ),
    )


def _read_from(place: PartitionPlace, options: SourceOptions) -> Sequence[int]:
    if options.replica is None:
        return [place.leader] if place.leader >= 0 else []
    return [node for node in place.replicas if options.replica in (EACH, node)]


def _matching(topology: Topology, pattern: str) -> list[str]:
    return [
        topic.name
        for topic in topology.topics.values()
        if not topic.internal and re.fullmatch(pattern, topic.name)
    ]


def _is_there(topology: Topology, name: str) -> bool:
    return name in topology.topics and bool(topology.topics[name].partitions)


async def _no_topic(client: Client, options: SourceOptions, name: str) -> Refused:
    whole = await answer_to(client, client.topology, options.patience, "metadata of all topics")
    close = difflib.get_close_matches(name, whole.topics, n=1)
    hint = f"did you mean {close[0]}?" if close else None
    return Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}", hint)


def _partitions(topology: Topology, name: str) -> list[TopicPartition]:
    return [place.partition for place in topology.topic(name).partitions.values()]


def _all_assigned(topics: Topics, found: Sequence[TopicPartition]) -> None:
    for at in topics.assigned:
        if at not in found:
            why = f"the topic {at.topic} has no partition {at.partition}"
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, why)


def _no_strangers(bound: Bound, chosen: Sequence[TopicPartition]) -> None:
    for at in bound.named():
        if at not in chosen:
            raise ConfigError(bound.option, f"names {at}, which is not read", "leave it out")


# ── what there is of each ──


async def _extents(
    client: Client, options: SourceOptions, topology: Topology, chosen: Sequence[TopicPartition]
) -> list[Extent]:
    if options.replica is None:
        earliest, latest = await edges(client, options, chosen)
        return [
            Extent(
                at, topology.topic(at.topic).topic_id, topology.place(at).leader, earliest[at],
                latest[at].offset, str(at),
            )
            for at in chosen
        ]  # fmt: skip
    gate = asyncio.Semaphore(AT_ONCE)

    async def extent(at: TopicPartition, node: int) -> Extent:
        async with gate:
            replica = client.replica(at, node)
            told = await until_it_works(replica.offsets, options.patience)
        settled = options.isolation is Isolation.READ_COMMITTED
        latest = told.last_stable if settled else told.high_watermark
        topic_id = topology.topic(at.topic).topic_id
        return Extent(at, topic_id, node, told.log_start, latest, str(replica), node)

    asking = [extent(at, node) for at in chosen for node in _read_from(topology.place(at), options)]
    if not asking and chosen:
        raise ConfigError("replica", f"broker {options.replica} has no replica of these topics")
    return list(await asyncio.gather(*asking))


async def edges(
    client: Client, options: SourceOptions, chosen: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Listed]]:
    """Where each partition begins, and where a consumer has come to its end."""
    earliest = await list_offsets(
        client, dict.fromkeys(chosen, EARLIEST), patience=options.patience
    )
    latest = await list_by_epoch(
        client, dict.fromkeys(chosen, LATEST), options.isolation, options.patience, newest=True
    )
    return earliest, latest


# ── which offsets ──


async def _places(
    client: Client, extents: Sequence[Extent], bound: Bound, options: SourceOptions
) -> list[int]:
    """The offset that the bound means in each extent, whether it is there or not."""
    times = {
        extent.at: place.time_ms
        for extent in extents
        if isinstance(place := bound.of(extent.at), From) and extent.node is None
    }
    by_time = await list_offsets(client, times, options.isolation, options.patience, newest=True)
    return [await _place(client, extent, bound, by_time) for extent in extents]


async def _place(
    client: Client, extent: Extent, bound: Bound, by_time: Mapping[TopicPartition, int]
) -> int:
    match bound.of(extent.at):
        case Edge.EARLIEST:
            return extent.earliest
        case Edge.LATEST:
            return extent.latest
        case At(offset):
            return offset
        case From(time_ms, or_latest):
            if extent.node is None:
                found = by_time[extent.at]
            else:
                found = await client.replica(extent.at, extent.node).offset_at(time_ms)
            if found == NOT_FOUND or found >= extent.latest:
                if not or_latest:
                    why = f"{extent.log} has no record from {time_ms} on"
                    hint = "set startingOffsetsByTimestampStrategy to latest to read none of it"
                    raise ConfigError(bound.option, why, hint)
                return extent.latest
            return max(found, extent.earliest)


async def start_offsets(
    client: Client, options: SourceOptions, chosen: Sequence[TopicPartition], topology: Topology
) -> dict[TopicPartition, int]:
    """Where a stream begins."""
    _no_strangers(options.start, chosen)
    extents = await _extents(client, options, topology, chosen)
    places = await _places(client, extents, options.start, options)
    checked = [
        _checked(extent, start, extent.latest, options)[0]
        for extent, start in zip(extents, places, strict=True)
    ]
    return dict(zip(chosen, checked, strict=True))


def _checked(extent: Extent, start: int, end: int, options: SourceOptions) -> tuple[int, int]:
    """The range if it is there; what of it is there, if the user can do with less."""
    if end < start and options.start.edge is None and options.end.edge is None:
        what = f"{extent.log}: {end} is before {start}, where {options.start.option} begins"
        raise ConfigError(options.end.option, what)
    word = "last stable offset" if options.isolation else "high watermark"
    if start < extent.earliest:
        if options.fail_on_data_loss:
            raise begins_later(extent.log, start, extent.earliest)
        start = extent.earliest
    for bound in (start, end):
        if bound > extent.latest and options.fail_on_data_loss:
            raise ends_earlier(extent.log, bound, extent.latest, word)
    start, end = min(start, extent.latest), min(end, extent.latest)
    return start, max(start, end)
