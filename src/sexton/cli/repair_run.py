"""One repair as a command: audit, plan, consent, rebuild, audit again, and what is said of it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sexton.audit.summary import finding_of, key_in_words
from sexton.base.errors import ConfigError
from sexton.base.findings import Evidence, Finding, Severity
from sexton.cli.options import BOOTSTRAP_SERVERS
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.audit.finding import AuditFinding
    from sexton.base.partitions import TopicPartition
    from sexton.client.client import Client
    from sexton.guard.repair_notes import Notes, NotesFile
    from sexton.guard.repair_planning import Plan
    from sexton.machines.repair import Job
    from sexton.machines.repair_verdicts import Judged

STEPS = (Column("topic"), number("partition"), number("step"), Column("what"))
WRONG = (
    Column("topic"), number("partition"), Column("code"), Column("wrong"), Column("right"),
    Column("certainty"), Column("because"),
)  # fmt: skip
REQUEST_TIMEOUT_MS, CONNECT_TIMEOUT_MS = 30_000, 3_000
CHOICES = (
    "Say what is true: `--publish-tombstone KEY` if the key was deleted, `--keep-value KEY --as-on "
    "BROKER` if it lives, or `--trust BROKER` if you know whose copy is right."
)


@dataclass(frozen=True, slots=True)
class Request:
    topic: str
    partitions: tuple[int, ...] | None
    settings: dict[str, str]
    dry_run: bool = False
    yes: bool = False
    findings: Path | None = None
    throttle_bytes_per_s: int | None = None
    trusted: int | None = None
    tombstones: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    as_on: int | None = None
    state: Path | None = None
    keep_copy: Path | None = None
    show_keys: bool = False

    @classmethod
    def of(cls, what: str, settings: dict[str, str], **chosen: object) -> Request:
        topic, colon, text = what.partition(":")
        if not topic or (colon and not text.isdecimal()):
            raise ConfigError(what, "is not TOPIC or TOPIC:PARTITION", "as in orders or orders:3")
        request = cls(topic, (int(text),) if colon else None, settings, **chosen)  # type: ignore[arg-type]
        if request.as_on is not None and not request.values:
            raise ConfigError("--as-on", "goes with --keep-value")
        if request.findings is not None and (request.tombstones or request.values):
            hint = "leave it away: an audit is made now"
            raise ConfigError("--findings", "does not go with choices about keys", hint)
        return request


def repair(request: Request, chosen: Format) -> None:
    with Output("repair", chosen) as out:
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
        if request.topic not in topology.topics:
            hint = "see `sexton cluster topics -b ...` for those there are"
            raise ConfigError(request.topic, "there is no such topic", hint)
        path = request.state or default_path(topology.cluster_id or "", request.topic)
        with NotesFile(path) as file:
            await _Run(request, out, client, file).run()


@dataclass(frozen=True, slots=True)
class _Looked:
    """What an audit came to."""

    judged: Sequence[Judged]
    findings: Sequence[AuditFinding] = ()
    unread: Sequence[tuple[TopicPartition, int, str]] = ()
    unjudged: Mapping[TopicPartition, int] = field(default_factory=dict)  # more that differ


@dataclass(slots=True)
class _Run:
    request: Request
    out: Output
    client: Client
    file: NotesFile
    steps: list[Row] = field(default_factory=list)  # what was done, in order

    async def run(self) -> None:
        notes = self.file.read()
        if notes is not None:
            await self._go_on(notes)
            return
        looked = await self._look()
        plans = await self._plans(looked)
        self._show(plans)
        jobs = _jobs(plans)
        self.out.summarize(partitions=len(plans), to_rebuild=sum(len(job.wrong) for job in jobs))
        if not jobs or self.request.dry_run:
            self._settle(plans, looked)
            return
        self._ask(jobs)
        await self._begin(jobs)

    # ── before it begins ──

    async def _look(self) -> _Looked:
        """What an audit says, after keys were written anew that somebody decided about."""
        from sexton.guard.repair_choices import choices_of, publish
        from sexton.guard.repair_planning import judged_of_report

        request = self.request
        if request.findings is not None:
            return _Looked(judged_of_report(_json(request.findings), request.topic))
        looked = await self._audit()
        found = looked.findings
        choices = choices_of(found, request.tombstones, request.values, request.as_on)
        if not choices:
            return looked
        words = [
            (*each.partition, count, each.in_words(plain_keys=request.show_keys))
            for count, each in enumerate(choices, 1)
        ]
        self.out.rows("choices", STEPS, words)
        if request.dry_run:
            return looked
        self._consent("write " + ("this record" if len(choices) == 1 else "these records"))
        for choice in choices:
            await publish(self.client, choice, found)
        return await self._audit()

    async def _audit(self) -> _Looked:
        from sexton.guard.repair_planning import judged
        from sexton.survey.plan import Wanted
        from sexton.survey.runner import LocalRunner
        from sexton.survey.survey import run_survey

        settings = dict(self.request.settings)
        wanted = Wanted(settings.pop(BOOTSTRAP_SERVERS), settings, topics=(self.request.topic,))
        with self.out.progress("auditing"):
            survey = await asyncio.to_thread(run_survey, wanted, LocalRunner())
        found = [each for each in survey.findings if self._is_meant(each.partition)]
        return _Looked(
            [judged(each) for each in found],
            found,
            [each for each in survey.unread if self._is_meant(each[0])],
            {each.partition: each.not_judged for each in survey.partitions if each.not_judged},
        )

    def _is_meant(self, partition: TopicPartition) -> bool:
        return self.request.partitions is None or partition.partition in self.request.partitions

    async def _plans(self, looked: _Looked) -> list[Plan]:
        from sexton.guard.repair_planning import plan_repair

        request = self.request
        plans = await plan_repair(
            self.client, looked.judged, partitions=request.partitions, trusted=request.trusted
        )
        unread = {at for at, _node, _why in looked.unread}
        consent = request.keep_copy is not None or request.trusted is not None
        return [_checked(each, unread, {} if consent else looked.unjudged) for each in plans]

    def _show(self, plans: Sequence[Plan]) -> None:
        from sexton.machines.repair import planned_steps

        rows: list[Row] = [
            (
                *each.partition, each.code, _numbers(each.replicas),
                _numbers(each.right) if each.right else None, each.certainty, each.because,
            )
            for plan in plans
            for each in plan.decision.settled
        ]  # fmt: skip
        if rows:
            self.out.rows("verdicts", WRONG, rows)
        steps: list[Row] = [
            (*plan.job.partition, count, what)
            for plan in plans
            if plan.job is not None
            for count, what in enumerate(planned_steps(plan.job, plan.sight), 1)
        ]
        if steps:
            topic = self.request.topic
            self.out.say("\nplan: stop cleaning of the topic, then for each partition")
            self.out.rows("plans", STEPS, steps)
            self.out.say(f"then audit {topic} again, and let it be cleaned as before")

    def _settle(self, plans: Sequence[Plan], looked: _Looked) -> None:
        """All that is not repaired, with the reason."""
        for plan in plans:
            for each in plan.decision.open:
                self.out.finding(_open(each, plain_keys=self.request.show_keys))
            for each in plan.decision.aside:
                self.out.finding(_aside(each))
            if plan.refused is not None:
                where = str(plan.decision.partition)
                self.out.finding(
                    Finding(
                        "not-repaired", "error", where, f"{plan.refused.why}.", {},
                        f"{plan.refused.hint[:1].upper()}{plan.refused.hint[1:]}.",
                    )
                )  # fmt: skip
        for at, node, why in looked.unread:
            self.out.incomplete(f"{at} on broker {node}", why)
        if not plans and not looked.unread:
            self.out.say(f"The replicas of {self.request.topic} agree.")

    def _ask(self, jobs: Sequence[Job]) -> None:
        replicas = sum(len(job.left) for job in jobs)
        self._consent(f"rebuild {replicas} replica{'s' if replicas > 1 else ''}")

    def _consent(self, what: str) -> None:
        if self.request.yes:
            return
        if not sys.stdin.isatty():
            raise ConfigError("--yes", f"is needed to {what} without asking", "or use --dry-run")
        if not typer.confirm(f"{what[:1].upper()}{what[1:]}?", err=True):
            raise ConfigError("repair", "was not begun", "nothing has been changed")

    # ── doing it ──

    async def _begin(self, jobs: Sequence[Job]) -> None:
        from sexton.guard.repair import begin
        from sexton.guard.repair_notes import Notes

        topology = await self.client.topology([self.request.topic])
        notes = Notes(
            topology.cluster_id or "",
            self.request.topic,
            topology.topic(self.request.topic).topic_id.hex(),
            int(time.time() * 1000),
            jobs=tuple(jobs),
        )
        await self._keep_copies(jobs)
        begin(self.file, notes)
        await self._finish(notes)

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
        from sexton.guard.repair import look
        from sexton.machines.repair import planned_steps

        self.out.say(f"going on with a repair that was interrupted: {self.file.path}")
        left = [job for job in notes.jobs if not job.done]
        rows: list[Row] = []
        for job in left:
            sight = await look(self.client, job.partition)
            rows += [(*job.partition, n, s) for n, s in enumerate(planned_steps(job, sight), 1)]
        self.out.rows("plans", STEPS, rows)
        if self.request.dry_run:
            return
        self._consent("go on")
        await self._finish(notes)

    async def _finish(self, notes: Notes) -> None:
        from sexton.guard.repair import MOST_ROUNDS, Repair

        throttle = self.request.throttle_bytes_per_s
        repair = Repair(self.client, self.file, notes, self._did, throttle)
        try:
            while True:
                await repair.rebuild()
                looked = await self._audit()
                again = await self._plans(looked)
                more = _jobs(again)
                if not more or repair.notes.rounds >= MOST_ROUNDS:
                    break
                repair.add(more)
            theirs = await repair.release()
        except BaseException:
            self.out.say("It is not over: run the same command again, and it goes on.")
            raise
        finally:
            self.out.rows("steps", STEPS, self.steps)
        for what in theirs:
            self.out.say(f"left as it is: {what}")
        settled = {each.identity for plan in again for each in plan.decision.settled}
        for each in looked.findings:
            if each.identity in settled:
                self.out.finding(finding_of(each, plain_keys=self.request.show_keys))
        self._settle(again, looked)
        rebuilt = sum(len(job.rebuilt) for job in repair.notes.jobs)
        self.out.summarize(rebuilt=rebuilt, findings_left=len(looked.findings))

    def _did(self, partition: TopicPartition | None, what: str) -> None:
        number = len(self.steps) + 1
        at = partition.partition if partition else None
        self.steps.append((self.request.topic, at, number, what))
        if self.out.format is Format.table and self.out.stderr.isatty():
            print(f"{partition or self.request.topic}: {what}", file=self.out.stderr)


def _jobs(plans: Sequence[Plan]) -> list[Job]:
    return [plan.job for plan in plans if plan.job is not None]


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
        return replace(plan, job=None, refused=Stop(why, "see to it that all can be read"))
    if at in unjudged:
        why = f"{unjudged[at]} more keys or transactions differ than were looked at one by one"
        hint = "say --keep-copy DIR, so that nothing is lost if it is right in one, or --trust"
        return replace(plan, job=None, refused=Stop(why, hint))
    return plan


def _open(each: Judged, *, plain_keys: bool) -> Finding:
    evidence: dict[str, Evidence] = {}
    if each.key is not None:
        evidence["key"] = key_in_words(each.key, plain=plain_keys)
    evidence |= {"right": "cannot be known", "because": each.because}
    where = f"{each.partition} on {_numbers(each.replicas)}"
    return Finding(each.code, "error", where, each.message, evidence, CHOICES)


def _aside(each: Judged) -> Finding:
    from sexton.machines.repair_verdicts import NOT_OF_REPLICAS

    severity: Severity = "note" if each.code == "offset-gap" else "warning"
    return Finding(
        each.code, severity, str(each.partition), each.message, {},
        f"Rebuilding a replica does not help: {NOT_OF_REPLICAS[each.code]}.",
    )  # fmt: skip


def _numbers(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))


def _json(path: Path) -> dict[str, object]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(str(path), f"cannot be read: {error}") from error
    if not isinstance(told, dict):
        raise ConfigError(str(path), "is not the answer of an audit")
    return told
