"""Rebuilds the wrong replicas of a topic, from those that are right.

    freeze ─▶ for each partition: look, `machines.repair.next_step`, act ─▶ audit again ─▶ release
      │                              ▲                         │
      └── noted before it is done ───┴──── until it is done ───┘

The topic is audited before it is cleaned again: a pass of the cleaner that ran already when the
topic was frozen may have removed a tombstone under a replica that was copying. If the audit still
finds something that can be mended, it is mended in another round, at most `MOST_ROUNDS` in all.

It can die anywhere: the notes say what was begun, and whoever runs it again goes on. If the topic
was deleted meanwhile, what it had set on brokers is put back, and it is over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.admin import elect, reassign
from sexton.client.client import Client
from sexton.client.retrying import until_it_works
from sexton.client.topology import may_be_same
from sexton.guard.permissions import CLUSTER, OF_REPAIR, needing
from sexton.guard.repair_notes import Notes, NotesFile
from sexton.guard.repair_options import HeldOptions, check_throttle
from sexton.guard.repair_sight import check_same, look
from sexton.machines.guard_notes import Lags
from sexton.machines.guard_views import SEVERAL
from sexton.machines.repair import (
    Done,
    Job,
    Lead,
    Move,
    Noted,
    Sight,
    Stop,
    Wait,
    next_step,
)

PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
STALLED_S: Final = 600.0  # without any progress at all
MOST_ROUNDS: Final = 2
CLEANED_AGAIN: Final = "is cleaned again as before"
STAYS_FROZEN: Final = "is frozen by others and stays so: `sexton guard status` says why"
HOLD_AGAIN_S: Final = 10.0  # somebody may have set the topic free meanwhile, a guard say
_NOT_HELD = (
    KafkaError.NOT_LEADER_OR_FOLLOWER,
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
)
_PASSING = (  # a controller that is busy with the last change, or a broker that has old news
    KafkaError.NOT_CONTROLLER,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NO_REASSIGNMENT_IN_PROGRESS,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
)

Tell = Callable[[TopicPartition | None, str], None]


def _nobody(_partition: TopicPartition | None, _what: str) -> None: ...


@dataclass(slots=True)
class Repair:
    """One topic's repair, from its notes to its end."""

    client: Client
    file: NotesFile
    notes: Notes
    tell: Tell = _nobody
    throttle_bytes_per_s: int | None = None
    stalled_s: float = STALLED_S
    _held: HeldOptions = field(init=False)
    _held_s: float = field(init=False, default=0.0)  # when that was last seen to

    def __post_init__(self) -> None:
        self._held = HeldOptions(self.client, self.notes, self._keep)

    # ── all of it, by parts ──

    async def rebuild(self) -> None:
        """Every job that is not done; the topic is frozen from the first one on."""
        await self._check_topic()
        for job in self.notes.jobs:
            if not job.done:
                await self._hold(job)
                await self._run(job)

    async def release(self, guards: Lags | None = None) -> list[str]:
        """The topic's options as they were, and no notes any more.

        `guards`: what a guard will put back that holds the topic as well.
        """
        stays = await self._held.was_frozen() or self._held.are_left_to(guards)
        theirs = await self._held.release(guards)
        self.notes = self._held.notes
        self.file.clear()
        self.tell(None, f"{self.notes.topic} {STAYS_FROZEN if stays else CLEANED_AGAIN}")
        return theirs

    async def is_gone(self) -> bool:
        """Do brokers agree that this very topic is not there any more?

        One that has not heard of it, or only of its predecessor, proves nothing. Nor does one that
        tells no topic ids.
        """
        topic_id = bytes.fromhex(self.notes.topic_id)
        topic, nodes = self.notes.topic, sorted((await self.client.topology([])).brokers)
        answered = 0
        for node in nodes:
            try:
                known = (await self.client.topology_by(node, [topic])).topics.get(topic)
            except PeerError:
                continue
            answered += 1
            if known is not None and may_be_same(topic_id, known.topic_id):
                return False
        return answered >= max(1, min(SEVERAL, len(nodes)))

    async def forsake(self) -> list[str]:
        """Of a topic that is gone: what was set on brokers does not go with it."""
        left = await self._held.release_brokers()
        self.file.clear()
        return left

    def add(self, jobs: Sequence[Job]) -> None:
        """Another round."""
        more = replace(self.notes, jobs=tuple(jobs), rounds=self.notes.rounds + 1)
        self._keep(more)

    def _keep(self, notes: Notes) -> None:
        self.notes = self._held.notes = notes
        self.file.write(notes)

    async def _check_topic(self) -> None:
        topology = await self.client.topology([self.notes.topic])
        if topology.cluster_id != self.notes.cluster_id:
            why = f"are of the cluster {self.notes.cluster_id}, and this is {topology.cluster_id}"
            raise PeerError("the notes of the repair", why, "choose another --state")
        topic = topology.topic(self.notes.topic)
        check_same(topic.name, self.notes.topic_id, topic.topic_id)

    # ── one partition ──

    async def _run(self, job: Job) -> None:
        pause_s, seen, since = PAUSE_S, None, time.monotonic()
        said = ""
        while True:
            sight, progress = await self._look(job)
            step = next_step(job, sight)
            match step:
                case Done():
                    self._keep(self.notes.with_job(replace(job, done=True)))
                    return
                case Noted(job, why):
                    self._keep(self.notes.with_job(job))
                    self.tell(job.partition, why)
                case Stop(why, hint):
                    raise PeerError(str(job.partition), why, hint)
                case Lead(node, replicas):
                    self.tell(job.partition, f"broker {node} is elected")
                    await self._lead(job, sight, node, replicas)
                case Move(replicas, why):
                    if job.left:
                        await self._hold(job)
                        if next_step(job, (await self._look(job))[0]) != step:
                            continue  # that took its time, and somebody has left the ISR say
                    self.tell(job.partition, why)
                    await self._move(job.partition, replicas)
                case Wait(why):
                    if why != said:
                        self.tell(job.partition, why)
                    said = why
                    if job.left and time.monotonic() - self._held_s > HOLD_AGAIN_S:
                        await self._hold(job)
            now = time.monotonic()
            if (sight, progress) != seen:
                seen, since, pause_s = (sight, progress), now, PAUSE_S
            elif now - since > self.stalled_s:
                why = f"no progress for {self.stalled_s:g} s: {said or 'nothing changes'}"
                raise PeerError(str(job.partition), why, "fix that, then run it again to continue")
            if not isinstance(step, Noted):
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)

    async def _hold(self, job: Job) -> None:
        await until_it_works(lambda: self._hold_now(job))

    async def _hold_now(self, job: Job) -> None:
        """Cleaning stops, and copying is slowed down if that is wanted; again, if it is undone."""
        await self._check_topic()
        nodes = {*job.replicas, *((job.helper,) if job.helper is not None else ())}
        live = sorted(nodes & {*(await self.client.topology([])).brokers})
        before = self.notes.options
        await self._held.freeze(live)
        if self.throttle_bytes_per_s is not None:
            await self._held.throttle(live, self.throttle_bytes_per_s)
        self._held_s = time.monotonic()
        if self.notes.options != before:
            self.tell(None, f"{self.notes.topic} is not cleaned meanwhile")

    async def _look(self, job: Job) -> tuple[Sight, int]:
        """The partition now, and how far the replica under way has got."""
        sight = await look(self.client, job.partition, self.notes.topic_id)
        under_way = job.left[:1] or ((job.helper,) if job.helper is not None else ())
        holding, progress = set(), -1
        for node in under_way:
            try:
                progress = (await self.client.replica(job.partition, node).offsets()).log_end
                holding.add(node)
            except Refused as error:
                if error.error not in _NOT_HELD:
                    holding.add(node)
            except PeerError:
                holding.add(node)  # it may have it still
        return replace(sight, holding=frozenset(holding)), progress

    async def _lead(self, job: Job, sight: Sight, node: int, replicas: Sequence[int]) -> None:
        if sight.replicas[0] != node:
            await self._move(job.partition, replicas)
        try:
            elections = await elect(self.client, [job.partition])
        except PeerError as error:
            self.tell(job.partition, f"not yet: {error.why}")
            return
        for election in elections:
            if election.failed:
                self.tell(job.partition, f"not yet: {election.failed}")

    async def _move(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        try:
            await reassign(self.client, {partition: replicas})
        except (PeerError, Refused) as error:
            if isinstance(error, Refused) and error.error not in _PASSING:
                raise
            self.tell(partition, f"not yet: {error.why}")


async def check_rights(client: Client, throttle_bytes_per_s: int | None = None) -> None:
    """Before anything is set: who may not move replicas, or not throttle that, would leave the
    topic frozen."""
    with needing("Alter", CLUSTER, OF_REPAIR):
        await until_it_works(lambda: reassign(client, {}))
    rate = throttle_bytes_per_s
    if rate is not None:
        with needing("AlterConfigs", CLUSTER, OF_REPAIR):
            await until_it_works(lambda: check_throttle(client, rate))


def begin(file: NotesFile, notes: Notes) -> Notes:
    """Notes of a repair that begins now; an earlier one must be ended first."""
    if file.read() is not None:
        raise SextonError(str(file.path), "holds the notes of an unfinished repair")
    file.write(notes)
    return notes
