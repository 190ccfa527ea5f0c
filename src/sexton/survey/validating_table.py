"""A materialised table beside its topic: rows that should be gone, rows that are missing or differ.

    first round     digests of every partition and of every file      one task each
    second round    the keys of buckets that differ, from both        only where they do
    evidence        the keys themselves, of the first differences

What else is asked of the topic (`Rules`) is validated first, as without a table.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sexton.audit.checks import MOST_SIGHTINGS
from sexton.audit.expressions import Expression, one
from sexton.audit.facts import BUCKETS
from sexton.audit.materialized import (
    MOST_ENTRIES,
    Difference,
    Held,
    Sums,
    TableSide,
    TopicSide,
    compare,
    differing,
)
from sexton.audit.validation import (
    DIFFERENT_ROW,
    MISSING_ROW,
    NO_OFFSET,
    STALE_ROW,
    TABLE,
    PartitionFacts,
    Rules,
    Sighting,
)
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.records.tables import Array
from sexton.survey.survey import finish
from sexton.survey.table_files import TableColumns, rows_of, table_files
from sexton.survey.validating import (
    Nobody,
    TaskRunner,
    Validation,
    Watcher,
    left_of,
    lost_beginnings,
    results_of,
    validate,
)
from sexton.survey.validating_evidence import with_evidence
from sexton.survey.validating_plan import Asked
from sexton.survey.validating_plan import planned as plan_of
from sexton.survey.validating_tasks import (
    Failed,
    Misread,
    Starts,
    Stretch,
    Where,
    read_rows,
    what_is_left,
)

_CODES = {
    "stale": STALE_ROW, "missing": MISSING_ROW, "different": DIFFERENT_ROW, "twice": DIFFERENT_ROW,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PartitionSideTask:
    where: Where
    stretch: Stretch
    rules: Rules
    value: Expression | None
    seed: int
    most_keys: int
    buckets: bytes = b""  # empty: digests of all, else entries of these

    @property
    def size(self) -> int:
        return self.stretch.size

    async def carry_out(self, starts: Starts) -> Sums | Held:
        async with self.where.client() as client:
            return await what_is_left(
                self.stretch, starts, lambda stretch: self._read(client, stretch)
            )

    async def _read(self, client: Client, stretch: Stretch) -> Sums | Held:
        side = TopicSide(self.rules.key, self.value, self.seed, self.most_keys)
        size = await read_rows(client, stretch, self.rules.committed, side.take_rows)
        if not self.buckets:
            return side.sums(size)
        return side.held(_flags(self.buckets), self.stretch.partition.partition)


@dataclass(frozen=True, slots=True)
class FileSideTask:
    file: str
    number: int
    columns: TableColumns
    seed: int
    stretch: Stretch  # nothing of the topic
    buckets: bytes = b""

    @property
    def size(self) -> int:
        return 1

    async def carry_out(self, starts: Starts) -> Sums | Held:
        del starts
        return self._read()

    def _read(self) -> Sums | Held:
        side = TableSide(self.seed, _flags(self.buckets) if self.buckets else None)
        path = Path(self.file)
        for keys, values in rows_of(path, self.columns):
            side.take(keys, values)
        if not self.buckets:
            return side.sums(path.stat().st_size)
        return side.held(self.number)


SideTask = PartitionSideTask | FileSideTask
SideResult = Sums | Held | Failed | Misread


def _flags(packed: bytes) -> Array:
    return np.unpackbits(np.frombuffer(packed, np.uint8)).astype(bool)


# ── the driver ──


def validate_table(
    asked: Asked,
    runner: TaskRunner,
    table: Path,
    key_column: str,
    value_column: str | None,
    watcher: Watcher | None = None,
) -> Validation:
    """`asked.rules.value` is what the value column has to be equal to, if one is named."""
    return _Comparison(asked, runner, watcher or Nobody(), table, key_column, value_column).run()


class _Comparison:
    def __init__(
        self,
        asked: Asked,
        runner: TaskRunner,
        watcher: Watcher,
        table: Path,
        key_column: str,
        value_column: str | None,
    ) -> None:
        self._watcher, self._runner, self._table = watcher, runner, table
        self._files = table_files(table)
        self._seed = random.SystemRandom().getrandbits(63)
        self._value: Expression | None = None
        rules = asked.rules
        if value_column is not None and rules.value is not None:
            self._value = one(rules.value, "--value")
            rules = replace(rules, value=None)  # it is for the table
        self._asked = replace(asked, rules=rules)
        fraction = self._value is not None and self._value.kind in ("float", "double")
        self._columns = TableColumns(key_column, value_column, fraction)
        self._unread: dict[TopicPartition, str] = {}
        self._starts: Starts = {}
        self._limits: list[str] = []

    def run(self) -> Validation:
        started_ms = int(time.time() * 1000)
        rules = self._asked.rules
        others = any(each is not None for each in (rules.value, rules.sequence, rules.id))
        validation: Validation | None = None
        if others or rules.compare_isolation:
            validation = validate(self._asked, self._runner, self._watcher)
        plan = finish(plan_of(self._asked))
        stretches: Sequence[Stretch] = plan.stretches
        self._unread.update(plan.unread)
        if validation is None:
            self._watcher.planned(self._asked.topic, len(stretches))
        topic, table = self._sums(stretches)
        stretches = left_of(stretches, self._starts)
        flags = differing(list(topic.values()), list(table.values()))
        found: list[Difference] = []
        if flags.any() and not self._unread:
            found = self._compared(stretches, flags, topic, table)
        self._limits += lost_beginnings(self._starts)
        sightings, counts = self._told(found)
        facts = tuple(_facts(each, topic.get(each.partition)) for each in stretches)
        if validation is None:
            validation = Validation(
                self._asked.topic, plan.cluster_id, rules, facts, (), {}, (), (), started_ms, 0
            )
        return replace(
            validation,
            sightings=(*validation.sightings, *sightings),
            counts={**validation.counts, **counts},
            unread=tuple(sorted({**dict(validation.unread), **self._unread}.items())),
            limits=(*validation.limits, *self._limits),
            compared={**validation.compared, TABLE: _with_key([*topic.values(), *table.values()])},
            finished_ms=int(time.time() * 1000),
        )

    def _sums(
        self, stretches: Sequence[Stretch]
    ) -> tuple[dict[TopicPartition, Sums], dict[int, Sums]]:
        topic: dict[TopicPartition, Sums] = {}
        table: dict[int, Sums] = {}
        tasks = self._tasks(stretches, b"")
        for task, result in self._results(f"comparing with {self._table}", tasks):
            if isinstance(result, Sums):
                if isinstance(task, FileSideTask):
                    table[task.number] = result
                else:
                    topic[task.stretch.partition] = result
        keyless = sum(each.without_key for each in table.values())
        if keyless:
            self._limits.append(f"{keyless:,} rows of {self._table} without a key were left out.")
        return topic, table

    def _compared(
        self,
        stretches: Sequence[Stretch],
        flags: Array,
        topic: dict[TopicPartition, Sums],
        table: dict[int, Sums],
    ) -> list[Difference]:
        keys = sum(each.keys for each in (*topic.values(), *table.values()))
        most = max(1, MOST_ENTRIES * BUCKETS // max(keys, 1))
        chosen = np.flatnonzero(flags)
        if len(chosen) > most:
            self._limits.append(
                f"The table differs in {len(chosen)} of {BUCKETS} parts; {most} of them were"
                " compared key by key."
            )
            flags = np.zeros(BUCKETS, bool)
            flags[chosen[:most]] = True
        packed = np.packbits(flags).tobytes()
        of_topic: list[Held] = []
        of_table: list[Held] = []
        tasks = self._tasks(stretches, packed)
        for task, result in self._results("looking at keys that differ", tasks):
            if isinstance(result, Held):
                (of_table if isinstance(task, FileSideTask) else of_topic).append(result)
        if self._unread:
            return []  # what was not read this time would be called missing, or stale
        return compare(of_topic, of_table)

    def _tasks(self, stretches: Sequence[Stretch], buckets: bytes) -> list[SideTask]:
        asked = self._asked
        where = asked.where(min(self._runner.slots, len(stretches)))
        nothing = Stretch(TopicPartition(asked.topic, -1), 0, 0)
        tasks: list[SideTask] = [
            PartitionSideTask(
                where, each, asked.rules, self._value, self._seed, asked.most_keys, buckets
            )
            for each in stretches
        ]
        tasks += [
            FileSideTask(str(file.absolute()), number, self._columns, self._seed, nothing, buckets)
            for number, file in enumerate(self._files)
        ]
        return tasks

    def _results(
        self, what: str, tasks: Sequence[SideTask]
    ) -> Iterator[tuple[SideTask, SideResult]]:
        return results_of(tasks, what, self._runner, self._watcher, self._unread, self._starts)

    # ── in words ──

    def _told(self, found: Sequence[Difference]) -> tuple[list[Sighting], dict[str, int]]:
        counts: dict[str, int] = {}
        for each in found:
            code = _CODES[each.fault]
            counts[code] = counts.get(code, 0) + 1
        told = list(found[:MOST_SIGHTINGS])
        keys = self._keys_of(told)
        sightings = [
            Sighting(
                code=_CODES[each.fault],
                partition=TopicPartition(self._asked.topic, max(each.partition, 0)),
                key=keys.get((each.file, each.row)),
                id=None,
                last_value=_why_stale(each),
                value="in two rows" if each.fault == "twice" else "",
                last_offset=NO_OFFSET,
                offset=each.offset,
                last_partition=max(each.partition, 0),
            )
            for each in told
        ]
        where, rules = self._asked.where(), self._asked.rules
        return finish(with_evidence(where, rules, sightings)), counts

    def _keys_of(self, found: Sequence[Difference]) -> dict[tuple[int, int], bytes | None]:
        """The keys of these rows of the table."""
        wanted: dict[int, list[int]] = {}
        for each in found:
            if each.file >= 0:
                wanted.setdefault(each.file, []).append(each.row)
        keys: dict[tuple[int, int], bytes | None] = {}
        for file, rows in wanted.items():
            first = 0
            for spans, _values in rows_of(self._files[file], self._columns):
                for row in rows:
                    if first <= row < first + len(spans):
                        keys[file, row] = spans[row - first]
                first += len(spans)
        return keys


def _why_stale(each: Difference) -> str:
    if each.fault != "stale":
        return ""
    return "has been deleted in the topic" if each.partition >= 0 else "is not in the topic"


def _with_key(sums: Sequence[Sums]) -> int:
    """How many records and rows there are to compare."""
    return sum(each.records - each.without_key for each in sums)


def _facts(stretch: Stretch, sums: Sums | None) -> PartitionFacts:
    records, keys, size = (sums.records, sums.keys, sums.bytes) if sums else (0, 0, 0)
    return PartitionFacts(
        stretch.partition, stretch.start, stretch.end, records, size, keys, 0, 0,
        sums.without_key if sums else 0, 0, NO_OFFSET, {}, (),
    )  # fmt: skip
