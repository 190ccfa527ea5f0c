"""How do the members of a consumer group come to an assignment that the coordinator makes?

By heartbeats alone (KIP-848); nobody waits for anybody. With each one a member says what it wants
and what it has, and hears which epoch it is in and, if that has changed, what it may read:

    heartbeat ──▶ 1. another subscription, or other topics? ──▶ group epoch + 1
                  2. group epoch above the assignment's? ─────▶ a new target for everybody, at
                                                                most once a second (KIP-1263)
                  3. not at its target? ──────────────────────▶ one step on its way there

All that a heartbeat changes is one batch in the log, and it is answered when that is replicated. So
there are two folds of the log here: `durable`, of what is replicated, and `latest`, which is ahead
of it by what is under way, and from which everything is decided. If a batch is refused, `latest` is
folded anew.

A member is fenced when it sends no heartbeat for a session, or does not let go of a partition for
its rebalance timeout. One that hears of it comes back with epoch 0.

A regular expression is resolved to topics here, at most every ten seconds, and when topics have
come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines import group_consumer_commits as commits
from sexton.machines import group_consumer_requests as requests
from sexton.machines.group_assignors import ASSIGNORS, Subscriber, TopicId
from sexton.machines.group_consumer_state import (
    LEAVING_STATIC,
    Change,
    GroupState,
    Member,
    MemberState,
    Resolved,
    away,
    current_record,
    epoch_record,
    group_tombstones,
    member_tombstones,
    regex_record,
    regex_tombstone,
    subscription_record,
    target_epoch_record,
    target_record,
)
from sexton.machines.group_desk import Desk, Timer
from sexton.machines.group_messages import Asked, GroupRecord
from sexton.machines.group_patterns import BadPattern, Pattern
from sexton.machines.group_reconcile import Way, next_step
from sexton.machines.offset_messages import GroupChanged
from sexton.protocol.coordinator.consumer_offsets import ConsumerGroupPartitionMetadataKey
from sexton.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from sexton.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from sexton.protocol.uuids import uuid_text

SESSION, REBALANCE = "session", "rebalance"  # what timers are for
REGEX_PAUSE_MS = 10_000  # regular expressions are not resolved more often than this


class ConsumerGroup:
    def __init__(self, desk: Desk, group_id: str) -> None:
        self._desk = desk
        self.group_id = group_id
        self.durable = GroupState()
        self.latest = GroupState()
        self._topics_version = -1  # that the metadata hash was made for
        self._regexes_version = -1  # that the regular expressions were resolved for
        self._told: GroupChanged | None = None

    @property
    def is_empty(self) -> bool:
        return not self.latest.members

    # ── heartbeats ──

    def heartbeat(
        self, asked: Asked, request: ConsumerGroupHeartbeatRequest, before: list[GroupRecord]
    ) -> None:
        """`before` goes to the log first. Raises Refused, and then nothing has happened."""
        self._refuse_if_full(request.member_id)
        member_id = request.member_id or uuid_text(self._desk.random.randbytes(16))
        change = Change(self.latest, before)
        member = self._enter(change, request, member_id)
        updated = requests.updated(member, asked.client, request)
        if updated != member:
            change.add(subscription_record(self.group_id, updated))
        other_topics = updated.topics != member.topics
        other_regex, resolved = self._take_regex(change, member, updated)
        self._advance_epoch(change, other_topics or resolved)
        self._make_targets(change)
        result = self._reconcile(change, updated, request, other_topics or other_regex)
        if change.replaced is not None:
            self._desk.cancel(self._timer(SESSION, change.replaced))
            self._desk.cancel(self._timer(REBALANCE, change.replaced))
        self._desk.by(self._timer(SESSION, member_id), self._session_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=result.epoch,
            heartbeat_interval_ms=self._desk.config.group_consumer_heartbeat_interval_ms,
        )
        if requests.wants_all(request) or result.assigned != member.assigned:
            response.assignment = requests.assignment(result.assigned)
        self._write(change)
        self._desk.answer_safely(asked.caller, response, refusal)
        if updated.regex or self.latest.regexes:
            self._refresh_regexes()

    def _refuse_if_full(self, member_id: str) -> None:
        limit = self._desk.config.group_consumer_max_size
        if len(self.latest.members) >= limit and member_id not in self.latest.members:
            why = f"The consumer group has reached its maximum capacity of {limit} members."
            raise Refused(KafkaError.GROUP_MAX_SIZE_REACHED, why)

    def _enter(
        self, change: Change, request: ConsumerGroupHeartbeatRequest, member_id: str
    ) -> Member:
        """The member as it is, or a new one, or one that takes a static member's place."""
        joins, instance_id = request.member_epoch == 0, request.instance_id
        if instance_id is None:
            member = self.latest.members.get(member_id)
            if member is None:
                if not joins:
                    raise self._unknown(member_id)
                return Member(member_id)
            requests.check_epoch(member, request)
            return member
        known = self.latest.static_member(instance_id)
        if not joins:
            member = self._static(known, member_id, instance_id)
            requests.check_epoch(member, request)
            return member
        if known is None:
            return self.latest.members.get(member_id) or Member(member_id)
        if known.epoch != LEAVING_STATIC:
            why = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group "
                f"because the instance id is owned by {known.member_id} member."
            )
            raise Refused(KafkaError.UNRELEASED_INSTANCE_ID, why)
        member = replace(known, member_id=member_id, epoch=0, previous_epoch=0)
        target = self.latest.targets.get(known.member_id, {})
        change.add(*member_tombstones(self.group_id, known.member_id))
        change.add(
            subscription_record(self.group_id, member),
            target_record(self.group_id, member_id, target),
            current_record(self.group_id, member),
        )
        change.replaced = known.member_id
        return member

    def _unknown(self, member_id: str) -> Refused:
        why = f"Member {member_id} is not a member of group {self.group_id}."
        return Refused(KafkaError.UNKNOWN_MEMBER_ID, why)

    def _static(self, known: Member | None, member_id: str, instance_id: str) -> Member:
        if known is None:
            why = f"Instance id {instance_id} is unknown."
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID, why)
        if known.member_id != member_id:
            why = (
                f"Static member {member_id} with instance id {instance_id} was fenced by member "
                f"{known.member_id}."
            )
            raise Refused(KafkaError.FENCED_INSTANCE_ID, why)
        return known

    # ── the three steps ──

    def _advance_epoch(self, change: Change, called_for: bool) -> None:
        state, version = change.state, self._desk.topics_version
        if not called_for and self._topics_version == version:
            return
        self._topics_version = version
        metadata_hash = self._hash(state.subscribed())
        if called_for or metadata_hash != state.metadata_hash:
            change.add(epoch_record(self.group_id, state.epoch + 1, metadata_hash))
        if state.old_metadata:
            change.add(GroupRecord(ConsumerGroupPartitionMetadataKey(self.group_id)))

    def _make_targets(self, change: Change) -> None:
        state, desk = change.state, self._desk
        age_ms = desk.now_ms - state.target_ms
        pause_ms = desk.config.group_consumer_assignment_interval_ms
        young = state.target_ms > 0 and 0 <= age_ms < pause_ms
        if state.epoch <= state.target_epoch or young:
            return
        name = state.preferred_assignor() or self._desk.config.group_consumer_assignors[0]
        subscribers = {
            member_id: Subscriber(
                frozenset(self._ids(state.topics_of(member))), state.targets.get(member_id, {})
            )
            for member_id, member in state.members.items()
        }
        known = {topic.topic_id: topic.partitions for topic in self._desk.topics.values()}
        wanted = {topic for one in subscribers.values() for topic in one.topics}
        counts = {topic: known[topic] for topic in sorted(wanted)}
        for member_id, target in ASSIGNORS[name](subscribers, counts).items():
            if state.targets.get(member_id) != target:
                change.add(target_record(self.group_id, member_id, target))
        change.add(target_epoch_record(self.group_id, state.epoch, self._desk.now_ms))

    def _reconcile(
        self,
        change: Change,
        member: Member,
        request: ConsumerGroupHeartbeatRequest,
        subscription_changed: bool,
    ) -> Member:
        state = change.state
        if not subscription_changed and member.is_reconciled_to(state.target_epoch):
            return member
        others = [m for m in state.members.values() if m.member_id != member.member_id]

        def taken(topic: TopicId, partition: int) -> bool:
            return any(
                partition in held.get(topic, ())
                for other in others
                for held in (other.assigned, other.revoking)
            )

        way = Way(
            state.target_epoch,
            state.targets.get(member.member_id, {}),
            frozenset(self._ids(state.topics_of(member))),
            requests.owned(request),
            taken,
            subscription_changed,
        )
        result = next_step(member, way)
        if result != member:
            change.add(current_record(self.group_id, result))
            timer = self._timer(REBALANCE, member.member_id)
            if result.state is MemberState.UNREVOKED:
                self._desk.by(timer, result.rebalance_timeout_ms)
            else:
                self._desk.cancel(timer)
        return result

    def _ids(self, topics: Iterable[str]) -> list[TopicId]:
        known = self._desk.topics
        return [known[topic].topic_id for topic in topics if topic in known]

    def _hash(self, topics: Iterable[str]) -> int:
        """Of the topics that exist. Kafka's has another value; nobody compares the two."""
        known = self._desk.topics
        found = [(name, known[name]) for name in topics if name in known]
        if not found:
            return 0
        text = "\n".join(f"{name} {t.topic_id.hex()} {t.partitions}" for name, t in found)
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), signed=True)

    # ── regular expressions ──

    def _take_regex(self, change: Change, old: Member, new: Member) -> tuple[bool, bool]:
        """Is it another one, and is it known what it stands for?"""
        if old.regex == new.regex:
            return False, False
        if old.regex and self.latest.regex_users(old.regex) == 1:
            change.add(regex_tombstone(self.group_id, old.regex))
        if not new.regex:
            return True, True
        if self.latest.regex_users(new.regex):
            return True, new.regex in self.latest.regexes
        try:
            Pattern(new.regex)
        except BadPattern as error:
            why = f"SubscribedTopicRegex `{new.regex}` is not a valid regular expression: {error}."
            raise Refused(KafkaError.INVALID_REGULAR_EXPRESSION, why) from None
        return True, False

    def _refresh_regexes(self) -> None:
        """After the heartbeat, as in Kafka: its member hears of it with the next one."""
        state, desk = self.latest, self._desk
        wanted = sorted({member.regex for member in state.members.values() if member.regex})
        at_ms = next((r.at_ms for r in state.regexes.values()), None)
        if not wanted or (at_ms is not None and desk.now_ms <= at_ms + REGEX_PAUSE_MS):
            return
        old = at_ms is None or (
            desk.now_ms > at_ms + desk.config.group_consumer_regex_refresh_interval_ms
        )
        unresolved = any(regex not in state.regexes for regex in wanted)
        if not old and not unresolved and self._regexes_version == desk.topics_version:
            return
        self._regexes_version = desk.topics_version
        change = Change(state)
        others = False
        for regex in wanted:
            pattern = Pattern(regex)
            topics = tuple(name for name in sorted(desk.topics) if pattern.matches(name))
            known = state.regexes.get(regex)
            others = others or (known.topics if known is not None else ()) != topics
            change.add(regex_record(self.group_id, regex, Resolved(topics, desk.now_ms)))
        metadata_hash = self._hash(change.state.subscribed())
        if others or metadata_hash != state.metadata_hash:
            change.add(epoch_record(self.group_id, state.epoch + 1, metadata_hash))
        self._write(change)

    # ── members who go ──

    def leave(self, asked: Asked, request: ConsumerGroupHeartbeatRequest) -> None:
        member_id, instance_id = request.member_id, request.instance_id
        if instance_id is None:
            member = self.latest.members.get(member_id)
            if member is None:
                raise self._unknown(member_id)
        else:
            known = self.latest.static_member(instance_id)
            member = self._static(known, member_id, instance_id)
        if instance_id is not None and request.member_epoch == LEAVING_STATIC:
            self._let_go(member)
        else:
            self.fence([member])
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )
        self._desk.answer_safely(asked.caller, response, refusal)

    def _let_go(self, member: Member) -> None:
        """It may be away for as long as a session, however long its rebalance timeout is."""
        change = Change(self.latest)
        change.add(current_record(self.group_id, away(member)))
        self._desk.cancel(self._timer(REBALANCE, member.member_id))
        self._write(change)

    def remove(self, leaving: list[MemberIdentity]) -> list[KafkaError]:
        """LeaveGroup, with which an operator removes members of any group."""
        errors, fenced = [], {}
        for who in leaving:
            try:
                if who.group_instance_id is None:
                    member = self.latest.members.get(who.member_id)
                    if member is None:
                        raise self._unknown(who.member_id)
                else:
                    known = self.latest.static_member(who.group_instance_id)
                    named = who.member_id or (known.member_id if known is not None else "")
                    member = self._static(known, named, who.group_instance_id)
            except Refused as refused:
                errors.append(refused.error)
            else:
                errors.append(KafkaError.NONE)
                fenced[member.member_id] = member
        self.fence(list(fenced.values()))
        return errors

    def fence(self, members: list[Member]) -> None:
        if not members:
            return
        change = Change(self.latest)
        for member in members:
            change.add(*member_tombstones(self.group_id, member.member_id))
            self._desk.cancel(self._timer(SESSION, member.member_id))
            self._desk.cancel(self._timer(REBALANCE, member.member_id))
        for regex in dict.fromkeys(member.regex for member in members if member.regex):
            if not change.state.regex_users(regex):
                change.add(regex_tombstone(self.group_id, regex))
        metadata_hash = self._hash(change.state.subscribed())
        change.add(epoch_record(self.group_id, change.state.epoch + 1, metadata_hash))
        self._write(change)

    def time_is_up(self, what: str, member_id: str) -> None:
        member = self.latest.members.get(member_id)
        if member is not None and (what == SESSION or member.state is MemberState.UNREVOKED):
            self.fence([member])

    def keep_sessions(self) -> None:
        """After a change of coordinators everybody has time to notice it."""
        for member in self.latest.members.values():
            self._desk.by(self._timer(SESSION, member.member_id), self._session_ms)
            if member.state is MemberState.UNREVOKED:
                timer = self._timer(REBALANCE, member.member_id)
                self._desk.by(timer, member.rebalance_timeout_ms)

    @property
    def _session_ms(self) -> int:
        return self._desk.config.group_consumer_session_timeout_ms

    def _timer(self, what: str, member_id: str) -> Timer:
        return (self.group_id, what, member_id)

    # ── the log ──

    def _write(self, change: Change) -> None:
        if not change.records:
            return
        self.latest = change.state

        def written(error: KafkaError) -> None:
            if error:
                self._fold_anew()
                return
            for record in change.own:
                self.durable.apply(record)

        self._desk.append(change.records, written)
        self.tell_offsets()

    def _fold_anew(self) -> None:
        self.latest = self.durable.copy()
        self._topics_version = self._regexes_version = -1  # what they led to is not in it
        for record in self._desk.writing:
            if group_of(record) == self.group_id:
                self.latest.apply(record)
        self.keep_sessions()
        self.tell_offsets()

    def loaded(self) -> None:
        self.latest = self.durable.copy()
        self.keep_sessions()
        self.tell_offsets()

    def tombstones(self) -> list[GroupRecord]:
        return group_tombstones(self.group_id, self.latest)

    def forget_timers(self) -> None:
        """An empty group has none."""

    def unload(self) -> None:
        """Nobody waits for anything but the log."""

    # ── offsets ──

    def may_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        transactional: bool,
        version: int,
        partitions: Iterable[tuple[TopicId | None, int]],
    ) -> KafkaError:
        return commits.may_commit(
            self.latest, member_id, instance_id, epoch, transactional, version, partitions
        )

    def may_fetch(self, member_id: str | None, epoch: int) -> KafkaError:
        return commits.may_fetch(self.latest, member_id, epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.latest.subscribed()

    def tell_offsets(self) -> None:
        change = GroupChanged(self.group_id, self.latest.subscribed())
        if change != self._told:
            self._told = change
            self._desk.changed(change)

    def check(self) -> None:
        self.durable.check()
        self.latest.check()
        for member_id in self.latest.members:
            assert self._timer(SESSION, member_id) in self._desk.deadlines


def refusal(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)


def leave_refusal(error: KafkaError) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)


def group_of(record: GroupRecord) -> str:
    key = record.key
    return str(getattr(key, "group_id", "") or getattr(key, "group", ""))
