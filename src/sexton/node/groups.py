"""Members of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat.

Versions 0 to 9, 0 to 5, 0 to 4, 0 to 5 and 0 to 1. `machines.groups` decides, one machine for each
partition of `__consumer_offsets` that this broker leads; here are its log, its clock, and what it
has to know of topics.

Left out: a group changes between the classic and the consumer protocol only while it is empty
(as with Kafka's `group.consumer.migration.policy=disabled`). Options of a single group, such as
`consumer.session.timeout.ms`, are not looked at: the broker's count for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from sexton.base.errors import ConfigError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import group_messages as machine
from sexton.machines.group_assignors import ASSIGNORS
from sexton.machines.group_log import to_bytes
from sexton.machines.groups import Groups as Machine
from sexton.machines.groups import refusal
from sexton.machines.offset_messages import GroupChanged
from sexton.node.coordinators import CONSUMER_OFFSETS, Coordinators
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.node.waking import Waking
from sexton.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sexton.protocol.messages.join_group import JoinGroupResponse
from sexton.records.few import few_batch

Then = Callable[[machine.MemberResponse | KafkaError], None]
Changed = Callable[[TopicPartition, GroupChanged], None]
NULL_PROTOCOL_FROM = 7  # the version of JoinGroup that can say that there is no protocol


class Groups:
    def __init__(self, site: Site, coordinators: Coordinators) -> None:
        self._site = site
        self._coordinators = coordinators
        self.machines: dict[TopicPartition, Machine] = {}
        self._waking = Waking(site, lambda at: self.tell(at, machine.Tick()))
        self._changed: Changed = lambda _partition, _change: None
        self._topics: dict[str, machine.Topic] | None = None  # None: to be looked up again
        for name in site.config.group_consumer_assignors:
            if name not in ASSIGNORS:
                why = f"there is no assignor {name}"
                raise ConfigError("group.consumer.assignors", why, f"one of {', '.join(ASSIGNORS)}")

    def listen(self, changed: Changed) -> None:
        """Whoever keeps offsets is told what becomes of groups."""
        self._changed = changed

    # ── taking over and handing over ──

    def load(
        self,
        partition: TopicPartition,
        records: Iterable[machine.GroupRecord],
        with_offsets: Iterable[str],
    ) -> None:
        config = self._site.config
        group_config = machine.GroupConfig(
            group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            group_min_session_timeout_ms=config.group_min_session_timeout_ms,
            group_max_session_timeout_ms=config.group_max_session_timeout_ms,
            group_max_size=config.group_max_size,
            group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            group_consumer_max_size=config.group_consumer_max_size,
            group_consumer_assignors=config.group_consumer_assignors,
            group_consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
            group_consumer_regex_refresh_interval_ms=(
                config.group_consumer_regex_refresh_interval_ms
            ),
        )
        self.machines[partition] = Machine(group_config, self._site.random)
        self.tell(partition, machine.Load(records, with_offsets))

    def unload(self, partition: TopicPartition) -> None:
        if partition in self.machines:
            self.tell(partition, machine.Unload())
            del self.machines[partition]
            self._waking.forget(partition)

    def forget_empty(self, partition: TopicPartition, with_offsets: frozenset[str]) -> None:
        self.tell(partition, machine.ForgetEmpty(with_offsets))

    def image_changed(self) -> None:
        """Members hear of other topics with their next heartbeat, and not before."""
        self._topics = None

    # ── what the machine wants done ──

    def tell(self, partition: TopicPartition, event: machine.Event) -> None:
        groups = self.machines.get(partition)
        if groups is None:
            return
        for effect in groups.handle(event, self._site.now_ms, self._site.clock_ms):
            match effect:
                case machine.Append(token, records):
                    self._append(partition, groups, token, records)
                case machine.Answer(caller, answer):
                    cast("Then", caller)(answer)
                case machine.WakeAt(clock_ms):
                    self._waking.after(partition, clock_ms - self._site.clock_ms)
                case GroupChanged():
                    self._changed(partition, effect)

    def _append(
        self,
        partition: TopicPartition,
        groups: Machine,
        token: int,
        records: tuple[machine.GroupRecord, ...],
    ) -> None:
        def tell(event: machine.Event) -> None:
            if self.machines.get(partition) is groups:
                self.tell(partition, event)

        try:
            replica = self._coordinators.replica(partition)
            batch = few_batch([to_bytes(record) for record in records], self._site.now_ms)
            done = replica.append(batch, client=False)
        except Refused as refused:
            tell(machine.AppendFailed(token, refused.error))  # before anything is built on it
            return

        def replicated(error: KafkaError) -> None:
            if error == KafkaError.NONE:
                tell(machine.Appended(token))

        replica.acknowledge(done.last_offset, replicated)

    # ── calls ──

    def at(self, group_id: str) -> tuple[TopicPartition, Machine]:
        """Where a group is coordinated, if that is here."""
        try:
            partition = self._coordinators.partition_of(CONSUMER_OFFSETS, group_id)
            self._coordinators.replica(partition)
        except Refused as refused:
            if refused.error == KafkaError.COORDINATOR_NOT_AVAILABLE:
                raise
            raise Refused(KafkaError.NOT_COORDINATOR, refused.why) from None
        if partition not in self.machines:
            why = f"{partition} is being read"
            raise Refused(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, why)
        return partition, self.machines[partition]

    def handle(self, caller: Caller, request: machine.MemberRequest, version: int) -> None:
        def then(answer: machine.MemberResponse | KafkaError) -> None:
            assert not isinstance(answer, KafkaError)
            if isinstance(answer, JoinGroupResponse) and version < NULL_PROTOCOL_FROM:
                answer.protocol_name = answer.protocol_name or ""
            self._site.outside.answer(caller, answer)

        try:
            partition, _ = self.at(request.group_id)
        except Refused as refused:
            then(refusal(request, refused.error, version))
            return
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self.tell_topics(partition)
        self.tell(partition, machine.Asked(then, request, version, client_of(caller)))

    def tell_topics(self, partition: TopicPartition) -> None:
        if self._topics is None:
            image = self._site.image
            self._topics = {
                name: machine.Topic(bytes.fromhex(topic.topic_id), len(image.partitions_of(name)))
                for name, topic in image.topics.items()
            }
        self.tell(partition, machine.TopicsAre(self._topics))

    def check(self) -> None:
        for groups in self.machines.values():
            groups.check()


def client_of(caller: Caller) -> machine.Client:
    """What a caller, or its connection, knows of the client; in a simulation that is nothing."""
    source = getattr(caller, "connection", caller)
    client_id: str | None = getattr(source, "client_id", None)
    host: str | None = getattr(source, "client_host", None)
    return machine.Client(client_id or "", host or "")
