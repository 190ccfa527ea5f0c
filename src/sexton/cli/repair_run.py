"""One repair as a command: audit, plan, consent, rebuild, audit again, and what is said of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError, SextonError, no_such_topic
from sexton.cli.consent import consent
from sexton.cli.options import BOOTSTRAP_SERVERS
from sexton.cli.output import Output
from sexton.cli.repair_look import Looked, audited, reported
from sexton.cli.repair_request import Request
from sexton.cli.repair_show import (
    STEPS,
    show_choices,
    show_left,
    show_left_behind,
    show_not_mended,
    show_plans,
    show_undone,
    show_unfinished,
)
from sexton.cli.writers import Format
from sexton.report.tables import Row

if TYPE_CHECKING:
    from sexton.base.partitions import TopicPartition
    from sexton.client.client import Client
    from sexton.client.topology import Topic
    from sexton.guard.repair_doubts import Doubted
    from sexton.guard.repair_notes import Notes, NotesFile
    from sexton.guard.repair_planning import Plan
    from sexton.machines.guard_notes import Lags
    from sexton.machines.repair import Job

REQUEST_TIMEOUT_MS, CONNECT_TIMEOUT_MS = 30_000, 3_000


def repair(request: Request, chosen: Format, reached: str = "") -> None:
    with Output("repair", chosen, reached=reached) as out:
        asyncio.run(_with_client(request, out))


async def _with_client(request: Request, out: Output) -> None:
    from sexton.client.client import Client
    from sexton.client.connection import ClientConfig
    from sexton.client.settings import client_config
    from sexton.guard.repair_notes import NotesFile, default_path

    patient = ClientConfig(
        request_timeout_ms=REQUEST_TIMEOUT_MS, socket_connection_setup_timeout_ms=CONNECT_TIMEOUT_MS
    )
    config = client_config(request.settings, patient)
    async with Client(request.settings[BOOTSTRAP_SERVERS], config) as client:
        topology = await client.topology([request.topic])
        path = request.state or default_path(topology.cluster_id or "", request.topic)
        if request.topic not in topology.topics:
            if path.exists():
                with NotesFile(path) as file:
                    run = _Run(request, out, client, file)
                    await run.unfinished()
                    if run.forsaken:
                        return
            raise no_such_topic(request.topic)
        topic = topology.topic(request.topic)
        _check_trusted(request, topic)
        with NotesFile(path) as file:
            await _Run(request, out, client, file, topic.topic_id.hex()).run()


def _check_trusted(request: Request, topic: Topic) -> None:
    """Is there a copy that could be trusted?"""
    places = [each for each in topic.partitions.values() if request.means(each.partition)]
    holding = sorted({node for place in places for node in place.replicas})
    if request.trusted is not None and places and request.trusted not in holding:
        hint = f"{', '.join(map(str, holding))} {'do' if len(holding) > 1 else 'does'}"
        raise ConfigError(f"--trust {request.trusted}", f"holds no replica of {request}", hint)


@dataclass(slots=True)
class _Run:
    request: Request
    out: Output
    client: Client
    file: NotesFile
    topic_id: str = ""  # of the topic that was there when it began
    steps: list[Row] = field(default_factory=list)  # what was done, in order
    doubted: Doubted | None = None  # by a guard, before the last audit
    unasked: SextonError | None = None  # why nobody could look for a guard
    forsaken: bool = False  # a repair that was interrupted is over: its topic was deleted

    async def run(self) -> None:
        await self._tell_of_others()
        notes = await self.unfinished()
        if notes is not None:
            await self._go_on(notes)
            return
        looked = await self._look()
        plans = await self._plans(looked)
        show_plans(plans, self.request, self.out)
        jobs = _jobs(plans)
        self.out.summarize(partitions=len(plans), to_rebuild=sum(len(job.wrong) for job in jobs))
        if self.request.dry_run:
            show_undone(plans, looked, self.out)
        if not jobs or self.request.dry_run:
            show_left(plans, looked, self.request, self.out)
            if not self.request.dry_run and self.request.findings is None:
                await self._tell_guard(looked)
            return
        self._ask(jobs)
        await self._begin(jobs)

    # ── before it begins ──

    async def _tell_of_others(self) -> None:
        from sexton.guard.repair_notes import left_behind

        cluster_id = (await self.client.topology([])).cluster_id
        show_left_behind(left_behind(cluster_id or "", self.request.topic), self.out)

    async def unfinished(self) -> Notes | None:
        """Notes of a repair that was interrupted, and of the very topic that is there now."""
        from sexton.guard.repair import Repair

        notes = self.file.read()
        if notes is None:
            return None
        self._check_meant(notes, (await self.client.topology([])).cluster_id or "")
        repair = Repair(self.client, self.file, notes)
        if not await repair.is_gone():
            return notes
        self.forsaken = True
        self.out.say(f"{notes.topic} was deleted after its repair began: that is over.")
        if self.request.dry_run:
            self.out.say("Its settings on brokers would be restored.")
            return None
        for what in await repair.forsake():
            self.out.say(f"left as it is: {what}")
        return None

    def _check_meant(self, notes: Notes, cluster_id: str) -> None:
        """--state may name any file: is it about this topic of this cluster?"""
        path = str(self.file.path)
        if notes.cluster_id != cluster_id:
            why = f"has the notes of a repair in the cluster {notes.cluster_id}, not {cluster_id}"
            raise ConfigError(path, why, "choose another --state, or the -b of that cluster")
        if notes.topic != self.request.topic:
            hint = f"go on with that one: `sexton repair {notes.topic}`, or choose another --state"
            raise ConfigError(path, f"has the notes of a repair of {notes.topic}", hint)

    async def _look(self) -> Looked:
        """What an audit says, after keys were written anew that somebody decided about."""
        from sexton.guard.repair_choices import check_unwritten, choices_of, publish

        request = self.request
        if request.findings is not None:
            cluster_id = (await self.client.topology([])).cluster_id
            return reported(request.findings, request, cluster_id)
        looked = await self._audit(request.only)
        found = looked.findings
        choices = choices_of(found, request.tombstones, request.values, request.as_on)
        if not choices:
            return looked
        show_choices(choices, request, self.out)
        if request.dry_run:
            return looked.without(choices)
        self._consent("write " + ("this record" if len(choices) == 1 else "these records"))
        plain = request.show_keys
        await check_unwritten(self.client, choices, found, looked.ends, plain_keys=plain)
        await self._check_same()
        for choice in choices:
            await publish(self.client, choice, found)
        return await self._audit(request.only)

    async def _audit(self, only: Sequence[TopicPartition]) -> Looked:
        self.doubted = await self._doubts()
        return await audited(self.request, self.out, only)

    async def _plans(self, looked: Looked) -> list[Plan]:
        from sexton.guard.repair_planning import plan_repair

        request = self.request
        plans = await plan_repair(self.client, looked.judged, trusted=request.trusted)
        unread = {at for at, _node, _why in looked.unread}
        consent = request.keep_copy is not None or request.trusted is not None
        return [_checked(each, unread, {} if consent else looked.unjudged) for each in plans]

    def _ask(self, jobs: Sequence[Job]) -> None:
        replicas = sum(len(job.left) for job in jobs)
        self._consent(f"rebuild {replicas} replica{'s' if replicas > 1 else ''}")

    def _consent(self, what: str) -> None:
        consent("repair", what, self.request.yes, "--dry-run")

    # ── doing it ──

    async def _begin(self, jobs: Sequence[Job]) -> None:
        from sexton.guard.repair import begin, check_rights
        from sexton.guard.repair_notes import Notes

        await check_rights(self.client, self.request.throttle_bytes_per_s)
        cluster_id = await self._check_same()
        notes = Notes(
            cluster_id, self.request.topic, self.topic_id, int(time.time() * 1000), jobs=tuple(jobs)
        )
        await self._keep_copies(jobs)
        begin(self.file, notes)
        await self._finish(notes, self._scope(notes))

    async def _check_same(self) -> str:
        """What was audited, and somebody has said yes to, is of this very topic; the cluster's id.

        The question may have waited for hours.
        """
        from sexton.guard.repair_sight import check_same

        topology = await self.client.topology([self.request.topic])
        check_same(self.request.topic, self.topic_id, topology.topic(self.request.topic).topic_id)
        return topology.cluster_id or ""

    async def _keep_copies(self, jobs: Sequence[Job]) -> None:
        from sexton.guard.repair_copy import keep_copy

        if self.request.keep_copy is None:
            return
        for job in jobs:
            for node in job.wrong:
                path = await keep_copy(self.client, job.partition, node, self.request.keep_copy)
                self._did(job.partition, f"broker {node}'s copy is kept in {path}")

    async def _go_on(self, notes: Notes) -> None:
        """With a repair that was interrupted."""
        from sexton.guard.repair_sight import look
        from sexton.machines.repair import is_overtaken, planned_steps

        self.out.say(f"continuing an interrupted repair: {self.file.path}")
        left = [job for job in notes.jobs if not job.done]
        overtaken: list[Job] = []
        rows: list[Row] = []
        for job in left:
            sight = await look(self.client, job.partition, notes.topic_id)
            if is_overtaken(job, sight):
                overtaken.append(job)
                self.out.say(f"{job.partition} has been reassigned since: it is judged again.")
            else:
                rows += [(*job.partition, n, s) for n, s in enumerate(planned_steps(job, sight), 1)]
        self.out.rows("plans", STEPS, rows)
        if self.request.dry_run:
            show_unfinished(notes.topic, sum(len(job.left) for job in left), self.out)
            return
        self._consent("go on")
        only = self._scope(notes)
        if overtaken:
            jobs = tuple(job for job in notes.jobs if job not in overtaken)
            notes = replace(notes, jobs=jobs, rounds=1)
        await self._finish(notes, only)

    async def _finish(self, notes: Notes, only: tuple[TopicPartition, ...]) -> None:
        from sexton.guard.repair import MOST_ROUNDS, Repair

        throttle = self.request.throttle_bytes_per_s
        repair = Repair(self.client, self.file, notes, self._did, throttle)
        try:
            while True:
                await repair.rebuild()
                looked = await self._audit(only)
                again = await self._plans(looked)
                if repair.notes.rounds >= MOST_ROUNDS:
                    break
                more = self._wanted(_jobs(again), notes.jobs)
                if not more:
                    break
                await self._keep_copies(more)
                repair.add(more)
            theirs = await repair.release(await self._guards(repair.notes))
        except BaseException:
            self.out.say("It is not finished: run the same command again, and it continues.")
            raise
        finally:
            self.out.rows("steps", STEPS, self.steps)
        for what in theirs:
            self.out.say(f"left as it is: {what}")
        show_not_mended(again, looked, self.request, self.out)
        show_left(again, looked, self.request, self.out)
        await self._tell_guard(looked)
        rebuilt = sum(len(job.rebuilt) for job in repair.notes.jobs)
        self.out.summarize(rebuilt=rebuilt, findings_left=len(looked.findings))

    def _wanted(self, jobs: Sequence[Job], before: Sequence[Job]) -> list[Job]:
        """Those of another round: who said yes to some replicas is asked about others."""
        agreed = {(job.partition, node) for job in before for node in job.wrong}
        others = [job for job in jobs if not _replicas(job) <= agreed]
        if others:
            new = sorted(set().union(*map(_replicas, others)) - agreed)
            named = ", ".join(f"{at} on broker {node}" for at, node in new)
            what = "another replica" if len(new) == 1 else f"{len(new)} other replicas"
            try:
                self._consent(f"rebuild {what}, too ({named})")
            except ConfigError:  # what was begun has come to its end all the same
                return [job for job in jobs if job not in others]
        return [*jobs]

    def _scope(self, notes: Notes) -> tuple[TopicPartition, ...]:
        """What is audited in the end: an earlier repair may have begun with more than this one."""
        begun = {job.partition for job in notes.jobs}
        return self.request.only if begun <= {*self.request.only} else ()

    # ── the guard ──

    async def _doubts(self) -> Doubted | None:
        """Does a guard hold the topic for a doubt? Not everybody may read its notes."""
        from sexton.guard.repair_doubts import doubted

        try:
            return await doubted(self.client, self.request.topic, self.request.memory_topic)
        except SextonError as error:
            self.unasked = error
            return None

    async def _guards(self, notes: Notes) -> Lags | None:
        """Has a guard come to hold the topic meanwhile, and what will it put back?"""
        from sexton.guard.repair_doubts import held_by_guard

        try:
            return await held_by_guard(self.client, notes, self.request.memory_topic)
        except SextonError as error:
            self.unasked = error
            return None

    async def _tell_guard(self, looked: Looked) -> None:
        """What it doubted is settled, if all replicas of that were read and agree."""
        from sexton.guard.repair_doubts import not_read, settle

        topic = self.request.topic
        if self.unasked is not None:
            why = f"{self.unasked.subject}: {self.unasked.why}"
            self.out.summarize(guard_asked=False)
            self.out.say(f"Whether a guard holds {topic} is not known ({why}): see `guard status`.")
        if self.doubted is None or not looked.agrees:
            return
        if looked.behind:
            at, node = looked.behind[0]
            why = f"{at} on broker {node} is not in sync, and could not be compared to its end"
            self._leave_guard(f"{why}. Run it again when it is in sync")
            return
        by_hand = f"run `sexton guard thaw {topic} --audited`"
        if not self.doubted.are_within(self.request.partitions):
            self.out.say(f"A guard holds {topic} for other partitions, too: repair all of it.")
            return
        try:
            if missed := await not_read(self.client, self.doubted, looked.read):
                at, node = missed
                why = f"{at} on broker {node} was not read: a broker had not heard of it"
                self._leave_guard(f"{why}. Run it again when brokers agree about that")
                return
            told = await settle(self.client, self.doubted, self.request.memory_topic)
        except SextonError as error:
            why = f"{error.subject}: {error.why}"
            self.out.say(f"A guard holds {topic}, and could not be told: {why}; {by_hand}.")
            return
        self.out.summarize(guard_told=told)
        if told:
            self.out.say(f"The guard is told that {topic} was audited, and will thaw it.")
        else:
            self.out.say(f"A guard has new doubts about {topic}: run it again.")

    def _leave_guard(self, why: str) -> None:
        self.out.summarize(guard_told=False)
        self.out.say(f"A guard holds {self.request.topic}, and is not told: {why}.")

    def _did(self, partition: TopicPartition | None, what: str) -> None:
        number = len(self.steps) + 1
        at = partition.partition if partition else None
        self.steps.append((self.request.topic, at, number, what))
        if self.out.format is Format.table and self.out.stderr.isatty():
            print(f"{partition or self.request.topic}: {what}", file=self.out.stderr)


def _jobs(plans: Sequence[Plan]) -> list[Job]:
    return [plan.job for plan in plans if plan.job is not None]


def _replicas(job: Job) -> set[tuple[TopicPartition, int]]:
    return {(job.partition, node) for node in job.wrong}


def _checked(
    plan: Plan, unread: Collection[TopicPartition], unjudged: Mapping[TopicPartition, int]
) -> Plan:
    """The plan, unless the truth may be where nobody has looked."""
    from sexton.machines.repair import Stop

    at = plan.decision.partition
    if plan.job is None:
        return plan
    if at in unread:
        why = "not every replica could be read, and one that was not may be right"
        return replace(plan, job=None, refused=Stop(why, "make sure that all can be read"))
    if at in unjudged:
        why = f"{unjudged[at]} more keys or transactions may differ: nobody looked at each"
        hint = "add --keep-copy DIR, so that nothing is lost if it is right in one, or --trust"
        return replace(plan, job=None, refused=Stop(why, hint))
    return plan
