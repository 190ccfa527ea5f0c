"""A repair and a guard have frozen the same topic, each for its own reason. Who sets it free?

The one that is done last: a guard that noted during the repair that it holds the topic still does,
for a replica that is away maybe. An old note is no guard that lives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.client.client import Client
from sexton.client.config_changes import TOPIC
from sexton.guard.agreed_options import agreed
from sexton.guard.memory import MemoryTopic
from sexton.guard.repair import Repair
from sexton.guard.repair_doubts import CLOCKS_DIFFER_MS, held_by_guard
from sexton.guard.repair_notes import Held, Notes, NotesFile
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Lags, Note, State
from sexton.testing.embedded import EmbeddedCluster

BEGAN_MS = time.time_ns() // 1_000_000
PREVIOUS = {MIN_LAG: "7", MAX_LAG: "86400000"}
HELD = tuple(Held(TOPIC, "orders", name, value, FOREVER) for name, value in PREVIOUS.items())


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as started:
        frozen = dict.fromkeys(PREVIOUS, FOREVER)
        started.create_topic("orders", [[1, 2, 3]], {"cleanup.policy": "compact", **frozen})
        yield started


@pytest.mark.parametrize(
    ("state", "after_ms", "previous", "raised", "stays"),
    [
        ("frozen", 1, Lags("7", "86400000"), True, True),
        # It lets go of it, or has not come to it: then it sees what comes of it.
        ("thawing", 1, Lags("7", "86400000"), True, False),
        ("planned", 1, Lags("7", "86400000"), True, False),
        ("cleared", 1, Lags("7", "86400000"), True, False),
        # Its clock is somewhat behind ours.
        ("frozen", 1 - CLOCKS_DIFFER_MS, Lags("7", "86400000"), True, True),
        # Nobody may be there any more who would set it free.
        ("frozen", -1 - CLOCKS_DIFFER_MS, Lags("7", "86400000"), True, False),
        # It would put something else back than we know, or less of it.
        ("frozen", 1, Lags("7", "86400000"), False, False),
        ("frozen", 1, Lags("8", "86400000"), True, False),
    ],
)
def test_what_a_guard_holds_as_well_is_left_to_it(
    cluster: EmbeddedCluster,
    tmp_path: Path,
    state: State,
    after_ms: int,
    previous: Lags,
    raised: bool,
    stays: bool,
) -> None:
    said: list[str] = []

    async def release() -> dict[str, str | None]:
        async with Client(cluster.bootstrap_servers) as client:
            topic_id = (await client.topology(["orders"])).topic("orders").topic_id.hex()
            memory = MemoryTopic(client, f"memory-{state}-{after_ms}-{previous.min}-{raised}")
            await memory.ensure()
            at_ms = BEGAN_MS + after_ms
            note = Note("orders", 1, "guard", state, topic_id, previous, raised, 0, at_ms)
            await memory.remember([note])
            notes = Notes("cluster", "orders", topic_id, BEGAN_MS, HELD)
            file = NotesFile(tmp_path / "notes.json")
            file.write(notes)
            repair = Repair(client, file, notes, lambda _at, what: said.append(what))
            guards = await held_by_guard(client, notes, memory.partition.topic)
            assert await repair.release(guards) == []
            found = await agreed(client, (TOPIC, "orders"), [*PREVIOUS])
            return {name: value.own for name, value in found.items()}

    try:
        assert asyncio.run(release()) == (dict.fromkeys(PREVIOUS, FOREVER) if stays else PREVIOUS)
        assert ("stays so" in said[-1]) is stays
        assert not (tmp_path / "notes.json").exists()
    finally:
        cluster.alter_topic("orders", dict.fromkeys(PREVIOUS, FOREVER))


def test_where_nobody_ever_guarded_there_is_no_guard_to_leave_it_to(
    cluster: EmbeddedCluster,
) -> None:
    async def ask() -> Lags | None:
        async with Client(cluster.bootstrap_servers) as client:
            notes = Notes("cluster", "orders", "id", BEGAN_MS, HELD)
            return await held_by_guard(client, notes, "no-such-memory")

    assert asyncio.run(ask()) is None
