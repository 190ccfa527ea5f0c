"""What the keeper of committed offsets hears, what it does, and what it answers.

`caller` and `token` are as in `transaction_messages`. Who may commit for a group, or delete, is for
its membership to say: a request carries that decision as `refused`, and is answered with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.protocol.wire import ZERO_UUID

Caller = object
Token = int

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TOPIC_ID = ZERO_UUID


# ── what is in the log ──


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    metadata: str = ""
    leader_epoch: int = -1  # of the last record that was consumed; -1: not told
    commit_ms: int = 0
    expire_ms: int = -1  # only clients before 2.1 say; -1: by offsets.retention.ms
    topic_id: bytes = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """One record of `__consumer_offsets`: Kafka's OffsetCommitKey and OffsetCommitValue."""

    group: str
    partition: TopicPartition
    value: CommittedOffset | None  # None: a tombstone
    producer_id: int = NO_PRODUCER_ID  # of the transaction that it is a part of


@dataclass(frozen=True, slots=True)
class Marker:
    """How a producer's transaction ended."""

    producer_id: int
    commit: bool


# ── requests ──


@dataclass(frozen=True, slots=True)
class Commit:
    """In a transaction if there is a producer id; then it waits for that producer's marker."""

    caller: Caller
    group: str
    offsets: tuple[tuple[TopicPartition, CommittedOffset], ...]  # the commit time is set here
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    retention_ms: int = -1  # OffsetCommit before version 5 may ask for it
    refused: KafkaError = KafkaError.NONE


@dataclass(frozen=True, slots=True)
class WriteMarker:
    """A transaction coordinator asks for a marker in this partition."""

    caller: Caller
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    version: int = 0  # of the transaction


@dataclass(frozen=True, slots=True)
class Fetch:
    caller: Caller
    group: str
    partitions: tuple[TopicPartition, ...] | None  # None: all of the group's
    require_stable: bool = False
    refused: KafkaError = KafkaError.NONE


@dataclass(frozen=True, slots=True)
class Delete:
    """OffsetDelete. A topic that the group is subscribed to keeps its offsets."""

    caller: Caller
    group: str
    partitions: tuple[TopicPartition, ...]
    refused: KafkaError = KafkaError.NONE


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """All that the group has, or is about to have, goes with it."""

    caller: Caller
    group: str
    refused: KafkaError = KafkaError.NONE


Request = Commit | WriteMarker | Fetch | Delete | DeleteGroup


# ── the rest of what it hears ──


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """What the group's membership says of its offsets. One that never spoke has no members.

    Offsets of subscribed topics neither expire nor can be deleted. The others expire some time
    after their commit, or after the group became empty.
    """

    group: str
    subscribed: tuple[str, ...] | None = ()  # topics; None: every one there may be
    empty_since_ms: int = -1


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    topics: tuple[tuple[str, bytes], ...]  # name and id: one of that name may have come since


@dataclass(frozen=True, slots=True)
class TopicsExist:
    """All that there are, with their ids; what was deleted before, nobody may have been told of."""

    topics: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Appended:
    """The batch is below the high watermark, and so is every one before it."""

    token: Token


@dataclass(frozen=True, slots=True)
class AppendFailed:
    """The batch is not in the log and never will be. A shell that is not sure says nothing."""

    token: Token
    error: KafkaError


@dataclass(frozen=True, slots=True)
class LoadStarted:
    """This broker leads the partition, and reads its log. Optional: Load alone will do."""


@dataclass(frozen=True, slots=True)
class Load:
    """This broker leads the partition, and this is its log, in order, all of it replicated."""

    entries: Iterable[OffsetRecord | Marker]


@dataclass(frozen=True, slots=True)
class Unload:
    """Somebody else leads now, or nobody."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    Request
    | GroupChanged
    | TopicsDeleted
    | TopicsExist
    | Appended
    | AppendFailed
    | LoadStarted
    | Load
    | Unload
    | Tick
)


# ── answers ──


@dataclass(frozen=True, slots=True)
class PartitionErrors:
    """The answer to Commit and Delete, partition by partition in the order of the request."""

    errors: tuple[tuple[TopicPartition, KafkaError], ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    partition: TopicPartition
    committed: CommittedOffset | None  # None: there is none, or an error
    error: KafkaError = KafkaError.NONE


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    error: KafkaError
    offsets: tuple[Fetched, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkerAnswer:
    """Without an error the offsets that the marker commits can be fetched, now."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class DeleteGroupAnswer:
    error: KafkaError


AnyAnswer = PartitionErrors | FetchAnswer | MarkerAnswer | DeleteGroupAnswer


# ── effects ──


@dataclass(frozen=True, slots=True)
class Append:
    """Write these, as one batch, after all that was asked for before; transactional if a producer
    id is given. Say when they are replicated."""

    token: Token
    records: tuple[OffsetRecord, ...]
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class AppendMarker:
    """The same with a control batch."""

    token: Token
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    version: int


@dataclass(frozen=True, slots=True)
class Answer:
    caller: Caller
    answer: AnyAnswer


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Tick at this time; replaces any WakeAt before it."""

    ms: int


Effect = Append | AppendMarker | Answer | WakeAt
