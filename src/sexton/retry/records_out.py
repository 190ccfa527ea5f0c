"""What a round writes, record by record, in the order in which it may be written.

    outputs, dead letters, live locks │ retry records and tombstones │ released locks │ offset

In a transaction all of it is one; without, each stage is acknowledged before the next begins
(`machines.retry_rounds.Commit` says why). Lock and retry records go to the task's own partition, a
dead letter to the partition that its message came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_records import (
    Header,
    RetryRecord,
    TaskName,
    dead_letter_headers,
    reason_headers,
)
from sexton.machines.retry_rounds import Commit, Failure, Item, Outcome
from sexton.retry.handlers import RoundOfTask
from sexton.retry.messages import Headers, Output
from sexton.retry.outcomes import failure_of
from sexton.retry.topics import Names

NO_TIME = 0  # librdkafka takes the time of sending then
NOT_A_RETRY = -1


class Out(NamedTuple):
    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    headers: Sequence[Header] | Headers | None = None
    timestamp_ms: int = NO_TIME
    retry_of: int = NOT_A_RETRY  # the id whose place in the retry topic we want to hear of


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one task contributes to a transaction."""

    name: TaskName
    commit: Commit
    of: RoundOfTask | None  # None: nothing was run, stale locks are released
    offset: Any = None  # confluent_kafka's TopicPartition: see `producing`

    @property
    def needed(self) -> bool:
        """False: nothing at all has happened."""
        return self.commit.changes or bool(self.outputs)

    @property
    def outputs(self) -> Sequence[Output]:
        return () if self.of is None else self.of.outputs

    def first(self, names: Names) -> Iterator[Out]:
        """After the outputs."""
        of, commit, partition = self.of, self.commit, self.name.partition
        if of is not None:
            for item in commit.dead:
                yield self._dead_letter(names, of, item)
        for key, value, reason in commit.locks:
            told = reason_headers(reason) if reason else None
            yield Out(names.locks, value, key, partition, told)

    def second(self, names: Names) -> Iterator[Out]:
        commit, partition = self.commit, self.name.partition
        for item in commit.redirected:
            assert self.of is not None
            payload = self.of.payload(item)
            record = RetryRecord(
                payload.key, item.key, payload.value, payload.headers, payload.timestamp_ms
            )
            value, headers = record.encode()
            key = self.name.id_of(item.id)
            yield Out(names.retry, value, key, partition, headers, NO_TIME, item.id)
        for key in commit.retry_tombstones:
            yield Out(names.retry, None, key, partition)

    def third(self, names: Names) -> Iterator[Out]:
        for key in self.commit.lock_tombstones:
            yield Out(names.locks, None, key, self.name.partition)

    def _dead_letter(self, names: Names, of: RoundOfTask, item: Item) -> Out:
        payload = of.payload(item)
        failure = item.failure or Failure("no reason was given")
        error = of.errors.get(item.id)
        stack = failure_of(error).stack if error is not None else failure.stack
        told = dead_letter_headers(
            self.name.id_of(item.id), item.attempts, failure.reason, failure.exception, stack
        )
        assert item.outcome is Outcome.DEAD
        return Out(
            names.dead,
            payload.value,
            payload.key,
            self.name.partition,
            [*payload.headers, *told],
            max(payload.timestamp_ms, NO_TIME),
        )
