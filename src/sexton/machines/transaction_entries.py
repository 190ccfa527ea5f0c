"""What a coordinator knows of one transactional id beyond its log: what is under way.

    now       what the log says, as far as it is replicated
    pending   the next record, not replicated yet; or a producer id that is waited for
    sending   in Prepare, the markers that are still missing

An entry that has any of the last two is busy: nobody else gets a step in.
"""

from __future__ import annotations

from dataclasses import field

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines.transaction_messages import (
    Answer,
    EndTransaction,
    ForceAbort,
    InitProducerId,
    Request,
    Token,
)
from sexton.machines.transaction_states import (
    MAX_EPOCH,
    NO_PRODUCER_ID,
    TV2,
    CompleteAbort,
    CompleteCommit,
    Dead,
    Empty,
    Ongoing,
    Prepare,
    PrepareAbort,
    PrepareCommit,
    State,
    Transaction,
)

NO_TIMEOUT = 2**31 - 1  # a producer that prepares its own commits (KIP-939) may take for ever


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Kafka's options, with Kafka's names and defaults."""

    transaction_max_timeout_ms: int = 15 * 60_000
    transactional_id_expiration_ms: int = 7 * 24 * 3600_000
    transaction_version: int = TV2  # of the cluster; for what the coordinator ends by itself
    retry_ms: int = 100  # the pause before a marker or a record is tried again; ours, not Kafka's


@dataclass(frozen=True, slots=True)
class Writing:
    """The step is in the log, but not replicated yet."""

    token: Token
    to: Transaction
    request: Request | None  # None: the coordinator's own idea
    answer: Answer | None  # for when it is replicated


@dataclass(frozen=True, slots=True)
class Granting:
    """The request goes on when there is a producer id."""

    token: Token
    request: InitProducerId | EndTransaction | ForceAbort | None


@dataclass(slots=True)
class Sending:
    token: Token
    left: dict[TopicPartition, None]  # without a marker yet; none left: only the record is missing
    again: dict[TopicPartition, None] = field(default_factory=dict)  # of these, to be sent again
    stopped: bool = False  # a partition has heard from a later coordinator: leave it to that one

    def heard(self, partition: TopicPartition, error: KafkaError | None) -> None:
        """How one partition's leader answered."""
        if partition not in self.left:
            return
        match error:
            case None | KafkaError.NONE:
                del self.left[partition]
            case KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT | KafkaError.UNSUPPORTED_VERSION:
                del self.left[partition]  # such a log cannot hold the transaction's records either
            case KafkaError.TRANSACTION_COORDINATOR_FENCED | KafkaError.INVALID_PRODUCER_EPOCH:
                self.stopped = True
            case _:
                self.again[partition] = None
                return
        self.again.pop(partition, None)


@dataclass(slots=True)
class Entry:
    now: Transaction | None = None  # None: its first record is not replicated yet
    pending: Writing | Granting | None = None
    sending: Sending | None = None
    retry_at_ms: int = 0  # after a failure, nothing before this

    @property
    def busy(self) -> bool:
        return self.pending is not None or self.sending is not None

    def deadline_ms(self, config: TransactionConfig) -> int | None:
        """When the coordinator has to do something by itself: send, abort or forget."""
        now, sending = self.now, self.sending
        if self.pending is not None or now is None:
            return None
        if sending is not None:
            waits = sending.left and not sending.again
            return None if waits or sending.stopped else self.retry_at_ms
        if not isinstance(now.state, Ongoing):
            expires_ms = now.last_update_ms + config.transactional_id_expiration_ms
            return max(expires_ms, self.retry_at_ms)
        if now.timeout_ms == NO_TIMEOUT:
            return None
        return max(now.start_ms + now.timeout_ms + 1, self.retry_at_ms)

    def check(self) -> None:
        now, pending, sending = self.now, self.pending, self.sending
        assert now is not None or pending is not None
        assert (sending is not None) == (now is not None and isinstance(now.state, Prepare))
        if now is not None:
            _check_transaction(now)
            if isinstance(pending, Writing):
                _check_step(now, pending.to)
        if sending is not None:
            assert now is not None and set(sending.left) <= set(now.partitions)
            assert set(sending.again) <= set(sending.left)
            assert sending.left or sending.stopped or pending or self.retry_at_ms


def _check_transaction(now: Transaction) -> None:
    assert now.producer_id >= 0 and 0 <= now.epoch <= MAX_EPOCH
    assert not isinstance(now.state, Dead)
    if isinstance(now.state, Prepare) and now.state.next_producer_id != NO_PRODUCER_ID:
        assert now.version >= TV2 and now.epoch == MAX_EPOCH


_BEFORE: dict[type[State], tuple[type[State], ...]] = {
    Empty: (Empty, CompleteCommit, CompleteAbort),
    Ongoing: (Empty, Ongoing, CompleteCommit, CompleteAbort),
    PrepareCommit: (Ongoing,),
    PrepareAbort: (Ongoing, Empty, CompleteCommit, CompleteAbort),
    CompleteCommit: (PrepareCommit,),
    CompleteAbort: (PrepareAbort,),
    Dead: (Empty, CompleteCommit, CompleteAbort),
}


def _check_step(old: Transaction, new: Transaction) -> None:
    assert type(old.state) in _BEFORE[type(new.state)]
    if new.producer_id == old.producer_id:
        assert old.epoch <= new.epoch <= old.epoch + 1
    else:
        assert new.epoch == 0 and old.exhausted
