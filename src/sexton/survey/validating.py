"""Does a topic hold what its pipeline promised? One validation, from the question to the findings.

    asked = Asked("localhost:9092", "counts", Rules(value="json:count"))
    validation = validate(asked, LocalTasks())
    validation.sightings, validation.unread

    plan            which partitions, which offsets of them
    first round     every partition against its rules          one task each, no shuffle
    second round    ids that two partitions may have           only where bits overlap
    order           the output beside its source               only with a source
    losses          the source beside its output               only if it has to be complete
    evidence        both records of each sighting, read again  the first of them

Nothing is written to the cluster.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from sexton.audit.across import Candidates, Overlap, repeated, sketch_bits
from sexton.audit.checks import MOST_SIGHTINGS
from sexton.audit.validation import (
    COMPLETE,
    LOST,
    ORDER_VIOLATION,
    SOURCE,
    PartitionFacts,
    Rules,
    Sighting,
)
from sexton.base.errors import (
    ConfigError,
)
from sexton.base.partitions import TopicPartition
from sexton.records.tables import Array
from sexton.report.quantities import moment
from sexton.survey.survey import finish
from sexton.survey.validating_evidence import with_evidence
from sexton.survey.validating_plan import Asked, cautions, planned
from sexton.survey.validating_tasks import (
    CandidateTask,
    Failed,
    Folded,
    Later,
    LossTask,
    Misread,
    Missed,
    Ordered,
    OrderTask,
    Starts,
    Stretch,
    Task,
    ValidateTask,
    Where,
)


class TaskRunner(Protocol):
    @property
    def slots(self) -> int: ...
    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]: ...


class Watcher(Protocol):
    """Whoever wants to see how far it is."""

    def planned(self, topic: str, partitions: int) -> None: ...
    def reads(self, what: str, tasks: Sequence[Task]) -> None: ...
    def has_read(self, task: Task) -> None: ...


class Nobody:
    def planned(self, topic: str, partitions: int) -> None: ...
    def reads(self, what: str, tasks: Sequence[Task]) -> None: ...
    def has_read(self, task: Task) -> None: ...


AnyTask = TypeVar("AnyTask", bound=Task)


def results_of(
    tasks: Sequence[AnyTask],
    what: str,
    runner: TaskRunner,
    watcher: Watcher,
    unread: MutableMapping[TopicPartition, str],
    starts: Starts,
) -> Iterator[tuple[AnyTask, Any]]:
    """Each task with its result, as they come; what could not be read is noted in `unread`, what
    had lost its beginning by then in `starts`.
    """
    if tasks:
        watcher.reads(what, tasks)
    for number, result in runner.run(tasks):
        task = tasks[number]
        watcher.has_read(task)
        if isinstance(result, Later):
            for at, start in result.starts.items():
                starts[at] = max(start, starts.get(at, 0))
            result = result.found
        if isinstance(result, Misread):
            raise ConfigError(result.subject, result.why, result.hint)
        if isinstance(result, Failed):
            unread[task.stretch.partition] = result.why
        yield task, result


def left_of(stretches: Sequence[Stretch], starts: Starts) -> list[Stretch]:
    """Without what is known to be deleted."""
    return [each.beginning(starts.get(each.partition, 0)) for each in stretches]


def lost_beginnings(starts: Starts) -> list[str]:
    return [
        f"{at} was read from offset {start}: what was before it has been deleted meanwhile."
        for at, start in sorted(starts.items())
    ]


@dataclass(frozen=True, slots=True)
class Validation:
    """What a topic was found to be."""

    topic: str
    cluster_id: str | None
    rules: Rules
    partitions: tuple[PartitionFacts, ...]
    sightings: tuple[Sighting, ...]  # those that are told one by one
    counts: Mapping[str, int]  # by code, of all
    unread: tuple[tuple[TopicPartition, str], ...]  # and why
    limits: tuple[str, ...]  # what was not looked at, in sentences
    started_ms: int
    finished_ms: int
    # By what the topic was compared with (SOURCE, TABLE): how many records and rows could be.
    compared: Mapping[str, int] = field(default_factory=dict)
    read_by_us: bool = True  # False: rows of a DataFrame, of an isolation level that nobody knows
    unsettled: int = 0  # records of the source that are too young to be called lost


def validate(asked: Asked, runner: TaskRunner, watcher: Watcher | None = None) -> Validation:
    return _Run(asked, runner, watcher or Nobody()).run()


class _Run:
    def __init__(self, asked: Asked, runner: TaskRunner, watcher: Watcher) -> None:
        self._asked, self._runner, self._watcher = asked, runner, watcher
        self._seed = random.SystemRandom().getrandbits(63)
        self._facts: list[PartitionFacts] = []
        self._sightings: list[Sighting] = []
        self._counts: dict[str, int] = {}
        self._unread: dict[TopicPartition, str] = {}
        self._starts: Starts = {}
        self._limits: list[str] = []
        self._compared: dict[str, int] = {}
        self._unsettled = 0

    def run(self) -> Validation:
        asked = self._asked
        started_ms = _now_ms()
        plan = finish(planned(asked))
        stretches = plan.stretches
        self._unread.update(plan.unread)
        self._limits += finish(cautions(asked))
        unled = sum(at.topic == asked.topic for at in plan.unread)
        self._watcher.planned(asked.topic, len(stretches) + unled)
        overlap = self._first(stretches)
        if overlap:
            self._second(stretches, overlap)
        if asked.rules.source is not None:
            self._order(stretches, plan.source)
        if asked.rules.complete:
            settle_ms = asked.settle_ms
            settled_ms = None if settle_ms is None else started_ms - settle_ms
            self._losses(stretches, plan.source, settled_ms)
        self._limits += lost_beginnings(self._starts)
        self._sightings.sort(key=lambda each: (each.partition, each.offset, each.code))
        looked_at = finish(with_evidence(asked.where(), asked.rules, self._sightings))
        return Validation(
            asked.topic, plan.cluster_id, asked.rules,
            tuple(sorted(self._facts, key=lambda each: each.partition)),
            tuple(looked_at), self._counts, tuple(sorted(self._unread.items())),
            tuple(self._limits), started_ms, _now_ms(), self._compared, unsettled=self._unsettled,
        )  # fmt: skip

    # ── rounds ──

    def _first(self, stretches: Sequence[Stretch]) -> Overlap | None:
        asked = self._asked
        several = asked.rules.id is not None and len(stretches) > 1
        bits = sketch_bits(sum(each.size for each in stretches)) if several else 0
        overlap = Overlap(bits) if several else None
        tasks = [
            ValidateTask(
                self._where(stretches), each, asked.rules, self._seed, asked.most_keys, bits
            )
            for each in stretches
        ]
        for _task, result in self._results("reading partitions", tasks):
            if isinstance(result, Folded):
                self._note(result.facts)
                if overlap is not None:
                    overlap.add(_words(result.sketch))
        return overlap

    def _note(self, facts: PartitionFacts) -> None:
        self._facts.append(facts)
        self._sightings += facts.sightings
        self._count(facts.counts)
        for damaged in facts.damage:
            self._unread[facts.partition] = f"the batch at offset {damaged.offset}: {damaged.why}"

    def _second(self, stretches: Sequence[Stretch], overlap: Overlap) -> None:
        asked = self._asked
        bits = overlap.twice.tobytes()
        tasks = [
            CandidateTask(self._where(stretches), each, asked.rules, self._seed, bits)
            for each in left_of(stretches, self._starts)
            if each.partition not in self._unread
        ]
        results = self._results("looking for ids in several partitions", tasks)
        found = [result for _task, result in results if isinstance(result, Candidates)]
        if found:
            found.sort(key=lambda each: each.partition)
            sightings, counts = repeated(found, MOST_SIGHTINGS)
            self._sightings += sightings
            self._count(counts)

    def _order(self, stretches: Sequence[Stretch], source: tuple[Stretch, ...]) -> None:
        asked = self._asked
        where = self._where(stretches)
        tasks = [
            OrderTask(where, each, asked.rules, self._seed, source)
            for each in left_of(stretches, self._starts)
        ]
        unknown = judged = 0
        for _task, result in self._results(f"comparing with {asked.rules.source}", tasks):
            if isinstance(result, Ordered):
                self._sightings += result.sightings
                self._count({ORDER_VIOLATION: result.count})
                unknown += result.unknown
                judged += result.judged
        self._compared[SOURCE] = judged
        if unknown:
            self._limits.append(
                f"{unknown:,} records have an id that {asked.rules.source} does not have, or has"
                " twice: their order was not judged."
            )

    def _losses(
        self, stretches: Sequence[Stretch], source: tuple[Stretch, ...], settled_ms: int | None
    ) -> None:
        asked = self._asked
        if any(at.topic == asked.topic for at in self._unread):
            return  # what seems to be lost may be there, and the report says that nobody knows
        output = tuple(left_of(stretches, self._starts))
        tasks = [
            LossTask(self._where(source), each, asked.rules, self._seed, output, settled_ms)
            for each in left_of(source, self._starts)
        ]
        unreadable = judged = 0
        for _task, result in self._results(f"looking for what {asked.rules.source} has", tasks):
            if isinstance(result, Missed):
                self._sightings += result.sightings
                self._count({LOST: result.count})
                unreadable += result.unreadable
                judged += result.judged
                self._unsettled += result.unsettled
        self._compared[COMPLETE] = judged
        if self._unsettled and settled_ms is not None:
            self._limits.append(
                f"{self._unsettled:,} records of {asked.rules.source} since {moment(settled_ms)}"
                " are not there yet, and were not called lost."
            )
        if unreadable:
            self._limits.append(
                f"{unreadable:,} records of {asked.rules.source} have no id, and were not looked"
                " for."
            )
        begun = [each for each in left_of(output, self._starts) if each.start]
        if begun and self._counts.get(LOST):
            first = begun[0]
            self._limits.append(
                f"{first.partition} begins at offset {first.start}: what has been deleted before"
                " it is called lost, as in other partitions that have lost their beginning."
            )

    def _results(self, what: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Any]]:
        return results_of(tasks, what, self._runner, self._watcher, self._unread, self._starts)

    def _where(self, stretches: Sequence[Stretch]) -> Where:
        return self._asked.where(min(self._runner.slots, len(stretches)))

    def _count(self, counts: Mapping[str, int]) -> None:
        for code, count in counts.items():
            if count:
                self._counts[code] = self._counts.get(code, 0) + count


def _words(sketch: bytes) -> Array:
    import numpy as np

    return np.frombuffer(sketch, np.uint64)


def _now_ms() -> int:
    return int(time.time() * 1000)
