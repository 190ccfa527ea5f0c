"""Who is in a classic group, and what do they agree on?

A member brings the protocols that it knows (for consumers: assignors), the best first, each with
its own metadata. The group uses one that all of them know, chosen by votes. One member is its
leader, who will work out the assignment. A member with a `group.instance.id` is static: it keeps
its place when it comes back under another member id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum

from sexton.base.errors import SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.machines.group_messages import Caller, GroupRecord
from sexton.protocol.codec import decode_from
from sexton.protocol.coordinator.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from sexton.protocol.coordinator.consumer_protocol import ConsumerProtocolSubscription

CONSUMER = "consumer"  # the protocol type of consumers; Kafka Connect has another
Protocols = tuple[tuple[str, bytes], ...]  # name and metadata, the member's favourite first


class State(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"  # members are to join
    COMPLETING = "CompletingRebalance"  # they have, and wait for the leader's assignment
    STABLE = "Stable"


@dataclass(slots=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: Caller | None = None  # waits for the answer to JoinGroup
    syncing: Caller | None = None  # to SyncGroup
    is_new: bool = False  # has not heard yet that it is a member, so it cannot send heartbeats

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: Iterable[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True)
class Members:
    protocol_type: str | None = None  # None: nobody has ever joined; it has offsets only
    leader: str | None = None
    by_id: dict[str, Member] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    promised: dict[str, None] = field(default_factory=dict)  # ids given out, not joined with yet
    unsynced: dict[str, None] = field(default_factory=dict)  # joined, and have not asked further

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.by_id

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.by_id:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.by_id[member.member_id] = member
        self.promised.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        member = self.by_id.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.by_id), None)
        self.promised.pop(member_id, None)
        self.unsynced.pop(member_id, None)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member is back, under an id of its own."""
        assert member.instance_id is not None
        old = member.member_id
        del self.by_id[old]
        self.by_id[member_id] = member
        self.static[member.instance_id] = member.member_id = member_id
        if self.leader == old:
            self.leader = member_id

    # ── questions ──

    @property
    def joining(self) -> int:
        return sum(member.joining is not None for member in self.by_id.values())

    @property
    def all_joined(self) -> bool:
        return self.joining == len(self.by_id) and not self.promised

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.by_id.values()), default=0)

    def refusal(self, member_id: str, instance_id: str | None) -> KafkaError:
        """What one hears who speaks in this member's name."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                return KafkaError.UNKNOWN_MEMBER_ID
            if known != member_id:
                return KafkaError.FENCED_INSTANCE_ID
        return KafkaError.NONE if member_id in self.by_id else KafkaError.UNKNOWN_MEMBER_ID

    def known_to_all(self) -> list[str]:
        counts: dict[str, int] = {}
        for member in self.by_id.values():
            for name, _ in member.protocols:
                counts[name] = counts.get(name, 0) + 1
        return [name for name, count in counts.items() if count == len(self.by_id)]

    def select_protocol(self) -> str:
        """The one with the most votes. Who came first decides a tie; in Kafka, a hash does."""
        candidates = self.known_to_all()
        votes: dict[str, int] = {}
        for member in self.by_id.values():
            vote = member.vote(candidates)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def elect_leader(self) -> bool:
        """The leader, if it has joined again, else somebody who has."""
        if self.leader is None:
            return False
        if self.by_id[self.leader].joining is None:
            joined = [m.member_id for m in self.by_id.values() if m.joining is not None]
            if not joined:
                return False
            self.leader = joined[0]
        return True

    def subscribed(self, protocol: str | None) -> tuple[str, ...] | None:
        """The topics that consumers are subscribed to; None if that cannot be said."""
        if self.protocol_type != CONSUMER:
            return None
        topics: dict[str, None] = {}
        for member in self.by_id.values():
            try:  # every version of it begins like version 0, after two bytes for the version
                data = member.metadata(protocol)
                subscription, _ = decode_from(ConsumerProtocolSubscription, data, 0, 2)
            except SextonError:
                return None
            topics.update(dict.fromkeys(subscription.topics))
        return tuple(sorted(topics))

    # ── the log ──

    def to_record(
        self,
        group: str,
        generation: int,
        protocol: str | None,
        state_ms: int,
        assignments: dict[str, bytes],
    ) -> GroupRecord:
        members = [
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(protocol),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in self.by_id.values()
        ]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=generation,
            protocol=protocol,
            leader=self.leader,
            current_state_timestamp=state_ms,
            members=members,
        )
        return GroupRecord(GroupMetadataKey(group), value)

    @classmethod
    def from_value(cls, value: GroupMetadataValue) -> Members:
        found = cls(protocol_type=value.protocol_type or None, leader=value.leader)
        for stored in value.members:
            waits_ms = stored.rebalance_timeout
            member = Member(
                stored.member_id,
                stored.group_instance_id,
                stored.client_id,
                stored.client_host,
                stored.session_timeout if waits_ms == -1 else waits_ms,
                stored.session_timeout,
                ((value.protocol or "", bytes(stored.subscription)),),
                bytes(stored.assignment),
            )
            found.add(member, value.protocol_type)
        return found

    def check(self) -> None:
        assert self.leader is None or self.leader in self.by_id
        assert (self.leader is None) == (not self.by_id)
        static = {m.instance_id: m.member_id for m in self.by_id.values() if m.instance_id}
        assert static == self.static
        assert not self.promised.keys() & self.by_id.keys()
        assert self.unsynced.keys() <= self.by_id.keys()
        for member_id, member in self.by_id.items():
            assert member.member_id == member_id
        if self.by_id:
            assert self.protocol_type is not None and self.known_to_all()
