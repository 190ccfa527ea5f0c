"""A guard that holds a topic sets it free while a repair begins: is it frozen all the same?"""

from __future__ import annotations

import asyncio

import pytest

from sexton.client.client import Client
from sexton.client.config_changes import alter, described
from sexton.guard import repair_options
from sexton.guard.repair_notes import Held, Notes
from sexton.guard.repair_options import HeldOptions
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG
from sexton.testing.embedded import EmbeddedCluster

FROZEN = {MIN_LAG: FOREVER, MAX_LAG: FOREVER}
PREVIOUS = {MIN_LAG: "7", MAX_LAG: "86400000"}


@pytest.mark.parametrize("looks", [1, 2])
def test_a_topic_that_is_set_free_between_look_and_change_is_frozen_again(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first look `min.compaction.lag.ms` alone is wanted, and refused; after the second,
    it seems to be there already."""
    left = looks

    async def described_too_early(client, place, names, node=None):  # type: ignore[no-untyped-def]
        nonlocal left
        found = await described(client, place, names, node)
        left -= 1
        if left == 0:
            await alter(client, place, [*PREVIOUS.items()])
        return found

    async def freeze(servers: str) -> tuple[bool, tuple[Held, ...]]:
        async with Client(servers) as client:
            notes = Notes("cluster", "orders", "id", 0)
            held = HeldOptions(client, notes, lambda _notes: None)
            monkeypatch.setattr(repair_options, "described", described_too_early)
            frozen = await held.freeze([1, 2, 3])
            return frozen, held.notes.options

    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]], {"cleanup.policy": "compact", **FROZEN})
        frozen, noted = asyncio.run(freeze(cluster.bootstrap_servers))
    assert frozen and left <= 0
    assert {each.option: each.previous for each in noted} == PREVIOUS
