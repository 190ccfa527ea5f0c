"""A broker that is about to be stopped; who has to know before it may be, and what it registers."""

from __future__ import annotations

import uuid

import pytest

from sexton.base.partitions import TopicPartition
from sexton.log.config import LogConfig
from sexton.log.names import METADATA
from sexton.machines import controller as admin
from sexton.node.messages import CleanNow, LeaveCluster, LeaveClusterAnswer
from sexton.node.outside import CONTROLLER, Halt
from sexton.sim.clients import Sequence, batch_of, produce_request, produced
from tests.unit.node.small_cluster import CLIENT, SmallCluster

AT = TopicPartition("t", 0)
SECOND_MS = 1_000


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(3, LogConfig(cleanup_policy="compact"))
    create = admin.CreateTopic(None, AT.topic, uuid.UUID(int=7).hex, assignment=((1, 2, 3),))
    cluster.world.send(CLIENT, CONTROLLER, create, lambda _: None, SECOND_MS, 0)
    cluster.wait(5 * SECOND_MS)
    assert cluster.image.partitions[AT].leader == 1
    return cluster


def leave(cluster: SmallCluster, node: int) -> list[object]:
    """What it answers, as soon as it does."""
    answers: list[object] = []
    cluster.world.send(node, node, LeaveCluster(), answers.append, 600 * SECOND_MS, 0)
    return answers


def test_it_may_stop_when_everybody_knows_who_leads_in_its_place(cluster: SmallCluster) -> None:
    answers = leave(cluster, 1)
    while not answers:
        cluster.wait(1)
    assert answers == [LeaveClusterAnswer()]
    for node in (1, 2, 3):
        record = cluster.broker(node).site.image.partitions[AT]
        assert (record.leader, record.isr) == (2, (2, 3))
    assert cluster.image.brokers[1].fenced


def test_whoever_does_not_know_yet_is_waited_for(cluster: SmallCluster) -> None:
    """The control of the test above: without the wait this would be answered at once."""
    cluster.world.pause(3)
    answers = leave(cluster, 1)
    cluster.wait(5 * SECOND_MS)
    assert not answers
    assert cluster.image.partitions[AT].leader == 2, "but clients need not wait"
    cluster.wait(10 * SECOND_MS)  # until the session of broker 3 is over
    assert answers == [LeaveClusterAnswer()]


def test_all_who_ask_are_answered_and_then_it_is_silent(cluster: SmallCluster) -> None:
    first, second = leave(cluster, 1), leave(cluster, 1)
    cluster.wait(5 * SECOND_MS)
    assert first == second == [LeaveClusterAnswer()]
    late = leave(cluster, 1)
    cluster.wait(SECOND_MS)
    assert late == [LeaveClusterAnswer()]
    assert 1 not in cluster.controller.brokers.parked, "it sends no more heartbeats"


def test_it_comes_back_as_if_it_had_been_stopped_before(cluster: SmallCluster) -> None:
    leave(cluster, 1)
    cluster.wait(5 * SECOND_MS)
    cluster.world.stop(1)
    cluster.world.start(1)
    cluster.wait(15 * SECOND_MS)
    assert cluster.image.active(1)
    record = cluster.image.partitions[AT]
    assert (record.leader, set(record.isr)) == (2, {1, 2, 3})


def test_a_leader_tells_its_high_watermark_anew_in_each_term(cluster: SmallCluster) -> None:
    """The controller begins at zero after a loss; the leader has told it once, in another term."""
    batch = batch_of([(b"k", b"v")], Sequence(), cluster.world.now_ms)
    assert produced(cluster.ask(produce_request(AT, batch), 11)).error_code == 0
    cluster.wait(10 * SECOND_MS)
    assert cluster.controller.ledger.known(AT).high_watermark == 1
    cluster.world.pause(1)
    cluster.wait(15 * SECOND_MS)  # until 2 leads in its place
    cluster.kill(3)
    cluster.kill(2)
    cluster.world.resume(1)
    cluster.wait(15 * SECOND_MS)
    elect = admin.Elect(None, *AT, unclean=True)
    cluster.world.send(CLIENT, CONTROLLER, elect, lambda _: None, SECOND_MS, 0)
    cluster.wait(10 * SECOND_MS)
    record = cluster.controller.ledger.known(AT)
    assert (record.leader, record.lost_in) == (1, record.leader_epoch)
    assert record.high_watermark == 1


def test_a_broker_that_cannot_follow_the_controller_does_not_go_on_as_before(
    cluster: SmallCluster,
) -> None:
    """It would never be heard of again, and lead on in its own eyes."""
    path = f"{AT}/{METADATA}"
    disk = cluster.world.processes[1].disk
    disk.memory.flip(path, len(disk.read(path)) - 1, 7)
    with pytest.raises(Halt, match=r"to where the controller wants it: .*partition.metadata"):
        cluster.kill(3)  # broker 1 is told of another ISR


def test_what_it_has_cleaned_as_a_leader_is_registered(cluster: SmallCluster) -> None:
    """Or the last one in sync that has to register again would be taken for an old disk."""
    produce = produce_request(AT, batch_of([(b"k", b"v")], Sequence(), cluster.world.now_ms), None)
    cluster.world.longest_job_ms = 100
    for request, version in ((produce, 9), (CleanNow((AT,)), 0)):
        cluster.world.send(CLIENT, 1, request, lambda _: None, SECOND_MS, version)
        cluster.wait(2 * SECOND_MS)
    (found,) = cluster.broker(1).replicas.found()
    assert (found.log_end, found.mcco, found.mxfo) == (1, 1, 1)
