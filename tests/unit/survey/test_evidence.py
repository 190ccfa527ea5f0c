"""Is a replica named that goes away before the last look at it?"""

from __future__ import annotations

import asyncio
from pathlib import Path

from sexton.base.partitions import TopicPartition
from sexton.client.replica import ReplicaOffsets
from sexton.survey.evidence import bench
from sexton.survey.places import FilesPlace
from sexton.survey.plan import PartitionPlan

ORDERS = TopicPartition("orders", 0)


def test_one_that_went_away_is_named_and_the_others_are_looked_at(tmp_path: Path) -> None:
    here = tmp_path / "orders-0"
    here.mkdir()
    (here / f"{0:020}.log").touch()
    places = {1: FilesPlace(str(here), 1), 2: FilesPlace(str(tmp_path / "gone" / "orders-0"), 2)}
    stands = {node: ReplicaOffsets(node, 0, 0, 0, 0) for node in places}
    plan = PartitionPlan(ORDERS, True, 0, -1, (1, 2), places, stands, (), ())

    async def looked() -> tuple[list[int], list[int]]:
        async with bench(plan) as at:
            windows = await at.windows(0, 1, places)
            return list(windows), list(at.unreadable)

    assert asyncio.run(looked()) == ([1], [2])
