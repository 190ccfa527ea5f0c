"""What a round writes, record by record, in the order in which it may be written.

    outputs, dead letters, live locks │ retry records and tombstones │ released locks │ offset

In a transaction all of it is one; without, each stage is acknowledged before the next begins
(`machines.retry_rounds.Commit` says why). Lock and retry records go to the task's own partition, a
dead letter to the partition that its message came from.

Where retry records are in their partition, memory wants to know. A producer that numbers what it
sends has them appended in order, so the offsets of the first and the last tell all, unless somebody
else has written between them: an operator's command. Then the task starts up again, which is rare
and always right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_records import (
    Header,
    TaskName,
    command_headers,
    dead_letter_headers,
    reason_headers,
    retry_headers,
)
from sexton.machines.retry_rounds import Commit, Failure, Item, Outcome
from sexton.retry.handlers import RoundOfTask
from sexton.retry.messages import Output
from sexton.retry.outcomes import failure_of
from sexton.retry.topics import Names

OnDelivery = Callable[[Any, Any], None]
# Topic, value, key, partition, headers, and who is to hear where it is.
Record = tuple[str, bytes | None, bytes | None, int, list[Header] | None, OnDelivery | None]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one task contributes to a transaction."""

    name: TaskName
    commit: Commit
    of: RoundOfTask | None  # None: nothing was run, stale locks are released
    offset: Any = None  # confluent_kafka's TopicPartition: see `producing`

    @property
    def outputs(self) -> Sequence[Output]:
        return () if self.of is None else self.of.outputs

    def first(self, names: Names) -> Iterator[Record]:
        """After the outputs."""
        of, commit, partition, topic = self.of, self.commit, self.name.partition, names.locks
        if of is not None:
            for item in commit.dead:
                yield self._dead_letter(names, of, item)
        said, told = "", None
        for key, value, reason in commit.locks:
            if reason != said:  # what fails together fails for the same reason
                said, told = reason, reason_headers(reason) or None
            yield topic, value, key, partition, told, None

    def second(self, names: Names, ends: Ends) -> Iterator[Record]:
        of, commit, partition, topic = self.of, self.commit, self.name.partition, names.retry
        prefix, last = self.name.prefix, len(commit.redirected) - 1
        for number, item in enumerate(commit.redirected):
            assert of is not None
            key, value, headers, timestamp_ms = of.payload(item)
            told = retry_headers(key, item.key, value, headers, timestamp_ms)
            heard = ends.note if number in (0, last) else None
            yield topic, value or b"", b"%b%d" % (prefix, item.id), partition, told, heard
        for name in commit.retry_tombstones:
            said = command_headers(in_vain=name in commit.in_vain) or None
            yield topic, None, name, partition, said, None

    def third(self, names: Names) -> Iterator[Record]:
        topic, partition = names.locks, self.name.partition
        for name in self.commit.lock_tombstones:
            yield topic, None, name, partition, None, None

    def _dead_letter(self, names: Names, of: RoundOfTask, item: Item) -> Record:
        payload = of.payload(item)
        failure = item.failure or Failure("no reason was given")
        error = of.errors.get(item.id)
        stack = failure_of(error).stack if error is not None else failure.stack
        told = dead_letter_headers(
            self.name.id_of(item.id), item.attempts, failure.reason, failure.exception, stack,
            timestamp_ms=payload.timestamp_ms, held=item.id in self.commit.changed,
        )  # fmt: skip
        assert item.outcome is Outcome.DEAD
        headers = [*payload.headers, *told]
        return names.dead, payload.value, payload.key, self.name.partition, headers, None


class Ends:
    """Where the first and the last of some records are; they were sent to one partition."""

    def __init__(self, failing: Callable[[Any, Any], None] | None = None) -> None:
        self._failing = failing
        self._found: list[int] = []

    def note(self, error: Any, message: Any) -> None:
        if error is None:
            # None: librdkafka takes it from a later batch's answer that this one is there.
            if (offset := message.offset()) is not None:
                self._found.append(offset)
        elif self._failing is not None:
            self._failing(error, message)

    def offsets(self, ids: Sequence[int]) -> dict[int, int]:
        """By id; empty: not known."""
        if not ids or not self._found:
            return {}
        first, last = self._found[0], self._found[-1]
        if last - first != len(ids) - 1:
            return {}
        return dict(zip(ids, range(first, last + 1), strict=True))
