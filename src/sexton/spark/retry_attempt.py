"""One attempt at one micro-batch of a retry pipeline: what the driver does, up to the commit.

    fence, read what is pending     only at the start, and again after whatever failed
    tail of the retry topic         where our last retry records are; commands of operators
    due heads, by offset            beside the rows of the batch
    run (many tasks, by key)        kept by Spark as it came out: nobody is asked twice
    notes to the machines           which say what is locked and what is released
    one transaction                 outputs, retry records, dead letters, locks, tombstones,
                                    the position of each partition, and the batch's marker

The sender reads the marker after it has fenced everybody. If it finds there what we found when we
began, or what we have written since, nobody else has written for this pipeline since we read what
is pending, and what we know is right. Our memory of it changes when the transaction is committed,
not before.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PythonException

from sexton.base.errors import ConfigError, PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.transacting import Committed, commit_offset
from sexton.machines.retry_outcomes import Errors
from sexton.machines.retry_records import (
    RetryRecord,
    TaskName,
    command_headers,
    dead_letter_headers,
    reason_headers,
)
from sexton.machines.retry_rounds import Commit, Failure, Item, Round
from sexton.machines.retry_settings import Settings
from sexton.spark.background import BackgroundLoop
from sexton.spark.retry_handling import NOTE, RECORD, SEEN, Handler, Handling, key_text
from sexton.spark.retry_notes import as_written, leave_out, take_notes
from sexton.spark.retry_outputs import Taking, not_taken, refusal_in, targets_of
from sexton.spark.retry_reading import Owned, Reading
from sexton.spark.retry_rules import RETRY_RULES, RetryRules
from sexton.spark.retry_stages import (
    due_rows,
    forget,
    handled_rows,
    outputs_in,
    record_row,
    sent,
)
from sexton.spark.retry_tick import now_ms
from sexton.spark.retry_topics import Topics, check, prepare
from sexton.spark.sink_encoding import Encoding
from sexton.spark.sink_marker import Marker
from sexton.spark.sink_protocol import Answer, Plan, begin, commit, in_time
from sexton.spark.sink_settings import SinkSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger(__name__)
# Payloads of retries that the driver reads for one batch: it holds them, Spark gets them from it,
# and what is left out is due in the next one.
DUE_BYTES = 64 << 20
MOST_NAMED = 3  # messages, in an error that is about some of them


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
    replication: int | None = None  # None: as many as the main topic has
    rules: RetryRules = RETRY_RULES


@dataclass(slots=True, eq=False)
class Known:
    """What is pending, as of the last committed batch."""

    owned: dict[int, Owned]
    marker: Committed | None  # as it was when this was read
    reaped: dict[int, Commit] = field(default_factory=dict)  # to be written with the next batch

    @property
    def is_good(self) -> bool:
        return not any(each.task.restart for each in self.owned.values())

    @property
    def is_full(self) -> bool:
        return any(each.task.paused for each in self.owned.values())


@dataclass(frozen=True, slots=True)
class Attempt:
    pipeline: Pipeline
    plan: Plan
    loop: BackgroundLoop
    client: Client

    # ── the start ──

    def start(self, *, is_prepared: bool = False) -> Known | None:
        """None: the batch was written, by a driver that did not live to tell Spark."""
        began_s = time.monotonic()
        partitions = self._partitions(is_prepared)
        begun = begin(self.plan)  # the fence: everything below is read after it
        if not self._is_to_write(begun.marker):
            return None
        starting = self._reading.start_up(
            self.pipeline.settings, partitions, growth_accepted=self.pipeline.growth_accepted
        )
        known = Known(self.loop.run(starting), begun.marker)
        for number, each in known.owned.items():
            if self.plan.batch.number > 0:  # the first of a checkpoint may begin anywhere
                each.has_read_all_that_waits()
            stale = each.task.reap()
            if stale is not None:  # it is not among what is pending: memory does not change by it
                known.reaped[number] = stale
                each.task.confirmed()
        pending = sum(len(each.task.pending) for each in known.owned.values())
        seconds = time.monotonic() - began_s
        _LOG.info("pipeline=%s pending=%d barrier_s=%.3f", self.pipeline.name, pending, seconds)
        return known

    def _partitions(self, is_prepared: bool) -> int:
        topics, patience = self.pipeline.topics, self.plan.patience
        if is_prepared:
            return self.loop.run(check(self.client, topics, patience))
        wanted = prepare(self.client, topics, patience, self.pipeline.replication)
        return self.loop.run(wanted)

    @property
    def _reading(self) -> Reading:
        pipeline, plan = self.pipeline, self.plan
        return Reading(self.client, pipeline.topics, plan.group, plan.patience, pipeline.rules)

    def _is_to_write(self, marker: Committed | None) -> bool:
        return self.plan.rules.is_to_write(
            self.plan.batch, Marker.from_committed(marker, self.plan.group)
        )

    # ── the batch ──

    def write(self, spark: SparkSession, new: DataFrame | None, known: Known) -> bool:
        """False: somebody else has written it. `new` are `main_rows`; None: retries alone."""
        owned = known.owned
        self.loop.run(self._reading.tails(owned))
        for each in owned.values():
            if each.task.restart:
                raise PeerError(str(each.task.name), each.task.restart)
        taking = self._taking()
        now = now_ms()
        rounds = {number: each.task.begin(now, (), ()) for number, each in owned.items()}
        payloads = self._payloads(rounds)
        due = due_rows(rounds, payloads)
        kept = handled_rows(spark, new, due, self._handling(owned, rounds, taking))
        try:
            told = kept.where(f"kind <> '{RECORD}'").collect()
            seen = [row for row in told if row.kind == SEEN]
            take_notes(owned, rounds, [row for row in told if row.kind == NOTE], seen)
            now = now_ms()
            commits = {each: owned[each].task.finish(rounds[each], now) for each in owned}
            ours = list(self._records(known, rounds, commits, payloads))
            records = sum(row.records for row in seen) + len(ours)
            runs = sorted({row.run for row in seen}) if self.pipeline.rules.keeps else None
            with in_time(self.plan):
                answers = self._sent(kept, runs, ours, records, taking.encoding)
                return self._committed(known, commits, answers, records)
        finally:
            forget(kept)

    def _payloads(self, rounds: dict[int, Round]) -> dict[int, dict[int, RetryRecord]]:
        """Of each partition an equal share of what there is room for; the rest stays due.

        What operators skip is read in any case: its dead letters are written by the driver.
        """
        found: dict[int, dict[int, RetryRecord]] = {number: {} for number in rounds}
        share = DUE_BYTES // max(1, sum(bool(taken.retry_lanes) for taken in rounds.values()))
        for number, taken in rounds.items():
            due = [item for lane in taken.retry_lanes for item in as_written(lane)]
            for items, most_bytes in ((taken.orders.skipped, sys.maxsize), (due, share)):
                wanted = [(item.id, item.retry_offset) for item in items]
                if wanted:
                    name = TaskName(self.pipeline.topics.main, number)
                    reading = self._reading.payloads(name, wanted, most_bytes)
                    found[number] |= self.loop.run(reading)
            leave_out(taken, found[number])
        return found

    def _handling(
        self, owned: dict[int, Owned], rounds: dict[int, Round], taking: Taking
    ) -> Handling:
        blocked = {
            number: frozenset(each.task.pending.keys()) | frozenset(rounds[number].orders.keys)
            for number, each in owned.items()
        }
        pipeline = self.pipeline
        return Handling(
            pipeline.handler, pipeline.errors, pipeline.topics, pipeline.settings,
            {number: keys for number, keys in blocked.items() if keys}, taking, pipeline.rules,
        )  # fmt: skip

    def _taking(self) -> Taking:
        """What our topics take. For outputs that may be nothing: tasks see to it."""
        sink, topics = self.pipeline.sink, self.pipeline.topics
        looking = targets_of(self.client, topics.written, sink.patience, were_there=True)
        targets = self.loop.run(looking)
        for name in topics.names.beside:
            if targets[name].limits is None:
                raise ConfigError(f"topic {name}", targets[name].why, "the pipeline cannot work")
        limits = {name: each.limits for name, each in targets.items() if each.limits is not None}
        encoding = Encoding(
            sink.kafka, None, limits, sink.codec, sink.batch_bytes, now_ms(),
            self.plan.batch.number, sink.patience,
        )  # fmt: skip
        return Taking(targets, encoding)

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
            reaped = known.reaped.get(number)
            for each in (written,) if reaped is None else (reaped, written):
                for key in each.retry_tombstones:
                    told = command_headers(in_vain=key in each.in_vain)
                    yield record_row(topics.retry, number, key, None, told)
                for key in each.lock_tombstones:
                    yield record_row(topics.locks, number, key, None)
            for item in rounds[number].orders.skipped:  # by operators; no task has seen these
                yield self._dead_letter(number, item, payloads[number][item.id])

    def _dead_letter(self, number: int, item: Item, record: RetryRecord) -> dict[str, Any]:
        topics, failure = self.pipeline.topics, item.failure or Failure("skipped")
        message = TaskName(topics.main, number).id_of(item.id)
        told = dead_letter_headers(
            message, item.attempts, failure.reason, timestamp_ms=record.timestamp_ms
        )
        return record_row(topics.dead, number, record.key, record.value, [*record.headers, *told])

    def _sent(
        self,
        kept: DataFrame,
        runs: Sequence[str] | None,
        ours: Sequence[dict[str, Any]],
        records: int,
        encoding: Encoding,
    ) -> list[Answer]:
        encoding = replace(encoding, now_ms=now_ms())  # the handler may have taken its time
        try:
            return sent(kept, runs, ours, records, encoding, self.plan)
        except PythonException as error:
            refusal = refusal_in(str(error))
            if refusal is None:
                raise
            topics = self.pipeline.topics
            messages, some = outputs_in(kept, topics.names.beside, MOST_NAMED)
            named = [
                (TaskName(topics.main, of).id_of(message).decode(), key_text(key), topic)
                for of, message, key, topic in some
            ]
            raise not_taken(refusal, named, messages) from error

    # ── the commit ──

    def _committed(
        self, known: Known, commits: dict[int, Commit], answers: Sequence[Answer], records: int
    ) -> bool:
        (answer,) = answers
        now = now_ms()
        if self._is_to_write(answer.marker) and not answer.late_ms:
            self._check(known, answer, records)
            self._offsets(known, commits, answer, now)
        if not commit(self.plan, answers):
            return False
        known.reaped.clear()
        for number, written in commits.items():
            each = known.owned[number]
            if not each.is_told(written.position, written.watermark, now):
                each.told, each.told_at_ms = (written.position, written.watermark), now
            each.task.confirmed()
            for report in each.task.take_reports():
                name = TaskName(self.pipeline.topics.main, number)
                at = str(name) if report.id is None else name.id_of(report.id).decode()
                _LOG.warning(
                    "pipeline=%s %s at=%s %s",
                    self.pipeline.name, report.code, at, report.text,
                )  # fmt: skip
        return True

    def _check(self, known: Known, answer: Answer, records: int) -> None:
        """What we know is right if nobody has written since, and what we sent if all is there."""
        rules = self.pipeline.rules
        if rules.keeps and answer.records != records:
            why = f"{answer.records} records were sent, of {records}: a task was run again"
            raise PeerError("Spark", why)
        # Whoever has committed a batch is told by the marker's run if somebody else has since.
        began = not self.plan.batch.committed_before
        if rules.unchanged and began and answer.marker != known.marker:
            raise PeerError(self.plan.group, "another driver has written since this one began")

    def _offsets(self, known: Known, commits: dict[int, Commit], answer: Answer, now: int) -> None:
        """Where each partition stands and below which id nothing waits: the next start reads it."""
        for number, written in commits.items():
            if known.owned[number].is_told(written.position, written.watermark, now):
                continue
            at = TopicPartition(self.pipeline.topics.main, number)
            told = Committed(written.position, written.metadata)
            self.loop.run(
                commit_offset(
                    self.client, answer.transaction, self.plan.group, at, told, self.plan.patience
                )
            )
