"""A coordinator that has seen many groups come and go has no more to do than before."""

from __future__ import annotations

from sexton.base.partitions import TopicPartition
from sexton.machines.group_messages import Tick
from sexton.node.coordinators import CONSUMER_OFFSETS
from sexton.node.waking import Waking
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from sexton.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.unit.node.small_cluster import SmallCluster

AT = TopicPartition(CONSUMER_OFFSETS, 0)


def coordinator() -> SmallCluster:
    cluster = SmallCluster(1, offsets_topic_num_partitions=1)
    cluster.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    cluster.wait(5_000)
    return cluster


def come_and_go(cluster: SmallCluster, group: str, session_ms: int) -> None:
    """A member that waits for its round, and then leaves it."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest(group, session_ms, session_ms, "", None, "consumer", protocols)
    member_id = cluster.ask(request, 3).member_id
    cluster.ask(LeaveGroupRequest(group, members=[MemberIdentity(member_id)]), 4)


def test_ticks_do_not_become_more_with_every_round() -> None:
    cluster = coordinator()
    groups = cluster.broker(1).groups
    ticks: list[object] = []
    machine = groups.machines[AT]
    tell = groups.tell

    def counting(partition: TopicPartition, event: object) -> None:
        if isinstance(event, Tick):
            ticks.append(event)
        tell(partition, event)  # type: ignore[arg-type]

    groups.tell = counting  # type: ignore[method-assign]
    request = JoinGroupRequest("stays", 45_000, 1_800_000, "", None, "consumer")
    request.protocols = [JoinGroupRequestProtocol("range", b"")]
    cluster.ask(request, 3)  # its round goes on for half an hour: nobody brings the assignment
    for number in range(20):
        come_and_go(cluster, f"goes-{number}", 6_000)
    ticks.clear()
    cluster.wait(40_000)
    assert groups.machines[AT] is machine
    assert len(ticks) <= 2


def test_the_earliest_wish_counts_whichever_came_last() -> None:
    site = coordinator().broker(1).site
    heard: list[TopicPartition] = []
    began_ms, waking = site.clock_ms, Waking(site, heard.append)

    def pass_until(ms: int) -> None:
        site.outside.clock_ms = began_ms + ms
        while (action := site.outside.due()) is not None:
            action()

    for delay_ms in (100, 50, 70):
        waking.after(AT, delay_ms)
    pass_until(60)
    assert heard == [AT]
    pass_until(200)
    assert heard == [AT], "it has not asked again"
    waking.after(AT, 10)
    waking.forget(AT)
    pass_until(300)
    assert heard == [AT], "nor has its successor"
