"""A topic's `compaction.policy` changes while replicas come and go: what each may rely on."""

from __future__ import annotations

import uuid

from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.node.replica import Replica
from sexton.records.control import ControlType, marker_batch
from sexton.records.few import few_batch
from sexton.sim.clients import Sequence, batch_of, produce_request, produced
from tests.unit.node.small_cluster import SmallCluster, last_values

AT = TopicPartition("t", 0)
SECOND_MS = 1_000
EAGER = {
    "cleanup.policy": "compact", "delete.retention.ms": "1000", "min.cleanable.dirty.ratio": "0",
}  # fmt: skip


def cluster_of(policy: str) -> SmallCluster:
    cluster = SmallCluster()
    options = tuple((EAGER | {"compaction.policy": policy}).items())
    topic_id = uuid.UUID(int=7).hex
    create = admin.CreateTopic(None, "t", topic_id, assignment=((1, 2, 3),), configs=options)
    cluster.tell(create, 15 * SECOND_MS)
    return cluster


def switch(cluster: SmallCluster, policy: str, wait_ms: int = 15 * SECOND_MS) -> None:
    change = admin.AlterConfigs(None, "topic", "t", (("compaction.policy", policy),))
    cluster.tell(change, wait_ms)


def write(cluster: SmallCluster, *records: tuple[bytes, bytes | None]) -> None:
    for record in records:
        batch = batch_of([record], Sequence(), cluster.world.now_ms)
        assert produced(cluster.ask(produce_request(AT, batch), 11)).error_code == 0


def replica(cluster: SmallCluster, node: int) -> Replica:
    return cluster.broker(node).replicas.get(AT)


def clean(cluster: SmallCluster, *nodes: int) -> None:
    """Everything so far is in closed segments, and time passes; twice, for horizons."""
    for number in range(3):
        for node in nodes:
            replica(cluster, node).log.roll(cluster.world.now_ms)
        write(cluster, (b"x%d" % number, b"1"))
        cluster.wait(120 * SECOND_MS)


def is_being_cleaned(found: Replica) -> bool:
    return found.log.being_cleaned


def test_who_was_away_while_each_cleaned_as_it_liked_starts_over() -> None:
    """It would bring back what was deleted, and the others would call it clean."""
    cluster = cluster_of("independent")
    write(cluster, (b"k", b"v"), (b"a", b"1"))
    cluster.wait(5 * SECOND_MS)
    cluster.kill(3)
    write(cluster, (b"k", None), (b"z", b"1"))
    clean(cluster, 1, 2)
    offsets = [header.base_offset for _segment, _at, header in replica(cluster, 1).log.batches(0)]
    assert 2 not in offsets  # the tombstone is gone
    before = cluster.image.partitions[AT].assignments
    switch(cluster, "coordinated")
    after = cluster.image.partitions[AT].assignments
    assert after[:2] == before[:2] and after[2] > max(before)
    cluster.world.start(3)
    cluster.wait(60 * SECOND_MS)
    assert set(cluster.image.partitions[AT].isr) == {1, 2, 3}
    clean(cluster, 1, 2, 3)
    for node in (1, 2, 3):
        assert last_values(replica(cluster, node).log).get(b"k") is None
        assert replica(cluster, node).progress.mcco > 0


def test_a_replica_that_nobody_kept_account_of_may_lead_after_a_restart() -> None:
    cluster = cluster_of("coordinated")
    write(cluster, (b"k", b"v"), (b"k", b"w"))
    clean(cluster, 1, 2, 3)
    assert cluster.image.partitions[AT].mtro > 0
    switch(cluster, "independent")
    cluster.tell(admin.Reassign(None, "t", 0, (1, 2)), 15 * SECOND_MS)
    cluster.tell(admin.Reassign(None, "t", 0, (1, 2, 3)), 60 * SECOND_MS)
    assert set(cluster.image.partitions[AT].isr) == {1, 2, 3}
    assert replica(cluster, 3).progress.mcco == 0
    for node in (1, 2, 3):
        cluster.world.stop(node)
    cluster.wait(60 * SECOND_MS)
    for node in (1, 2, 3):  # the last one to register is the only one that stays in the ISR
        cluster.world.start(node)
        cluster.wait(100)
    cluster.wait(60 * SECOND_MS)
    record = cluster.image.partitions[AT]
    assert record.leader > 0 and set(record.isr) == {1, 2, 3} and record.lost_in < 0


def test_a_pass_by_the_policy_before_is_in_vain() -> None:
    """It would claim to have seen to it that no data waits for a marker, and has not."""
    cluster = cluster_of("independent")
    cluster.world.longest_job_ms = 60 * SECOND_MS
    leader, now_ms = replica(cluster, 1), cluster.world.now_ms
    producer = {"producer_id": 7, "producer_epoch": 0}
    leader.append(few_batch([(b"k", b"v")], now_ms, **producer, transactional=True), client=False)
    commit = marker_batch(ControlType.COMMIT, **producer, coordinator_epoch=0, timestamp=now_ms)
    leader.append(commit, client=False)
    cluster.wait(5 * SECOND_MS)
    leader.log.roll(cluster.world.now_ms)
    write(cluster, (b"z", b"1"))
    while not is_being_cleaned(leader):
        cluster.wait(500)
    switch(cluster, "coordinated", 500)
    assert is_being_cleaned(leader) and leader.coordinated
    while is_being_cleaned(leader):
        cluster.wait(500)
    (first, *_others) = [header for _segment, _at, header in leader.log.batches(0)]
    assert first.is_transactional and leader.progress.mxfo == 0
    cluster.wait(3600 * SECOND_MS)
    (first, *_others) = [header for _segment, _at, header in leader.log.batches(0)]
    assert not first.is_transactional and leader.progress.mxfo > 0
