"""What does the log say of a consumer group?

The fold of its records (KIP-848). Three epochs tell how far an assignment has come:

    group epoch        counts what calls for another assignment: members, subscriptions, topics
    assignment epoch   the group epoch that the target assignment was made for
    member epoch       the assignment epoch that a member has reached

A member is on its way from what it has to its target: it gives back what is not in the target any
more, and then gets what others have given back. In each state it is clear what it may hold:

    Stable       holds what it is assigned, and that is its target
    Unrevoked    is assigned less than it had, and has not said yet that it let the rest go
    Unreleased   has reached the epoch, but some of its target is still with others
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import Enum

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.group_assignors import Partitions, TopicId
from sexton.machines.group_messages import GroupRecord
from sexton.protocol.coordinator.consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

Held = dict[TopicId, dict[int, int]]  # partition -> the epoch in which the member was given it
LEAVING = -1  # a member epoch: it leaves
LEAVING_STATIC = -2  # it leaves, and means to come back


class MemberState(Enum):
    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()  # sorted
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics that a regular expression stands for, and since when."""

    topics: tuple[str, ...]
    at_ms: int


@dataclass(slots=True)
class GroupState:
    epoch: int = 1  # what a group begins with is not written down
    metadata_hash: int = 0  # of what the subscribed topics are like
    target_epoch: int = 1
    target_ms: int = 0  # when the target was made; 0: that was not written down
    targets: dict[str, Partitions] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    regexes: dict[str, Resolved] = field(default_factory=dict)
    old_metadata: bool = False  # Kafka 4.0 and before wrote more about topics; that has to go

    def check(self) -> None:
        held: set[tuple[TopicId, int]] = set()
        for member in self.members.values():
            assert member.epoch <= self.epoch
            for topics in (member.assigned, member.revoking):
                mine = {(topic, p) for topic, ps in topics.items() for p in ps}
                assert not held & mine, "a partition is with two members"
                held |= mine
            assert bool(member.revoking) == (member.state is MemberState.UNREVOKED)
        assert self.targets.keys() <= self.members.keys()
        assert self.target_epoch <= self.epoch
        assert all(self.regex_users(regex) for regex in self.regexes)

    def copy(self) -> GroupState:
        return GroupState(
            self.epoch,
            self.metadata_hash,
            self.target_epoch,
            self.target_ms,
            dict(self.targets),
            dict(self.members),
            dict(self.regexes),
            self.old_metadata,
        )

    # ── questions ──

    @property
    def name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def static_member(self, instance_id: str) -> Member | None:
        found = (m for m in self.members.values() if m.instance_id == instance_id)
        return next(found, None)

    def topics_of(self, member: Member) -> tuple[str, ...]:
        resolved = self.regexes.get(member.regex)
        if resolved is None:
            return member.topics
        return tuple(sorted({*member.topics, *resolved.topics}))

    def subscribed(self) -> tuple[str, ...]:
        topics = {topic for member in self.members.values() for topic in self.topics_of(member)}
        return tuple(sorted(topics))

    def regex_users(self, regex: str) -> int:
        return sum(member.regex == regex for member in self.members.values())

    def preferred_assignor(self) -> str | None:
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.assignor is not None:
                votes[member.assignor] = votes.get(member.assignor, 0) + 1
        return max(sorted(votes), key=lambda name: votes[name], default=None)

    # ── the fold ──

    def apply(self, record: GroupRecord) -> None:
        """A record of this group, but for the one that says that there is none any more."""
        key, value = record.key, record.value
        match key, value:
            case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupPartitionMetadataKey(), _:
                self.old_metadata = value is not None
            case ConsumerGroupMemberMetadataKey(), ConsumerGroupMemberMetadataValue():
                self._subscribe(key.member_id, value)
            case ConsumerGroupMemberMetadataKey(), None:
                self.members.pop(key.member_id, None)
            case (
                ConsumerGroupTargetAssignmentMetadataKey(),
                ConsumerGroupTargetAssignmentMetadataValue(),
            ):
                self.target_epoch = value.assignment_epoch
                self.target_ms = value.assignment_timestamp
            case ConsumerGroupTargetAssignmentMetadataKey(), None:
                self.target_epoch, self.target_ms = 1, 0
            case (
                ConsumerGroupTargetAssignmentMemberKey(),
                ConsumerGroupTargetAssignmentMemberValue(),
            ):
                self.targets[key.member_id] = {
                    bytes(t.topic_id): tuple(sorted(t.partitions)) for t in value.topic_partitions
                }
            case ConsumerGroupTargetAssignmentMemberKey(), None:
                self.targets.pop(key.member_id, None)
            case (
                ConsumerGroupCurrentMemberAssignmentKey(),
                ConsumerGroupCurrentMemberAssignmentValue(),
            ):
                self._progress(key.member_id, value)
            case ConsumerGroupCurrentMemberAssignmentKey(), None:
                member = self.members.get(key.member_id)
                if member is not None:  # its own tombstone follows
                    gone = replace(
                        member, epoch=LEAVING, previous_epoch=LEAVING, assigned={}, revoking={}
                    )
                    self.members[key.member_id] = gone
            case ConsumerGroupRegularExpressionKey(), ConsumerGroupRegularExpressionValue():
                topics = tuple(sorted(value.topics))
                self.regexes[key.regular_expression] = Resolved(topics, value.timestamp)
            case ConsumerGroupRegularExpressionKey(), None:
                self.regexes.pop(key.regular_expression, None)

    def _subscribe(self, member_id: str, value: ConsumerGroupMemberMetadataValue) -> None:
        self.members[member_id] = replace(
            self.members.get(member_id) or Member(member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=tuple(sorted(value.subscribed_topic_names)),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
        )

    def _progress(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue) -> None:
        member = replace(
            self.members.get(member_id) or Member(member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_held(value.assigned_partitions, value.member_epoch),
            revoking=_held(value.partitions_pending_revocation, value.member_epoch),
        )
        self.members[member_id] = away(member) if member.epoch == LEAVING_STATIC else member


def away(member: Member) -> Member:
    """A static member that has left for a moment: it holds nothing that it had to let go.

    Kafka 4.3 lets it stay Unrevoked, with nothing to revoke (KAFKA-20641), and then passes over its
    rebalance timeout, as that was of another epoch. What it keeps is its new self's from epoch 0.
    """
    unrevoked = member.state is MemberState.UNREVOKED
    return replace(
        member,
        epoch=LEAVING_STATIC,
        state=MemberState.STABLE if unrevoked else member.state,
        assigned={topic: dict.fromkeys(held, 0) for topic, held in member.assigned.items()},
        revoking={},
    )


class Change:
    """The records of one step, and the state that they come to: a copy, if there are any."""

    def __init__(self, state: GroupState, before: list[GroupRecord] | None = None) -> None:
        self.state = state
        self.records = list(before or ())  # of the classic group that there was, perhaps
        self.replaced: str | None = None  # a static member, by its new self
        self.own: list[GroupRecord] = []

    def add(self, *records: GroupRecord) -> None:
        if not self.own:
            self.state = self.state.copy()
        for record in records:
            self.state.apply(record)
            self.records.append(record)
            self.own.append(record)


# ── the records ──


def subscription_record(group: str, member: Member) -> GroupRecord:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None,
    )
    return GroupRecord(ConsumerGroupMemberMetadataKey(group, member.member_id), value)


def epoch_record(group: str, epoch: int, metadata_hash: int) -> GroupRecord:
    value = ConsumerGroupMetadataValue(epoch, metadata_hash)
    return GroupRecord(ConsumerGroupMetadataKey(group), value)


def target_record(group: str, member_id: str, target: Partitions) -> GroupRecord:
    topics = [TopicPartition(topic, list(partitions)) for topic, partitions in target.items()]
    key = ConsumerGroupTargetAssignmentMemberKey(group, member_id)
    return GroupRecord(key, ConsumerGroupTargetAssignmentMemberValue(topics))


def target_epoch_record(group: str, epoch: int, now_ms: int) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, now_ms)
    return GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group), value)


def current_record(group: str, member: Member) -> GroupRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        assigned_partitions=_stored(member.assigned),
        partitions_pending_revocation=_stored(member.revoking),
    )
    return GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group, member.member_id), value)


def regex_record(group: str, regex: str, resolved: Resolved) -> GroupRecord:
    """Kafka puts the version of its metadata in; ours looks at the topics themselves."""
    value = ConsumerGroupRegularExpressionValue(list(resolved.topics), 0, resolved.at_ms)
    return GroupRecord(ConsumerGroupRegularExpressionKey(group, regex), value)


def regex_tombstone(group: str, regex: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupRegularExpressionKey(group, regex))


def member_tombstones(group: str, member_id: str) -> list[GroupRecord]:
    return [
        GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group, member_id)),
        GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group, member_id)),
        GroupRecord(ConsumerGroupMemberMetadataKey(group, member_id)),
    ]


def group_tombstones(group: str, state: GroupState) -> list[GroupRecord]:
    """Of a group that has no members."""
    records = [GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group))]
    records += [regex_tombstone(group, regex) for regex in state.regexes]
    if state.old_metadata:
        records.append(GroupRecord(ConsumerGroupPartitionMetadataKey(group)))
    return [*records, GroupRecord(ConsumerGroupMetadataKey(group))]


def _held(stored: list[TopicPartitions], epoch: int) -> Held:
    """Before Kafka 4.3 the epochs were not written; the member's own is the best guess then."""
    held: Held = {}
    for topic in stored:
        epochs = topic.assignment_epochs or [epoch] * len(topic.partitions)
        held[bytes(topic.topic_id)] = dict(sorted(zip(topic.partitions, epochs, strict=True)))
    return held


def _stored(held: Held) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic, list(partitions), list(partitions.values()))
        for topic, partitions in sorted(held.items())
    ]
