"""Records may be deleted up to any offset, also to one within a batch."""

from __future__ import annotations

import uuid

import pytest

from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sexton.sim.clients import Sequence, batch_of, produce_request, produced
from tests.unit.node.small_cluster import SmallCluster

AT = TopicPartition("t", 0)
SECOND_MS = 1_000


def write(cluster: SmallCluster) -> None:
    """One batch of ten records."""
    records: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v")] * 10
    batch = batch_of(records, Sequence(), cluster.world.now_ms)
    assert produced(cluster.ask(produce_request(AT, batch), 11)).error_code == 0


@pytest.mark.parametrize("policy", ["coordinated", "independent"])
def test_a_new_replica_begins_with_the_batch_in_which_the_log_starts(policy: str) -> None:
    cluster = SmallCluster()
    topic_id, options = uuid.UUID(int=7).hex, (("compaction.policy", policy),)
    create = admin.CreateTopic(None, "t", topic_id, assignment=((1,),), configs=options)
    cluster.tell(create, 5 * SECOND_MS)
    for _ in range(3):
        write(cluster)
    wanted = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 15)])
    answer = cluster.ask(DeleteRecordsRequest([wanted], 10 * SECOND_MS), 2)
    assert answer.topics[0].partitions[0].low_watermark == 15
    cluster.tell(admin.Reassign(None, "t", 0, (1, 2)), 5 * SECOND_MS)
    cluster.wait(15 * SECOND_MS)
    assert cluster.image.partitions[AT].isr == (1, 2)
    log, leaders = (cluster.broker(node).replicas.get(AT).log for node in (2, 1))
    assert (log.log_start_offset, log.end_offset) == (15, 30)
    found, wanted_piece = log.read(15, 10_000).slice, leaders.read(15, 10_000).slice
    assert found is not None and wanted_piece is not None
    assert found.read() == wanted_piece.read()
    cluster.broker(2).check()
