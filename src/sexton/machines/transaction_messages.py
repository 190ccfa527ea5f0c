"""What a transaction coordinator hears, what it does, and what it answers.

`caller` is whatever the shell needs to find its way back to the one who asked; the machine only
hands it back. A `token` joins an effect to the event that says how it went; tokens are never used
twice, so news about an effect of an earlier term finds nobody waiting and is dropped.

`version` is the transaction version that the client speaks: TV1 or TV2. The API versions of Kafka's
requests say which (`transaction_versions`).
"""

from __future__ import annotations

from collections.abc import Iterable

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines.transaction_states import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    Tombstone,
    TransactionRecord,
)

Caller = object
Token = int


# ── requests ──


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """A producer starts, or goes on after an error if it names its producer id and epoch."""

    caller: Caller
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """By the client (TV1), or by the leader of a partition that the client writes to (TV2)."""

    caller: Caller
    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]
    version: int


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """The leader of a partition asks: is it in the ongoing transaction?"""

    caller: Caller
    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    caller: Caller
    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool
    version: int


@dataclass(frozen=True, slots=True)
class ForceAbort:
    """An operator ends what is ongoing, and fences its producer.

    Kafka's own fenceProducers is an InitProducerId without a producer id: it comes in as one.
    """

    caller: Caller
    transactional_id: str


@dataclass(frozen=True, slots=True)
class Describe:
    caller: Caller
    transactional_id: str


@dataclass(frozen=True, slots=True)
class List:
    """Empty filters let everything through; the duration is how long it has been running."""

    caller: Caller
    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_than_ms: int = -1


Request = (
    InitProducerId
    | AddPartitions
    | VerifyPartitions
    | EndTransaction
    | ForceAbort
    | Describe
    | List
)


# ── how an effect went ──


@dataclass(frozen=True, slots=True)
class Appended:
    """The record is below the high watermark."""

    token: Token


@dataclass(frozen=True, slots=True)
class AppendFailed:
    """The record is not in the log and never will be.

    Who does not know says nothing: that a record has not been replicated yet is no failure, and a
    leader that loses its log unloads the machine. A failure that was none would let a transaction
    be decided twice.
    """

    token: Token
    error: KafkaError


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """How one partition's leader answered WriteTxnMarkers.

    Without an error the marker is below that partition's high watermark; so is it, as far as anyone
    can tell, if the partition has been deleted. No answer is an error, too: NETWORK_EXCEPTION; and
    one that comes after that is not told, for by then the marker may have been sent again.
    """

    token: Token
    partition: TopicPartition
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdGranted:
    """A producer id that nobody was ever given before."""

    token: Token
    producer_id: int


@dataclass(frozen=True, slots=True)
class ProducerIdFailed:
    token: Token
    error: KafkaError


# ── leadership and time ──


@dataclass(frozen=True, slots=True)
class LoadStarted:
    """This broker leads the partition, and reads its log. Optional: Load alone will do."""


@dataclass(frozen=True, slots=True)
class Load:
    """This broker leads the partition, and this is its log, in order, all of it replicated.

    The coordinator epoch is the partition's leader epoch. A record above the high watermark may yet
    be lost, and a marker sent because of it could not be taken back: wait for it, then load.
    """

    records: Iterable[TransactionRecord | Tombstone]
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class Unload:
    """Somebody else leads now, or nobody."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    Request
    | Appended
    | AppendFailed
    | MarkersWritten
    | ProducerIdGranted
    | ProducerIdFailed
    | LoadStarted
    | Load
    | Unload
    | Tick
)


# ── answers ──


@dataclass(frozen=True, slots=True)
class InitProducerIdAnswer:
    error: KafkaError
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class AddPartitionsAnswer:
    error: KafkaError  # for all partitions alike


@dataclass(frozen=True, slots=True)
class VerifyPartitionsAnswer:
    errors: tuple[tuple[TopicPartition, KafkaError], ...]


@dataclass(frozen=True, slots=True)
class EndTransactionAnswer:
    """With TV2, and without an error, what the producer uses for its next transaction."""

    error: KafkaError
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class ForceAbortAnswer:
    """Without an error the abort is decided; the markers follow."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class DescribeAnswer:
    error: KafkaError
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = NO_TIME
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class ListAnswer:
    error: KafkaError
    transactions: tuple[Listed, ...] = ()


AnyAnswer = (
    InitProducerIdAnswer
    | AddPartitionsAnswer
    | VerifyPartitionsAnswer
    | EndTransactionAnswer
    | ForceAbortAnswer
    | DescribeAnswer
    | ListAnswer
)


# ── effects ──


@dataclass(frozen=True, slots=True)
class Append:
    """Write this to the partition of `__transaction_state`, and say when it is replicated."""

    token: Token
    record: TransactionRecord | Tombstone


@dataclass(frozen=True, slots=True)
class Answer:
    caller: Caller
    answer: AnyAnswer


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Write this transaction's markers, and say of each partition how it went.

    The same partition may be asked for again, with the same token after an error or with another
    after a move: a marker that is already there does no harm. Not so one that comes late: as tokens
    only rise, they number the transactions for whoever has to notice (`markers`).
    """

    token: Token
    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    version: int  # TV2, or 0: how strictly a leader compares the epoch (KIP-1228)


@dataclass(frozen=True, slots=True)
class NeedProducerId:
    token: Token


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Tick at this time; replaces any WakeAt before it."""

    ms: int


Effect = Append | Answer | SendMarkers | NeedProducerId | WakeAt
