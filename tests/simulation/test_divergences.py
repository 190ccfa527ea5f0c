"""The four ways to diverge, each made to happen on whole brokers, is called by its name.

A follower has fetched the first record when it is cut off. The others go on, and clean until the
first witness is gone; then the follower is back. The letters are those of `sim.letters`.
"""

from __future__ import annotations

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.node.coordinators import TRANSACTION_STATE
from sexton.node.replica import Replica
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from sexton.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from sexton.records.few import KeyAndValue
from sexton.sim.checks import witnesses
from sexton.sim.clients import Client, Sequence, batch_of, produce_request, produced
from sexton.sim.letters import Record, script
from sexton.sim.network_faults import isolate
from sexton.sim.options import HOUR_MS, MINUTE_MS, Options
from sexton.sim.run import TOPIC, Run
from tests.simulation.planted.trials import Collecting

ORDERS = TopicPartition(TOPIC, 0)
COORDINATOR = TopicPartition(TRANSACTION_STATE, 0)
PASSES = 10  # more than it takes to remove data, give a marker its horizon, and remove it
WITNESS = 1  # the offset at which each log has its first tombstone or marker
VARIANTS = {
    "deleted-key-lives": "v k; t k; v z",
    "aborted-as-committed": "V k p1; A p1; V j p1; C p1",
    "committed-as-aborted": "V k p1; C p1; v k; V j p1; A p1",
    "stuck": "V k p1; C p1; v k; v z",
}
# A producer's last batch stays, and so does its marker, until the producer has expired.
EXPIRED = ("stuck",)


class Scripted(Client):
    """Does one thing after the other, and waits for each."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.world, run.checks, run.result.traffic, 1, "scripted")
        self._producers: dict[str, Sequence] = {}

    def ask(self, partition: TopicPartition, request: object, version: int) -> object:
        answers: list[object] = []

        def then(response: object) -> KafkaError:
            error = _error(response)
            answers.extend([response] if error is KafkaError.NONE else [])
            return error

        self.ask_leader(partition, request, then, version)
        while not answers:
            self.world.run_until(self.world.now_ms + 100)
        return answers[0]

    def write(self, record: Record) -> None:
        match record.kind:
            case "v" | "t":
                self._write(record.key, None if record.kind == "t" else b"plain")
            case "V":
                self._join(record.producer)
                self._write(record.key, b"in a transaction", record.producer)
            case _:
                self._end(record.producer, commit=record.kind == "C")

    def _write(self, key: str, value: bytes | None, name: str = "") -> None:
        """Idempotent, with or without a transaction: a call that timed out is sent again."""
        producer = self._producer(name)
        records: list[KeyAndValue] = [(key.encode(), value)]
        batch = batch_of(records, producer, self.world.now_ms, transactional=bool(name))
        self.ask(ORDERS, produce_request(ORDERS, batch, name or None), 11)
        producer.next += 1

    def _producer(self, name: str) -> Sequence:
        if name not in self._producers:
            request = InitProducerIdRequest(name or None, transaction_timeout_ms=15 * MINUTE_MS)
            answer = self.ask(COORDINATOR, request, 5)
            assert isinstance(answer, InitProducerIdResponse)
            self._producers[name] = Sequence(answer.producer_id, answer.producer_epoch)
        return self._producers[name]

    def _join(self, name: str) -> None:
        producer = self._producer(name)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(ORDERS.topic, [ORDERS.partition])],
        )
        self.ask(COORDINATOR, request, 3)

    def _end(self, name: str, *, commit: bool) -> None:
        producer = self._producers[name]
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        self.ask(COORDINATOR, request, 3)
        self.world.run_until(self.world.now_ms + MINUTE_MS)  # until its marker is written


def _error(response: object) -> KafkaError:
    if isinstance(response, AddPartitionsToTxnResponse):
        results = response.results_by_topic_v3_and_below[0].results_by_partition
        return KafkaError(results[0].partition_error_code)
    if isinstance(response, EndTxnResponse | InitProducerIdResponse):
        return KafkaError(response.error_code)
    return KafkaError(produced(response).error_code)


class Scene(Run):
    """A small cluster in which every batch is a segment, and witnesses may go after a minute."""

    def __init__(self, policy: str) -> None:
        super().__init__(
            Options(1, policy=policy, brokers=3, segment_bytes=100, dirty_ratio=0.0, stretch=5)
        )
        self.checks = self.found = Collecting(
            self.world, policy == "coordinated", self.checks._watched
        )
        self.stage.checks = self.checks

    def _hire(self) -> None:
        self.client = Scripted(self)
        lowered = (("delete.retention.ms", str(MINUTE_MS)),)
        self.stage.order(admin.AlterConfigs(None, "topic", TOPIC, lowered))

    def pass_time(self, minutes: int) -> None:
        for _ in range(minutes * 4):
            self.world.run_until(self.world.now_ms + MINUTE_MS // 4)
            self.checks.look_at_all()

    def replica(self, node: int) -> Replica:
        broker = self.world.processes[node].broker
        assert broker is not None
        return broker.replicas.by_partition[ORDERS]

    def play(self, variant: str) -> bool:
        """True if the witness was gone when the follower came back."""
        self._build()
        record = self.stage.record(ORDERS)
        assert record is not None
        others = (record.leader, self.stage.leader(COORDINATOR))
        follower = next(node for node in record.replicas if node not in others)
        first, *rest = script(VARIANTS[variant])
        self.client.write(first)
        self.pass_time(1)
        assert self.replica(follower).log.end_offset == WITNESS
        mend = isolate(self.stage, follower)
        for each in rest:
            self.client.write(each)
        if variant in EXPIRED:
            for node in self.world.brokers:
                node.ahead_ms += (node.address != follower) * 25 * HOUR_MS
        for _ in range(PASSES):
            self.client.write(Record(0, "v", "filler", ""))
            self.pass_time(2)
        log = self.replica(record.leader).log
        gone = WITNESS not in [offset for _, offset, _ in witnesses(log)]
        mend()
        self.pass_time(10)
        self.checks.healed()
        return gone


@pytest.mark.parametrize("variant", VARIANTS)
def test_as_kafka_cleans_each_divergence_is_found_and_named(variant: str) -> None:
    scene = Scene("independent")
    assert scene.play(variant)
    assert {violation.kind for violation in scene.found.found} == {variant}


@pytest.mark.parametrize("variant", VARIANTS)
def test_coordinated_the_same_story_ends_well(variant: str) -> None:
    scene = Scene("coordinated")
    assert not scene.play(variant)
    assert scene.found.found == []
