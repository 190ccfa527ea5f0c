"""`sexton.spark.validate`: prove on Spark that a topic is what its pipeline promised.

    proof = sexton.spark.validate(spark, "counts", bootstrap_servers=..., value="json:count")
    proof.kept, proof.findings

A topic by its name is read by our own tasks, one for each partition, with expressions in our words
(`audit.expressions`): that is the fast way. A DataFrame, batch or streaming, is judged with
expressions in Spark's SQL:

    sexton.spark.validate(df, value="cast(get_json_object(cast(value as string), '$.n') as int)")
    query = sexton.spark.validate(stream, value=..., checkpoint="/lake/checkpoints/counts")
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from sexton import __version__
from sexton.audit.checks import ID, MOST_KEYS, SEQUENCE, VALUE
from sexton.audit.validation import PartitionFacts, Rules, Sighting
from sexton.base.errors import ConfigError, SextonError
from sexton.base.findings import Finding
from sexton.report.quantities import moment
from sexton.report.validation_page import (
    ValidationPage,
    finding_of,
    in_reading_order,
    left_out,
    verdict_sentence,
)
from sexton.spark.validate_frame import FACTS, FramePlan, folder, prepared
from sexton.spark.validate_runner import SparkSteps, SparkTasks
from sexton.spark.validate_telling import Telling
from sexton.survey.validating import Validation
from sexton.survey.validating import validate as validate_topic
from sexton.survey.validating_plan import Asked
from sexton.survey.validating_question import OfPython, check_question, local_path
from sexton.survey.validating_state import Checkpoint, Kept, added, held
from sexton.survey.validating_stream import Following, until_caught_up
from sexton.survey.validating_table import validate_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OnFinding = Callable[[list[Finding]], None]


class PromiseBroken(SextonError):
    """The topic is not what was promised."""


@dataclass(frozen=True)
class Proof:
    """What a validation came to."""

    validation: Validation
    bootstrap_servers: str = ""
    table: str = ""
    show_keys: bool = False

    @property
    def kept(self) -> bool:
        """Does everything hold, was everything read, and was there something to read?"""
        return self.page.standing == "kept"

    @property
    def counts(self) -> Mapping[str, int]:
        """How many findings there are, by code."""
        return self.validation.counts

    @property
    def unsettled(self) -> int:
        """Records of the source that are not there, and too young to be called lost."""
        return self.validation.unsettled

    @cached_property
    def findings(self) -> list[Finding]:
        """The first ones of each partition and code, what does the most harm first."""
        return [finding_of(each, self.page) for each in in_reading_order(self.page)]

    @cached_property
    def page(self) -> ValidationPage:
        """All that a report says, before it is HTML, Parquet or text."""
        found = self.validation
        return ValidationPage(
            version=__version__, cluster_id=found.cluster_id, bootstrap=self.bootstrap_servers,
            topic=found.topic, rules=found.rules, partitions=found.partitions,
            sightings=found.sightings, counts=found.counts, started_ms=found.started_ms,
            finished_ms=found.finished_ms, table=self.table,
            limits=(*found.limits, *left_out(found.partitions)),
            incomplete=tuple((str(at), why) for at, why in found.unread),
            show_keys=self.show_keys, compared=found.compared,
            read_by_us=found.read_by_us, unsettled=found.unsettled,
        )  # fmt: skip

    def __str__(self) -> str:
        return verdict_sentence(self.page)

    def _repr_html_(self) -> str:
        """In a notebook."""
        from sexton.report.validation_html import html_page

        return html_page(self.page)

    def write_html(self, path: str | Path) -> None:
        """The report as one page that needs no other file."""
        from sexton.report.validation_files import write_html

        write_html(Path(path), self.page)

    def write_parquet(self, path: str | Path) -> None:
        """One row for each finding that is told one by one."""
        from sexton.report.validation_files import write_parquet

        write_parquet(Path(path), self.page)

    def check(self) -> None:
        """PromiseBroken if it does not hold; for a job that must not go on then."""
        if not self.kept:
            first = f" First: {self.findings[0].message}" if self.findings else ""
            raise PromiseBroken(self.validation.topic, f"{self}{first}")


def validate(
    what: SparkSession | DataFrame,
    topic: str | None = None,
    *,
    bootstrap_servers: str | None = None,
    key: str | Column = "key",
    value: str | Column | None = None,
    rising: bool = False,
    sequence: str | Column | None = None,
    id: str | Column | None = None,
    content: str | Column = "value",
    source: str | None = None,
    source_id: str | None = None,
    complete: bool = False,
    settle_ms: int | None = None,
    compare_isolation: bool = False,
    table: str | Path | None = None,
    table_key: str = "key",
    table_value: str | None = None,
    isolation_level: str = "read_committed",
    skip_unreadable: bool = False,
    since_ms: int | None = None,
    until_ms: int | None = None,
    checkpoint: str | Path | None = None,
    trigger: Mapping[str, Any] | None = None,
    on_finding: OnFinding | None = None,
    most_keys: int = MOST_KEYS,
    options: Mapping[str, str] | None = None,
    show_keys: bool = False,
) -> Any:
    """A `Proof`; for a streaming DataFrame the query that goes on judging it.

    With a session and a topic, expressions are sexton's, and `options` Kafka's client settings.
    With a DataFrame they are Spark's SQL, or columns; it has the columns of Spark's Kafka source.
    `checkpoint` keeps what is known of keys and ids, so that the next call goes on from there; a
    stream needs one, and a DataFrame that is none has no use for it. `on_finding` is given what a
    micro-batch of a stream was found to have, as one list of `Finding`, after it has been kept; and
    once more after a restart, if the driver was killed while it told. A DataFrame is judged as it
    is: whether aborted records are in it is up to whoever read it. What would be left out is
    refused. With `complete`, a record of the source that is younger than `settle_ms` and not there
    yet is counted (`proof.unsettled`) and not called lost.
    """
    from pyspark.sql import DataFrame

    rules = Rules(
        key=_text(key), value=_text(value), rising="rising" if rising else "never-back",
        sequence=_text(sequence), id=_text(id), content=_text(content) or "value",
        committed=_committed(isolation_level), compare_isolation=compare_isolation, source=source,
        source_id=source_id, complete=complete, skip_unreadable=skip_unreadable,
    )  # fmt: skip
    place = _local(checkpoint)
    if isinstance(what, DataFrame):
        _refuse(
            "goes with the name of a topic, not with a DataFrame", topic=topic, source=source,
            source_id=source_id, complete=complete or None, settle_ms=settle_ms,
            compare_isolation=compare_isolation or None, table=table,
            table_value=table_value, since_ms=since_ms, until_ms=until_ms,
            isolation_level=None if rules.committed else isolation_level,  # up to its reader
        )  # fmt: skip
        expressions = {VALUE: value, SEQUENCE: sequence, ID: id, "key": key, "content": content}
        frame = _Frame(what, rules, expressions, most_keys, show_keys)
        return frame.judge(place, trigger, on_finding)
    if topic is None or bootstrap_servers is None:
        raise ConfigError("validate", "needs topic and bootstrap_servers, or a DataFrame", None)
    _refuse(_OF_STREAMS, trigger=trigger, on_finding=on_finding)
    compared = None if table is None else _Table(_local(table), table_key, table_value)
    check_question(
        rules, OfPython(), table=compared and compared.path, table_value=table_value,
        checkpoint=place, until=until_ms is not None, since=since_ms is not None,
        settle=settle_ms is not None,
    )  # fmt: skip
    asked = Asked(
        bootstrap_servers, topic, rules, dict(options or {}), since_ms=since_ms,
        until_ms=until_ms, settle_ms=settle_ms, most_keys=most_keys,
    )  # fmt: skip
    found = _of_topic(what, asked, place, compared)
    found = replace(found, limits=(*found.limits, *_of_times(since_ms, until_ms)))
    return Proof(found, bootstrap_servers, str(table or ""), show_keys)


def _of_times(since_ms: int | None, until_ms: int | None) -> Iterator[str]:
    if since_ms is not None:
        yield f"Only records since {moment(since_ms)} were read."
    if until_ms is not None:
        yield f"Only records before {moment(until_ms)} were read."


_OF_STREAMS = "goes with a DataFrame that is a stream"


def _refuse(why: str, **given: object) -> None:
    """What is not used is not taken: whoever gave it counts on it."""
    for name, each in given.items():
        if each is not None:
            raise ConfigError(name, why, None)


class _Table(NamedTuple):
    path: Path
    key: str
    value: str | None


def _of_topic(
    spark: SparkSession, asked: Asked, checkpoint: Path | None, table: _Table | None
) -> Validation:
    if checkpoint is not None:
        assert table is None, "that needs the whole topic at once"
        with held(checkpoint):
            following = Following(asked, checkpoint, SparkSteps(lambda: spark))
            until_caught_up(following, lambda _found: None)
            return following.validation()
    tasks = SparkTasks(lambda: spark)
    if table is not None:
        return validate_table(asked, tasks, *table)
    return validate_topic(asked, tasks)


def _committed(isolation_level: str) -> bool:
    if isolation_level not in ("read_committed", "read_uncommitted"):
        hint = "read_committed or read_uncommitted"
        raise ConfigError("isolation_level", f"is {isolation_level!r}", hint)
    return isolation_level == "read_committed"


def _text(expression: Any) -> Any:
    """What the user wrote, for people."""
    return expression if expression is None or isinstance(expression, str) else str(expression)


@overload
def _local(path: None) -> None: ...
@overload
def _local(path: str | Path) -> Path: ...


def _local(path: str | Path | None) -> Path | None:
    return None if path is None else local_path(path)


# ── DataFrames ──


class _Frame:
    def __init__(
        self,
        df: DataFrame,
        rules: Rules,
        expressions: Mapping[str, str | Column | None],
        most_keys: int,
        show_keys: bool,
    ) -> None:
        from pyspark.sql import functions

        if not any((rules.value, rules.sequence, rules.id)):
            hint = "give value=, sequence= or id="
            raise ConfigError("validate", "does not know what has to hold", hint)
        if rules.rising == "rising" and rules.value is None:
            raise ConfigError("rising", "says how value has to be", "give value=")
        self._df, self._rules, self._most_keys = df, rules, most_keys
        self._show_keys = show_keys
        self._asked = {
            name: functions.expr(each) if isinstance(each, str) else each
            for name, each in expressions.items()
            if each is not None
        }
        prepared(df, self._asked)  # what is wrong with its columns is said now

    def judge(
        self,
        place: Path | None,
        trigger: Mapping[str, Any] | None,
        on_finding: OnFinding | None,
    ) -> Proof | StreamingQuery:
        if self._df.isStreaming:
            return self.start(place, trigger, on_finding)
        _refuse(_OF_STREAMS, checkpoint=place, trigger=trigger, on_finding=on_finding)
        return self.proof()

    def proof(self) -> Proof:
        started_ms = _now_ms()
        facts = [each for each, _files in self._folded(self._df)]
        return Proof(_summed(facts, self._rules, (), started_ms), show_keys=self._show_keys)

    def _folded(
        self, df: DataFrame, checkpoint: Checkpoint | None = None, *, again: bool = False
    ) -> list[tuple[PartitionFacts, tuple[str, ...]]]:
        rows, fractions = prepared(df, self._asked)
        seed = random.SystemRandom().getrandbits(63) if checkpoint is None else checkpoint.seed
        kept = {} if checkpoint is None else checkpoint.kept
        plan = FramePlan(
            self._rules, seed, fractions, self._most_keys,
            "" if checkpoint is None else str(checkpoint.directory.absolute()),
            {at: (each.next, each.files) for at, each in kept.items()}, again,
        )  # fmt: skip
        told = rows.mapInArrow(folder(plan), FACTS).collect()
        return [
            (PartitionFacts.from_json(json.loads(row.facts)), tuple(json.loads(row.files)))
            for row in told
        ]

    def start(
        self,
        place: Path | None,
        trigger: Mapping[str, Any] | None,
        on_finding: OnFinding | None,
    ) -> StreamingQuery:
        if place is None:
            hint = "checkpoint=, a directory that every executor reaches"
            raise ConfigError("validate", "a stream needs a checkpoint", hint)
        checkpoint = Checkpoint.open(place / "state", "stream", self._rules)

        def tell(found: list[Sighting]) -> None:
            assert on_finding is not None
            page = self._page(checkpoint)
            on_finding([finding_of(each, page) for each in found])

        telling = Telling(place, checkpoint, tell if on_finding is not None else None)

        def judge(df: DataFrame, number: int) -> None:
            telling.tell()
            found: list[Sighting] = []
            steps: dict[Any, Kept] = {}
            # A later batch has later offsets. One with this number or a lower one is run again.
            again = checkpoint.batch is None or number <= checkpoint.batch
            for facts, files in self._folded(df, checkpoint, again=again):
                before = checkpoint.kept.get(facts.partition)
                total = added(before.facts if before else None, facts)
                steps[facts.partition] = Kept(facts.end, files, total)
                found += facts.sightings
            telling.will_be_kept(found)
            checkpoint.batch = max(number, -1 if checkpoint.batch is None else checkpoint.batch)
            checkpoint.commit(steps)
            telling.tell()

        writer = self._df.writeStream.foreachBatch(judge)
        writer = writer.option("checkpointLocation", str(place / "spark"))
        if trigger:
            writer = writer.trigger(**trigger)
        return writer.start()

    def _page(self, checkpoint: Checkpoint) -> ValidationPage:
        facts = [each.facts for each in checkpoint.kept.values()]
        validation = _summed(facts, self._rules, tuple(checkpoint.limits), _now_ms())
        return Proof(validation, show_keys=self._show_keys).page


def stream_proof(checkpoint: str | Path, *, show_keys: bool = False) -> Proof:
    """What the validation of a stream has found so far, from its checkpoint."""
    path = _local(checkpoint) / "state"
    found = Checkpoint.look(path)
    facts = [each.facts for each in found.kept.values()]
    validation = _summed(facts, found.rules, tuple(found.limits), _now_ms())
    return Proof(validation, show_keys=show_keys)


def _summed(
    facts: list[PartitionFacts], rules: Rules, limits: tuple[str, ...], started_ms: int
) -> Validation:
    counts: dict[str, int] = {}
    for each in facts:
        for code, count in each.counts.items():
            counts[code] = counts.get(code, 0) + count
    topics = sorted({each.partition.topic for each in facts})
    unread = tuple((each.partition, _why_passed_over(each)) for each in facts if each.passed_over)
    if rules.id is not None:
        limits = (*limits, "Ids were looked for within each partition, not across partitions.")
    return Validation(
        ", ".join(topics) or "the DataFrame", None, rules,
        tuple(sorted(facts, key=lambda each: each.partition)),
        tuple(sighting for each in facts for sighting in each.sightings), counts, unread, limits,
        started_ms, _now_ms(), read_by_us=False,
    )  # fmt: skip


def _why_passed_over(facts: PartitionFacts) -> str:
    return (
        f"{facts.passed_over:,} records came at offsets that an earlier batch has had, and were not"
        " judged: was the topic deleted and made again? Then begin anew with another checkpoint;"
        " copies can be dropped before"
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
