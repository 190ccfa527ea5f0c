"""The handler in Spark's tasks: rows of some keys in order, and what came of each.

A task has all rows of its keys, sorted by their offsets: first what is tried again, then what is
new. It runs them one after the other, until one of a key fails. The later ones of that key are
left, and so are all new ones of a key that something waits for:

    order-123   17 ✓   21 ✗   30 ·        21 and 30 will wait; 30 was not run
    order-77    33 ✓   34 ✓

What comes out are records for Kafka (outputs of rows that are done, retry records of rows that
wait, dead letters), and for the driver a note on each row that is not simply done. Notes are few if
failures are, however large the batch; locks are the driver's to write.

A task that Spark runs twice may do otherwise the second time: what it gives out carries the name of
the run, and the driver takes records and notes of the same run only.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sexton.base.errors import ConfigError
from sexton.machines.retry_outcomes import Errors, Retry, Verdict, failure_of, outcome_of
from sexton.machines.retry_pending import UNKNOWN, LaneKey, lane_key
from sexton.machines.retry_records import Header, RetryRecord, TaskName, dead_letter_headers
from sexton.machines.retry_rounds import Failure, Item, Lane, Outcome, Round
from sexton.machines.retry_settings import Settings
from sexton.spark.retry_outputs import Outputs, Rows, Taking
from sexton.spark.retry_rules import RETRY_RULES, RetryRules
from sexton.spark.retry_topics import Topics

_HEADERS = "array<struct<key: string, value: binary>>"
ROWS = (
    "of int, id bigint, lock_key binary, retry boolean, attempts int, "
    f"key binary, value binary, headers {_HEADERS}, timestamp_ms bigint"
)
RESULTS = (
    "kind string, run string, topic string, partition int, key binary, value binary, "
    f"headers {_HEADERS}, timestamp timestamp, "
    "of int, id bigint, lock_key binary, retry boolean, outcome string, reason string, "
    "exception string, after_ms bigint, records bigint"
)
RECORD, NOTE, SEEN = "record", "note", "seen"
LEFT = "left"  # the outcome of a row that was not run
_MANY = 1_000  # rows that are given to Spark at once


class Message(NamedTuple):
    """What a handler is given: one message of the main topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int
    attempts: int  # runs before this one, all of which failed

    @property
    def id(self) -> str:
        """`orders-3-17`: what commands, logs and dead letters call it."""
        return f"{self.topic}-{self.partition}-{self.offset}"


class Output(NamedTuple):
    """What a handler returns if a value alone does not say enough."""

    value: bytes | str | None
    key: bytes | str | None = None
    headers: tuple[Header, ...] = ()
    topic: str | None = None  # None: the pipeline's


Handler = Callable[[Message], Any]


@dataclass(frozen=True, slots=True)
class Handling:
    handler: Handler
    errors: Errors
    topics: Topics
    settings: Settings
    blocked: Mapping[int, frozenset[LaneKey]]  # by partition, the keys that something waits for
    taking: Taking
    rules: RetryRules = RETRY_RULES


def handled(handling: Handling) -> Rows:
    def handle(batches: Iterable[Any]) -> Iterator[Any]:
        work = _Work(handling)
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in _Row._fields]
            for values in zip(*columns, strict=True):
                work.take(_Row(*values))
                if len(work.results) >= _MANY:
                    yield _table(work.taken())
        work.end()
        yield _table(work.taken())

    return handle


class _Row(NamedTuple):
    of: int  # a partition of the main topic
    id: int
    lock_key: bytes | None
    retry: bool
    attempts: int
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]] | None
    timestamp_ms: int | None


class _Work:
    """One run of one task."""

    def __init__(self, handling: Handling) -> None:
        self._handling = handling
        self._round = Round(handling.settings, 0)  # it knows what a failure does to a key
        self._outputs = Outputs(handling.taking)
        self._run = uuid.uuid4().hex
        self._stopped: set[tuple[int, LaneKey]] = set()
        self._last: dict[int, int] = {}  # by partition, the last new row
        self._records = 0
        self.results: list[dict[str, Any]] = []

    def take(self, row: _Row) -> None:
        if not row.retry:
            self._last[row.of] = max(row.id, self._last.get(row.of, -1))
        if self._waits(row):
            if not row.retry:
                self._redirect(row)
            self._note(row, LEFT)
            return
        lane = Lane(lane_key(row.lock_key, row.id))
        item = Item(row.id, row.lock_key, row.attempts, -1 if row.retry else 0, UNKNOWN, lane)
        headers = tuple((each["key"], each["value"]) for each in row.headers or ())
        outputs, error = self._tried(row, headers)
        outcome, failure = Outcome.DONE, None
        if error is not None:
            outcome = outcome_of(error, self._handling.errors)
            failure = failure_of(error)
        self._round.note(item, outcome, failure)
        if lane.stopped:
            self._stopped.add((row.of, lane.key))
        assert item.outcome is not None
        self._write(row, item, headers, outputs)
        if row.retry or item.outcome is not Outcome.DONE:
            after_ms = error.after_ms if isinstance(error, Retry) else None
            self._note(row, outcome.value, failure, after_ms)

    def end(self) -> None:
        """How much there is, so that nothing can be missing unnoticed."""
        for partition, last in self._last.items():
            self._put(kind=SEEN, of=partition, id=last, records=0)
        self._put(kind=SEEN, of=-1, id=-1, records=self._records)

    def taken(self) -> list[dict[str, Any]]:
        taken, self.results = self.results, []
        return taken

    # ── one row ──

    def _waits(self, row: _Row) -> bool:
        key = lane_key(row.lock_key, row.id)
        if not self._handling.rules.redirects:
            return False
        if (row.of, key) in self._stopped:
            return True
        return not row.retry and key in self._handling.blocked.get(row.of, ())

    def _tried(
        self, row: _Row, headers: tuple[Header, ...]
    ) -> tuple[list[Output], Exception | None]:
        message = Message(
            self._handling.topics.main, row.of, row.id, row.key, row.value, headers,
            -1 if row.timestamp_ms is None else row.timestamp_ms, row.attempts,
        )  # fmt: skip
        try:
            outputs = outputs_of(self._handling.handler(message), row.key)
        except Exception as error:  # noqa: BLE001  it is the handler's way to say so
            return [], error
        refusal = self._refusal(outputs)
        return (outputs, None) if refusal is None else ([], refusal)

    def _refusal(self, outputs: list[Output]) -> Verdict | None:
        """What comes of them if they are sent; None: they will be taken."""
        if not self._handling.rules.weighs:
            return None
        topic = self._handling.topics.output
        told = (
            self._outputs.trouble(
                each.topic or topic, _bytes(each.key), _bytes(each.value), each.headers
            )
            for each in outputs
        )
        return next((verdict for verdict in told if verdict is not None), None)

    def _write(
        self, row: _Row, item: Item, headers: tuple[Header, ...], outputs: list[Output]
    ) -> None:
        topics, settings = self._handling.topics, self._handling.settings
        for output in outputs:
            self._record(
                row, output.topic or topics.output, None, _bytes(output.key),
                _bytes(output.value), output.headers,
            )  # fmt: skip
        dead = item.outcome is Outcome.DEAD
        holds = dead and settings.at_ceiling == "held"
        if dead:
            failure = item.failure or Failure("no reason was given")
            told = dead_letter_headers(
                TaskName(topics.main, row.of).id_of(row.id), item.attempts, failure.reason,
                failure.exception, failure.stack, timestamp_ms=row.timestamp_ms, held=holds,
            )  # fmt: skip
            self._kept_record(row, topics.dead, row.key, row.value, (*headers, *told))
        if not row.retry and (item.outcome is Outcome.RETRY or holds):
            self._redirect(row)

    def _redirect(self, row: _Row) -> None:
        headers = tuple((each["key"], each["value"]) for each in row.headers or ())
        time_ms = -1 if row.timestamp_ms is None else row.timestamp_ms
        record = RetryRecord(row.key, row.lock_key, row.value, headers, time_ms)
        value, told = record.encode()
        topics = self._handling.topics
        key = TaskName(topics.main, row.of).id_of(row.id)
        self._kept_record(row, topics.retry, key, value, told)

    # ── what comes out ──

    def _kept_record(
        self,
        row: _Row,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[Header],
    ) -> None:
        """In a topic of ours. If it does not fit there, the message cannot be kept at all."""
        told = tuple(headers)
        refusal = self._outputs.trouble(topic, key, value, told)
        if refusal is not None:
            raise _not_kept(self._handling.topics, row, topic, refusal)
        self._record(row, topic, row.of, key, value, told)

    def _record(
        self,
        row: _Row,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[Header],
    ) -> None:
        self._records += 1
        self._put(
            kind=RECORD, of=row.of, id=row.id, lock_key=row.lock_key, topic=topic,
            partition=partition, key=key, value=value,
            headers=[{"key": name, "value": told} for name, told in headers],
            timestamp=None,  # that of its writing
        )  # fmt: skip

    def _note(
        self,
        row: _Row,
        outcome: str,
        failure: Failure | None = None,
        after_ms: int | None = None,
    ) -> None:
        self._put(
            kind=NOTE, of=row.of, id=row.id, lock_key=row.lock_key, retry=row.retry,
            outcome=outcome, reason=failure and failure.reason,
            exception=failure and failure.exception, after_ms=after_ms,
        )  # fmt: skip

    def _put(self, **values: Any) -> None:
        self.results.append({"run": self._run, **values})


def outputs_of(returned: Any, key: bytes | None) -> list[Output]:
    """What a handler has returned: nothing, a value, an `Output`, or several of these."""
    if returned is None:
        return []
    if isinstance(returned, Output):
        return [_checked(returned)]
    if isinstance(returned, bytes | str):
        return [Output(_bytes(returned), key)]
    return [output for each in returned for output in outputs_of(each, key)]


def _checked(output: Output) -> Output:
    """TypeError, as long as it is the handler's: later it would be that of the whole batch."""
    _bytes(output.value), _bytes(output.key)
    if not isinstance(output.topic, str | None):
        raise TypeError(f"the name of a topic is text, not {type(output.topic).__name__}")
    headers = []
    for name, told in output.headers:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is text, not {type(name).__name__}")
        name.encode()
        headers.append((name, _bytes(told)))
    return output._replace(headers=tuple(headers))


def _not_kept(topics: Topics, row: _Row, topic: str, why: Verdict) -> ConfigError:
    """The query cannot go on: behind this message its key would have to be forgotten."""
    message = TaskName(topics.main, row.of).id_of(row.id).decode()
    told = f"the message (key {key_text(row.lock_key)}) has to be kept, and cannot be: {why}"
    return ConfigError(message, told, f"raise max.message.bytes of {topic}, then start again")


def key_text(key: bytes | None) -> str:
    return "none" if key is None else key.decode(errors="backslashreplace")


def _bytes(data: bytes | str | None) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    raise TypeError(f"bytes, text or None can be written, not {type(data).__name__}")


def results_schema() -> Any:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("kind", pa.string()), ("run", pa.string()), ("topic", pa.string()),
            ("partition", pa.int32()), ("key", pa.binary()), ("value", pa.binary()),
            ("headers", pa.list_(pa.field("element", header))),
            ("timestamp", pa.timestamp("us", "UTC")), ("of", pa.int32()), ("id", pa.int64()),
            ("lock_key", pa.binary()), ("retry", pa.bool_()), ("outcome", pa.string()),
            ("reason", pa.string()), ("exception", pa.string()), ("after_ms", pa.int64()),
            ("records", pa.int64()),
        ]
    )  # fmt: skip


def _table(results: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(results, results_schema())
