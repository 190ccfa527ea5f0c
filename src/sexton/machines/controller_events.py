"""What the controller hears, what it answers, and what its shell does for it.

An event that wants an answer carries its `caller`, whatever that is to the shell; the answer goes
out with it, now or later, once. Effects are carried out in order, so that `Append` is durable
before anybody is told what it says.
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.machines.compaction import NodeId
from sexton.machines.metadata import Record

Caller = object


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Kafka's options, with Kafka's names and defaults."""

    broker_session_timeout_ms: int = 9000
    broker_heartbeat_interval_ms: int = 2000
    # How often high watermarks go to the metadata log. A full restart within this time judges a
    # replica that is the last of its ISR by an older one.
    replica_high_watermark_checkpoint_interval_ms: int = 5000
    num_partitions: int = 1
    default_replication_factor: int = 1
    unclean_leader_election_enable: bool = False
    # A broker that missed more records than these is sent a snapshot instead; ours, not Kafka's.
    metadata_tail_records: int = 10_000
    producer_ids_per_block: int = 1000  # that a broker is given at once; ours, not Kafka's
    # A new cluster is given this id, and keeps it; chosen by chance by whoever starts it.
    cluster_id: str = ""
    # Whether preferred replicas get the lead back by themselves. In Kafka they do by default; here
    # a leader stays where it is until somebody asks, which is what a test of failovers wants.
    auto_leader_rebalance_enable: bool = False
    leader_imbalance_check_interval_seconds: int = 300


# ── from brokers ──


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A log that a broker found on its disk when it started."""

    topic: str
    partition: int
    assignment: int  # the one that this log belongs to
    log_end: int
    mcco: int
    mxfo: int


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    caller: Caller
    node: NodeId
    incarnation: str
    replicas: tuple[ReplicaState, ...] = ()
    endpoint: tuple[str, ...] = ()
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    caller: Caller
    node: NodeId
    broker_epoch: int
    metadata_end: int  # it has every metadata record below
    high_watermarks: tuple[tuple[str, int, int, int], ...] = ()
    # of what it leads: topic, partition, leader epoch, high watermark
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class AlterIsr:
    caller: Caller
    node: NodeId
    broker_epoch: int
    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[NodeId, ...]
    # The registration under which each of them fetched, in the same order (KIP-903): a broker that
    # has started again since may have lost what it had. Empty, or -1: the leader does not know.
    broker_epochs: tuple[int, ...] = ()
    again: bool = False  # it was asked for before, and no answer came


@dataclass(frozen=True, slots=True)
class ProposeRemovable:
    """May the group forget up to here? The leader relies on it once it is answered, not before."""

    caller: Caller
    node: NodeId
    topic: str
    partition: int
    leader_epoch: int
    mtro: int
    mxro: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    caller: Caller
    node: NodeId
    broker_epoch: int


# ── from administrators, by way of a broker ──


@dataclass(frozen=True, slots=True)
class CreateTopic:
    caller: Caller
    name: str
    topic_id: str
    partitions: int = -1  # -1: the default
    replication_factor: int = -1
    assignment: tuple[tuple[NodeId, ...], ...] | None = None  # or the replicas of each partition
    configs: tuple[tuple[str, str], ...] = ()
    internal: bool = False
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    caller: Caller
    name: str
    topic_id: str = ""  # not another one of that name


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    caller: Caller
    name: str
    count: int  # altogether
    assignment: tuple[tuple[NodeId, ...], ...] | None = None  # of the new ones
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class Reassign:
    caller: Caller
    topic: str
    partition: int
    replicas: tuple[NodeId, ...] | None  # None: cancel the one under way
    may_change_factor: bool = True


@dataclass(frozen=True, slots=True)
class Elect:
    caller: Caller
    topic: str
    partition: int
    unclean: bool = False  # else the preferred leader


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    caller: Caller
    resource: str  # topic, broker or group
    name: str
    set: tuple[tuple[str, str], ...] = ()
    delete: tuple[str, ...] = ()
    validate_only: bool = False
    append: tuple[tuple[str, str], ...] = ()  # to options that are lists
    subtract: tuple[tuple[str, str], ...] = ()
    replaces: bool = False  # what is not set goes back to its default (Kafka's AlterConfigs)


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    caller: Caller
    node: NodeId


@dataclass(frozen=True, slots=True)
class Tick:
    """Some time has passed."""


Request = (  # what is answered at once
    AlterIsr
    | ProposeRemovable
    | AllocateProducerIds
    | CreateTopic
    | DeleteTopic
    | CreatePartitions
    | Reassign
    | Elect
    | AlterConfigs
    | UnregisterBroker
)


@dataclass(frozen=True, slots=True)
class Several:
    """Carried out one after the other, in one step; each is refused or done for itself."""

    caller: Caller
    requests: tuple[Request, ...]


Event = RegisterBroker | Heartbeat | Request | Several | Tick


# ── answers ──


@dataclass(frozen=True, slots=True)
class Registered:
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    fenced: bool
    start: int
    records: tuple[Record, ...]  # from `start` to `end`, or a whole image if it is a snapshot
    end: int  # the next heartbeat's metadata_end
    snapshot: bool = False  # begin with an empty image
    may_stop: bool = False


@dataclass(frozen=True, slots=True)
class StaleBroker:
    """Another registration has replaced this one: register again."""


@dataclass(frozen=True, slots=True)
class IsrAltered:
    """The partition as it is now."""

    leader: NodeId
    leader_epoch: int
    isr: tuple[NodeId, ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class RemovableKept:
    """The highest that was ever proposed since records were last lost: at least what was asked."""

    mtro: int
    mxro: int


@dataclass(frozen=True, slots=True)
class ProducerIds:
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic_id: str
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class Elected:
    leader: NodeId
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Done:
    pass


@dataclass(frozen=True, slots=True)
class Failed:
    error: KafkaError
    message: str


@dataclass(frozen=True, slots=True)
class Answers:
    """To `Several`, in their order; whoever has the metadata up to `end` knows what was done."""

    answers: tuple[AnswerBody, ...]
    end: int


AnswerBody = (
    Registered
    | HeartbeatAnswer
    | StaleBroker
    | IsrAltered
    | RemovableKept
    | ProducerIds
    | TopicCreated
    | Elected
    | Done
    | Failed
    | Answers
)


# ── effects ──


@dataclass(frozen=True, slots=True)
class Append:
    """Keep these in the metadata log, durably, all or none, before what follows is done."""

    records: tuple[Record, ...]
    start: int  # the offset of the first


@dataclass(frozen=True, slots=True)
class Answer:
    caller: Caller
    answer: AnswerBody


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Tick at this time; replaces any WakeAt before it."""

    ms: int


Effect = Append | Answer | WakeAt
