"""Those who read: from every replica, at both isolation levels, and groups that commit offsets.

A reader goes through a log from start to end by Fetch, as a consumer does, and leaves out what the
broker's list of aborted transactions says. Each record is compared with the truth; at the end of a
round trip it starts again, at some other replica.
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node.coordinators import CONSUMER_OFFSETS
from sexton.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from sexton.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from sexton.sim.checks import Checks
from sexton.sim.clients import INPUT, TRY_AGAIN, Client, Traffic
from sexton.sim.truth import Outcome, Truth, fetched
from sexton.sim.world import World

READ_COMMITTED = 1
CHUNK_BYTES = 16_384


class Reader(Client):
    def __init__(
        self,
        world: World,
        checks: Checks,
        traffic: Traffic,
        number: int,
        seed: str,
        partitions: tuple[TopicPartition, ...],
        pause_ms: int,
    ) -> None:
        super().__init__(world, checks, traffic, number, seed)
        self._partitions = partitions
        self._pause_ms = pause_ms

    def start(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """A new round: some partition, some replica of it, some isolation level."""
        partition = self.random.choice(self._partitions)
        record = self.checks.image.partitions.get(partition)
        committed = self.random.random() < 0.7
        pause = int(self.random.expovariate(1 / self._pause_ms))
        if record is None:
            self.after(pause, self._begin)
            return
        target = self.random.choice(record.replicas)
        losses = self.checks.group(partition).truth.losses
        self.after(pause, lambda: self._fetch(partition, target, committed, 0, losses))

    def _fetch(
        self, partition: TopicPartition, target: int, committed: bool, offset: int, losses: int
    ) -> None:
        asked = FetchPartition(
            partition.partition, fetch_offset=offset, partition_max_bytes=CHUNK_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=READ_COMMITTED if committed else 0,
            topics=[FetchTopic(topic=partition.topic, partitions=[asked])],
        )

        def then(response: object | None) -> None:
            if not isinstance(response, FetchResponse):
                self._begin()
                return
            data = response.responses[0].partitions[0]
            if data.error_code == KafkaError.OFFSET_OUT_OF_RANGE and offset < data.log_start_offset:
                self._fetch(partition, target, committed, data.log_start_offset, losses)
                return
            reached = self._read(partition, target, committed, offset, data, losses)
            if reached is None or reached == offset:
                self._begin()
            else:
                self._fetch(partition, target, committed, reached, losses)

        self.call(target, request, then, 12)

    def _read(
        self,
        partition: TopicPartition,
        target: int,
        committed: bool,
        offset: int,
        data: PartitionData,
        losses: int,
    ) -> int | None:
        """Judges what came; returns where to go on, None if there is nothing to go on with."""
        truth = self.checks.group(partition).truth
        if data.error_code or not data.records or truth.losses != losses:
            return None
        if target in self.checks.rotten or not self._vouched(partition, target):
            return None
        self.traffic.reads += 1
        for batch, hidden in fetched(data):
            offset = max(offset, batch.header.next_offset)
            for record in batch.records:
                value = (record.key or b"", record.value)
                self._judge(partition, target, truth, record.offset, value, committed, hidden)
        return offset

    def _vouched(self, partition: TopicPartition, target: int) -> bool:
        """Only who could lead must be right."""
        record = self.checks.image.partitions.get(partition)
        return record is not None and target in record.isr

    def _judge(
        self,
        partition: TopicPartition,
        target: int,
        truth: Truth,
        offset: int,
        value: tuple[bytes, bytes | None],
        committed: bool,
        hidden: bool,
    ) -> None:
        where = f"broker {target}, {partition}"
        entry = truth.entries.get(offset)
        if entry is None or (entry.key, entry.value) != value:
            self.checks.fail("record-changed", where, f"read {value} at offset {offset}: {entry}")
        elif committed and hidden and entry.outcome.visible:
            what = f"a consumer does not get offset {offset}, which was committed"
            self.checks.fail("committed-as-aborted", where, what)
        elif committed and not hidden and entry.outcome is Outcome.ABORTED:
            what = f"a consumer gets offset {offset}, which was aborted"
            self.checks.fail("aborted-as-committed", where, what)
        elif committed and entry.outcome is Outcome.OPEN:
            what = f"a consumer gets offset {offset}, and nobody knows how it ended"
            self.checks.fail("open-as-ended", where, what)


class Committer(Client):
    """A group with one member that commits ever higher offsets and asks for them again."""

    def __init__(
        self,
        world: World,
        checks: Checks,
        traffic: Traffic,
        number: int,
        seed: str,
        pause_ms: int,
    ) -> None:
        super().__init__(world, checks, traffic, number, seed)
        self._pause_ms = pause_ms
        self._group = f"g{number}"
        self._sent = 0
        self._acknowledged = -1
        self._losses = 0

    def start(self) -> None:
        self._soon()

    def _soon(self) -> None:
        act = self._commit if self.random.random() < 0.7 else self._fetch
        self.after(int(self.random.expovariate(1 / self._pause_ms)), act)

    @property
    def _partition(self) -> TopicPartition:
        return self.coordinator(CONSUMER_OFFSETS, self._group)

    def _commit(self) -> None:
        self._sent += 1
        offset, partition = self._sent, self._partition
        losses = self.checks.group(partition).truth.losses

        def then(response: object) -> KafkaError:
            assert isinstance(response, OffsetCommitResponse)
            error = KafkaError(response.topics[0].partitions[0].error_code)
            if error == KafkaError.NONE:
                self.traffic.offsets_committed += 1
                self._acknowledged, self._losses = offset, losses
            if error not in TRY_AGAIN:
                self._soon()
            return error

        entry = OffsetCommitRequestPartition(0, offset, -1, "")
        request = OffsetCommitRequest(
            group_id=self._group,
            topics=[OffsetCommitRequestTopic(name=INPUT, partitions=[entry])],
        )
        self.ask_leader(partition, request, then, 9)

    def _fetch(self) -> None:
        partition, least = self._partition, self._acknowledged

        def then(response: object) -> KafkaError:
            assert isinstance(response, OffsetFetchResponse)
            group = response.groups[0]
            error = KafkaError(group.error_code)
            if error == KafkaError.NONE:
                found = [p.committed_offset for t in group.topics for p in t.partitions]
                self._compare(found[0] if found else -1, least, partition)
            if error not in TRY_AGAIN:
                self._soon()
            return error

        asked = OffsetFetchRequestGroup(
            group_id=self._group,
            topics=[OffsetFetchRequestTopics(name=INPUT, partition_indexes=[0])],
        )
        self.ask_leader(partition, OffsetFetchRequest(groups=[asked]), then, 9)

    def _compare(self, found: int, least: int, partition: TopicPartition) -> None:
        """Of a coordinator that leads: one that was cut off and replaced may tell what was.

        So may Apache Kafka's. What its consumers commit after that it cannot acknowledge.
        """
        record = self.checks.image.partitions[partition]
        replaced = record.leader != self.leader(partition)
        lost = self.checks.group(partition).truth.losses != self._losses
        if found < least and not lost and not replaced:
            what = f"group {self._group} had committed {least} and is told {found}"
            self.checks.fail("offset-went-back", str(partition), what)
