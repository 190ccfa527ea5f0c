"""What a cluster knows of itself: records, and the image that they fold into.

The controller's whole state is a log of records. Each replaces the one before it with the same key,
so the log can be compacted, and whoever folds what is left has the same image:

    controller ──Append──▶ metadata log ──▶ Image     after a restart
         └───────heartbeat answers────────▶ Image     on every broker

A `PartitionRecord` carries three numbers that only ever grow. The leader epoch counts leaders, and
changes of the set of replicas; the partition epoch counts every change of who holds, follows or
leads the partition; an assignment number, from one counter for the cluster, tells a replica that
was removed and added again from the one that was there before. The offsets it carries are the
highest the controller has heard of: they come and go more often than anybody wants to hear of, so
they change neither epoch, and a record that changes nothing else is no change to report.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import field, fields, replace
from typing import Any, assert_never

from sexton.base.errors import CorruptLog
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines.compaction import NodeId, Removable

NO_LEADER: NodeId = -1

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    node: NodeId
    incarnation: str  # of the process: another one after every start
    broker_epoch: int  # of the registration
    fenced: bool = True
    in_shutdown: bool = False
    endpoint: tuple[str, ...] = ()
    rack: str | None = None

    @property
    def key(self) -> Key:
        return ("broker", self.node)

    @property
    def active(self) -> bool:
        """May it lead, and be in sync?"""
        return not self.fenced and not self.in_shutdown


@dataclass(frozen=True, slots=True)
class TopicRecord:
    name: str
    topic_id: str
    internal: bool = False

    @property
    def key(self) -> Key:
        return ("topic", self.name)


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    topic: str
    partition: int
    replicas: tuple[NodeId, ...]  # the preferred leader first
    assignments: tuple[int, ...]  # the number of each replica's assignment
    isr: tuple[NodeId, ...]  # in the order of replicas, never empty
    leader: NodeId = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()
    lost_in: int = -1  # the last leader epoch that began with the loss of committed records
    high_watermark: int = 0  # the highest heard of since then; so are the next two
    mtro: int = 0
    mxro: int = 0
    doubtful: bool = False  # the only ISR member came back below these and may not lead

    @property
    def key(self) -> Key:
        return ("partition", self.topic, self.partition)

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def members(self) -> dict[NodeId, int]:
        """Every assigned replica, with the number of its assignment."""
        return dict(zip(self.replicas, self.assignments, strict=True))

    @property
    def removable(self) -> Removable:
        return Removable(self.mtro, self.mxro)

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def check(self) -> None:
        assert self.replicas and len(self.members) == len(self.replicas) == len(self.assignments)
        assert self.isr == tuple(node for node in self.replicas if node in self.isr) != ()
        assert self.leader == NO_LEADER or self.leader in self.isr
        assert all(node in self.replicas for node in self.adding + self.removing)
        assert not any(node in self.removing for node in self.adding)
        assert len(self.adding) < len(self.replicas) > len(self.removing)
        assert -1 <= self.lost_in <= self.leader_epoch <= 1 << 31
        if self.doubtful:
            assert self.leader == NO_LEADER and len(self.isr) == 1

    def without_offsets(self) -> PartitionRecord:
        return replace(self, high_watermark=0, mtro=0, mxro=0)


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    resource: str  # topic, broker or group
    name: str  # empty for the default of all brokers
    options: tuple[tuple[str, str], ...]  # sorted

    @property
    def key(self) -> Key:
        return ("config", self.resource, self.name)


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    next_id: int = 0

    @property
    def key(self) -> Key:
        return ("producer-ids",)


@dataclass(frozen=True, slots=True)
class CountersRecord:
    next_assignment: int = 0
    next_broker_epoch: int = 0
    placed: int = 0  # partitions so far: where the next topic's placement begins
    first_leader_epoch: int = 0  # of a new partition: above all of any topic that was deleted

    @property
    def key(self) -> Key:
        return ("counters",)


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    cluster_id: str = ""  # empty: nobody gave it one

    @property
    def key(self) -> Key:
        return ("cluster",)


@dataclass(frozen=True, slots=True)
class Removed:
    """There is no such thing any more; in the log, the key without a value."""

    key: Key


Kept = (
    BrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | ProducerIdsRecord
    | CountersRecord
    | ClusterRecord
)
Record = Kept | Removed


@dataclass(slots=True)
class Image:
    """All records folded. Equal records make equal images, whatever order they came in."""

    brokers: dict[NodeId, BrokerRecord] = field(default_factory=dict)
    topics: dict[str, TopicRecord] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionRecord] = field(default_factory=dict)
    configs: dict[tuple[str, str], ConfigRecord] = field(default_factory=dict)
    producer_ids: ProducerIdsRecord = ProducerIdsRecord()
    counters: CountersRecord = CountersRecord()
    cluster: ClusterRecord = ClusterRecord()
    # Three indexes of the above.
    _by_id: dict[str, str] = field(default_factory=dict)
    _by_topic: dict[str, dict[int, PartitionRecord]] = field(default_factory=dict)
    _by_node: dict[NodeId, dict[TopicPartition, None]] = field(default_factory=dict)

    def apply(self, record: Record) -> tuple[TopicPartition, ...]:
        """Takes one record in; returns the partition that is another one now, if any."""
        match record:
            case BrokerRecord():
                self.brokers[record.node] = record
            case TopicRecord():
                self._forget_id(record.name)
                self.topics[record.name] = record
                self._by_id[record.topic_id] = record.name
            case PartitionRecord():
                return self._replace(record)
            case ConfigRecord():
                self.configs[record.resource, record.name] = record
            case ProducerIdsRecord():
                self.producer_ids = record
            case CountersRecord():
                self.counters = record
            case ClusterRecord():
                self.cluster = record
            case Removed(key):
                return self._remove(key)
            case _:
                assert_never(record)
        return ()

    def records(self) -> Iterator[Kept]:
        """A snapshot: these alone, folded in this order, make an equal image."""
        yield self.counters
        yield self.producer_ids
        if self.cluster.cluster_id:
            yield self.cluster
        for _, broker in sorted(self.brokers.items()):
            yield broker
        for name, topic in sorted(self.topics.items()):
            yield topic
            for _, partition in sorted(self.partitions_of(name).items()):
                yield partition
        for _, config in sorted(self.configs.items()):
            yield config

    @classmethod
    def of(cls, records: Iterable[Record]) -> Image:
        image = cls()
        for record in records:
            image.apply(record)
        return image

    # ── lookups ──

    def partition(self, topic: str, partition: int) -> PartitionRecord | None:
        return self.partitions.get(TopicPartition(topic, partition))

    def partitions_of(self, topic: str) -> dict[int, PartitionRecord]:
        """By number; empty if there is no such topic. Not yours to change."""
        return self._by_topic.get(topic, {})

    def hosted_by(self, node: NodeId) -> list[TopicPartition]:
        """The partitions that a broker has a replica of, sorted."""
        return sorted(self._by_node.get(node, {}))

    def topic_by_id(self, topic_id: str) -> TopicRecord | None:
        name = self._by_id.get(topic_id)
        return None if name is None else self.topics[name]

    def options_of(self, resource: str, name: str) -> dict[str, str]:
        config = self.configs.get((resource, name))
        return {} if config is None else dict(config.options)

    def active(self, node: NodeId) -> bool:
        """Is this broker registered, unfenced and not about to leave?"""
        broker = self.brokers.get(node)
        return broker is not None and broker.active

    def changed_since(self, old: Image) -> list[TopicPartition]:
        """The partitions that came, went or changed: for a broker that was sent a snapshot."""
        both = sorted(dict.fromkeys([*old.partitions, *self.partitions]))
        return [at for at in both if _differ(old.partitions.get(at), self.partitions.get(at))]

    def check(self) -> None:
        """What is true of every image: here or on a broker, old or new."""
        numbers: dict[int, PartitionRecord] = {}
        for at, partition in self.partitions.items():
            partition.check()
            assert at == partition.at and at.topic in self.topics
            assert self._by_topic[at.topic][at.partition] == partition
            for number in partition.assignments:
                assert numbers.setdefault(number, partition) is partition, f"{number} twice"
        assert max(numbers, default=-1) < self.counters.next_assignment
        for name in self.topics:
            assert sorted(self._by_topic[name]) == list(range(len(self._by_topic[name])))
        assert self._by_topic.keys() == self.topics.keys()
        assert self._by_id == {topic.topic_id: name for name, topic in self.topics.items()}
        hosts = sorted((node, at) for at, p in self.partitions.items() for node in p.replicas)
        assert hosts == sorted((node, at) for node, ats in self._by_node.items() for at in ats)
        for broker in self.brokers.values():
            assert broker.broker_epoch < self.counters.next_broker_epoch

    # ── folding ──

    def _replace(self, record: PartitionRecord) -> tuple[TopicPartition, ...]:
        at = record.at
        old = self.partitions.get(at)
        for node in old.replicas if old else ():
            if node not in record.replicas:
                self._unhost(node, at)
        for node in record.replicas:
            self._by_node.setdefault(node, {})[at] = None
        self.partitions[at] = record
        self._by_topic.setdefault(at.topic, {})[at.partition] = record
        return (at,) if _differ(old, record) else ()

    def _remove(self, key: Key) -> tuple[TopicPartition, ...]:
        match key:
            case ("broker", int(node)):
                self.brokers.pop(node, None)
            case ("topic", str(name)):
                self._forget_id(name)
                self.topics.pop(name, None)
            case ("partition", str(topic), int(number)):
                return self._remove_partition(TopicPartition(topic, number))
            case ("config", str(resource), str(name)):
                self.configs.pop((resource, name), None)
            case _:
                raise CorruptLog("metadata log", f"nothing with the key {key} can be removed")
        return ()

    def _remove_partition(self, at: TopicPartition) -> tuple[TopicPartition, ...]:
        old = self.partitions.pop(at, None)
        if old is None:
            return ()
        for node in old.replicas:
            self._unhost(node, at)
        siblings = self._by_topic[at.topic]
        del siblings[at.partition]
        if not siblings:
            del self._by_topic[at.topic]
        return (at,)

    def _unhost(self, node: NodeId, at: TopicPartition) -> None:
        hosted = self._by_node[node]
        del hosted[at]
        if not hosted:
            del self._by_node[node]

    def _forget_id(self, name: str) -> None:
        old = self.topics.get(name)
        if old is not None:
            self._by_id.pop(old.topic_id, None)


def _differ(old: PartitionRecord | None, new: PartitionRecord | None) -> bool:
    """In more than the offsets that were heard of?"""
    if old is None or new is None:
        return old is not new
    return old.without_offsets() != new.without_offsets()


# ── in the metadata log: the key and the fields as JSON, no value for what was removed ──

_KINDS: dict[str, type[Kept]] = {
    "broker": BrokerRecord,
    "topic": TopicRecord,
    "partition": PartitionRecord,
    "config": ConfigRecord,
    "producer-ids": ProducerIdsRecord,
    "counters": CountersRecord,
    "cluster": ClusterRecord,
}


def to_bytes(record: Record) -> tuple[bytes, bytes | None]:
    """The key and the value under which a compacted log keeps this record."""
    if isinstance(record, Removed):
        return _dump(list(record.key)), None
    return _dump(list(record.key)), _dump(
        {each.name: getattr(record, each.name) for each in fields(record)}
    )


def from_bytes(key: bytes, value: bytes | None) -> Record:
    """The record that `to_bytes` made these of, or CorruptLog."""
    try:
        kind, *rest = json.loads(key)
        if value is None:
            return Removed((kind, *rest))
        return _KINDS[kind](**{n: _frozen(v) for n, v in json.loads(value).items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"no record that this version knows has the key {key!r}: {error}"
        raise CorruptLog("metadata log", why) from error


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
