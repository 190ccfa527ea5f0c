"""One audit, from the question to the findings.

    survey = run_survey(Wanted("localhost:9092", topics=("orders",)), LocalRunner())
    survey.findings, survey.unread

It only reads. It can be interrupted at any time, and with a journal it goes on where it was.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sexton.audit.facts import BucketEntries, ReplicaFacts
from sexton.audit.finding import AuditFinding
from sexton.audit.rules import merged
from sexton.base.errors import SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import NoAnswer
from sexton.client.replica import ReplicaOffsets
from sexton.client.settings import client_config
from sexton.survey.journal import Journal
from sexton.survey.judging import judge
from sexton.survey.opened import judge_opened
from sexton.survey.places import Place, open_place
from sexton.survey.plan import Group, PartitionPlan, Plan, Wanted, plan
from sexton.survey.plan_files import plan_files
from sexton.survey.rounds import (
    MOST_READINGS,
    At,
    Case,
    compare_entries,
    differs,
    first_round,
    next_reading,
    second_round,
    take_for_compacted,
    take_for_plain,
)
from sexton.survey.runner import Runner
from sexton.survey.tasks import RECENTLY_S, Failed, FoldTask, Result

T = TypeVar("T")


class Watcher(Protocol):
    """Whoever wants to see how far it is."""

    def planned(self, plan: Plan) -> None: ...
    def reads(self, what: str, tasks: Sequence[FoldTask]) -> None: ...
    def has_read(self, task: FoldTask, result: Result, /) -> None: ...


class Nobody:
    def planned(self, plan: Plan) -> None: ...
    def reads(self, what: str, tasks: Sequence[FoldTask]) -> None: ...
    def has_read(self, task: FoldTask, result: Result) -> None: ...


@dataclass(frozen=True, slots=True)
class PartitionSurvey:
    plan: PartitionPlan
    facts: dict[int, ReplicaFacts]  # by node
    findings: tuple[AuditFinding, ...]
    unread: dict[int, str]  # node, why
    not_judged: int  # keys, transactions, stretches that may differ too: nobody looked at them
    undecided: tuple[str, ...] = ()  # what could not be known, and why, each a clause

    @property
    def partition(self) -> TopicPartition:
        return self.plan.partition

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why it is not known to be well, though all that were asked have answered; clauses."""
        if not self.not_judged:
            return self.undecided
        more = f"{self.not_judged:,} more keys, transactions or stretches"
        return (f"{more} may differ: they were not looked at one by one", *self.undecided)


@dataclass(frozen=True, slots=True)
class Survey:
    cluster_id: str | None
    partitions: tuple[PartitionSurvey, ...]
    left_out: int  # partitions that were not looked at, by sampling
    started_ms: int
    finished_ms: int
    hidden: Mapping[str, str] = field(default_factory=dict)  # topics we may not know of, and why

    @property
    def findings(self) -> Iterator[AuditFinding]:
        return (finding for each in self.partitions for finding in each.findings)

    @property
    def unread(self) -> Iterator[tuple[TopicPartition, int, str]]:
        for each in self.partitions:
            for node, why in sorted(each.unread.items()):
                yield each.partition, node, why


def run_survey(
    wanted: Wanted,
    runner: Runner,
    *,
    journal: Path | None = None,
    watcher: Watcher | None = None,
) -> Survey:
    """Audits a cluster."""
    kept = Journal(journal, wanted) if journal else None

    async def planned() -> Plan:
        async with _client(wanted) as client:
            return await plan(client, wanted, kept.seed if kept else None)

    return _Audit(wanted, runner, watcher or Nobody(), kept).run(finish(planned()))


def run_files_survey(
    paths: Sequence[Path],
    runner: Runner,
    *,
    compacted: bool = True,
    topics: Sequence[str] = (),
    partitions: Sequence[TopicPartition] = (),
    watcher: Watcher | None = None,
) -> Survey:
    """Audits copies of data directories."""
    found = finish(plan_files(paths, compacted=compacted, topics=topics, partitions=partitions))
    return _Audit(None, runner, watcher or Nobody(), None).run(found)


class _Audit:
    def __init__(
        self, wanted: Wanted | None, runner: Runner, watcher: Watcher, journal: Journal | None
    ) -> None:
        self._wanted = wanted  # None: files, which nobody answers for
        self._runner = runner
        self._watcher = watcher
        self._journal = journal

    def run(self, plan: Plan) -> Survey:
        started_ms = _now_ms()
        self._watcher.planned(plan)
        if self._journal is not None:
            groups = {each.partition: each.groups for each in plan.partitions}
            self._journal.begin(plan.seed, groups, _ids(plan))
        cases = [Case(self._with_journal(each)) for each in plan.partitions]
        self._first(cases)
        doubted = take_for_plain if self._wanted is None else take_for_compacted
        self._first([case for case in cases if doubted(case)])
        self._second([case for case in cases if differs(case)])
        finish(self._judge(cases))
        if self._journal:
            self._journal.done()
        partitions = tuple(
            PartitionSurvey(
                case.plan,
                case.furthest(),
                tuple(case.findings),
                case.unread,
                case.not_judged,
                tuple(case.undecided),
            )
            for case in cases
        )
        ended_ms = _now_ms()
        return Survey(plan.cluster_id, partitions, plan.left_out, started_ms, ended_ms, plan.hidden)

    def _with_journal(self, planned: PartitionPlan) -> PartitionPlan:
        """What an earlier run of this audit wanted to compare stays what is compared."""
        if self._journal is None:
            return planned
        groups = self._journal.groups.get(planned.partition, ())
        nodes = {node for group in groups for node in group.nodes}
        # Replicas may have come or gone since then: all that are there now must be compared.
        # And by what its policy is now: cleaned at other times, batches are not alike.
        fits = set(planned.stands) <= nodes <= set(planned.places)
        fits = fits and _policies(groups) == _policies(planned.groups)
        return replace(planned, groups=groups) if fits else planned

    # ── rounds ──

    def _first(self, cases: list[Case]) -> None:
        wanted: list[tuple[Case, At, FoldTask]] = []
        for case in cases:
            for at, task in first_round(case):
                known = self._journal.known(task.scope, task.place.node) if self._journal else None
                if known is not None:
                    case.facts[at] = known
                else:
                    wanted.append((case, at, task))
        for case, at, result in self._results("reading replicas", wanted):
            if isinstance(result, ReplicaFacts):
                case.facts[at] = result
                if self._journal:
                    self._journal.note(result)

    def _second(self, cases: list[Case]) -> None:
        for case in cases:
            case.again_s = time.monotonic()
        stands = finish(self._look(cases))
        wanted = [
            (case, at, task)
            for case in cases
            for at, task in second_round(case, stands[case.plan.partition])
        ]
        for _reading in range(MOST_READINGS):
            if not wanted:
                return
            for case, at, result in self._results("looking again where they differ", wanted):
                if isinstance(result, BucketEntries):
                    case.entries[at] = result
            for case in cases:
                compare_entries(case)
            again = [(case, at, next_reading(case, at, task)) for case, at, task in wanted]
            wanted = [(case, at, task) for case, at, task in again if task is not None]

    def _results(
        self, what: str, wanted: list[tuple[Case, At, FoldTask]]
    ) -> Iterator[tuple[Case, At, Result]]:
        tasks = [self._limited(task, wanted) for _case, _at, task in wanted]
        if tasks:
            self._watcher.reads(what, tasks)
        for number, result in self._patiently(tasks):
            case, at, task = wanted[number]
            self._watcher.has_read(task, result)
            if isinstance(result, Failed):
                case.unread[at[1]] = result.why
            yield case, at, result

    def _patiently(self, tasks: list[FoldTask]) -> Iterator[tuple[int, Result]]:
        """Each result; what nobody answered is tried once more when the others are done."""
        silent: list[int] = []
        for number, result in self._runner.run(tasks):
            if isinstance(result, Failed) and result.silent:
                silent.append(number)
            else:
                yield number, result
        if silent:
            time.sleep(RECENTLY_S)
            for at, result in self._runner.run([tasks[number] for number in silent]):
                yield silent[at], result

    def _limited(self, task: FoldTask, wanted: list[tuple[Case, At, FoldTask]]) -> FoldTask:
        """With its share of what may be read from a broker in a second."""
        if self._wanted is None:
            return task
        most_keys = self._wanted.most_keys
        if most_keys is not None:
            task = replace(task, most_keys=most_keys)
        limit = self._wanted.max_bytes_per_s
        if limit is None:
            return task
        beside = sum(other.place == task.place for _case, _at, other in wanted)
        share = max(1, limit // min(self._runner.slots, beside))
        return replace(task, max_bytes_per_s=share)

    async def _look(self, cases: list[Case]) -> dict[TopicPartition, dict[int, ReplicaOffsets]]:
        """Where the replicas of these partitions stand now."""
        found: dict[TopicPartition, dict[int, ReplicaOffsets]] = {}
        silent: dict[Place, str] = {}
        for case in cases:
            stands = found.setdefault(case.plan.partition, {})
            for node in case.plan.stands:
                place = case.plan.places[node]
                if place in silent:
                    case.unread[node] = silent[place]
                if node in case.unread:
                    continue
                try:
                    async with open_place(place, case.plan.partition) as reader:
                        stands[node] = await reader.offsets()
                except SextonError as error:
                    case.unread[node] = f"{error.subject}: {error.why}"
                    if isinstance(error, NoAnswer):
                        silent[place] = case.unread[node]
        return found

    async def _judge(self, cases: list[Case]) -> None:
        for case in cases:
            await judge(case)
        if self._wanted is not None:
            async with _client(self._wanted) as client:
                await judge_opened(client, cases)
        for case in cases:
            case.findings[:] = merged(case.findings)


def _ids(plan: Plan) -> dict[str, str]:
    """Of each topic, with that of its cluster: an old Kafka has none of topics."""
    return {
        each.partition.topic: f"{plan.cluster_id or ''}/{each.topic_id}" for each in plan.partitions
    }


def _policies(groups: Sequence[Group]) -> set[tuple[bool, bool]]:
    return {(group.scope.compacted, group.scope.deletes) for group in groups}


def _client(wanted: Wanted) -> Client:
    return Client(wanted.bootstrap_servers, client_config(wanted.settings))


def _now_ms() -> int:
    return int(time.time() * 1000)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, also where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for error in errors:
        raise error
    return results[0]
