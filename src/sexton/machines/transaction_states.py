"""What is known of one transactional id, and how each step makes the next.

    Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ─┐
      ▲         │  ▲                                        │
      │         ▼  └────────────────────────────────────────┤
      │       PrepareAbort ──▶ CompleteAbort ───────────────┤
      └───────────────────────────────────── InitProducerId ┘      Dead: forgotten after a week

Every arrow is one record in `__transaction_state`, and a `Transaction` is what such a record says.
The functions below give the next one; none of them changes anything. The two protocols differ in
when a producer's epoch rises, which is what fences a zombie:

    TV1   at InitProducerId, and when the coordinator aborts what a client left open
    TV2   at every end of a transaction as well (KIP-890): a late batch of the last transaction can
          no longer slip into the next one

An epoch is 16 bits wide. The last one, 32767, is never given to a client, so that the coordinator
can always fence; a producer that would get it goes on with a new producer id and epoch 0.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition

TV1 = 1
TV2 = 2  # the first version that bumps the epoch at the end of each transaction

NO_PRODUCER_ID = -1
NO_EPOCH = -1
MAX_EPOCH = 32767
NO_TIME = -1


class Status(IntEnum):
    """How the log numbers the states."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def title(self) -> str:
        """Kafka's name for it, as DescribeTransactions and ListTransactions spell it."""
        return self.name.title().replace("_", "")


@dataclass(frozen=True, slots=True)
class Empty:
    """Initialised, and nothing written yet."""


@dataclass(frozen=True, slots=True)
class Ongoing:
    partitions: tuple[TopicPartition, ...]  # in the order in which they were added
    start_ms: int


@dataclass(frozen=True, slots=True)
class PrepareCommit:
    """Decided: from here on it can only commit. The markers are on their way."""

    partitions: tuple[TopicPartition, ...]
    start_ms: int
    next_producer_id: int = NO_PRODUCER_ID  # what the producer goes on with, if epochs ran out


@dataclass(frozen=True, slots=True)
class PrepareAbort:
    partitions: tuple[TopicPartition, ...]
    start_ms: int
    next_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class CompleteCommit:
    start_ms: int


@dataclass(frozen=True, slots=True)
class CompleteAbort:
    start_ms: int


@dataclass(frozen=True, slots=True)
class Dead:
    """Expired. In the log it is a tombstone, in memory nothing."""


State = Empty | Ongoing | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort | Dead
Prepare = PrepareCommit | PrepareAbort

_STATUS: dict[type[State], Status] = {
    Empty: Status.EMPTY,
    Ongoing: Status.ONGOING,
    PrepareCommit: Status.PREPARE_COMMIT,
    PrepareAbort: Status.PREPARE_ABORT,
    CompleteCommit: Status.COMPLETE_COMMIT,
    CompleteAbort: Status.COMPLETE_ABORT,
    Dead: Status.DEAD,
}


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One record of `__transaction_state`: Kafka's TransactionLogKey and TransactionLogValue."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: Status
    partitions: tuple[TopicPartition, ...]
    last_update_ms: int
    start_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    version: int = 0  # of the client that made the step: TV2, or 0 for all before


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The last record of a transactional id: it has expired."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one record says; and the last epoch, which Kafka keeps in memory only."""

    producer_id: int
    epoch: int
    timeout_ms: int
    last_update_ms: int
    state: State
    previous_producer_id: int = NO_PRODUCER_ID  # the one before this step, mostly the same
    last_epoch: int = NO_EPOCH  # with it the producer may ask a second time for what it was given
    version: int = 0

    @property
    def status(self) -> Status:
        return _STATUS[type(self.state)]

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        match self.state:
            case Ongoing(partitions) | PrepareCommit(partitions) | PrepareAbort(partitions):
                return partitions
            case _:
                return ()

    @property
    def start_ms(self) -> int:
        match self.state:
            case Empty() | Dead():
                return NO_TIME
            case _:
                return self.state.start_ms

    @property
    def exhausted(self) -> bool:
        """Whether the next epoch is the last one, which no client may have."""
        return self.epoch >= MAX_EPOCH - 1

    def record(self, transactional_id: str) -> TransactionRecord | Tombstone:
        state = self.state
        if isinstance(state, Dead):
            return Tombstone(transactional_id)
        following = state.next_producer_id if isinstance(state, Prepare) else NO_PRODUCER_ID
        return TransactionRecord(
            transactional_id=transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            timeout_ms=self.timeout_ms,
            status=self.status,
            partitions=self.partitions,
            last_update_ms=self.last_update_ms,
            start_ms=self.start_ms,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=following,
            version=self.version,
        )


def from_record(record: TransactionRecord) -> Transaction:
    """What a new coordinator knows. The last epoch is lost, as in Kafka."""
    return Transaction(
        producer_id=record.producer_id,
        epoch=record.producer_epoch,
        timeout_ms=record.timeout_ms,
        last_update_ms=record.last_update_ms,
        state=_state(record),
        previous_producer_id=record.previous_producer_id,
        version=record.version,
    )


def _state(record: TransactionRecord) -> State:
    match record.status:
        case Status.EMPTY:
            return Empty()
        case Status.ONGOING:
            return Ongoing(record.partitions, record.start_ms)
        case Status.PREPARE_COMMIT:
            return PrepareCommit(record.partitions, record.start_ms, record.next_producer_id)
        case Status.PREPARE_ABORT:
            return PrepareAbort(record.partitions, record.start_ms, record.next_producer_id)
        case Status.COMPLETE_COMMIT:
            return CompleteCommit(record.start_ms)
        case Status.COMPLETE_ABORT:
            return CompleteAbort(record.start_ms)
        case Status.DEAD:
            return Dead()


# ── the steps ──


def first(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    return Transaction(producer_id, 0, timeout_ms, now_ms, Empty(), producer_id)


def next_epoch(
    old: Transaction, expected_epoch: int | None, timeout_ms: int, now_ms: int
) -> Transaction | None:
    """InitProducerId between two transactions; None if another producer has come since.

    A producer that names its epoch wants to go on after an error (KIP-360). If the answer got lost
    it asks again with the epoch before, and gets the same answer; but a new producer leaves no last
    epoch behind, so nobody from before it can do that.
    """
    if expected_epoch is None:
        epoch, last = old.epoch + 1, NO_EPOCH
    elif expected_epoch == old.epoch:
        epoch, last = old.epoch + 1, old.epoch
    elif expected_epoch == old.last_epoch:
        epoch, last = old.epoch, old.last_epoch
    else:
        return None
    return _step(old, Empty(), now_ms, epoch=epoch, last_epoch=last, timeout_ms=timeout_ms)


def next_producer(
    old: Transaction, producer_id: int, expected: bool, timeout_ms: int, now_ms: int
) -> Transaction:
    """InitProducerId when the epochs have run out."""
    last = old.epoch if expected else NO_EPOCH
    return replace(
        _step(old, Empty(), now_ms, epoch=0, last_epoch=last, timeout_ms=timeout_ms),
        producer_id=producer_id,
    )


def add(
    old: Transaction, partitions: tuple[TopicPartition, ...], version: int, now_ms: int
) -> Transaction:
    start_ms = old.state.start_ms if isinstance(old.state, Ongoing) else now_ms
    both = tuple(dict.fromkeys((*old.partitions, *partitions)))
    return _step(old, Ongoing(both, start_ms), now_ms, version=_written(version))


def end(
    old: Transaction, commit: bool, version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """The decision. With TV2 it bumps the epoch, so the markers carry the new one."""
    start_ms = old.state.start_ms if isinstance(old.state, Ongoing) else now_ms
    prepare = PrepareCommit if commit else PrepareAbort
    state = prepare(old.partitions, start_ms, next_producer_id)
    if version < TV2:
        return _step(old, state, now_ms, version=0)
    epoch = min(old.epoch + 1, MAX_EPOCH)
    return _step(old, state, now_ms, epoch=epoch, last_epoch=old.epoch, version=TV2)


def fence(
    old: Transaction, cluster_version: int, next_producer_id: int, now_ms: int
) -> Transaction:
    """The coordinator itself aborts, and whoever had the transaction open may not go on with it.

    With TV2 the bump of every abort does that. Without, this bump is one that nobody is told about.
    """
    if cluster_version >= TV2:
        return end(old, False, cluster_version, next_producer_id, now_ms)
    aborted = end(old, False, cluster_version, NO_PRODUCER_ID, now_ms)
    return replace(aborted, epoch=min(old.epoch + 1, MAX_EPOCH), last_epoch=NO_EPOCH)


def complete(old: Transaction, now_ms: int) -> Transaction:
    """All markers are written."""
    assert isinstance(old.state, Prepare)
    done = CompleteCommit if isinstance(old.state, PrepareCommit) else CompleteAbort
    new = _step(old, done(old.state.start_ms), now_ms)
    if old.version < TV2 or old.state.next_producer_id == NO_PRODUCER_ID:
        return new
    return replace(new, producer_id=old.state.next_producer_id, epoch=0)


def dead(old: Transaction) -> Transaction:
    return replace(old, state=Dead())


def _step(
    old: Transaction,
    state: State,
    now_ms: int,
    *,
    epoch: int | None = None,
    last_epoch: int | None = None,
    timeout_ms: int | None = None,
    version: int | None = None,
) -> Transaction:
    return Transaction(
        producer_id=old.producer_id,
        epoch=old.epoch if epoch is None else epoch,
        timeout_ms=old.timeout_ms if timeout_ms is None else timeout_ms,
        last_update_ms=now_ms,
        state=state,
        previous_producer_id=old.producer_id,
        last_epoch=old.last_epoch if last_epoch is None else last_epoch,
        version=old.version if version is None else version,
    )


def _written(version: int) -> int:
    """Kafka tells TV2 clients from all others, and no more."""
    return TV2 if version >= TV2 else 0
