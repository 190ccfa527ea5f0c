"""Clients of the simulated cluster in a scenario: each call is a message on its network.

They speak to the brokers as real clients do, with Kafka's requests and responses, and try again
what Kafka says may be tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.replica import Chunk, Isolation, ReplicaOffsets
from sexton.lab.hands import Acks
from sexton.lab.looking import Consumed, ReplicaLog, log_of, shown_in
from sexton.lab.sim_cluster import SimCluster
from sexton.lab.tv2_writer import TRANSACTION_MS
from sexton.node.coordinators import TRANSACTION_STATE
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from sexton.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from sexton.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from sexton.sim.clients import TRY_AGAIN, Sequence, batch_of, produce_request, produced

CLIENT: Final = -101
COORDINATOR: Final = TopicPartition(TRANSACTION_STATE, 0)
ATTEMPTS: Final = 200
PAUSE_MS: Final = 10_000
ROUND_MS: Final = 200_000  # until followers have heard, with their next fetch, what all have


@dataclass(slots=True)
class SimHands:
    cluster: SimCluster
    _producers: dict[str, Sequence] = field(default_factory=dict)
    _bumping: dict[str, None] = field(default_factory=dict)

    def write(self, topic: str, key: str, value: str | None, *, acks: Acks = "all") -> None:
        self._write(TopicPartition(topic, 0), Sequence(), key, value, acks=acks)

    def begin(self, topic: str, producer: str, key: str, value: str, *, bumps: bool) -> None:
        partition, name = TopicPartition(topic, 0), f"{topic}-{producer}"
        if name not in self._producers:
            request = InitProducerIdRequest(name, transaction_timeout_ms=TRANSACTION_MS)
            answer = self._ask(COORDINATOR, request, 5)
            assert isinstance(answer, InitProducerIdResponse)
            self._producers[name] = Sequence(answer.producer_id, answer.producer_epoch)
        sequence = self._producers[name]
        if bumps:
            self._bumping[name] = None
        else:
            self._add(partition, name, sequence)
        self._write(partition, sequence, key, value, name)

    def _add(self, partition: TopicPartition, name: str, sequence: Sequence) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=sequence.producer_id,
            v3_and_below_producer_epoch=sequence.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(partition.topic, [partition.partition])],
        )
        self._ask(COORDINATOR, request, 3)

    def _write(
        self,
        partition: TopicPartition,
        sequence: Sequence,
        key: str,
        value: str | None,
        name: str = "",
        acks: Acks = "all",
    ) -> None:
        content = None if value is None else value.encode()
        now_ms = self.cluster.world.now_ms
        batch = batch_of([(key.encode(), content)], sequence, now_ms, transactional=bool(name))
        version = 12 if name in self._bumping else 11
        confirmed_by = -1 if acks == "all" else 1
        request = produce_request(partition, batch, name or None, confirmed_by)
        self._ask(partition, request, version)
        sequence.next += 1
        if acks == "all":
            self.cluster.let_time_pass(ROUND_MS)

    def end(self, topic: str, producer: str, *, commit: bool) -> None:
        name = f"{topic}-{producer}"
        sequence, bumps = self._producers[name], name in self._bumping
        request = EndTxnRequest(name, sequence.producer_id, sequence.epoch, commit)
        answer = self._ask(COORDINATOR, request, 5 if bumps else 3)
        assert isinstance(answer, EndTxnResponse)
        if bumps:
            self._producers[name] = Sequence(answer.producer_id, answer.producer_epoch)
        self.cluster.let_time_pass(ROUND_MS)

    # ── reading ──

    def logs(self, topic: str) -> dict[int, ReplicaLog]:
        at = TopicPartition(topic, 0)
        state = self.cluster.partition(topic)
        found = {}
        for node in sorted(state.replicas) if state else ():
            everything = self._read(at, node, Isolation.READ_UNCOMMITTED)
            settled = self._read(at, node, Isolation.READ_COMMITTED)
            broker = self.cluster.broker(node)
            replica = broker.replicas.by_partition.get(at) if broker else None
            if not everything or not settled or replica is None:
                continue  # it is down, or has no such replica yet
            last = everything[-1]
            ends = (last.log_start, last.last_stable, last.high_watermark, replica.log.end_offset)
            found[node] = log_of(ReplicaOffsets(node, *ends), everything, settled)
        return found

    def consumed(self, topic: str) -> Consumed:
        leader = self.cluster.leader_of(topic)
        chunks = self._read(TopicPartition(topic, 0), leader, Isolation.READ_COMMITTED)
        if not chunks:
            raise PeerError(f"broker {leader}", f"does not let {topic} be read")
        return Consumed(shown_in(chunks), chunks[-1].last_stable)

    def _read(self, at: TopicPartition, node: int, isolation: Isolation) -> list[Chunk]:
        """From the start to the end; nothing if the broker does not answer."""
        chunks: list[Chunk] = []
        offset = 0
        while True:
            asked = FetchPartition(at.partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                isolation_level=isolation,
                topics=[FetchTopic(topic=at.topic, partitions=[asked])],
            )
            answer = self.cluster.call(CLIENT, node, request, 12)
            if not isinstance(answer, FetchResponse):
                return []
            data = answer.responses[0].partitions[0]
            if data.error_code:
                return []
            chunk = Chunk(
                memoryview(bytes(data.records or b"")),
                offset,
                data.log_start_offset,
                data.high_watermark,
                data.last_stable_offset,
                tuple(data.aborted_transactions or ()),
            )
            chunks.append(chunk)
            ends = [batch.header.next_offset for batch in chunk.batches()]
            if not ends or ends[-1] <= offset:
                return chunks
            offset = ends[-1]

    # ── waiting and disks ──

    def until(self, ask: Callable[[], bool], what: str) -> None:
        self.cluster.until(ask, what)

    def keep_image(self, topic: str, node: int) -> None:  # noqa: ARG002  all of the disk
        self.cluster.images[node] = self.cluster.world.processes[node].disk.image()

    def put_back(self, topic: str, node: int) -> None:  # noqa: ARG002
        self.cluster.world.processes[node].disk = self.cluster.images.pop(node)

    def close(self) -> None:
        pass

    # ── calls ──

    def _ask(self, partition: TopicPartition, request: object, version: int) -> object:
        """Asks the leader until it does what was asked."""
        for _ in range(ATTEMPTS):
            leader = self.cluster.leader_of(*partition)
            answer = self.cluster.call(CLIENT, leader, request, version)
            error = None if answer is None else _error(answer)
            if answer is not None and error is KafkaError.NONE:
                return answer
            if error is not None and error not in TRY_AGAIN:
                raise Refused(error, f"{type(request).__name__} to {partition}")
            self.cluster.let_time_pass(PAUSE_MS)
        raise PeerError(str(partition), f"{type(request).__name__} is not answered")


def _error(answer: object) -> KafkaError:
    if isinstance(answer, AddPartitionsToTxnResponse):
        results = answer.results_by_topic_v3_and_below[0].results_by_partition
        return KafkaError(results[0].partition_error_code)
    if isinstance(answer, EndTxnResponse | InitProducerIdResponse):
        return KafkaError(answer.error_code)
    return KafkaError(produced(answer).error_code)
