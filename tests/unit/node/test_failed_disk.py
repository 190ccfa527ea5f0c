"""A broker whose disk does not keep what it was told to keep halts; nobody gets an answer.

A disk that is only full is none of these: what can be removed from it must still be removed.
"""

from __future__ import annotations

import errno
import uuid

import pytest

from sexton.base.partitions import TopicPartition
from sexton.log.cleaner_report import Cleaned, Tally, Waiting
from sexton.log.cleaner_swap import Prepared
from sexton.log.config import LogConfig
from sexton.log.disk import DiskFailed
from sexton.machines import controller as admin
from sexton.node.config import BrokerConfig
from sexton.node.messages import CleanNow, CleanNowAnswer
from sexton.node.outside import CONTROLLER
from sexton.node.replica import Replica
from sexton.node.replicas import _full_disk_waits
from sexton.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sexton.sim.clients import Sequence, batch_of, produce_request
from tests.unit.node.small_cluster import CLIENT, SmallCluster

PARTITION = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> SmallCluster:
    return with_topic(LogConfig(flush_messages=1))


def with_topic(config: LogConfig) -> SmallCluster:
    cluster = SmallCluster(1, config)
    create = admin.CreateTopic(None, "t", uuid.UUID(int=7).hex, -1, -1, ((1,),))
    cluster.world.send(CLIENT, CONTROLLER, create, lambda _: None, 1_000, 0)
    cluster.wait(5_000)
    return cluster


def answers_to_a_write(cluster: SmallCluster) -> list[object | None]:
    batch = batch_of([(b"k", b"v")], Sequence(), cluster.world.now_ms)
    return answers_to(cluster, produce_request(PARTITION, batch, None), 9)


def answers_to(cluster: SmallCluster, request: object, version: int = 0) -> list[object | None]:
    answers: list[object | None] = []
    cluster.world.send(CLIENT, 1, request, answers.append, 2_000, version)
    cluster.wait(500)
    return answers


def test_a_record_that_could_not_be_synced_is_not_answered(cluster: SmallCluster) -> None:
    assert answers_to_a_write(cluster)[0] is not None
    cluster.world.processes[1].disk.memory.syncs_fail = True
    assert [answer for answer in answers_to_a_write(cluster) if answer is not None] == []
    assert cluster.world.processes[1].node is None


def test_a_half_done_swap_ends_it(cluster: SmallCluster) -> None:
    def swap(_replica: Replica, _prepared: Prepared) -> bool:
        raise DiskFailed(errno.EIO, "input/output error")

    cleaning = cluster.broker(1).cleaning
    cleaning.swap = swap
    replica = cluster.broker(1).replicas.get(PARTITION)
    prepared = Prepared(replica.log, 0, Cleaned(0, Tally(), Waiting()))
    with pytest.raises(DiskFailed):
        cleaning._prepared(replica, prepared)


def test_a_full_disk_does_not_end_it_and_is_emptied_by_retention() -> None:
    cluster = with_topic(LogConfig(retention_ms=60_000, cleanup_policy="delete"))
    assert answers_to_a_write(cluster)[0] is not None
    disk = cluster.world.processes[1].disk.memory
    disk.room_bytes = 0
    cluster.wait(2 * BrokerConfig(1).log_retention_check_interval_ms)
    assert cluster.world.processes[1].node is not None
    disk.room_bytes = None
    cluster.wait(2 * BrokerConfig(1).log_retention_check_interval_ms)
    assert cluster.broker(1).replicas.get(PARTITION).log.log_start_offset == 1


@pytest.mark.parametrize("full", [1, 2], ids=["leader", "follower"])
def test_nor_does_who_deletes_records_to_make_room(full: int) -> None:
    cluster = SmallCluster(2)
    create = admin.CreateTopic(None, "t", uuid.UUID(int=7).hex, -1, -1, ((1, 2),))
    cluster.world.send(CLIENT, CONTROLLER, create, lambda _: None, 1_000, 0)
    cluster.wait(5_000)
    assert answers_to_a_write(cluster)[0] is not None
    cluster.wait(1_000)
    cluster.world.processes[full].disk.memory.room_bytes = 0
    wanted = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])
    answers_to(cluster, DeleteRecordsRequest([wanted], 5_000), 2)
    cluster.wait(5_000)
    for node in (1, 2):
        assert cluster.broker(node).replicas.get(PARTITION).log.log_start_offset == 1


def test_nor_does_who_asks_for_a_cleaning_of_it() -> None:
    """To free it, say. The active segment cannot be closed, and that is the answer."""
    cluster = with_topic(LogConfig(cleanup_policy="compact"))
    assert answers_to_a_write(cluster)[0] is not None
    disk = cluster.world.processes[1].disk.memory
    disk.room_bytes = 0
    (full,) = answers_to(cluster, CleanNow((PARTITION,)))
    assert isinstance(full, CleanNowAnswer)
    assert [at for at, _why in full.failed] == [PARTITION]
    disk.room_bytes, cluster.world.longest_job_ms = None, 100
    (free,) = answers_to(cluster, CleanNow((PARTITION,)))
    assert free == CleanNowAnswer(((PARTITION, 1),), ())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
def test_nor_does_a_quota_or_a_lack_of_descriptors(number: int) -> None:
    with _full_disk_waits():
        raise OSError(number, "no room")


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), DiskFailed(errno.ENOSPC, "full")])
def test_anything_else_does(error: OSError) -> None:
    with pytest.raises(OSError, match=error.strerror), _full_disk_waits():
        raise error
