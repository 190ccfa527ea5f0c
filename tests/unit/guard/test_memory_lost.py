"""The guard's memory is deleted under it: nothing that anybody would act on may be forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from sexton.base.errors import PeerError
from sexton.client.roving import RovingClient
from sexton.guard.daemon import Daemon
from sexton.guard.memory import MemoryCut, MemoryLost, MemoryTopic, Records
from sexton.machines.guard_events import GuardConfig
from sexton.machines.guard_notes import (
    Audited,
    Doubt,
    Hold,
    Lags,
    LastSeen,
    Maintenance,
    Memory,
    Note,
    Panic,
    Saying,
    encode,
)

FROZEN = Note(
    "orders", 3, "a", "frozen", "id", Lags("5"), False, 1, 2, ("away",),
    (Doubt(0, 3, "was away"),), seen=7, unwell=9,
)  # fmt: skip
ORDERS: list[Saying] = [
    Panic(True, Lags("60000", "90000"), 5),
    Maintenance(9_000),
    Hold("carts", True, 4),
    LastSeen(8_000),
]


class Topic(MemoryTopic):
    """A log in this process, that can be deleted and can refuse."""

    def __init__(self, client: RovingClient) -> None:
        super().__init__(client)
        self.log: list[tuple[bytes, bytes | None]] | None = []
        self.refuses: str | None = None
        self._at = 0
        self._lost: MemoryLost | None = None

    def delete(self) -> None:
        self.log, self._lost = None, MemoryLost("_sexton_guard-0", "it was deleted")

    def cut(self, end: int) -> None:
        assert self.log is not None
        self.log, self._lost = self.log[:end], MemoryCut("_sexton_guard-0", "its end is gone")

    async def exists(self) -> bool:
        return self.log is not None

    async def ensure(self) -> None:
        self._ask("ensure")
        self.log = self.log or []

    async def remember(self, sayings: Sequence[Saying]) -> None:
        self._ask("remember")
        assert self.log is not None
        self.log += [encode(each) for each in sayings]

    async def recall(self) -> Records:
        if self._lost is not None:
            raise self._lost
        self._ask("recall")
        assert self.log is not None
        found = [(offset, *each) for offset, each in enumerate(self.log)]
        start, self._at = self._at, len(found)
        return tuple(found[start:])

    def start_over(self) -> None:
        self._at, self._lost = 0, None

    def _ask(self, what: str) -> None:
        if what == self.refuses:
            raise PeerError("kafka", "gone away")


def guard_with(*sayings: Saying) -> tuple[Daemon, Topic]:
    """A guard that has read these notes from a long log."""
    client = RovingClient("localhost:1")
    daemon, topic = Daemon(client, GuardConfig()), Topic(client)
    daemon.memory = topic
    topic.log = [(b"{}", None)] * 20 + [encode(each) for each in sayings]
    asyncio.run(daemon._recall())
    return daemon, topic


def recalled(topic: Topic) -> Memory:
    """As another guard knows it from the notes alone."""
    memory = Memory()
    for offset, (key, value) in enumerate(topic.log or ()):
        memory.apply(offset, key, value, 0)
    return memory


def test_all_that_counts_goes_into_a_new_memory() -> None:
    daemon, topic = guard_with(FROZEN, *ORDERS)
    topic.delete()
    asyncio.run(daemon._recall())
    for memory in (recalled(topic), daemon.guard.memory):
        assert memory.panic == ORDERS[0] and memory.holds["carts"] == ORDERS[2]
        assert (memory.maintenance_until_ms, memory.last_seen_ms) == (9_000, 8_000)
        (entry,) = memory.all_in_force()
        assert entry.note == replace(FROZEN, seen=-1, unwell=0)


def test_an_audit_can_settle_what_was_doubted_before() -> None:
    """The offset before which audits did not count was one of the old log."""
    daemon, topic = guard_with(replace(FROZEN, unwell=20), ORDERS[0])
    topic.delete()
    asyncio.run(daemon._recall())
    (entry,) = daemon.guard.memory.all_in_force()
    assert not daemon.guard.memory.settles(entry.note)
    asyncio.run(topic.remember([Audited("orders", 3)]))
    asyncio.run(daemon._recall())
    assert daemon.guard.memory.settles(entry.note)


@pytest.mark.parametrize(("unwell", "settled"), [(5, True), (30, False)])
def test_an_audit_counts_as_long_as_it_did(unwell: int, settled: bool) -> None:
    daemon, topic = guard_with(replace(FROZEN, unwell=unwell), Audited("orders", 3))
    topic.delete()
    asyncio.run(daemon._recall())
    (entry,) = daemon.guard.memory.all_in_force()
    assert daemon.guard.memory.settles(entry.note) is settled


@pytest.mark.parametrize("step", ["ensure", "remember", "recall"])
def test_what_fails_on_the_way_is_done_again(step: str) -> None:
    daemon, topic = guard_with(FROZEN, *ORDERS)
    topic.delete()
    topic.refuses = step
    for _ in range(2):
        with pytest.raises(PeerError):
            asyncio.run(daemon._recall())
        assert daemon.guard.memory.panic is not None, "nothing is forgotten meanwhile"
    topic.refuses = None
    asyncio.run(daemon._recall())
    memory = recalled(topic)
    assert memory.panic == ORDERS[0] and memory.in_force("orders") is not None


def test_what_somebody_has_said_since_is_not_undone() -> None:
    daemon, topic = guard_with(FROZEN, *ORDERS)
    topic.delete()
    asyncio.run(topic.ensure())
    asyncio.run(topic.remember([Hold("carts", False, 6)]))
    asyncio.run(daemon._recall())
    for memory in (recalled(topic), daemon.guard.memory):
        assert not memory.holds["carts"].held and memory.panic == ORDERS[0]


def test_of_a_log_that_was_cut_what_is_left_is_older_than_what_we_know() -> None:
    """After the audit a replica left again: that was noted in the part that is gone."""
    frozen = replace(FROZEN, unwell=-1)
    held = Hold("orders", True, 6)
    before: list[Saying] = [frozen, Audited("orders", 3), replace(held, held=False)]
    daemon, topic = guard_with(*before, replace(frozen, unwell=23), held)
    topic.cut(23)
    asyncio.run(daemon._recall())
    for memory in (recalled(topic), daemon.guard.memory):
        (entry,) = memory.all_in_force()
        assert memory.holds["orders"] == held and not memory.settles(entry.note)
    asyncio.run(topic.remember([Audited("orders", 3)]))
    asyncio.run(daemon._recall())
    assert daemon.guard.memory.settles(entry.note)
