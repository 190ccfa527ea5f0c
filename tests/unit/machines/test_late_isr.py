"""A proposal of an ISR that was refused is refused for good, however late another copy comes."""

from __future__ import annotations

from dataclasses import replace

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines.controller import Controller, ControllerConfig
from sexton.machines.controller_events import (
    AlterIsr,
    Answer,
    CreateTopic,
    Event,
    Failed,
    Heartbeat,
    RegisterBroker,
    Tick,
)
from sexton.machines.metadata import PartitionRecord
from sexton.machines.replication import AlterIsr as Wanted
from sexton.machines.replication import Leader, Membership


class Two:
    """A controller, and two brokers that it hears or does not hear."""

    def __init__(self) -> None:
        self.controller = Controller.load([], 0, ControllerConfig())
        self.now_ms = 0
        for node in (1, 2):
            self.do(RegisterBroker(None, node, f"life of {node}", ()))
        for _ in range(2):
            self.hear(1, 2)
        self.do(CreateTopic(None, "t", "1" * 32, assignment=((1, 2),)))

    @property
    def record(self) -> PartitionRecord:
        return self.controller.image.partitions[TopicPartition("t", 0)]

    def do(self, event: Event) -> list[object]:
        """What the leader of the partition is answered."""
        self.now_ms += 1
        effects = self.controller.handle(event, self.now_ms)
        answers = [each for each in effects if isinstance(each, Answer)]
        return [each.answer for each in answers if each.caller == "leader"]

    def hear(self, *nodes: int) -> None:
        for node in nodes:
            epoch, end = self.epoch_of(node), self.controller.ledger.end
            self.do(Heartbeat(None, node, epoch, end, (), False))

    def epoch_of(self, node: int) -> int:
        return self.controller.image.brokers[node].broker_epoch

    def asked(self, wanted: Wanted) -> AlterIsr:
        return AlterIsr(
            "leader", 1, self.epoch_of(1), "t", 0, wanted.leader_epoch, wanted.partition_epoch,
            wanted.isr, wanted.broker_epochs,
        )  # fmt: skip

    def let_time_pass(self, ms: int) -> None:
        """Broker 2 is not heard meanwhile."""
        until = self.now_ms + ms
        while self.now_ms < until:
            self.now_ms += 100
            self.do(Tick())
            self.hear(1)


def test_whoever_the_leader_does_not_wait_for_any_more_is_not_let_in() -> None:
    two = Two()
    shrunk = Wanted(two.record.leader_epoch, two.record.partition_epoch, (1,), (two.epoch_of(1),))
    two.do(two.asked(shrunk))
    assert two.record.isr == (1,)
    record = two.record
    membership = Membership(
        record.leader_epoch, record.partition_epoch, record.replicas, record.isr
    )
    leader = Leader(1, membership, log_end=50, high_watermark=50, started_ms=0)
    (wanted,) = leader.fetched(2, 50, two.now_ms, two.epoch_of(2))
    assert isinstance(wanted, Wanted)
    leader.appended(60)
    assert leader.high_watermark == 50
    # The request is held up on its way. Broker 2 is fenced, and the leader asks again.
    first_copy = two.asked(wanted)
    two.let_time_pass(two.controller.ledger.config.broker_session_timeout_ms + 200)
    assert not two.controller.image.active(2)
    (answer,) = two.do(replace(first_copy, again=True))
    assert isinstance(answer, Failed) and answer.error == KafkaError.INELIGIBLE_REPLICA
    leader.refused(wanted)
    assert leader.high_watermark == 60
    two.hear(2, 2)
    assert two.controller.image.active(2)
    (answer,) = two.do(first_copy)
    assert isinstance(answer, Failed) and answer.error == KafkaError.INVALID_UPDATE_VERSION
    assert two.record.isr == (1,)


def test_a_fetch_of_an_earlier_life_does_not_count() -> None:
    """With the power its log may have lost what it had then."""
    leader = Leader(1, Membership(0, 0, (1, 2), (1, 2)), 100, 0, 0)
    leader.fetched(2, 80, 10, broker_epoch=5)
    assert leader.high_watermark == 80
    assert leader.fetched(2, 100, 20, broker_epoch=4) == []
    assert leader.high_watermark == 80
    leader.fetched(2, 100, 30, broker_epoch=5)
    assert leader.high_watermark == 100
