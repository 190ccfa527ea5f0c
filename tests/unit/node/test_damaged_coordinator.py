"""A coordinator whose log is damaged knows nothing rather than half, and tries again."""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node.coordinators import RETRY_LOAD_MS, TRANSACTION_STATE
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.unit.node.small_cluster import SmallCluster

ID = "writer"
INSIDE_THE_RECORD = 75  # of the first batch


def init(cluster: SmallCluster) -> tuple[KafkaError, int]:
    answer = cluster.ask(InitProducerIdRequest(ID, 60_000), 4)
    return KafkaError(answer.error_code), answer.producer_epoch


def test_what_is_damaged_is_not_loaded_and_what_is_mended_is() -> None:
    cluster = SmallCluster(1, transaction_state_log_num_partitions=1)
    cluster.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]), 4)
    cluster.wait(5_000)
    assert init(cluster) == (KafkaError.NONE, 0)
    path = f"{TopicPartition(TRANSACTION_STATE, 0)}/{0:020}.log"
    process = cluster.world.processes[1]
    cluster.kill(1)
    cluster.world.start(1)  # which reads the log, and would cut it where it is damaged
    broker = cluster.broker(1)
    process.disk.memory.flip(path, INSIDE_THE_RECORD)
    cluster.wait(10_000)
    assert cluster.broker(1) is broker, "it goes on"
    assert init(cluster)[0] in (
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    )
    process.disk.memory.flip(path, INSIDE_THE_RECORD)
    cluster.wait(RETRY_LOAD_MS)
    assert init(cluster) == (KafkaError.NONE, 1), "it knows the epoch before"
