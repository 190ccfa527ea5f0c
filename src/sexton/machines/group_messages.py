"""What the coordinator of groups hears, and what it does.

Members speak Kafka's own messages, and are answered in them: there is nothing that they say which
would be clearer in other words. `caller` and `token` are as in `transaction_messages`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.machines.offset_messages import GroupChanged
from sexton.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from sexton.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sexton.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from sexton.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from sexton.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from sexton.protocol.wire import StoredKey, StoredValue

Caller = object
Token = int
TopicId = bytes

MemberRequest = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | ConsumerGroupHeartbeatRequest
)
MemberResponse = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | ConsumerGroupHeartbeatResponse
)


# ── what it knows ──


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Kafka's options, with Kafka's defaults."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    group_new_member_join_timeout_ms: int = 300_000  # not an option in Kafka
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_regex_refresh_interval_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class Client:
    """Who is at the other end, as far as its connection tells."""

    client_id: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    topic_id: TopicId
    partitions: int


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One record of `__consumer_offsets` that is about a group."""

    key: StoredKey
    value: StoredValue | None = None  # None: a tombstone


# ── what it hears ──


@dataclass(frozen=True, slots=True)
class Asked:
    """By a member, or by one that wants to be."""

    caller: Caller
    request: MemberRequest
    version: int
    client: Client = field(default_factory=Client)


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Answered with an error, or with NONE once its records are buried."""

    caller: Caller
    group: str


@dataclass(frozen=True, slots=True)
class ForgetEmpty:
    """Groups without members go when they have no offsets either: these have some."""

    with_offsets: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopicsAre:
    """All topics of the cluster, now."""

    topics: dict[str, Topic]


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
class Load:
    """This broker leads the partition, and this is its log, in order, all of it replicated."""

    records: Iterable[GroupRecord]
    with_offsets: Iterable[str] = ()  # groups that have committed, with members or without


@dataclass(frozen=True, slots=True)
class Unload:
    """Somebody else leads now, or nobody."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = (
    Asked | DeleteGroup | ForgetEmpty | TopicsAre | Appended | AppendFailed | Load | Unload | Tick
)


# ── what it does ──


@dataclass(frozen=True, slots=True)
class Append:
    """Write these, as one batch, after all that was asked for before; say when it is replicated."""

    token: Token
    records: tuple[GroupRecord, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    caller: Caller
    answer: MemberResponse | KafkaError


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Tick at this time of the clock that only goes on; replaces any WakeAt before it."""

    clock_ms: int


Effect = Append | Answer | WakeAt | GroupChanged  # the last: tell the keeper of its offsets
