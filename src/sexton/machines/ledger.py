"""The controller's image, and the records that brought it there.

Everything the controller decides is a record, written here: it is in the image at once, and in the
`Append` of this step. The newest records are kept for the brokers, which follow by offset; whoever
is too far behind is sent the whole image instead.

High watermarks come with every heartbeat and are not worth a record each. They are kept aside,
count as known from the moment they are heard, and go to the log with the partition's next change or
at the next checkpoint.
"""

from __future__ import annotations

from dataclasses import field, replace

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines.compaction import NodeId
from sexton.machines.controller_events import ControllerConfig, ReplicaState
from sexton.machines.elections import settle
from sexton.machines.metadata import NO_LEADER, Image, PartitionRecord, Record, Removed

UNCLEAN = "unclean.leader.election.enable"


@dataclass(slots=True)
class Ledger:
    config: ControllerConfig
    image: Image = field(default_factory=Image)
    end: int = 0  # the offset of the next record
    batch: list[Record] = field(default_factory=list)  # written in this step
    heard: dict[TopicPartition, int] = field(
        default_factory=dict
    )  # high watermarks not yet written
    # The logs that brokers found when they started, of partitions that have had no leader since.
    found: dict[TopicPartition, dict[NodeId, ReplicaState]] = field(default_factory=dict)
    _tail: list[Record] = field(default_factory=list)  # the records just below `end`

    # ── writing ──

    def write(self, record: Record) -> None:
        self.image.apply(record)
        self.batch.append(record)
        self._tail.append(record)
        self.end += 1
        if len(self._tail) > 2 * self.config.metadata_tail_records:
            del self._tail[: -self.config.metadata_tail_records]

    def write_partition(self, record: PartitionRecord) -> None:
        """What was heard is part of the record, or void with it."""
        self.heard.pop(record.at, None)
        if record.leader != NO_LEADER:
            self.found.pop(record.at, None)  # from now on they change
        self.write(record)

    def remove_partition(self, record: PartitionRecord) -> None:
        self.heard.pop(record.at, None)
        self.found.pop(record.at, None)
        self.write(Removed(record.key))

    def change(
        self, old: PartitionRecord, draft: PartitionRecord, *, unclean: bool = False,
        preferred: bool = False,
    ) -> PartitionRecord:  # fmt: skip
        """Settles who leads after this change, writes it if it is one, and returns the outcome."""
        settled = settle(
            old,
            draft,
            self.image.active,
            unclean=unclean or self.may_lose(old.topic),
            preferred=preferred,
            found=self.found.get(old.at, {}),
        )
        if settled != old:
            self.write_partition(settled)
        return settled

    def hear(self, node: NodeId, leader_epoch: int, at: TopicPartition, offset: int) -> None:
        """A leader's high watermark; of another term, it may be about records that are lost."""
        partition = self.image.partitions.get(at)
        if partition is None or (partition.leader, partition.leader_epoch) != (node, leader_epoch):
            return
        highest = max(partition.high_watermark, self.heard.get(at, 0))
        if offset < highest:
            return  # it was said before what is known
        if leader_epoch == partition.lost_in and offset < max(partition.mtro, partition.mxro):
            self._void_minima(at, offset)
        if offset > highest:
            self.heard[at] = offset

    def _void_minima(self, at: TopicPartition, log_end: int) -> None:
        """After a loss a leader begins alone, and its high watermark is the end of its log.

        What is known of offsets above that is about records that are lost, also if it was an empty
        disk that nobody had heard of. Nobody could lead after this one, if it had to cover them.
        """
        known = self.known(at)
        lowered = replace(known, mtro=min(known.mtro, log_end), mxro=min(known.mxro, log_end))
        self.write_partition(lowered)

    def find(self, node: NodeId, found: ReplicaState) -> None:
        """A broker has this log, as long as there is nobody to fetch from."""
        at = TopicPartition(found.topic, found.partition)
        if self.image.partitions[at].leader == NO_LEADER:
            self.found.setdefault(at, {})[node] = found

    def checkpoint(self) -> None:
        for at in sorted(self.heard):
            self.write_partition(self.known(at))

    # ── reading ──

    def since(self, offset: int) -> tuple[int, tuple[Record, ...], bool]:
        """The records from `offset` on, and where they start; or a snapshot, and True."""
        start = self.end - len(self._tail)
        if start <= offset <= self.end:
            return offset, tuple(self._tail[offset - start :]), False
        return 0, tuple(self.image.records()), True

    def known(self, at: TopicPartition) -> PartitionRecord:
        """A partition, with the highest offsets heard of."""
        partition = self.image.partitions[at]
        offset = self.heard.get(at)
        return partition if offset is None else replace(partition, high_watermark=offset)

    def existing(self, topic: str, partition: int) -> PartitionRecord:
        """The same, or the error for one that does not exist."""
        at = TopicPartition(topic, partition)
        if at in self.image.partitions:
            return self.known(at)
        self.check_topic(topic)
        last = len(self.image.partitions_of(topic)) - 1
        raise Refused(
            KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
            f"{topic} has no partition {partition}; its partitions are 0 to {last}",
        )

    def check_topic(self, name: str) -> None:
        if name not in self.image.topics:
            raise Refused(
                KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no topic {name}; create it, or check the spelling",
            )

    def may_lose(self, topic: str) -> bool:
        """May an election lose records of this topic without being asked to?"""
        for resource, name in (("topic", topic), ("broker", "")):
            value = self.image.options_of(resource, name).get(UNCLEAN)
            if value is not None:
                return value.lower() == "true"
        return self.config.unclean_leader_election_enable
