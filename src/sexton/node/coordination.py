"""The conversation about what may be forgotten, carried between brokers.

`machines.compaction` decides, one partition at a time. Here its words are gathered: a follower
registers all its partitions with a leader at once, a leader asks a follower about all of them.

A follower whose log is to be discarded leaves the ISR first. That takes the controller, so its call
is refused for now; when it comes again it is out of the ISR, and is told to discard.
"""

from __future__ import annotations

from sexton.base.partitions import TopicPartition
from sexton.log.checkpoints import EpochStart
from sexton.machines import compaction
from sexton.node.messages import (
    AnnounceRemovable,
    AnnounceRemovableAnswer,
    CollectProgress,
    CollectProgressAnswer,
    ConferNowAnswer,
    RegisterAnswer,
    RegisterReplicas,
    RegisterReplicasAnswer,
)
from sexton.node.outside import Caller
from sexton.node.replica import Leading, Replica
from sexton.node.replicas import Replicas
from sexton.node.site import Site

ROUNDS_PER_RETENTION = 24  # how often a leader asks within `delete.retention.ms`
LEAST_INTERVAL_MS = 1_000


class Coordination:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas
        self._to_announce: dict[int, dict[TopicPartition, compaction.Announce]] = {}
        replicas.tell = self._announce_soon

    def start(self) -> None:
        self._site.outside.after(LEAST_INTERVAL_MS, self._collect_due)

    # ── asked by followers ──

    def register(self, caller: Caller, request: RegisterReplicas) -> None:
        answers = tuple(
            (p, self._register(p, event), self._epochs_of(p)) for p, event in request.registers
        )
        self._site.outside.answer(caller, RegisterReplicasAnswer(answers))

    def _epochs_of(self, partition: TopicPartition) -> tuple[EpochStart, ...]:
        replica = self._replicas.by_partition.get(partition)
        return () if replica is None else tuple(replica.log.epochs.entries)

    def _register(self, partition: TopicPartition, event: compaction.Register) -> RegisterAnswer:
        refuse = compaction.Refuse(event.node, event.session)
        replica = self._replicas.by_partition.get(partition)
        if replica is None or not isinstance(replica.role, Leading):
            return refuse
        role = replica.role
        if role.compaction is None:
            return refuse
        effects = role.compaction.handle(event)
        replica.compaction_effects(role, effects)
        told: RegisterAnswer = refuse
        for effect in effects:
            match effect:
                case compaction.Accept():
                    told = effect
                case compaction.Discard(node):
                    vouching = (
                        *role.replication.membership.isr,
                        *(role.replication.proposed or ()),
                    )
                    if node not in vouching:
                        role.replication.starts_over(node)
                        told = effect
                case _:
                    pass
        return told

    # ── asking followers ──

    def _collect_due(self) -> None:
        clock_ms = self._site.clock_ms
        next_ms = self._ask_due()
        self._site.outside.after(max(next_ms - clock_ms, LEAST_INTERVAL_MS), self._collect_due)

    def confer_now(self, caller: Caller) -> None:
        """Asks about every partition, due or not."""
        for replica in self._replicas.by_partition.values():
            if isinstance(replica.role, Leading):
                replica.role.collect_at_ms = self._site.clock_ms
        self._ask_due()
        self._site.outside.answer(caller, ConferNowAnswer())

    def _ask_due(self) -> int:
        """Asks about every partition whose time has come, and about those almost due with them.

        Returns when the next one is due.
        """
        clock_ms = self._site.clock_ms
        calls: dict[int, list[tuple[TopicPartition, compaction.Collect]]] = {}
        next_ms = clock_ms + 60_000
        for partition, replica in self._replicas.by_partition.items():
            role = replica.role
            if not isinstance(role, Leading) or role.compaction is None:
                continue
            interval = collect_interval_ms(replica)
            if role.collect_at_ms <= clock_ms + interval // 10:
                role.collect_at_ms = clock_ms + self._jittered(interval)
                effects = role.compaction.handle(compaction.Tick())
                for effect in effects:
                    if isinstance(effect, compaction.Collect):
                        calls.setdefault(effect.node, []).append((partition, effect))
                replica.compaction_effects(role, effects)
            next_ms = min(next_ms, role.collect_at_ms)
        for node, collects in sorted(calls.items()):
            self._collect(node, CollectProgress(tuple(collects)))
        return next_ms

    def _collect(self, node: int, request: CollectProgress) -> None:
        def then(answer: object | None) -> None:
            if isinstance(answer, CollectProgressAnswer):
                for partition, report in answer.reports:
                    self._report(partition, report)
            else:
                self._hurry([partition for partition, _ in request.collects])

        self._site.outside.ask(node, request, then, self._site.config.request_timeout_ms)

    def _report(self, partition: TopicPartition, report: compaction.Report) -> None:
        replica = self._replicas.by_partition.get(partition)
        if replica is None or not isinstance(replica.role, Leading):
            return
        role = replica.role
        if role.compaction is not None:
            replica.compaction_effects(role, role.compaction.handle(report))

    def _hurry(self, partitions: list[TopicPartition]) -> None:
        """After a failure, a tenth of the usual time."""
        for partition in partitions:
            replica = self._replicas.by_partition.get(partition)
            if replica is not None and isinstance(replica.role, Leading):
                soon = self._site.clock_ms + self._jittered(collect_interval_ms(replica)) // 10
                replica.role.collect_at_ms = min(replica.role.collect_at_ms, soon)

    def _jittered(self, interval_ms: int) -> int:
        return int(interval_ms * self._site.random.uniform(0.8, 1.2))

    # ── telling followers ──

    def _announce_soon(self, replica: Replica, message: compaction.Announce) -> None:
        if not self._to_announce:
            self._site.outside.after(0, self._announce)
        self._to_announce.setdefault(message.node, {})[replica.partition] = message

    def _announce(self) -> None:
        waiting, self._to_announce = self._to_announce, {}
        for node, messages in sorted(waiting.items()):
            request = AnnounceRemovable(tuple(messages.items()))
            # Nobody waits for the answer: if it is lost, the next Collect says the same.
            timeout = self._site.config.request_timeout_ms
            self._site.outside.ask(node, request, lambda _answer: None, timeout)

    # ── asked by leaders ──

    def collect(self, caller: Caller, request: CollectProgress) -> None:
        reports = []
        for partition, event in request.collects:
            replica = self._replicas.by_partition.get(partition)
            if replica is None or isinstance(replica.role, Leading):
                continue
            effects = replica.state.handle(event)
            replica.follower_effects(effects)
            reports += [(partition, e) for e in effects if isinstance(e, compaction.Report)]
        self._site.outside.answer(caller, CollectProgressAnswer(tuple(reports)))

    def announce(self, caller: Caller, request: AnnounceRemovable) -> None:
        for partition, event in request.announcements:
            replica = self._replicas.by_partition.get(partition)
            if replica is not None and not isinstance(replica.role, Leading):
                replica.follower_effects(replica.state.handle(event))
        self._site.outside.answer(caller, AnnounceRemovableAnswer())


def collect_interval_ms(replica: Replica) -> int:
    retention = replica.log.config.delete_retention_ms
    return max(retention // ROUNDS_PER_RETENTION, LEAST_INTERVAL_MS)
