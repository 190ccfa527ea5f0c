"""What is asked of a topic, and which offsets have to be read for it?

Offsets are settled once, before anything is read: every round of a validation reads the same
records, however much is written meanwhile. A partition that nobody leads is waited for as long as
an election takes, and is named then as one that was not read.

Where each record of a source has to be in the output, the end of the source comes first: what is
written while we ask must not be in the source alone. And no end is believed of a leader that was
replaced (`client.newest`): what it lacks would be missing in the output, or in the source.

Which topic it is, is not believed of one broker: it may not have heard yet that the topic was made
again. The leaders have to agree (`client.agreeing`); and that it is another topic than the one that
a stream has begun with, all brokers have to say for a while.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sexton.audit.checks import MOST_KEYS
from sexton.audit.validation import Rules
from sexton.base.errors import (
    PeerError,
    Refused,
    SextonError,
    no_such_partition,
    no_such_topic,
)
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.agreeing import agree_on_topics
from sexton.client.client import Client
from sexton.client.configs import topic_configs
from sexton.client.listing import EARLIEST, LATEST, NOT_FOUND, list_offsets
from sexton.client.news import asked_around
from sexton.client.reading import NO_ID, TopicReplaced
from sexton.client.replica import Isolation
from sexton.client.retrying import NEWS_MS, Patience, Trying, until_it_works
from sexton.client.topology import Topology, may_be_same
from sexton.survey.places import settings_of
from sexton.survey.plan import CLEANUP_POLICY
from sexton.survey.validating_tasks import Stretch, Where

_ELECTION = Patience(timeout_ms=15_000)  # longer than a broker's session: by then one is elected
_NEWS = Patience(unknown_topic_ms=NEWS_MS)
AT_ONCE = Patience(timeout_ms=0)  # whoever has mistyped an address wants to hear of it


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be validated, and how gently."""

    bootstrap_servers: str
    topic: str
    rules: Rules
    settings: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[int, ...] = ()  # empty: all
    since_ms: int | None = None
    until_ms: int | None = None
    settle_ms: int | None = None  # so long a record of the source may take until it is here
    most_keys: int = MOST_KEYS
    max_bytes_per_s: int | None = None  # from each broker

    def where(self, readers: int = 1) -> Where:
        limit = self.max_bytes_per_s
        share = None if limit is None else max(1.0, limit / max(1, readers))
        return Where(self.bootstrap_servers, settings_of(self.settings), share)


@dataclass(frozen=True, slots=True)
class Planned:
    """What there is to read."""

    cluster_id: str | None
    stretches: tuple[Stretch, ...]
    source: tuple[Stretch, ...]
    unread: Mapping[TopicPartition, str]  # what cannot be read, and why


async def planned(
    asked: Asked,
    given_up: Container[TopicPartition] = (),
    begun: Container[TopicPartition] = (),
    patience: Patience = AT_ONCE,
    topic_id: bytes = NO_ID,
) -> Planned:
    """`given_up` had no leader before: if they have none still, nobody waits for an election.

    For those that were `begun`, `since_ms` says nothing any more; `topic_id` is of the topic that
    they are of. A cluster that nobody reaches is waited for with `patience`.
    """
    rules = asked.rules
    unread: dict[TopicPartition, str] = {}
    async with asked.where().client() as client:
        names = [asked.topic, *([rules.source] if rules.source else [])]
        topology = await _topology(client, names, patience)
        topology = await _agreed(client, topology, asked, topic_id)
        source: tuple[Stretch, ...] = ()
        if rules.complete:  # first: what is written meanwhile must not be in the source alone
            source = await _source(client, topology, asked, unread)
        stretches = await _stretches(client, topology, asked, unread, given_up, begun)
        if rules.source and not rules.complete:
            source = await _source(client, topology, asked, unread)
        return Planned(topology.cluster_id, stretches, source, unread)


async def _source(
    client: Client, topology: Topology, asked: Asked, unread: dict[TopicPartition, str]
) -> tuple[Stretch, ...]:
    """All of the topic that this one is made from."""
    assert asked.rules.source is not None
    whole = replace(
        asked, topic=asked.rules.source, partitions=(), since_ms=None, until_ms=None,
        rules=replace(asked.rules, compare_isolation=False),
    )  # fmt: skip
    return await _stretches(client, topology, whole, unread)


async def _topology(client: Client, names: Sequence[str], patience: Patience) -> Topology:
    unknown: list[str] = []

    async def look() -> Topology:
        found = await client.topology(names)
        unknown[:] = [name for name in names if name not in found.topics]
        if unknown:
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, unknown[0])
        return found

    try:
        return await asked_around(client, look, patience)
    except Refused as error:
        if error.error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
            raise no_such_topic(*unknown) from None
        raise


async def _agreed(client: Client, found: Topology, asked: Asked, topic_id: bytes) -> Topology:
    """The same if its leaders know these topics by their ids, else what they come to agree on.

    If that is another topic than the one of `topic_id`, everybody says so.
    """
    names, trying = list(found.topics), Trying(_NEWS)
    try:
        while True:
            try:
                await agree_on_topics(client, found, _leaders(found, asked))
                if may_be_same(topic_id, found.topic(asked.topic).topic_id):
                    return found
                raise TopicReplaced(asked.topic)
            except (PeerError, Refused) as error:
                await trying.pause(error)
            client.look_elsewhere()
            found = await _topology(client, names, _NEWS)
    except TopicReplaced:
        return found


def _leaders(topology: Topology, asked: Asked) -> Iterator[tuple[int, str]]:
    """Of what is read: each with the topic that it leads a part of."""
    for topic in topology.topics.values():
        chosen = asked.partitions if topic.name == asked.topic else ()
        for number, place in topic.partitions.items():
            if place.leader >= 0 and (not chosen or number in chosen):
                yield place.leader, topic.name


async def cautions(asked: Asked) -> list[str]:
    """What one has to know to read the findings rightly, as sentences."""
    rules = asked.rules
    if rules.sequence is None and not rules.complete:
        return []
    try:
        async with asked.where().client() as client:
            told = await topic_configs(client, [asked.topic], (CLEANUP_POLICY,))
    except SextonError:
        return []  # not everybody may ask
    if "compact" not in (told[asked.topic].get(CLEANUP_POLICY) or ""):
        return []
    what = "records" if rules.complete else "numbers"
    return [f"{asked.topic} is compacted: {what} that are missing may simply have been superseded."]


async def _stretches(
    client: Client,
    topology: Topology,
    asked: Asked,
    unread: dict[TopicPartition, str],
    given_up: Container[TopicPartition] = (),
    begun: Container[TopicPartition] = (),
) -> tuple[Stretch, ...]:
    topic = topology.topic(asked.topic)
    missing = [number for number in asked.partitions if number not in topic.partitions]
    if missing:
        raise no_such_partition(asked.topic, missing[0], len(topic.partitions))
    chosen = [
        TopicPartition(asked.topic, number)
        for number in sorted(topic.partitions)
        if not asked.partitions or number in asked.partitions
    ]
    hoped_for = [at for at in chosen if at not in given_up or topology.place(at).leader >= 0]
    starts = await _starts(client, hoped_for)
    unread.update((at, "nobody leads it") for at in chosen if at not in starts)
    chosen = list(starts)
    every = dict.fromkeys(chosen, LATEST)
    rules = asked.rules
    committed = rules.committed or rules.compare_isolation
    isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    ends = await list_offsets(client, every, isolation, newest=True)
    tails = dict.fromkeys(chosen, 0)
    if rules.compare_isolation:
        tails = await list_offsets(client, every, newest=True)
    if asked.since_ms is not None:
        wanted = {at: asked.since_ms for at in chosen if at not in begun}
        at_time = await list_offsets(client, wanted, newest=True)
        for at, offset in at_time.items():
            starts[at] = max(starts[at], ends[at] if offset == NOT_FOUND else offset)
    if asked.until_ms is not None:
        wanted = dict.fromkeys(chosen, asked.until_ms)
        at_time = await list_offsets(client, wanted, newest=True)
        for at, offset in at_time.items():
            if offset != NOT_FOUND:
                ends[at], tails[at] = min(ends[at], offset), min(tails[at], offset)
    return tuple(
        Stretch(at, starts[at], max(starts[at], ends[at]), topic.topic_id, tails[at])
        for at in chosen
    )


async def _starts(client: Client, chosen: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Where each begins; without those that have had no leader for a while."""
    wanted = dict.fromkeys(chosen, EARLIEST)
    try:
        return await list_offsets(client, wanted, patience=_ELECTION)
    except (PeerError, Refused):
        topics = sorted({at.topic for at in chosen})
        topology = await until_it_works(lambda: client.topology(topics), _ELECTION)
        led = {at: time for at, time in wanted.items() if topology.place(at).leader >= 0}
        return await list_offsets(client, led)
