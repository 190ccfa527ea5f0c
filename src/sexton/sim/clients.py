"""Clients of the simulated cluster: they write, delete, transact, read and commit offsets.

They behave as real ones do. What they know of leaders comes from whichever broker they last asked
and may be out of date; calls time out; they try again what may be tried again, with the same
sequence numbers. What they are told they compare with the truth: an acknowledgement is a promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node.coordinators import java_hash
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from sexton.records.few import KeyAndValue, few_batch
from sexton.sim.checks import Checks
from sexton.sim.world import World

CALL_MS = 60_000
PAUSE_MS = 30_000  # before a call is tried again
INPUT = "orders"  # the topic whose offsets groups commit

# The broker did not do it, or may not have: the same call may be sent again.
TRY_AGAIN = frozenset(
    {
        KafkaError.NOT_LEADER_OR_FOLLOWER,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)


@dataclass(slots=True)
class Traffic:
    """What clients did altogether."""

    writes: int = 0
    deletes: int = 0
    committed: int = 0
    aborted: int = 0
    abandoned: int = 0
    fenced: int = 0
    reads: int = 0
    offsets_committed: int = 0


class Client:
    """Sends calls and knows, more or less, who leads what."""

    def __init__(
        self, world: World, checks: Checks, traffic: Traffic, number: int, seed: str
    ) -> None:
        self.world = world
        self.checks = checks
        self.traffic = traffic
        self.address = -100 - number
        self.random = Random(seed)
        self.stopped = False
        self._leaders: dict[TopicPartition, int] = {}

    def stop(self) -> None:
        """It finishes nothing and starts nothing any more."""
        self.stopped = True

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        def unless_stopped() -> None:
            if not self.stopped:
                action()

        self.world.after(delay_ms, unless_stopped)

    def call(
        self,
        target: int,
        request: object,
        then: Callable[[object | None], None],
        version: int,
        timeout_ms: int = CALL_MS,
    ) -> None:
        """One call; `then` hears of it once, with None if nobody answered."""
        done = False

        def answered(response: object | None) -> None:
            nonlocal done
            if not done and not self.stopped:
                done = True
                then(response)

        self.world.send(self.address, target, request, answered, timeout_ms, version)

    # ── who leads ──

    def leader(self, partition: TopicPartition) -> int | None:
        known = self._leaders.get(partition)
        if known is None:
            known = self._ask_around(partition)
            if known is not None:
                self._leaders[partition] = known
        return known

    def forget(self, partition: TopicPartition) -> None:
        self._leaders.pop(partition, None)

    def _ask_around(self, partition: TopicPartition) -> int | None:
        """As a Metadata call would: what some broker believes."""
        asked = self.random.choice(self.world.brokers)
        broker = None if asked.paused else asked.broker
        if broker is None:
            return None
        record = broker.site.image.partitions.get(partition)
        return None if record is None or record.leader < 0 else record.leader

    def coordinator(self, topic: str, key: str) -> TopicPartition:
        count = max(len(self.checks.image.partitions_of(topic)), 1)
        return TopicPartition(topic, (java_hash(key) & 0x7FFFFFFF) % count)

    def ask_leader(
        self,
        partition: TopicPartition,
        request: object,
        then: Callable[[object], KafkaError],
        version: int,
    ) -> None:
        """Calls the leader until `then` says of the answer that it is not to be tried again."""

        def again() -> None:
            self.forget(partition)
            pause = self.random.randint(PAUSE_MS // 2, PAUSE_MS * 2)
            self.after(pause, lambda: self.ask_leader(partition, request, then, version))

        def answered(response: object | None) -> None:
            if response is None or then(response) in TRY_AGAIN:
                again()

        target = self.leader(partition)
        if target is None:
            again()
        else:
            self.call(target, request, answered, version)


@dataclass(slots=True)
class Sequence:
    """What an idempotent producer counts, per partition."""

    producer_id: int = -1
    epoch: int = -1
    next: int = 0


def produce_request(
    partition: TopicPartition, batch: bytes, transactional_id: str | None = None, acks: int = -1
) -> ProduceRequest:
    data = PartitionProduceData(partition.partition, batch)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=CALL_MS // 2,
        topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])],
    )


def produced(response: object) -> PartitionProduceResponse:
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]


def batch_of(
    records: list[KeyAndValue], sequence: Sequence, now_ms: int, *, transactional: bool = False
) -> bytes:
    return few_batch(
        records,
        now_ms,
        producer_id=sequence.producer_id,
        producer_epoch=sequence.epoch,
        base_sequence=sequence.next if sequence.producer_id >= 0 else -1,
        transactional=transactional,
    )
