"""Which broker coordinates what, and how one takes over.

A transactional id, or a group, belongs to one partition of an internal topic; whoever leads that
partition coordinates it. A new leader reads the partition's log before it answers anything. It
waits until all of what it found is below the high watermark: a record above may still be lost, and
acting on it could not be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.incoming import crc_matches
from sexton.log.partition import PartitionLog
from sexton.node.replica import Leading, Replica
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.records.layout import BatchHeader

TRANSACTION_STATE = "__transaction_state"
CONSUMER_OFFSETS = "__consumer_offsets"
RETRY_LOAD_MS = 30_000
INTERNAL_TOPICS = (TRANSACTION_STATE, CONSUMER_OFFSETS)

Loaded = Callable[[Replica], None]
Unloaded = Callable[[TopicPartition], None]


class Coordinators:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas
        self._terms: dict[TopicPartition, int] = {}  # the term each is loaded, or being loaded, for
        self._callbacks: dict[str, tuple[Loaded, Unloaded]] = {}

    def keep(self, topic: str, loaded: Loaded, unloaded: Unloaded) -> None:
        """Calls these when this broker begins and ceases to lead a partition of `topic`."""
        self._callbacks[topic] = (loaded, unloaded)

    def partition_of(self, topic: str, key: str) -> TopicPartition:
        count = len(self._site.image.partitions_of(topic))
        if count == 0:
            raise Refused(KafkaError.COORDINATOR_NOT_AVAILABLE, f"there is no topic {topic} yet")
        return TopicPartition(topic, (java_hash(key) & 0x7FFFFFFF) % count)

    def leader_of(self, partition: TopicPartition) -> int:
        record = self._site.image.partitions.get(partition)
        return -1 if record is None else record.leader

    def replica(self, partition: TopicPartition) -> Replica:
        """The replica, if this broker leads it."""
        return self._replicas.led(partition)[0]

    def terms(self, topic: str) -> dict[TopicPartition, int]:
        """Of the partitions of `topic` that are loaded here, or being loaded."""
        return {p: term for p, term in self._terms.items() if p.topic == topic}

    def reconcile(self) -> None:
        """Compares what is led with what is loaded."""
        for topic, (_loaded, unloaded) in self._callbacks.items():
            led: dict[TopicPartition, Replica] = {}
            for number in self._site.image.partitions_of(topic):
                partition = TopicPartition(topic, number)
                replica = self._replicas.by_partition.get(partition)
                if replica is not None and isinstance(replica.role, Leading):
                    led[partition] = replica
            for partition in [p for p in self._terms if p.topic == topic]:
                term = led[partition].leader_epoch if partition in led else None
                if self._terms[partition] != term:
                    del self._terms[partition]
                    unloaded(partition)
            for partition, replica in led.items():
                if partition not in self._terms:
                    self._terms[partition] = replica.leader_epoch
                    self._load_when_safe(replica)

    def _load_when_safe(self, replica: Replica) -> None:
        term, end = replica.leader_epoch, replica.log.end_offset

        def replicated(error: KafkaError) -> None:
            if error == KafkaError.NONE:
                self._load(replica, term)

        replica.acknowledge(end - 1, replicated)

    def _load(self, replica: Replica, term: int) -> None:
        if self._terms.get(replica.partition) != term or not isinstance(replica.role, Leading):
            return
        loaded, unloaded = self._callbacks[replica.partition.topic]
        try:
            loaded(replica)
        except CorruptLog:
            # Better no coordinator than one that knows half. Clients are told to wait; the log may
            # be copied anew, or another replica may lead, before it is tried again.
            unloaded(replica.partition)
            self._site.outside.after(RETRY_LOAD_MS, lambda: self._load(replica, term))


def stored_batches(log: PartitionLog) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch of a partition that is being loaded; CorruptLog if the disk has changed one."""
    for segment, position, header in log.batches(log.log_start_offset):
        batch = segment.log.read_at(position, header.size)
        if not crc_matches(batch, 0, header):
            where = f"{log.directory}, batch at offset {header.base_offset}"
            raise CorruptLog(where, "the checksum does not match")
        yield header, batch


def java_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned number."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value
