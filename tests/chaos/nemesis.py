"""Whatever can go wrong with a cluster of which most brokers are well at any time.

One seed decides what happens and in which order; when it happens, the clients are somewhere else in
every run. No more than one broker is disturbed at a time, so with two in-sync replicas no write
that was acknowledged may be lost. The pauses in here are what happens to the cluster; nobody relies
on their length.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from random import Random

from sexton.testing.cluster import PartitionState
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import TimedOut
from tests.chaos.history import History
from tests.chaos.workloads import COPY, LEDGER, PARTITIONS, STATE

Fault = Callable[[EmbeddedCluster, Random], str]
TOPICS = (LEDGER, STATE, COPY)
TRANSACTIONS = "__transaction_state"


def disturb(cluster: EmbeddedCluster, history: History, seed: int, seconds: float) -> None:
    """Faults as the seed has them, for so long."""
    random = Random(f"{seed} nemesis")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _strike(cluster, history, random, random.choice(FAULTS))
        time.sleep(random.uniform(0.1, 0.6))


def follow(cluster: EmbeddedCluster, history: History, plan: tuple[Fault, ...]) -> None:
    """These faults, one after another."""
    random = Random("a plan")
    for fault in plan:
        _strike(cluster, history, random, fault)
        time.sleep(0.5)


def _strike(cluster: EmbeddedCluster, history: History, random: Random, fault: Fault) -> None:
    began = time.monotonic()
    what = fault(cluster, random)
    history.faults.append(f"{what} ({time.monotonic() - began:.1f} s)")


# ── what happens to one broker ──


def kill(cluster: EmbeddedCluster, random: Random) -> str:
    node = random.choice(cluster.node_ids)
    cluster.kill(node)
    time.sleep(random.uniform(0.0, 2.0))
    cluster.restart(node)
    all_in_sync(cluster)
    return f"broker {node} killed"


def pause(cluster: EmbeddedCluster, random: Random) -> str:
    node = random.choice(cluster.node_ids)
    cluster.pause(node)
    time.sleep(random.uniform(0.1, 2.0))
    cluster.resume(node)
    all_in_sync(cluster)
    return f"broker {node} paused"


def isolate(cluster: EmbeddedCluster, random: Random) -> str:
    node = random.choice(cluster.node_ids)
    cluster.isolate(node)
    time.sleep(random.uniform(0.1, 2.0))
    cluster.heal()
    all_in_sync(cluster)
    return f"broker {node} isolated"


def busy_leader_dies(cluster: EmbeddedCluster, random: Random) -> str:
    """Its followers are behind by what it was sent in the last moments."""
    return _slow_then_dead(cluster, cluster.leader_of(LEDGER, random.randrange(PARTITIONS)))


def coordinator_dies(cluster: EmbeddedCluster, random: Random) -> str:
    """Markers that it has decided on are still under way."""
    return _slow_then_dead(cluster, cluster.leader_of(TRANSACTIONS, 0))


def _slow_then_dead(cluster: EmbeddedCluster, node: int) -> str:
    all_in_sync(cluster)
    cluster.slow_down(node)
    time.sleep(1.2)
    cluster.kill(node)

    def done_without(state: PartitionState) -> bool:
        alone = state.isr == (node,)  # all others were too slow: nobody else may lead
        return alone or state.leader not in (-1, node)

    for topic in TOPICS:
        for partition in range(PARTITIONS):
            cluster.wait_for(topic, partition, done_without)
    cluster.heal()
    cluster.restart(node)
    all_in_sync(cluster)
    return f"broker {node} slow, then killed"


def hasty_return(cluster: EmbeddedCluster, random: Random) -> str:
    """A broker comes back, is slow to copy what it has missed, and leads as soon as it may."""
    node = random.choice(_replicas(cluster, LEDGER, 0))
    cluster.kill(node)
    for partition in range(PARTITIONS):
        cluster.wait_for(LEDGER, partition, lambda state: node not in state.isr)
    _written(cluster, LEDGER, 100)
    cluster.slow_down(node)
    cluster.restart(node)
    try:
        cluster.wait_until_in_sync(LEDGER, 0, node, timeout_s=2.5)
    except TimedOut:
        cluster.heal()  # it cannot catch up with the others
    _elect_everywhere(cluster, LEDGER, node)
    cluster.heal()
    all_in_sync(cluster)
    return f"broker {node} back and elected"


# ── what happens to replicas ──


def elect(cluster: EmbeddedCluster, random: Random) -> str:
    topic, partition = random.choice(TOPICS), random.randrange(PARTITIONS)
    node = random.choice(_replicas(cluster, topic, partition))
    cluster.elect(topic, partition, node)
    return f"broker {node} elected for {topic}-{partition}"


def elect_coordinator(cluster: EmbeddedCluster, random: Random) -> str:
    topic = random.choice((TRANSACTIONS, "__consumer_offsets"))
    if topic not in cluster.topics():
        return f"no {topic} yet"
    node = random.choice(_replicas(cluster, topic, 0))
    cluster.elect(topic, 0, node)
    return f"broker {node} elected for {topic}"


def reassign(cluster: EmbeddedCluster, random: Random) -> str:
    """A replica moves to a broker that has none, and back to a disk that it once left."""
    topic, partition = random.choice(TOPICS), random.randrange(PARTITIONS)
    before = _replicas(cluster, topic, partition)
    outside = [node for node in cluster.node_ids if node not in before]
    if not outside:
        return elect(cluster, random)
    old, new = random.choice(before), random.choice(outside)
    cluster.reassign(topic, partition, [new if node == old else node for node in before])
    time.sleep(random.uniform(0.0, 1.0))
    cluster.reassign(topic, partition, before)
    return f"{topic}-{partition} from broker {old} to {new} and back"


# ── what time does ──


def hours_pass(cluster: EmbeddedCluster, random: Random) -> str:
    """Tombstones and markers may go; the cleaners are always at it."""
    cluster.advance_clock(timedelta(hours=1))
    time.sleep(random.uniform(0.3, 0.8))
    return "hours pass"


def long_absence(cluster: EmbeddedCluster, random: Random) -> str:
    """A broker is away for longer than deletes and markers are kept, then it leads."""
    node = random.choice(_replicas(cluster, STATE, 0))
    _written(cluster, STATE, 50)  # it has keys to come back with
    cluster.kill(node)
    for partition in range(PARTITIONS):
        cluster.wait_for(STATE, partition, lambda state: node not in state.isr)
    for _ in range(2):
        # These keys are deleted for good, and a segment is full: without one there is no pass.
        _written(cluster, STATE, 150)
        cluster.let_time_pass(HOUR_MS)  # the first pass sets the time to go, the second removes
    cluster.restart(node)
    all_in_sync(cluster)
    _elect_everywhere(cluster, STATE, node)
    return f"broker {node} away for hours, then elected"


HOUR_MS = 3_600_000
FAULTS: tuple[Fault, ...] = (
    kill, kill, pause, isolate, elect, elect_coordinator, reassign, hours_pass, long_absence,
    busy_leader_dies, coordinator_dies, hasty_return,
)  # fmt: skip


def all_in_sync(cluster: EmbeddedCluster) -> None:
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            cluster.wait_until_in_sync(topic, partition)


def _written(cluster: EmbeddedCluster, topic: str, count: int) -> None:
    """Waits until clients have written so many records to each partition."""

    def ends() -> list[int]:
        found = [cluster.offsets(topic, partition) for partition in range(PARTITIONS)]
        return [max(each.high_watermark for each in one.values()) for one in found]

    before = ends()
    cluster.wait_until(
        lambda: all(now >= then + count for now, then in zip(ends(), before, strict=True)),
        f"{count} more records in each partition of {topic}",
    )


def _replicas(cluster: EmbeddedCluster, topic: str, partition: int) -> list[int]:
    state = cluster.partition(topic, partition)
    assert state is not None, f"{topic}-{partition} is gone"
    return list(state.replicas)


def _elect_everywhere(cluster: EmbeddedCluster, topic: str, node: int) -> None:
    for partition in range(PARTITIONS):
        if node in _replicas(cluster, topic, partition):
            cluster.elect(topic, partition, node)
