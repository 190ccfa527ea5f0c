"""A topic that goes on being written, validated step by step, and on from there after any end.

    plan: from where each partition was left ──▶ tasks ──▶ commit ──▶ tell what is new ──▶ again

A step is a stretch of every partition that has more. Its task takes up the state where the last one
left it: from memory where that is the same process, else from the checkpoint. Nothing counts before
the checkpoint is committed: after a kill at any moment the same stretch is judged again from the
same state, and what is found is the same as without the kill.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from sexton.audit.validating import Validating
from sexton.audit.validation import PartitionFacts, Rules, Sighting
from sexton.base.errors import ConfigError, SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.reading import NO_ID
from sexton.client.retrying import PATIENT
from sexton.client.topology import may_be_same
from sexton.survey.runner import side_by_side
from sexton.survey.survey import finish
from sexton.survey.validating import Validation
from sexton.survey.validating_evidence import with_evidence
from sexton.survey.validating_plan import AT_ONCE, Asked, cautions, planned
from sexton.survey.validating_state import (
    LEAST_REWRITE,
    MOST_FILES,
    Checkpoint,
    Kept,
    added,
    load_entries,
    sizes,
    write_entries,
)
from sexton.survey.validating_tasks import Failed, Misread, Stretch, Where, read_into

STEP_OFFSETS = 4_000_000  # of a partition in one step, so that steps are committed now and then
LOOK_AGAIN_S = 1.0  # after which a new leader has heard from those in sync
MOST_REMEMBERED = 64  # partitions in the memory of one process; the others are read from files
ACROSS = "Ids were looked for within each partition, not across partitions."


@dataclass(frozen=True, slots=True)
class StepTask:
    where: Where
    stretch: Stretch
    rules: Rules
    seed: int
    most_keys: int
    directory: str
    files: tuple[str, ...]

    @property
    def size(self) -> int:
        return self.stretch.size


@dataclass(frozen=True, slots=True)
class Stepped:
    facts: PartitionFacts  # of this stretch
    files: tuple[str, ...]


StepResult = Stepped | Failed | Misread


class StepRunner(Protocol):
    @property
    def slots(self) -> int: ...
    def run(self, tasks: Sequence[StepTask]) -> Iterator[tuple[int, StepResult]]: ...


@dataclass(frozen=True, slots=True)
class LocalSteps:
    slots: int = field(default_factory=lambda: os.cpu_count() or 1)

    def run(self, tasks: Sequence[StepTask]) -> Iterator[tuple[int, StepResult]]:
        return side_by_side(tasks, carry_out_step, self.slots)


# ── one partition, where its task runs ──


@dataclass(slots=True)
class _Remembered:
    files: tuple[str, ...]
    state: Validating


_REMEMBERED: dict[tuple[str, TopicPartition], _Remembered] = {}  # in this process


async def carry_out_step(task: StepTask) -> StepResult:
    try:
        async with task.where.client() as client:
            state = _state_of(task)
            state.go_on(task.stretch.start, task.stretch.end)
            await read_into(client, task.stretch, task.rules, state)
        files = _written(task, state)
        at = (task.directory, task.stretch.partition)
        for oldest in list(_REMEMBERED)[: -(MOST_REMEMBERED - 1)]:
            _REMEMBERED.pop(oldest, None)
        _REMEMBERED[at] = _Remembered(files, state)
        return Stepped(state.facts(), files)
    except ConfigError as error:
        return Misread(error.subject, error.why, error.hint)
    except SextonError as error:
        return Failed(f"{error.subject}: {error.why}")


def _state_of(task: StepTask) -> Validating:
    """Taken out of memory: a step that fails halfway leaves nothing behind."""
    remembered = _REMEMBERED.pop((task.directory, task.stretch.partition), None)
    if remembered is not None and remembered.files == task.files:
        return remembered.state
    state = Validating(
        task.stretch.partition, task.rules, start=0, end=0, seed=task.seed,
        most_keys=task.most_keys, may_read_again=False,
    )  # fmt: skip
    for entries in load_entries(Path(task.directory), task.files):
        state.remember(entries)
    return state


def _written(task: StepTask, state: Validating) -> tuple[str, ...]:
    """The files that hold the state after this step."""
    directory, stretch = Path(task.directory), task.stretch
    known = sizes(directory, task.files)
    much = known and sum(known[1:]) > max(known[0], LEAST_REWRITE)
    if much or len(known) >= MOST_FILES or state.changed_most:
        name = write_entries(directory, stretch.partition, 0, stretch.end, state.everything())
        return (name,)
    name = write_entries(directory, stretch.partition, stretch.start, stretch.end, state.changes())
    return (*task.files, name)


# ── the driver ──


class Following:
    """One stream; `step` goes on by one step, `validation` says what is known by then."""

    def __init__(
        self,
        asked: Asked,
        checkpoint: Path,
        runner: StepRunner,
        *,
        step_offsets: int = STEP_OFFSETS,
    ) -> None:
        rules = asked.rules
        whole = rules.compare_isolation or rules.source is not None or asked.until_ms is not None
        assert not whole, "steps cannot answer what needs the whole topic: `validating_question`"
        self._asked, self._runner, self._step_offsets = asked, runner, step_offsets
        self._checkpoint = Checkpoint.open(checkpoint, asked.topic, asked.rules)
        self._cluster_id: str | None = None
        self._unread: dict[TopicPartition, str] = {}
        self._started_ms = int(time.time() * 1000)
        told = [ACROSS] if asked.rules.id is not None else []
        told += finish(cautions(asked))
        limits = self._checkpoint.limits
        limits += [sentence for sentence in told if sentence not in limits]

    @property
    def known(self) -> list[Sighting]:
        """Everything that was found so far, in this run or an earlier one."""
        kept = self._checkpoint.kept
        return [each for at in sorted(kept) for each in kept[at].facts.sightings]

    def step(self) -> list[Sighting] | None:
        """Judges what is new; returns what was found in it, None if nothing new could be read."""
        # `since` says where a partition begins: of those that have begun that was long ago.
        begun = self._checkpoint.kept
        patience = AT_ONCE if self._cluster_id is None else PATIENT
        plan = finish(planned(self._asked, self._unread, begun, patience, self._topic_id))
        if any(self._is_short(each) for each in plan.stretches):
            # A leader that was just elected may not know yet how far all have got.
            time.sleep(LOOK_AGAIN_S)
            plan = finish(planned(self._asked, self._unread, begun, patience, self._topic_id))
        self._cluster_id, self._unread = plan.cluster_id, dict(plan.unread)
        limits = len(self._checkpoint.limits)
        tasks = [task for each in plan.stretches if (task := self._task(each)) is not None]
        if len(self._checkpoint.limits) > limits:
            self._checkpoint.commit({})  # whatever becomes of the tasks, this stays known
        if not tasks:
            return None
        found: list[Sighting] = []
        steps: dict[TopicPartition, Kept] = {}
        for number, result in self._runner.run(tasks):
            at = tasks[number].stretch.partition
            match result:
                case Misread(subject, why, hint):
                    raise ConfigError(subject, why, hint)
                case Failed(why):
                    self._unread[at] = why
                case Stepped(facts, files):
                    looked_at = finish(
                        with_evidence(self._asked.where(), self._asked.rules, facts.sightings)
                    )
                    facts = replace(facts, sightings=tuple(looked_at))
                    before = self._checkpoint.kept.get(at)
                    total = added(before.facts if before else None, facts)
                    steps[at] = Kept(tasks[number].stretch.end, files, total)
                    found += looked_at
        if not steps:
            return None  # whoever goes on will try again
        self._checkpoint.commit(steps)
        return found

    def _is_short(self, stretch: Stretch) -> bool:
        kept = self._checkpoint.kept.get(stretch.partition)
        return kept is not None and kept.next > stretch.end

    def _task(self, stretch: Stretch) -> StepTask | None:
        checkpoint, at = self._checkpoint, stretch.partition
        self._same_topic(stretch)
        kept = checkpoint.kept.get(at)
        start = stretch.start if kept is None else kept.next
        if kept is not None and kept.next < stretch.start:
            self._limit(
                f"Offsets {kept.next} to {stretch.start - 1} of {at} were deleted before they"
                " could be read."
            )
            start = stretch.start
        if kept is not None and self._is_short(stretch):
            self._cut(at, stretch.end, kept.next)
        end = min(stretch.end, start + self._step_offsets)
        if start >= end:
            return None
        asked = self._asked
        return StepTask(
            asked.where(self._runner.slots), replace(stretch, start=start, end=end), asked.rules,
            checkpoint.seed, asked.most_keys, str(checkpoint.directory.absolute()),
            kept.files if kept else (),
        )  # fmt: skip

    def _cut(self, at: TopicPartition, end: int, judged: int) -> None:
        """Nothing may be judged there before the log has grown again, and then with other records
        at the same offsets. So it is said now, and in every report from here on.
        """
        self._unread[at] = (
            f"its log ends at offset {end}, and it was judged to {judged}: it was cut, as by an"
            " unclean election; begin anew with another checkpoint"
        )
        # Without its end, which grows: one sentence is enough.
        self._limit(
            f"{at} had been judged to offset {judged}, and ended below it later: what has come"
            " there in place of records that were cut off was not judged."
        )

    def _limit(self, sentence: str) -> None:
        if sentence not in self._checkpoint.limits:
            self._checkpoint.limits.append(sentence)

    def _same_topic(self, stretch: Stretch) -> None:
        if not may_be_same(self._topic_id, stretch.topic_id):
            why = "was deleted and made again: the checkpoint is of the topic before"
            raise ConfigError(stretch.partition.topic, why, "begin anew with another checkpoint")
        if stretch.topic_id != NO_ID:
            self._checkpoint.topic_id = stretch.topic_id.hex()

    @property
    def _topic_id(self) -> bytes:
        """Of the topic that the checkpoint is of, as far as that is known."""
        return bytes.fromhex(self._checkpoint.topic_id) or NO_ID

    def validation(self) -> Validation:
        facts = tuple(kept.facts for _at, kept in sorted(self._checkpoint.kept.items()))
        counts: dict[str, int] = {}
        for each in facts:
            for code, count in each.counts.items():
                counts[code] = counts.get(code, 0) + count
        unread = dict(self._unread)
        for each in facts:
            for damaged in each.damage:
                unread[each.partition] = f"the batch at offset {damaged.offset}: {damaged.why}"
        return Validation(
            self._asked.topic, self._cluster_id, self._asked.rules, facts, tuple(self.known),
            counts, tuple(sorted(unread.items())), tuple(self._checkpoint.limits),
            self._started_ms, int(time.time() * 1000),
        )  # fmt: skip


def until_caught_up(following: Following, tell: Callable[[list[Sighting]], None]) -> None:
    """Steps until there is nothing new."""
    while True:
        found = following.step()
        if found is None:
            return
        tell(found)
