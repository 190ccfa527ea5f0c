"""A broker's logs belong to one cluster, and go only when that cluster says so."""

from __future__ import annotations

import uuid

import pytest

from sexton.base.findings import Finding
from sexton.base.partitions import TopicPartition
from sexton.log.memory_disk import MemoryDisk
from sexton.machines import controller as admin
from sexton.node import owner
from sexton.node.outside import CONTROLLER, Halt
from sexton.node.owner import META, Owner
from sexton.sim.clients import Sequence, batch_of, produce_request, produced
from sexton.sim.fused_disk import FusedDisk
from tests.unit.node.small_cluster import CLUSTER_ID, SmallCluster

AT = TopicPartition("orders", 0)
OTHER_ID = "BBBBBBBBBBBBBBBBBBBBBQ"
SECOND_MS = 1_000


def create(cluster: SmallCluster) -> None:
    topic_id = uuid.uuid5(uuid.NAMESPACE_OID, cluster.image.cluster.cluster_id).hex
    create = admin.CreateTopic(None, AT.topic, topic_id, assignment=((1,),))
    cluster.tell(create, 5 * SECOND_MS)


def write(cluster: SmallCluster) -> bytes:
    """What is in the log afterwards."""
    batch = batch_of([(b"k", b"v")], Sequence(), cluster.world.now_ms)
    assert produced(cluster.ask(produce_request(AT, batch), 11)).error_code == 0
    return disk_of(cluster).read(f"{AT}/{0:020}.log")


def disk_of(cluster: SmallCluster, node: int = 1) -> FusedDisk:
    return cluster.world.processes[node].disk


def restart(cluster: SmallCluster, disk: FusedDisk | None = None) -> None:
    """The controller as well: it knows so little of the past then that it sends snapshots."""
    for node in (1, CONTROLLER):
        cluster.kill(node)
    if disk is not None:
        cluster.world.processes[1].disk = disk
    for node in (CONTROLLER, 1):
        cluster.world.start(node)
    cluster.wait(15 * SECOND_MS)


def strays(disk: FusedDisk) -> list[str]:
    return [name for name in disk.names(".") if name.endswith("-stray")]


@pytest.fixture
def cluster() -> SmallCluster:
    cluster = SmallCluster(1)
    create(cluster)
    write(cluster)
    return cluster


def test_a_broker_remembers_whose_logs_it_has(cluster: SmallCluster) -> None:
    assert owner.load(disk_of(cluster)) == Owner(CLUSTER_ID, 1)
    restart(cluster)
    assert cluster.broker(1).replicas.get(AT).log.end_offset == 1


def test_what_was_deleted_while_a_broker_was_away_goes_when_it_is_back(
    cluster: SmallCluster,
) -> None:
    cluster.kill(1)
    cluster.tell(admin.DeleteTopic(None, AT.topic), 5 * SECOND_MS)
    restart(cluster)
    disk = disk_of(cluster)
    assert not disk.names(str(AT)) and not strays(disk)


@pytest.mark.parametrize("recreated", [False, True])
def test_no_other_cluster_gets_its_logs(cluster: SmallCluster, recreated: bool) -> None:
    """Neither one that does not know the topic nor one that has another topic of that name."""
    content = write(cluster)
    other = SmallCluster(1, cluster_id=OTHER_ID)
    if recreated:
        create(other)
    disk = disk_of(cluster)
    with pytest.raises(Halt) as caught:
        restart(other, disk)
    assert caught.value.why == (
        f"holds the data of broker 1 of cluster {CLUSTER_ID}, "
        f"and this is broker 1 of cluster {OTHER_ID}"
    )
    assert disk.read(f"{AT}/{0:020}.log") == content


def test_no_other_broker_gets_its_logs() -> None:
    cluster = SmallCluster(2)
    create(cluster)
    content = write(cluster)
    cluster.kill(1)
    cluster.kill(2)
    disk = cluster.world.processes[2].disk = disk_of(cluster)
    cluster.world.start(2)
    with pytest.raises(Halt, match=r"the data of broker 1 of .*, and this is broker 2 of"):
        cluster.wait(15 * SECOND_MS)
    assert disk.read(f"{AT}/{0:020}.log") == content


@pytest.mark.parametrize("first_life", [True, False])
def test_a_controller_of_before_does_not_get_its_logs(
    cluster: SmallCluster, first_life: bool
) -> None:
    """An older copy of its directory was put back: it does not know the topic, and did."""
    content = write(cluster)
    disk = disk_of(cluster)
    before = SmallCluster(1)
    before.kill(1)
    if not first_life:
        before.kill(CONTROLLER)
        before.world.start(CONTROLLER)
    before.world.processes[1].disk = disk
    before.world.start(1)
    with pytest.raises(Halt, match=r"holds orders-0, and the controller is of before"):
        before.wait(15 * SECOND_MS)
    assert disk.read(f"{AT}/{0:020}.log") == content


@pytest.mark.parametrize("first_life", [True, False])
def test_where_nobody_wrote_it_down_what_is_unknown_is_set_aside(first_life: bool) -> None:
    """Of a new controller every record is known, from a later one comes a snapshot."""
    before = SmallCluster(1)
    create(before)
    content = write(before)
    disk = disk_of(before)
    disk.remove(META)
    cluster = SmallCluster(1, cluster_id=OTHER_ID)
    create(cluster)  # another topic of the same name
    cluster.kill(1)
    if not first_life:
        cluster.kill(CONTROLLER)
        cluster.world.start(CONTROLLER)
    cluster.world.processes[1].disk = disk
    cluster.world.start(1)
    findings: list[Finding] = []
    cluster.broker(1).registration.strays = findings.extend
    cluster.wait(15 * SECOND_MS)
    (stray,) = strays(disk)
    assert disk.read(f"{stray}/{0:020}.log") == content
    assert [(each.code, each.where) for each in findings] == [("stray-log", f"log/{stray}")]
    assert owner.load(disk) == Owner(OTHER_ID, 1)
    assert cluster.broker(1).replicas.get(AT).log.end_offset == 0
    write(cluster)


def test_a_home_of_before_keeps_all_that_is_its_own(cluster: SmallCluster) -> None:
    disk_of(cluster).remove(META)
    restart(cluster)
    assert not strays(disk_of(cluster))
    assert cluster.broker(1).replicas.get(AT).log.end_offset == 1
    assert owner.load(disk_of(cluster)) == Owner(CLUSTER_ID, 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#\n#Mon Jan 01\nnode.id=3\nversion=1\ncluster.id=abc\n", Owner("abc", 3)),
        ("broker.id = 7\ncluster.id = abc\nversion=0", Owner("abc", 7)),
        ("broker.id=7\nversion=0", None),
        ("", None),
        ("cluster.id=abc\nnode.id=x", Owner("abc", -1)),
    ],
)
def test_what_kafka_writes_is_understood(text: str, found: Owner | None) -> None:
    disk = MemoryDisk()
    disk.open(META).append(text.encode())
    assert owner.load(disk) == found


def test_records_whose_topic_nobody_can_read_any_more_are_set_aside(cluster: SmallCluster) -> None:
    content, disk = write(cluster), disk_of(cluster)
    cluster.kill(1)
    disk.remove(f"{AT}/partition.metadata")
    cluster.world.start(1)
    findings: list[Finding] = []
    cluster.broker(1).registration.strays = findings.extend
    cluster.wait(15 * SECOND_MS)
    (stray,) = strays(disk)
    assert disk.read(f"{stray}/{0:020}.log") == content
    assert [(each.code, each.where) for each in findings] == [("stray-log", f"log/{stray}")]
    assert cluster.broker(1).replicas.get(AT).log.end_offset == 0
