"""A DataFrame of records held against its promises: Spark computes expressions, a fold judges them.

    rows ──select──▶ topic, partition, offset, key, the numbers ──▶ by partition, in order ──▶ fold

Any DataFrame will do that has the columns of Spark's Kafka source (topic, partition, offset, key,
value), whoever has read it and however it was filtered. What must hold is said in Spark's SQL. All
rows of a Kafka partition come to one task, sorted by offset, so that the fold is that of a log;
nothing but the facts leaves the task.

A task of a stream takes up the state that the checkpoint names, from memory if this worker has
written it, and passes over rows that it has judged before: a micro-batch that Spark runs again
changes nothing. Such rows in a later micro-batch are counted: no two records of a topic have one
offset, but two topics may have had one name, one after the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sexton.audit.checks import ID, MOST_KEYS, SEQUENCE, VALUE, Checks
from sexton.audit.fields import (
    EMPTY,
    FOUND,
    UNREADABLE,
    Read,
    fingerprints_of,
    sortable,
)
from sexton.audit.validating import UnreadableRecord
from sexton.audit.validation import Rules
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.records.columns import Spans
from sexton.records.tables import Array
from sexton.survey.validating_state import MOST_FILES, load_entries, write_entries

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FACTS = "facts string, files string"
_PLACES = ("topic", "partition", "offset")
_WHOLE = ("tinyint", "smallint", "int", "bigint", "boolean")
_DECIMAL_OF_WHOLE = re.compile(r"decimal\(\d+,0\)")
_TIMES = ("timestamp", "timestamp_ntz")
MOST_BYTES_REMEMBERED = 64 << 20  # in each of a machine's workers; what is more is read from files


@dataclass(frozen=True, slots=True)
class FramePlan:
    """What a task has to know."""

    rules: Rules
    seed: int
    fractions: frozenset[str]
    most_keys: int = MOST_KEYS
    directory: str = ""  # of a stream's state
    kept: Mapping[TopicPartition, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    again: bool = False  # it may be a batch that was judged before, or a part of one


# ── columns ──


def prepared(df: DataFrame, asked: Mapping[str, Column]) -> tuple[DataFrame, Any]:
    """The columns that a fold needs, and which numbers are fractions.

    `asked` are the expressions by rule (VALUE, SEQUENCE, ID), and `key` and `content`.
    """
    from pyspark.sql import functions

    there = df.columns
    for name in (*_PLACES, "value"):
        if name not in there:
            hint = f"the columns of Spark's Kafka source are needed; there are {', '.join(there)}"
            raise ConfigError(name, "there is no such column", hint)
    chosen = [functions.col(name) for name in _PLACES]
    chosen.append(functions.col("value").isNull().alias("_deleted"))
    time = functions.unix_millis("timestamp") if "timestamp" in there else functions.lit(-1)
    chosen.append(time.cast("bigint").alias("_time"))
    chosen.append(asked["key"].cast("binary").alias("_key"))
    fractions = set()
    for name in (VALUE, SEQUENCE):
        if name in asked:
            column, fraction = _number(df, asked[name], name)
            chosen.append(column.alias(f"_{name}"))
            if fraction:
                fractions.add(name)
    if ID in asked:
        chosen.append(_bytes(df, asked[ID]).alias("_id"))
        chosen.append(_bytes(df, asked["content"]).alias("_content"))
    tasks = int(df.sparkSession.sparkContext.defaultParallelism)
    rows = df.select(*chosen).repartition(tasks, "topic", "partition")
    return rows.sortWithinPartitions(*_PLACES), frozenset(fractions)


def _type(df: DataFrame, column: Column) -> str:
    return str(df.select(column.alias("_")).schema[0].dataType.simpleString())


def _number(df: DataFrame, column: Column, name: str) -> tuple[Column, bool]:
    from pyspark.sql import functions

    kind = _type(df, column)
    if kind in _TIMES:
        return functions.unix_micros(column), False
    if kind == "date":
        return functions.unix_date(column), False
    if kind in _WHOLE or _DECIMAL_OF_WHOLE.fullmatch(kind):
        return column.cast("bigint"), False
    if name == SEQUENCE:
        why = f"is {kind}, and a sequence counts in whole numbers"
        raise ConfigError(name, why, 'such as sequence="cast(n as bigint)"')
    if kind in ("float", "double") or kind.startswith("decimal"):
        return column.cast("double"), True
    hint = f'such as {name}="cast(cast(value as string) as bigint)"'
    raise ConfigError(name, f"is {kind}, and numbers or times can be compared", hint)


def _bytes(df: DataFrame, column: Column) -> Column:
    kind = _type(df, column)
    return column if kind == "binary" else column.cast("string").cast("binary")


# ── in the task ──


def folder(plan: FramePlan) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def fold(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        partitions: dict[TopicPartition, FrameFold] = {}
        for batch in batches:
            for at, rows in _runs(batch):
                if at not in partitions:
                    partitions[at] = FrameFold(at, plan)
                partitions[at].take(rows)
        told = [each.told() for each in partitions.values() if each.moved or each.passed_over]
        facts = pa.array([json.dumps(facts.to_json()) for facts, _files in told], pa.string())
        files = pa.array([json.dumps(files) for _facts, files in told], pa.string())
        yield pa.RecordBatch.from_arrays([facts, files], ["facts", "files"])

    return fold


def _runs(batch: Any) -> Iterator[tuple[TopicPartition, Any]]:
    """Rows of one partition after the other; they are sorted."""
    if not batch.num_rows:
        return
    topics = batch.column("topic").dictionary_encode()
    number = topics.indices.to_numpy()
    partition = batch.column("partition").to_numpy()
    edges = np.flatnonzero((np.diff(number) != 0) | (np.diff(partition) != 0)) + 1
    for start, end in zip([0, *edges.tolist()], [*edges.tolist(), batch.num_rows], strict=True):
        topic = topics.dictionary[int(number[start])].as_py()
        yield TopicPartition(topic, int(partition[start])), batch.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class _Told:
    keys: Spans
    ids: Spans | None
    offsets: Array
    times: Array

    def key(self, row: int) -> bytes | None:
        return self.keys[row]

    def id(self, row: int) -> bytes | None:
        return None if self.ids is None else self.ids[row]

    def offset(self, row: int) -> int:
        return int(self.offsets[row])

    def timestamp_ms(self, row: int) -> int:
        return int(self.times[row])

    def producer(self, row: int) -> tuple[int, int]:
        del row
        return -1, -1


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What this worker has written last of a partition."""

    question: FramePlan  # without what is kept
    files: tuple[str, ...]  # each has a name of its own: these hold this state and no other
    checks: Checks


_REMEMBERED: dict[tuple[str, TopicPartition], _Remembered] = {}  # in this process


def _state_of(at: TopicPartition, plan: FramePlan, files: tuple[str, ...]) -> Checks:
    """Taken out of memory: a task that fails halfway leaves nothing behind."""
    remembered = _REMEMBERED.pop((plan.directory, at), None)
    if remembered is not None and (remembered.question, remembered.files) == (_bare(plan), files):
        return remembered.checks
    checks = Checks(
        at, plan.rules, start=0, end=0, seed=plan.seed, most_keys=plan.most_keys,
        may_read_again=False, fractions=plan.fractions,
    )  # fmt: skip
    for entries in load_entries(Path(plan.directory), files):
        checks.remember(entries)
    return checks


def _remember(at: TopicPartition, plan: FramePlan, files: tuple[str, ...], checks: Checks) -> None:
    checks.touched = {}  # that is in a file now
    _REMEMBERED[plan.directory, at] = _Remembered(_bare(plan), files, checks)
    held = sum(each.checks.bytes_held for each in _REMEMBERED.values())
    for oldest in list(_REMEMBERED):
        if held <= MOST_BYTES_REMEMBERED:
            return
        held -= _REMEMBERED.pop(oldest).checks.bytes_held


def _bare(plan: FramePlan) -> FramePlan:
    return replace(plan, kept={}, again=False)


class FrameFold:
    """One Kafka partition of a DataFrame."""

    def __init__(self, at: TopicPartition, plan: FramePlan) -> None:
        self._at, self._plan = at, plan
        self._known, self._files = plan.kept.get(at, (0, ()))
        self._next = self._known
        self.moved = False
        self._checks = _state_of(at, plan, self._files)
        self._checks.go_on(self._next, self._next)

    @property
    def passed_over(self) -> int:
        return self._checks.noted["passed_over"]

    def take(self, batch: Any) -> None:
        offsets = batch.column("offset").to_numpy()
        if not self._plan.again:
            self._checks.note("passed_over", int(np.searchsorted(offsets, self._known)))
        seen = int(np.searchsorted(offsets, self._next))  # judged before
        batch, offsets = batch.slice(seen), np.ascontiguousarray(offsets[seen:])
        if not len(offsets):
            return
        checks = self._checks
        if not self.moved and not self._files:
            checks.start = int(offsets[0])
        self.moved = True
        self._next = checks.end = int(offsets[-1]) + 1
        checks.note("records", len(offsets))
        key_spans = _spans(batch.column("_key"))
        ids = _spans(batch.column("_id")) if ID in checks.checks else None
        times = batch.column("_time").fill_null(-1).to_numpy()
        told = _Told(key_spans, ids, offsets, times)
        keys = fingerprints_of(key_spans, checks.seed)
        deleted = batch.column("_deleted").to_numpy(zero_copy_only=False)
        numbered = [name for name in (VALUE, SEQUENCE) if name in checks.checks]
        if numbered:
            checks.note("without_key", int(np.count_nonzero(keys.status == EMPTY)))
        for name in numbered:
            values, status = self._numbers(name, batch.column(f"_{name}"), deleted, keys, offsets)
            checks.fold(name, keys.values, status, values, offsets, told)
        if ids is not None:
            found = fingerprints_of(ids, checks.seed)
            content = fingerprints_of(_spans(batch.column("_content")), checks.seed)
            digests = np.where(content.status == FOUND, content.values[:, 0], 0).view(np.int64)
            checks.fold(ID, found.values, found.status, digests, offsets, told)

    def _numbers(
        self, name: str, column: Any, deleted: Array, keys: Read, offsets: Array
    ) -> tuple[Array, Array]:
        there = column.is_valid().to_numpy(zero_copy_only=False)
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        if name in self._plan.fractions:
            there &= ~np.isnan(values)
            values = sortable(values)
        status = np.where(there, FOUND, np.where(deleted, EMPTY, UNREADABLE)).astype(np.uint8)
        wrong = np.flatnonzero((status == UNREADABLE) & (keys.status == FOUND))
        if len(wrong):
            offset = int(offsets[wrong[0]])
            if not self._plan.rules.skip_unreadable:
                why = f"{name} is null there, or no number: {getattr(self._plan.rules, name)}"
                hint = "fix the expression, or leave such records out: skip_unreadable=True"
                raise UnreadableRecord(f"{self._at}, offset {offset}", f"{why} ({hint})")
            self._checks.note_unreadable(len(wrong), offset)
        status[keys.status != FOUND] = UNREADABLE
        return np.ascontiguousarray(values, np.int64), status

    def told(self) -> tuple[Any, list[str]]:
        """The facts of what was new, and the files that hold the state now."""
        if not self._plan.directory:
            return self._checks.facts(), []
        if not self.moved:
            return self._checks.facts(), list(self._files)
        rewrite = len(self._files) >= MOST_FILES or self._checks.changed_most
        entries = self._checks.everything() if rewrite else self._checks.changes()
        directory = Path(self._plan.directory)
        name = write_entries(directory, self._at, self._checks.start, self._next, entries)
        files = (*(() if rewrite else self._files), name)
        _remember(self._at, self._plan, files, self._checks)
        return self._checks.facts(), list(files)


def _spans(column: Any) -> Spans:
    import pyarrow as pa

    column = column.cast(pa.large_binary())
    buffers, count = column.buffers(), len(column)
    offsets = np.frombuffer(buffers[1], np.int64)[column.offset : column.offset + count + 1]
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.zeros(1, np.uint8)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    return Spans.from_offsets(data if len(data) else np.zeros(1, np.uint8), offsets, there)
