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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from sexton.audit.checks import ID, MOST_KEYS, SEQUENCE, VALUE
from sexton.audit.validation import Rules
from sexton.base.errors import ConfigError
from sexton.report.quantities import moment
from sexton.spark.validate_judging import OF_STREAMS, Frame, OnFinding, refuse
from sexton.spark.validate_proof import Proof
from sexton.spark.validate_runner import SparkSteps, SparkTasks
from sexton.survey.validating import Validation
from sexton.survey.validating import validate as validate_topic
from sexton.survey.validating_plan import Asked
from sexton.survey.validating_question import OfPython, check_question, local_path
from sexton.survey.validating_state import held
from sexton.survey.validating_stream import Following, until_caught_up
from sexton.survey.validating_table import validate_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_OF_TOPICS = "goes with the name of a topic, not with a DataFrame"


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

    given = _Given(
        key=key, value=value, rising=rising, sequence=sequence, id=id, content=content,
        source=source, source_id=source_id, complete=complete, settle_ms=settle_ms,
        compare_isolation=compare_isolation, table=table, table_key=table_key,
        table_value=table_value, isolation_level=isolation_level, skip_unreadable=skip_unreadable,
        since_ms=since_ms, until_ms=until_ms, checkpoint=checkpoint, trigger=trigger,
        on_finding=on_finding, most_keys=most_keys, show_keys=show_keys,
    )  # fmt: skip
    if isinstance(what, DataFrame):
        refuse(_OF_TOPICS, topic=topic)
        return given.of_frame(what)
    if topic is None or bootstrap_servers is None:
        raise ConfigError("validate", "needs topic and bootstrap_servers, or a DataFrame", None)
    return given.of_topic(what, bootstrap_servers, topic, dict(options or {}))


@dataclass(frozen=True, kw_only=True)
class _Given:
    """The arguments of `validate` that say what is asked."""

    key: str | Column
    value: str | Column | None
    rising: bool
    sequence: str | Column | None
    id: str | Column | None
    content: str | Column
    source: str | None
    source_id: str | None
    complete: bool
    settle_ms: int | None
    compare_isolation: bool
    table: str | Path | None
    table_key: str
    table_value: str | None
    isolation_level: str
    skip_unreadable: bool
    since_ms: int | None
    until_ms: int | None
    checkpoint: str | Path | None
    trigger: Mapping[str, Any] | None
    on_finding: OnFinding | None
    most_keys: int
    show_keys: bool

    @cached_property
    def rules(self) -> Rules:
        return Rules(
            key=_text(self.key), value=_text(self.value),
            rising="rising" if self.rising else "never-back", sequence=_text(self.sequence),
            id=_text(self.id), content=_text(self.content) or "value",
            committed=_committed(self.isolation_level), compare_isolation=self.compare_isolation,
            source=self.source, source_id=self.source_id, complete=self.complete,
            skip_unreadable=self.skip_unreadable,
        )  # fmt: skip

    def of_frame(self, df: DataFrame) -> Proof | StreamingQuery:
        rules, place = self.rules, _local(self.checkpoint)
        refuse(
            _OF_TOPICS, source=self.source, source_id=self.source_id,
            complete=self.complete or None, settle_ms=self.settle_ms,
            compare_isolation=self.compare_isolation or None, table=self.table,
            table_value=self.table_value, since_ms=self.since_ms, until_ms=self.until_ms,
            isolation_level=None if rules.committed else self.isolation_level,  # up to its reader
        )  # fmt: skip
        expressions = {
            VALUE: self.value, SEQUENCE: self.sequence, ID: self.id, "key": self.key,
            "content": self.content,
        }  # fmt: skip
        frame = Frame(df, rules, expressions, self.most_keys, self.show_keys)
        return frame.judge(place, self.trigger, self.on_finding)

    def of_topic(
        self, spark: SparkSession, servers: str, topic: str, options: dict[str, str]
    ) -> Proof:
        rules, place = self.rules, _local(self.checkpoint)
        refuse(OF_STREAMS, trigger=self.trigger, on_finding=self.on_finding)
        table = None
        if self.table is not None:
            table = _Table(_local(self.table), self.table_key, self.table_value)
        check_question(
            rules, OfPython(), table=table and table.path, table_value=self.table_value,
            checkpoint=place, until=self.until_ms is not None, since=self.since_ms is not None,
            settle=self.settle_ms is not None,
        )  # fmt: skip
        asked = Asked(
            servers, topic, rules, options, since_ms=self.since_ms, until_ms=self.until_ms,
            settle_ms=self.settle_ms, most_keys=self.most_keys,
        )  # fmt: skip
        found = _of_topic(spark, asked, place, table)
        limits = (*found.limits, *_of_times(self.since_ms, self.until_ms))
        return Proof(replace(found, limits=limits), servers, str(self.table or ""), self.show_keys)


def _of_times(since_ms: int | None, until_ms: int | None) -> Iterator[str]:
    if since_ms is not None:
        yield f"Only records since {moment(since_ms)} were read."
    if until_ms is not None:
        yield f"Only records before {moment(until_ms)} were read."


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
