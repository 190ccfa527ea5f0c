"""A request whose time is up: what is settled is told, and only the rest has timed out."""

from __future__ import annotations

import uuid

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.node.outside import CONTROLLER
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from sexton.records.few import few_batch
from tests.unit.node.small_cluster import CLIENT, SmallCluster

TOPIC = "t"
VERSION = 9
REPLICATED, PENDING, REFUSED = 0, 1, 2
TOO_LARGE = b"v" * (1 << 21)


def cluster_with_a_slow_follower() -> SmallCluster:
    """The third broker is alive and in the ISR of partition 1, and fetches nothing."""
    cluster = SmallCluster(3)
    create = admin.CreateTopic(
        None, TOPIC, uuid.UUID(int=7).hex, -1, -1, ((1, 2), (1, 3), (1, 2))
    )  # fmt: skip
    cluster.world.send(-101, CONTROLLER, create, lambda _: None, 1_000, 0)
    cluster.wait(5_000)
    produce(cluster, {REPLICATED: b"v", PENDING: b"v"})
    cluster.world.network.cut(1, 3)
    cluster.world.network.cut(3, 1)
    return cluster


def produce(cluster: SmallCluster, values: dict[int, bytes]) -> dict[int, PartitionProduceResponse]:
    (topic,) = cluster.ask(request_for(cluster, values), VERSION).responses
    return {each.index: each for each in topic.partition_responses}


def request_for(cluster: SmallCluster, values: dict[int, bytes]) -> ProduceRequest:
    data = [
        PartitionProduceData(number, few_batch([(b"k", value)], cluster.world.now_ms))
        for number, value in values.items()
    ]
    return ProduceRequest(None, -1, 2_000, [TopicProduceData(TOPIC, partition_data=data)])


def test_only_what_is_not_settled_has_timed_out() -> None:
    cluster = cluster_with_a_slow_follower()
    told = produce(cluster, {REPLICATED: b"v", PENDING: b"v", REFUSED: TOO_LARGE})
    assert {number: KafkaError(each.error_code) for number, each in told.items()} == {
        REPLICATED: KafkaError.NONE,
        PENDING: KafkaError.REQUEST_TIMED_OUT,
        REFUSED: KafkaError.MESSAGE_TOO_LARGE,
    }
    assert told[REPLICATED].base_offset == 1 and told[REPLICATED].log_start_offset == 0
    for number in (PENDING, REFUSED):
        assert told[number].base_offset == told[number].log_append_time_ms == -1
        assert told[number].log_start_offset == -1
    assert told[REFUSED].error_message and not told[PENDING].error_message


def test_an_answer_that_was_given_does_not_change() -> None:
    """It may not be on the network yet when the batch is replicated after all."""
    cluster = cluster_with_a_slow_follower()
    answers: list[object] = []
    request = request_for(cluster, {PENDING: b"v"})
    cluster.world.send(CLIENT, 1, request, answers.append, 60_000, VERSION)
    while not answers:
        cluster.wait(100)
    cluster.world.network.heal()
    log = cluster.broker(1).replicas.get(TopicPartition(TOPIC, PENDING)).log
    while log.high_watermark < 2:
        cluster.wait(1_000)
    (answer,) = answers
    assert isinstance(answer, ProduceResponse)
    (result,) = answer.responses[0].partition_responses
    assert (result.error_code, result.base_offset) == (KafkaError.REQUEST_TIMED_OUT, -1)
