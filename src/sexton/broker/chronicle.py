"""What the controller decides, told as log lines that a person wants to read.

    broker is up  broker=2 epoch=17
    leaders were elected  partitions=34 leaderless=0 away=[2]
    in-sync replicas changed  partition=orders-0 isr=[1,3]

A broker that goes away moves the leaders of a hundred partitions, and each comes back into its ISR
by itself. What happens within a moment is gathered: a few partitions have a line each, many have
one together and their own only at level debug. Records that change offsets alone are no news.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from sexton.base.findings import Finding
from sexton.base.partitions import TopicPartition
from sexton.machines.metadata import (
    NO_LEADER,
    BrokerRecord,
    ConfigRecord,
    Image,
    PartitionRecord,
    Record,
    Removed,
    TopicRecord,
)

log = logging.getLogger("sexton.cluster")

MOST_NAMED = 3  # partitions; of more than these only their number is told
GATHER_S = 0.2

Later = Callable[[float, Callable[[], None]], object]


class Chronicle:
    """Told of every decision, remembers what was before it."""

    def __init__(self, later: Later) -> None:
        self._later = later  # calls something after so many seconds
        self._moved: dict[TopicPartition, PartitionRecord] = {}
        self._altered: dict[TopicPartition, PartitionRecord] = {}
        self._gathering = False
        self._brokers: dict[int, BrokerRecord] = {}
        self._partitions: dict[TopicPartition, PartitionRecord] = {}
        self.elections = 0
        self.unclean_elections = 0
        self.isr_shrinks = 0
        self.isr_expands = 0

    def loaded(self, image: Image) -> None:
        """What was known before the first decision; whether its brokers are there is not."""
        self._partitions.update(image.partitions)

    def opened(self, node: int, findings: Sequence[Finding]) -> None:
        """What a broker had to mend in its logs when it started."""
        for finding in findings:
            said = {"broker": node, "code": finding.code, "where": finding.where}
            log.warning("%s", finding.message, extra=said)

    def decided(self, records: tuple[Record, ...]) -> None:
        """Called with what was written in one step."""
        made = {record.name for record in records if isinstance(record, TopicRecord)}
        for record in records:
            match record:
                case BrokerRecord():
                    self._broker(record)
                case PartitionRecord():
                    self._partition(record)
                case TopicRecord(name, topic_id):
                    log.info("topic was created", extra={"topic": name, "id": topic_id})
                case ConfigRecord("topic", name) if name in made:
                    pass  # it was created with them
                case ConfigRecord(resource, name, options):
                    said = {"resource": resource, "of": name or "all", "options": dict(options)}
                    log.info("options were changed", extra=said)
                case Removed(key):
                    self._removed(key)
                case _:
                    pass

    def _partition(self, record: PartitionRecord) -> None:
        before = self._partitions.get(record.at)
        self._partitions[record.at] = record
        if before is None:
            return  # its topic is new
        if set(record.isr) < set(before.isr):
            self.isr_shrinks += 1
        elif set(record.isr) > set(before.isr):
            self.isr_expands += 1
        if before.isr != record.isr:
            self._altered[record.at] = record
        if before.leader != record.leader:
            self._count_election(record)
            self._moved[record.at] = record
        self._reassigned(before, record)
        if (self._moved or self._altered) and not self._gathering:
            self._gathering = True
            self._later(GATHER_S, self.tell)

    def _count_election(self, record: PartitionRecord) -> None:
        if record.leader != NO_LEADER:
            self.elections += 1
            self.unclean_elections += record.lost_in == record.leader_epoch

    def tell(self) -> None:
        """Says what was gathered."""
        moved, self._moved = list(self._moved.values()), {}
        altered, self._altered = list(self._altered.values()), {}
        self._gathering = False
        self._elected(moved)
        self._isr(altered)

    def _broker(self, record: BrokerRecord) -> None:
        before = self._brokers.get(record.node)
        self._brokers[record.node] = record
        was_active = before is not None and before.active
        said = {"broker": record.node, "epoch": record.broker_epoch}
        if record.active and not was_active:
            log.info("broker is up", extra=said)
        elif record.in_shutdown and was_active:
            log.info("broker is leaving", extra=said)
        elif not record.active and was_active:
            log.warning("broker is away: no leader, and in no ISR", extra=said)

    def _removed(self, key: tuple[str | int, ...]) -> None:
        match key:
            case ("topic", str(name)):
                log.info("topic was deleted", extra={"topic": name})
            case ("partition", str(topic), int(number)):
                self._partitions.pop(TopicPartition(topic, number), None)
            case ("broker", int(node)):
                self._brokers.pop(node, None)
                log.info("broker was unregistered", extra={"broker": node})
            case _:
                pass

    def _isr(self, altered: list[PartitionRecord]) -> None:
        level = logging.INFO if len(altered) <= MOST_NAMED else logging.DEBUG
        for record in altered:
            said = {"partition": str(record.at), "isr": list(record.isr)}
            log.log(level, "in-sync replicas changed", extra=said)
        if level == logging.DEBUG:
            few = sum(1 for record in altered if len(record.isr) < len(record.replicas))
            counts = {"partitions": len(altered), "under_replicated": few}
            log.info("in-sync replicas changed", extra=counts)

    def _elected(self, moved: list[PartitionRecord]) -> None:
        named = len(moved) <= MOST_NAMED
        for record in moved:
            self._elected_one(record, logging.INFO if named else logging.DEBUG)
        if not named:
            leaderless = sum(1 for record in moved if record.leader == NO_LEADER)
            away = sorted(n for n, broker in self._brokers.items() if not broker.active)
            said = {"partitions": len(moved), "leaderless": leaderless, "away": away}
            level = logging.WARNING if leaderless else logging.INFO
            log.log(level, "leaders were elected", extra=said)

    def _elected_one(self, record: PartitionRecord, level: int) -> None:
        said = {
            "partition": str(record.at), "leader": record.leader,
            "leader_epoch": record.leader_epoch, "isr": list(record.isr),
        }  # fmt: skip
        if record.leader == NO_LEADER:
            log.log(level, "partition has no leader", extra=said)
        elif record.lost_in == record.leader_epoch:
            log.warning("leader was elected uncleanly: records are lost", extra=said)
        else:
            log.log(level, "leader was elected", extra=said)

    def _reassigned(self, before: PartitionRecord, after: PartitionRecord) -> None:
        said = {"partition": str(after.at), "replicas": list(after.replicas)}
        if after.reassigning and not before.reassigning:
            said |= {"adding": list(after.adding), "removing": list(after.removing)}
            log.info("reassignment began", extra=said)
        elif before.reassigning and not after.reassigning:
            log.info("reassignment ended", extra=said)
