"""One batch, one Kafka transaction: who says what, and in which order?

    sender (a task; Spark may run it again, or twice)        driver
      1  a fresh epoch: fences every earlier attempt
      2  the marker: is the batch there already?
      3  if not, all batches, and waits until all are taken
      4  answers (producer id, epoch, marker) ──────────▶   5  the marker, into the transaction
                                                            6  commits it, with that epoch

Why it is right: no two attempts share an epoch. Only the driver commits, and only the epoch under
which one whole attempt has finished; if a later attempt has begun, that epoch is fenced and the
commit fails. The marker is read after the epoch was taken, so no earlier attempt can commit behind
our back. Whatever fails, wherever it fails: run the batch again, and the marker decides.

Nothing here knows of Spark. `probe` is told of each step; tests fail there, as a machine might.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sexton.base.errors import PeerError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.producing import BatchSender
from sexton.client.retrying import Patience
from sexton.client.transacting import (
    FENCED,
    Committed,
    Transaction,
    commit_offset,
    end_transaction,
    init_producer_id,
    stable_offset,
)
from sexton.spark.background import BackgroundLoop
from sexton.spark.sink_marker import Batch, Marker, SinkRefused, is_to_write
from sexton.spark.sink_topics import client_for

PREFIX = "sexton-sink-"
STEPS = ("initialised", "sending", "sent", "answered", "marked", "committed")
Probe = Callable[[str, int], None]  # a step, and the number of the batch


def unwatched(_step: str, _batch: int) -> None:
    """Nobody wants to know."""


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

    @property
    def transactional_id(self) -> str:
        return PREFIX + self.batch.pipeline

    @property
    def group(self) -> str:
        return PREFIX + self.batch.pipeline

    def client(self) -> Client:
        return client_for(self.kafka)

    def reached(self, step: str) -> None:
        self.probe(step, self.batch.number)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sender has done."""

    transaction: Transaction
    marker: Committed | None
    records: int


def send(plan: Plan, batches: Iterable[tuple[TopicPartition, bytearray]]) -> Answer:
    """One attempt. If the batch is there already, or nobody may write it, nothing is sent."""
    with BackgroundLoop() as loop:
        client = plan.client()
        try:
            begun = init_producer_id(
                client, plan.transactional_id, plan.timeout_ms, plan.patience, plan.version
            )
            transaction = loop.run(begun)
            # Only now: an attempt that is not fenced yet could still move the marker.
            marker = loop.run(stable_offset(client, plan.group, plan.marker_at, plan.patience))
            plan.reached("initialised")
            sender = BatchSender(client, transaction, plan.patience)
            if _may_write(plan, marker):
                for at, batch in batches:
                    loop.run(sender.send(at, batch))
                    plan.reached("sending")
                loop.run(sender.flush())
            plan.reached("sent")
            return Answer(transaction, marker, sender.records)
        finally:
            loop.run(client.close())


def _may_write(plan: Plan, marker: Committed | None) -> bool:
    """A refusal is for the driver to raise: it does not have to be read out of a task's failure."""
    try:
        return is_to_write(plan.batch, Marker.from_committed(marker, plan.group))
    except SinkRefused:
        return False


def commit(plan: Plan, answers: Sequence[Answer]) -> bool:
    """Makes one whole attempt visible; False: the batch was there already."""
    if len(answers) != 1:
        raise PeerError("Spark", f"has {len(answers)} answers of one sender")
    answer = answers[0]
    if not is_to_write(plan.batch, Marker.from_committed(answer.marker, plan.group)):
        return False
    plan.reached("answered")
    try:
        _commit(plan, answer)
    except Refused as error:
        if error.error not in FENCED:
            raise
        hint = (
            f"a later attempt has taken over, or the batch took longer than "
            f"transaction.timeout.ms ({plan.timeout_ms}): then raise that"
        )
        raise Refused(error.error, f"{error.why} ({hint})", hint) from error
    return True


def _commit(plan: Plan, answer: Answer) -> None:
    batch = plan.batch
    marker = Marker(batch.number, batch.query, batch.run, answer.records).to_committed()
    with BackgroundLoop() as loop:
        client = plan.client()
        try:
            loop.run(
                commit_offset(
                    client, answer.transaction, plan.group, plan.marker_at, marker, plan.patience
                )
            )
            plan.reached("marked")
            ended = end_transaction(
                client, answer.transaction, committed=True, patience=plan.patience
            )
            loop.run(ended)
            plan.reached("committed")
        finally:
            loop.run(client.close())
