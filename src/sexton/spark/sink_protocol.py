"""One batch, one Kafka transaction: who says what, and in which order?

    sender (a task; Spark may run it again, or twice)        driver
      1  a fresh epoch: fences every earlier attempt
      2  the marker: is the batch there already?
      3  if not, all batches, and waits until all are taken
      4  answers (producer id, epoch, marker) ──────────▶   5  the marker, into the transaction;
                                                               does it replace the one of 2?
                                                            6  commits it, with that epoch

Why it is right: no two attempts share an epoch. Only the driver commits, and only the epoch under
which one whole attempt has finished; if a later attempt has begun, that epoch is fenced and the
commit fails. The marker is read after the epoch was taken, so no earlier attempt can commit behind
our back. A coordinator that was replaced and has not noticed may have told it, and know nothing of
the last batch. So it is compared with the marker that the new one replaces, by the word of the
coordinator that takes the new one: one that was replaced takes nothing. Whatever fails, wherever it
fails: run the batch again, and the marker decides.

Several senders are one attempt: the first does 1 and 2 and tells the others, who then do 3 and 4,
each for partitions of its own. The driver takes their answers only if all are there, with the same
epoch. The driver may also be the sender itself, one attempt at a time; it does the same six steps.

Nothing here knows of Spark. `probe` is told of each step; tests fail there, as a machine might.
The rules of the proof, an epoch for each attempt, the marker's word, and that it is the last one,
are `Rules`: tests leave one out, and find rows lost or doubled.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.producing import REQUEST_BYTES, BatchSender
from sexton.client.retrying import Patience
from sexton.client.transacting import (
    FENCED,
    Committed,
    Transaction,
    end_transaction,
    init_producer_id,
    replace_offset,
    stable_offset,
)
from sexton.spark.sink_line import Talk
from sexton.spark.sink_marker import Batch, Marker, SinkRefused, elsewhere, is_to_write

PREFIX = "sexton-sink-"
JOB = "job-"  # what a pipeline's name begins with if it is a job's id
STEPS = ("initialised", "sending", "sent", "answered", "marked", "committed")
OVER = FENCED | {KafkaError.TRANSACTION_ABORTABLE}  # nothing more can be written by this epoch
SHORTLY_MS = 5_000  # for what is good to do, but not needed
Probe = Callable[[str, int], None]  # a step, and the number of the batch
Blob = tuple[TopicPartition, bytearray]  # a whole record batch, and where it goes


class TooSlow(SextonError):
    """Kafka has timed the transaction out; with more time it may succeed."""


def unwatched(_step: str, _batch: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the proof rests on; nobody but a test has others."""

    fresh_epoch: Callable[..., Coroutine[Any, Any, Transaction]] = init_producer_id
    is_to_write: Callable[[Batch, Marker | None], bool] = is_to_write
    # The marker as the attempt began with it, and as whoever takes the next one has it.
    is_the_last: Callable[[Committed | None, Committed | None], bool] = operator.eq


RULES = Rules()


@dataclass(frozen=True, slots=True)
class Plan:
    """What driver and sender know of a batch before they begin."""

    kafka: Mapping[str, str] = field(repr=False)  # may hold a password
    batch: Batch
    marker_at: TopicPartition  # an existing partition; the marker is an offset of it
    timeout_ms: int
    patience: Patience
    probe: Probe = unwatched
    version: int | None = None  # of transactions; None: as the cluster says
    senders: int = 1
    rules: Rules = RULES
    requests_of: int | None = None  # bytes; None: whoever watches finds every batch on its way

    @property
    def transactional_id(self) -> str:
        return PREFIX + self.batch.pipeline

    @property
    def group(self) -> str:
        return PREFIX + self.batch.pipeline

    @property
    def request_bytes(self) -> int:
        if self.requests_of is not None:
            return self.requests_of
        return REQUEST_BYTES if self.probe is unwatched else 1

    def reached(self, step: str) -> None:
        self.probe(step, self.batch.number)


@dataclass(frozen=True, slots=True)
class Begun:
    """What the senders of one attempt have in common."""

    transaction: Transaction
    marker: Committed | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sender has done."""

    transaction: Transaction
    marker: Committed | None
    records: int
    sender: int = 0
    late_ms: int = 0  # not 0: Kafka has ended the transaction when so much time had passed
    size: int = 0  # bytes that were sent


def send(plan: Plan, batches: Iterable[Blob]) -> Answer:
    """One attempt of a single sender."""
    with _talking(plan) as talk:
        begun = talk.loop.run(beginning(plan, talk.client))
        return _delivered(plan, talk, begun, batches, 0)


def begin(plan: Plan) -> Begun:
    """From here on every earlier attempt is fenced, and the marker that it left is the last."""
    with _talking(plan) as talk:
        return talk.loop.run(beginning(plan, talk.client))


async def beginning(plan: Plan, client: Client) -> Begun:
    """The same, by a client that is there."""
    transaction = await plan.rules.fresh_epoch(
        client, plan.transactional_id, plan.timeout_ms, plan.patience, plan.version
    )
    # Only now: an attempt that is not fenced yet could still move the marker.
    marker = await stable_offset(client, plan.group, plan.marker_at, plan.patience)
    return Begun(transaction, marker)


def deliver(
    plan: Plan,
    begun: Begun,
    batches: Iterable[Blob],
    sender: int,
    talk: Talk | None = None,
    leaders: Mapping[TopicPartition, int] | None = None,
) -> Answer:
    """What is left to do for one of several senders, or for one that has begun before."""
    with _talking(plan, talk) as used:
        return _delivered(plan, used, begun, batches, sender, leaders)


@contextmanager
def _talking(plan: Plan, talk: Talk | None = None) -> Iterator[Talk]:
    """By the line that is there; without one, by one that is made for this."""
    if talk is not None:
        yield talk
        return
    made = Talk.begin(plan.kafka)
    try:
        yield made
    finally:
        made.end()


def _delivered(
    plan: Plan,
    talk: Talk,
    begun: Begun,
    batches: Iterable[Blob],
    sender: int,
    leaders: Mapping[TopicPartition, int] | None = None,
) -> Answer:
    """If the batch is there already, or nobody may write it, nothing is sent."""
    plan.reached("initialised")
    began_s = time.monotonic()
    batch_sender = BatchSender(
        talk.client, begun.transaction, plan.patience, plan.request_bytes, leaders
    )
    try:
        if _may_write(plan, begun.marker):
            for at, batch in batches:
                if batch_sender.takes(at, batch):
                    talk.loop.run(batch_sender.go_on())
                plan.reached("sending")
            talk.loop.run(batch_sender.flush())
    except Refused as error:
        took_ms = int((time.monotonic() - began_s) * 1000)
        if error.error not in OVER or took_ms < plan.timeout_ms:
            raise
        return Answer(begun.transaction, begun.marker, 0, sender, late_ms=took_ms)
    plan.reached("sent")
    return Answer(
        begun.transaction, begun.marker, batch_sender.records, sender, size=batch_sender.size
    )


def abandon(plan: Plan) -> None:
    """Ends what the last attempt has left open, if Kafka answers soon: readers would wait for it.

    By a fresh epoch, and not by an ABORT of the old one: batches may still be on their way.
    """
    try:
        begin(replace(plan, patience=Patience(timeout_ms=SHORTLY_MS, backoff_ms=20)))
    except SextonError:
        pass  # then Kafka does it, after transaction.timeout.ms


def _may_write(plan: Plan, marker: Committed | None) -> bool:
    """A refusal is for the driver to raise: it does not have to be read out of a task's failure."""
    try:
        return plan.rules.is_to_write(plan.batch, Marker.from_committed(marker, plan.group))
    except SinkRefused:
        return False


def commit(plan: Plan, answers: Sequence[Answer], talk: Talk | None = None) -> bool:
    """Makes one whole attempt visible; False: the batch was there already."""
    begun = _of_one_attempt(plan, answers)
    if not plan.rules.is_to_write(plan.batch, Marker.from_committed(begun.marker, plan.group)):
        return False
    late_ms = max(answer.late_ms for answer in answers)
    if late_ms:
        raise too_slow(plan, late_ms)
    plan.reached("answered")
    records = sum(answer.records for answer in answers)
    try:
        with _talking(plan, talk) as used:
            found = _mark(plan, used, begun.transaction, records)
            refusal = elsewhere(plan.batch, plan.marker_at, found, plan.group)
            last = found.get(plan.marker_at)
            if refusal is None and plan.rules.is_the_last(begun.marker, last):
                _commit(plan, used, begun.transaction)
                return True
    except Refused as error:
        if error.error not in OVER:
            raise
        hint = (
            f"a later attempt has taken over, or the batch took longer than "
            f"transaction.timeout.ms ({plan.timeout_ms}): then raise that"
        )
        raise Refused(error.error, error.why, hint) from error
    abandon(plan)
    if refusal is not None:
        raise refusal
    return _not_the_last(plan, last)


def _not_the_last(plan: Plan, found: Committed | None) -> bool:
    """False: the batch is there already. Whoever told the marker at first had been replaced."""
    marker = Marker.from_committed(found, plan.group)
    if not plan.rules.is_to_write(plan.batch, marker) and not _is_of_this_run(plan, marker):
        return False
    why = "is not the one that this attempt began with: a coordinator that was replaced told that"
    raise PeerError(f"the marker of {plan.group}", why)


def is_ours(plan: Plan, answers: Sequence[Answer]) -> bool:
    """Was it this run that wrote the batch, if it was there already? Then an answer was lost."""
    return _is_of_this_run(plan, Marker.from_committed(answers[0].marker, plan.group))


def _is_of_this_run(plan: Plan, marker: Marker | None) -> bool:
    return marker is not None and marker.run == plan.batch.run


def too_slow(plan: Plan, took_ms: int) -> TooSlow:
    why = (
        f"batch {plan.batch.number} was not sent within transaction.timeout.ms "
        f"({plan.timeout_ms}), and Kafka has ended its transaction after {took_ms} ms"
    )
    hint = "raise transaction.timeout.ms, or make batches smaller; nothing of it is visible"
    return TooSlow(plan.batch.pipeline, why, hint)


@contextmanager
def in_time(plan: Plan) -> Iterator[None]:
    """Whoever is refused in here after its time was over has been too slow."""
    began_s = time.monotonic()
    try:
        yield
    except Refused as error:
        took_ms = int((time.monotonic() - began_s) * 1000)
        if error.error in OVER and took_ms >= plan.timeout_ms:
            raise too_slow(plan, took_ms) from error
        raise


def _of_one_attempt(plan: Plan, answers: Sequence[Answer]) -> Begun:
    found = sorted(answer.sender for answer in answers)
    if found != list(range(plan.senders)):
        raise PeerError("Spark", f"has answers of the senders {found}, of {plan.senders}")
    attempts = {Begun(answer.transaction, answer.marker) for answer in answers}
    if len(attempts) != 1:
        epochs = sorted(begun.transaction.epoch for begun in attempts)
        raise PeerError("Spark", f"has answers of several attempts, with the epochs {epochs}")
    return attempts.pop()


def _mark(
    plan: Plan, talk: Talk, transaction: Transaction, records: int
) -> dict[TopicPartition, Committed]:
    """What the group has until this is committed: the marker that the new one replaces, and all."""
    batch = plan.batch
    now_ms = time.time_ns() // 1_000_000
    marker = Marker(
        batch.number, batch.query, batch.run, records, now_ms, batch.planned_ms
    ).to_committed()
    found = talk.loop.run(
        replace_offset(talk.client, transaction, plan.group, plan.marker_at, marker, plan.patience)
    )
    plan.reached("marked")
    return found


def _commit(plan: Plan, talk: Talk, transaction: Transaction) -> None:
    talk.loop.run(end_transaction(talk.client, transaction, committed=True, patience=plan.patience))
    plan.reached("committed")
