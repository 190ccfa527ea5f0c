"""One attempt at one micro-batch of a retry pipeline: what the driver does, up to the commit.

    fence, read what is pending     only at the start, and again after whatever failed
    tail of the retry topic         where our last retry records are; commands of operators
    due heads, by offset            beside the rows of the batch
    run (many tasks, by key)        kept by Spark as it came out: nobody is asked twice
    notes to the machines           which say what is locked and what is released
    one transaction                 outputs, retry records, dead letters, locks, tombstones,
                                    the position of each partition, and the batch's marker

The sender reads the marker after it has fenced everybody. If it finds the batch before ours there,
nobody has written for this pipeline since we read what is pending, and what we know is right. Our
memory of it changes when the transaction is committed, not before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.transacting import Committed, commit_offset
from sexton.machines.retry_records import (
    RetryRecord,
    TaskName,
    dead_letter_headers,
    reason_headers,
)
from sexton.machines.retry_rounds import Commit, Failure, Item, Round
from sexton.machines.retry_settings import Settings
from sexton.spark.background import BackgroundLoop
from sexton.spark.retry_handling import NOTE, RECORD, SEEN, Errors, Handler, Handling
from sexton.spark.retry_notes import take_notes
from sexton.spark.retry_reading import Owned, Reading
from sexton.spark.retry_stages import due_rows, forget, handled_rows, record_row, sent
from sexton.spark.retry_tick import now_ms
from sexton.spark.retry_topics import Topics, prepare
from sexton.spark.sink_encoding import Encoding
from sexton.spark.sink_marker import Marker, is_to_write
from sexton.spark.sink_protocol import Answer, Plan, begin, commit
from sexton.spark.sink_settings import SinkSettings
from sexton.spark.sink_topics import topic_limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What the user has said, checked."""

    name: str
    topics: Topics
    handler: Handler
    errors: Errors
    lock_key: str  # an expression of Spark's SQL
    sink: SinkSettings
    settings: Settings
    growth_accepted: bool = False
    redirects: bool = True  # False only where a test shows what it is for


@dataclass(slots=True, eq=False)
class Known:
    """What is pending, as of the last committed batch."""

    owned: dict[int, Owned]
    reaped: dict[int, Commit] = field(default_factory=dict)  # to be written with the next batch

    @property
    def is_good(self) -> bool:
        return not any(each.task.restart for each in self.owned.values())


@dataclass(frozen=True, slots=True)
class Attempt:
    pipeline: Pipeline
    plan: Plan
    loop: BackgroundLoop
    client: Client

    # ── the start ──

    def start(self) -> Known | None:
        """None: the batch was written, by a driver that did not live to tell Spark."""
        began_s = time.monotonic()
        partitions = self.loop.run(prepare(self.client, self.pipeline.topics))
        begun = begin(self.plan)  # the fence: everything below is read after it
        if not is_to_write(self.plan.batch, Marker.from_committed(begun.marker, self.plan.group)):
            return None
        starting = self._reading.start_up(
            self.pipeline.settings, partitions, growth_accepted=self.pipeline.growth_accepted
        )
        known = Known(self.loop.run(starting))
        for number, each in known.owned.items():
            stale = each.task.reap()
            if stale is not None:  # it is not among what is pending: memory does not change by it
                known.reaped[number] = stale
                each.task.confirmed()
        pending = sum(len(each.task.pending) for each in known.owned.values())
        seconds = time.monotonic() - began_s
        _LOG.info("pipeline=%s pending=%d barrier_s=%.3f", self.pipeline.name, pending, seconds)
        return known

    @property
    def _reading(self) -> Reading:
        return Reading(self.client, self.pipeline.topics, self.plan.group, self.plan.patience)

    # ── the batch ──

    def write(self, df: DataFrame, known: Known) -> bool:
        """False: somebody else has written it."""
        owned = known.owned
        self.loop.run(self._reading.tails(owned))
        for each in owned.values():
            if each.task.restart:
                raise PeerError(str(each.task.name), each.task.restart)
        now = now_ms()
        rounds = {number: each.task.begin(now, (), ()) for number, each in owned.items()}
        payloads = {number: self._payloads(number, taken) for number, taken in rounds.items()}
        due = due_rows(rounds, payloads)
        kept = handled_rows(df, self.pipeline.lock_key, due, self._handling(owned, rounds))
        try:
            told = kept.where(f"kind <> '{RECORD}'").collect()
            seen = [row for row in told if row.kind == SEEN]
            take_notes(owned, rounds, [row for row in told if row.kind == NOTE], seen)
            now = now_ms()
            commits = {each: owned[each].task.finish(rounds[each], now) for each in owned}
            ours = list(self._records(known, rounds, commits, payloads))
            records = sum(row.records for row in seen) + len(ours)
            runs = sorted({row.run for row in seen})
            answers = sent(kept, runs, ours, records, self._encoding(), self.plan)
        finally:
            forget(kept)
        return self._committed(known, commits, answers, records)

    def _payloads(self, number: int, taken: Round) -> dict[int, RetryRecord]:
        wanted = [(item.id, item.retry_offset) for item in taken.retries]
        name = TaskName(self.pipeline.topics.main, number)
        return self.loop.run(self._reading.payloads(name, wanted)) if wanted else {}

    def _handling(self, owned: dict[int, Owned], rounds: dict[int, Round]) -> Handling:
        blocked = {
            number: frozenset(each.task.pending.keys()) | frozenset(rounds[number].orders.keys)
            for number, each in owned.items()
        }
        pipeline = self.pipeline
        return Handling(
            pipeline.handler, pipeline.errors, pipeline.topics, pipeline.settings,
            {number: keys for number, keys in blocked.items() if keys}, pipeline.redirects,
        )  # fmt: skip

    def _encoding(self) -> Encoding:
        sink = self.pipeline.sink
        names = self.pipeline.topics.written
        limits = self.loop.run(topic_limits(sink.kafka, names, sink.patience))
        return Encoding(
            sink.kafka, None, limits, sink.codec, sink.batch_bytes, now_ms(),
            self.plan.batch.number, sink.patience,
        )  # fmt: skip

    # ── what the driver writes itself ──

    def _records(
        self,
        known: Known,
        rounds: dict[int, Round],
        commits: dict[int, Commit],
        payloads: dict[int, dict[int, RetryRecord]],
    ) -> Iterator[dict[str, Any]]:
        topics = self.pipeline.topics
        for number, written in commits.items():
            for locked in written.locks:
                told = reason_headers(locked.reason)
                yield record_row(topics.locks, number, locked.key, locked.value, told)
            for each in (known.reaped.get(number), written):
                for key in each.retry_tombstones if each else ():
                    yield record_row(topics.retry, number, key, None)
                for key in each.lock_tombstones if each else ():
                    yield record_row(topics.locks, number, key, None)
            for item in rounds[number].orders.skipped:  # by operators; no task has seen these
                yield self._dead_letter(number, item, payloads[number][item.id])

    def _dead_letter(self, number: int, item: Item, record: RetryRecord) -> dict[str, Any]:
        topics, failure = self.pipeline.topics, item.failure or Failure("skipped")
        message = TaskName(topics.main, number).id_of(item.id)
        told = dead_letter_headers(message, item.attempts, failure.reason)
        headers = [*record.headers, *told]
        return record_row(
            topics.dead, number, record.key, record.value, headers, record.timestamp_ms
        )

    # ── the commit ──

    def _committed(
        self, known: Known, commits: dict[int, Commit], answers: Sequence[Answer], records: int
    ) -> bool:
        (answer,) = answers
        group = self.plan.group
        if is_to_write(self.plan.batch, Marker.from_committed(answer.marker, group)):
            if not answer.late_ms and answer.records != records:
                why = f"{answer.records} records were sent, of {records}: a task was run again"
                raise PeerError("Spark", why)
            if not answer.late_ms:
                self._offsets(known, commits, answer)
        if not commit(self.plan, answers):
            return False
        known.reaped.clear()
        for number, written in commits.items():
            each = known.owned[number]
            each.told = (written.position, written.watermark)
            each.task.confirmed()
            for report in each.task.take_reports():
                name = TaskName(self.pipeline.topics.main, number)
                at = str(name) if report.id is None else name.id_of(report.id).decode()
                _LOG.warning("pipeline=%s %s at=%s %s", group, report.code, at, report.text)
        return True

    def _offsets(self, known: Known, commits: dict[int, Commit], answer: Answer) -> None:
        """Where each partition stands and below which id nothing waits: the next start reads it."""
        for number, written in commits.items():
            if known.owned[number].told == (written.position, written.watermark):
                continue
            at = TopicPartition(self.pipeline.topics.main, number)
            told = Committed(written.position, written.metadata)
            self.loop.run(
                commit_offset(
                    self.client, answer.transaction, self.plan.group, at, told, self.plan.patience
                )
            )
