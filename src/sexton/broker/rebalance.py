"""Leaders back where they belong, once every replica is there again.

When all brokers start at once, each one that registers leaves the ISRs it was in, and the last one
leads whatever they had in common. Nothing is lost by it, but one broker would do all the work. The
first replica of a partition is the one that should lead it; Kafka's controller sees to that every
few minutes (`auto.leader.rebalance.enable`), and here it happens once, at the start.
"""

from __future__ import annotations

import asyncio
import time

from sexton.broker.cluster import LocalCluster
from sexton.machines.controller_events import Elect
from sexton.machines.metadata import PartitionRecord
from sexton.node.outside import CONTROLLER

PATIENCE_S = 60.0
LOOK_AGAIN_S = 0.02


async def prefer_leaders(cluster: LocalCluster) -> None:
    """Returns when every partition has its preferred leader, or when that takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        elsewhere = [p for p in cluster.image.partitions.values() if _is_elsewhere(p)]
        if not elsewhere:
            return
        for partition in elsewhere:
            if partition.replicas[0] in partition.isr:
                await cluster.ask(CONTROLLER, Elect(None, partition.topic, partition.partition))
        await asyncio.sleep(LOOK_AGAIN_S)


def _is_elsewhere(partition: PartitionRecord) -> bool:
    return partition.leader != partition.replicas[0]
