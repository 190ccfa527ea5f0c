"""A topic as a stream: which offsets come next, and which ranges they are.

Spark keeps the offsets between batches, and across restarts, as JSON that we give it:

    {"orders": {"id": "2f...", "epochs": {"0": 4, "1": 6}, "0": 120, "1": 97}}

as in Spark's own Kafka source, and with the topic's id: a topic that was deleted and made again
under its name has other records at the same offsets, and nobody would notice by the numbers alone.
Nor would anybody if an unclean election has cut a partition and it has grown since. So the epoch of
the leader that named an offset is kept with it, and a later leader is asked whether its log has all
that was there (`client.epochs`), before a batch is planned, and before one is read that an earlier
run has planned. A checkpoint of Spark's own source has neither, and is taken up as it is.

A batch is all that is there, or with `maxOffsetsPerTrigger` a part of it, taken from partitions in
proportion to what they hold. Partitions that appear are read from their beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.epochs import parts_at
from sexton.client.listing import EARLIEST, LATEST, Listed, list_by_epoch, list_offsets
from sexton.client.topology import Topic, Topology, may_be_same
from sexton.spark.asking import with_news
from sexton.spark.loss import DataLoss, begins_later, cut_before
from sexton.spark.options import SourceOptions
from sexton.spark.planning import AT_ONCE, edges, partitions_of, start_offsets, with_client
from sexton.spark.ranges import Leaders, OffsetRange, split, with_shares
from sexton.spark.source import read

T = TypeVar("T")
_ID, _EPOCHS = "id", "epochs"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where a stream stands."""

    next: dict[TopicPartition, int] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)  # of topics, as far as they are known
    # Of the leaders that had all before these offsets, as far as they are known.
    epochs: dict[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> Json:
        told: Json = {}
        for at in sorted(self.next):
            known = {_ID: self.ids[at.topic].hex()} if at.topic in self.ids else {}
            topic = told.setdefault(at.topic, known)
            if at in self.epochs:
                topic.setdefault(_EPOCHS, {})[str(at.partition)] = self.epochs[at]
            topic[str(at.partition)] = self.next[at]
        return told

    @classmethod
    def from_json(cls, told: Json) -> Offsets:
        found = cls()
        for topic, entries in told.items():
            if _ID in entries:
                found.ids[topic] = bytes.fromhex(entries[_ID])
            for name, epoch in entries.get(_EPOCHS, {}).items():
                found.epochs[TopicPartition(topic, int(name))] = int(epoch)
            for name, offset in entries.items():
                if name not in (_ID, _EPOCHS):
                    found.next[TopicPartition(topic, int(name))] = int(offset)
        return found


NOWHERE = Offsets()


class SextonStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: Offsets | None = None  # with Trigger.AvailableNow: go as far as this
        # Since it was started, whatever an earlier run has left in a checkpoint: the address may
        # have been mistyped today.
        self._has_met_brokers = False
        # By partition: an offset, and the epoch of a leader that has all before it.
        self._had: dict[TopicPartition, tuple[int, int]] = {}
        self._planned: Json | None = None  # how far the last batch goes that this run has planned

    def _run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async def meet(client: Client) -> T:
            self._has_met_brokers = True
            return await work(client)

        return asyncio.run(with_client(self._options, meet, is_running=self._has_met_brokers))

    # ── where it stands ──

    def initialOffset(self) -> Json:  # noqa: N802
        return self._run(self._initial).to_json()

    async def _initial(self, client: Client) -> Offsets:
        topology, chosen = await partitions_of(client, self._options)
        starts = await start_offsets(client, self._options, chosen, topology)
        return Offsets(starts, _ids(topology, chosen))

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        begun = Offsets.from_json(start)
        earliest, now = self._run(lambda client: self._next(client, begun))
        target = now if self._target is None else _at_most(now, self._target, begun)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        found = following(begun, earliest, target, most, self._options.fail_on_data_loss)
        self._planned = found.to_json()
        return self._planned

    async def _next(
        self, client: Client, begun: Offsets
    ) -> tuple[dict[TopicPartition, int], Offsets]:
        earliest, now = await self._now(client, begun)
        if self._options.fail_on_data_loss:
            await self._still_there(client, begun, now)
        return earliest, now

    async def _still_there(
        self, client: Client, begun: Offsets, now: Offsets, was: str = "had been read"
    ) -> None:
        """DataLoss if a later leader's log parts from the one that was read, before its end.

        Each later leader is asked once: a partition may stand still for long.
        """
        gate = asyncio.Semaphore(AT_ONCE)

        async def look(at: TopicPartition, reached: int, epoch: int, later: int) -> None:
            async with gate:
                ends = await parts_at(client, at, epoch, later, self._options.patience)
            if ends is not None and ends < reached:
                raise cut_before(at, ends, reached, was)
            self._had[at] = reached, later

        looking = []
        for at, reached in begun.next.items():
            epoch, later = begun.epochs.get(at), now.epochs.get(at)
            if epoch is None or later is None or later <= epoch or _replaced(begun, now, at):
                continue
            if self._had.get(at) != (reached, later):
                looking.append(look(at, reached, epoch, later))
        await asyncio.gather(*looking)

    async def _now(
        self, client: Client, begun: Offsets = NOWHERE
    ) -> tuple[dict[TopicPartition, int], Offsets]:
        topology, chosen = await partitions_of(client, self._options, begun.next, begun.ids)
        earliest, latest = await edges(client, self._options, chosen)
        ends = {at: each.offset for at, each in latest.items()}
        return earliest, Offsets(ends, _ids(topology, chosen), _epochs(latest))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.most_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._run(self._now)[1]

    def reportLatestOffset(self) -> Json:  # noqa: N802
        return self._run(self._now)[1].to_json()

    # ── what to read ──

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        begun, until = Offsets.from_json(start), Offsets.from_json(end)
        again = end != self._planned
        return self._run(lambda client: self._ranges(client, begun, until, again=again))

    async def _ranges(
        self, client: Client, begun: Offsets, until: Offsets, *, again: bool = False
    ) -> list[OffsetRange]:
        """`again`: an earlier run has planned this batch, and nobody has looked at it since."""
        options = self._options
        there = await self._there(client, until)
        if again and until.epochs and options.fail_on_data_loss:
            ends = dict.fromkeys(there, LATEST)
            latest = await list_by_epoch(client, ends, patience=options.patience, newest=True)
            now = Offsets(ids=until.ids, epochs=_epochs(latest))
            await self._still_there(client, until, now, "a batch was planned")
        new = [at for at in there if at not in begun.next or _replaced(begun, until, at)]
        earliest = await list_offsets(
            client, dict.fromkeys(new, EARLIEST), patience=options.patience
        )
        ranges = []
        for at, topic in there.items():
            start = earliest[at] if at in earliest else begun.next[at]
            if at not in begun.next and start > 0 and options.fail_on_data_loss:
                raise begins_later(at, 0, start)  # since this batch was planned for the first time
            ranges.append(OffsetRange(at, start, max(start, until.next[at]), topic.topic_id))
        pieces = split(ranges, options.least_partitions, options.most_records)
        leaders: Leaders = {
            (at, None): topic.partitions[at.partition].leader for at, topic in there.items()
        }
        return with_shares(pieces, leaders, options.max_bytes_per_s)

    async def _there(self, client: Client, until: Offsets) -> dict[TopicPartition, Topic]:
        """The partitions of a batch, each as somebody knows it who has heard of it.

        Spark takes a batch that was planned for read: what is left out here is never read again. So
        one broker with old news is not believed, and what any of them knows is there.

        A batch that was planned by an earlier run may be of a topic that is gone since, and Spark
        would come with it again at each start. If the loss is accepted, nothing of it is read, and
        the next batch is planned with what there is.
        """
        found: dict[TopicPartition, Topic] = {}

        def has_all(told: Topology) -> bool:
            found.update(
                {at: told.topics[at.topic] for at in until.next if _knows(told, until, at)}
            )
            return len(found) == len(until.next)

        topics, patience = sorted({at.topic for at in until.next}), self._options.patience
        what = f"metadata of {', '.join(topics)}"
        last = await with_news(client, lambda: client.topology(topics), has_all, patience, what)
        lost = [at for at in until.next if at not in found]
        if lost and self._options.fail_on_data_loss:
            at = lost[0]
            raise _remade(at.topic) if _is_other(last, until, at) else DataLoss(f"{at} is gone")
        return {at: found[at] for at in until.next if at in found}

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read(self._options, partition)


def _ids(topology: Topology, chosen: Iterable[TopicPartition]) -> dict[str, bytes]:
    return {at.topic: topology.topic(at.topic).topic_id for at in chosen}


def _epochs(latest: Mapping[TopicPartition, Listed]) -> dict[TopicPartition, int]:
    return {at: each.leader_epoch for at, each in latest.items() if each.leader_epoch >= 0}


def _is_other(told: Topology, planned: Offsets, at: TopicPartition) -> bool:
    topic = told.topics.get(at.topic)
    if topic is None or at.topic not in planned.ids:
        return False
    return not may_be_same(planned.ids[at.topic], topic.topic_id)


def _knows(told: Topology, planned: Offsets, at: TopicPartition) -> bool:
    topic = told.topics.get(at.topic)
    has_it = topic is not None and at.partition in topic.partitions
    return has_it and not _is_other(told, planned, at)


def _replaced(begun: Offsets, now: Offsets, at: TopicPartition) -> bool:
    both = at.topic in begun.ids and at.topic in now.ids
    return both and not may_be_same(begun.ids[at.topic], now.ids[at.topic])


def _remade(topic: str) -> DataLoss:
    return DataLoss(f"the topic {topic} was deleted and made again")


def _at_most(now: Offsets, target: Offsets, begun: Offsets) -> Offsets:
    """What is there, without what came after the target was set.

    What was read before stays, though whoever was asked for the target had not heard of it.
    """
    most = {at: max(target.next.get(at, 0), begun.next.get(at, 0)) for at in now.next}
    known = target.next.keys() | begun.next.keys()
    kept = {at: min(end, most[at]) for at, end in now.next.items() if at in known}
    return Offsets(kept, {at.topic: now.ids[at.topic] for at in kept}, now.epochs)


def following(
    begun: Offsets,
    earliest: Mapping[TopicPartition, int],
    now: Offsets,
    most: int | None,
    fail_on_data_loss: bool,
) -> Offsets:
    """How far the next batch goes; DataLoss if something between is not there any more."""
    losses = list(_losses(begun, earliest, now))
    if losses and fail_on_data_loss:
        raise losses[0]
    carried_on = {at for at in now.next if at in begun.next and not _replaced(begun, now, at)}
    starts = {
        at: min(begun.next[at] if at in carried_on else earliest[at], end)
        for at, end in now.next.items()
    }
    sizes = {at: end - starts[at] for at, end in now.next.items()}
    taken = sizes if most is None else _shares(sizes, most)
    ends = {at: starts[at] + taken[at] for at in starts}
    # A new leader alone is no news: Spark would run a batch for it, with nothing in it.
    stand_still = {at for at in carried_on if ends[at] == begun.next[at]}
    epochs = {at: (begun if at in stand_still else now).epochs.get(at) for at in ends}
    return Offsets(ends, now.ids, {at: each for at, each in epochs.items() if each is not None})


def _losses(
    begun: Offsets, earliest: Mapping[TopicPartition, int], now: Offsets
) -> Iterator[DataLoss]:
    for at, start in begun.next.items():
        if at not in now.next:
            yield DataLoss(f"{at} is gone; it had been read up to offset {start}")
        elif _replaced(begun, now, at):
            yield _remade(at.topic)
        elif now.next[at] < start:
            yield DataLoss(f"{at} ends at {now.next[at]}; it had been read up to offset {start}")
        elif earliest[at] > start:
            yield begins_later(at, start, earliest[at])
    for at, start in earliest.items():
        if at not in begun.next and start > 0:
            yield begins_later(at, 0, start)


def _shares(sizes: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """Of each partition in proportion to its size, at least one offset where there is any."""
    whole = sum(sizes.values())
    if whole <= most:
        return dict(sizes)
    return {
        at: min(size, max(1, size * most // whole)) if size else 0 for at, size in sizes.items()
    }
