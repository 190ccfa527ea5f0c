"""A leader that died with records nobody else had cuts them when it is back, whoever leads then."""

from __future__ import annotations

import uuid

from sexton.base.partitions import TopicPartition
from sexton.log.partition import PartitionLog
from sexton.machines import controller as admin
from sexton.sim.clients import Sequence, batch_of, produce_request, produced
from tests.unit.node.small_cluster import SmallCluster, last_values

AT = TopicPartition("t", 0)
SECOND_MS = 1_000
COMPACTED = (("cleanup.policy", "compact"),)


def write(cluster: SmallCluster, node: int, *keys: bytes) -> None:
    for key in keys:
        batch = batch_of([(key, b"committed")], Sequence(), cluster.world.now_ms)
        assert produced(cluster.ask(produce_request(AT, batch), 11, node)).error_code == 0


def log_of(cluster: SmallCluster, node: int) -> PartitionLog:
    return cluster.broker(node).replicas.get(AT).log


def test_also_one_that_has_copied_a_log_from_which_the_next_term_was_cleaned() -> None:
    cluster = SmallCluster()
    topic_id = uuid.UUID(int=7).hex
    create = admin.CreateTopic(None, "t", topic_id, assignment=((1, 2),), configs=COMPACTED)
    cluster.tell(create, 15 * SECOND_MS)
    keys = [b"a%d" % number for number in range(20)]
    write(cluster, 1, *keys)
    cluster.wait(5 * SECOND_MS)
    first = cluster.broker(1).replicas.get(AT)
    for key in keys:  # with acks=1, and nobody has fetched them when it dies
        batch = batch_of([(key, b"never committed")], Sequence(), cluster.world.now_ms)
        first.log.append_as_leader(batch, first.leader_epoch, cluster.world.now_ms)
    cluster.kill(1)
    write(cluster, 2, *[b"hot"] * 50, b"z")
    second = log_of(cluster, 2)
    second.roll(cluster.world.now_ms)
    write(cluster, 2, b"q")
    cluster.wait(60 * SECOND_MS)  # a pass takes the first 49 records of its term
    left = [header.base_offset for _segment, _position, header in second.batches(20)]
    assert left == [69, 70, 71]
    terms = second.epochs.entries
    cluster.tell(admin.Reassign(None, "t", 0, (3, 2, 1)), 15 * SECOND_MS)
    assert log_of(cluster, 3).epochs.entries[: len(terms)] == terms
    cluster.kill(2)
    cluster.world.start(1)
    cluster.wait(60 * SECOND_MS)
    assert (cluster.image.partitions[AT].leader, cluster.image.partitions[AT].isr) == (3, (3, 1))
    back, third = log_of(cluster, 1), log_of(cluster, 3)
    assert back.end_offset == third.end_offset
    assert last_values(back) == last_values(third)
    assert set(last_values(back).values()) == {b"committed"}
