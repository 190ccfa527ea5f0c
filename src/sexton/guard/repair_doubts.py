"""A guard holds a topic frozen while it doubts a replica. Who may tell it that all is well?

Whoever has read all replicas and found them to agree: the guard doubts a replica that was away too
long, or was filled while the leader changed, because it may lack a tombstone; an audit sees that.

    doubts before the audit ──▶ audit ──▶ the same doubts still? ──▶ "audited", in the guard's notes

What came up while the audit ran is not settled by it: then nothing is said, and the guard goes on
holding. What it does with the note is its own business: it waits for its hold-down, and thaws.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from sexton.client.client import Client
from sexton.guard.memory import TOPIC, MemoryTopic
from sexton.machines.guard_notes import Audited, Doubt, Memory


@dataclass(frozen=True, slots=True)
class Doubted:
    """A topic that a guard holds, and why it does not trust every replica of it."""

    topic: str
    cycle: int
    doubts: tuple[Doubt, ...]

    def are_within(self, partitions: Collection[int] | None) -> bool:
        """Of these partitions all; None: whichever."""
        return partitions is None or all(doubt.partition in partitions for doubt in self.doubts)


async def doubted(client: Client, topic: str, memory_topic: str = TOPIC) -> Doubted | None:
    """None: no guard holds it for a doubt."""
    notes = MemoryTopic(client, memory_topic)
    if not await notes.exists():
        return None
    memory, now_ms = Memory(), time.time_ns() // 1_000_000
    for offset, key, value in await notes.recall():
        memory.apply(offset, key, value, now_ms)
    entry = memory.in_force(topic)
    if entry is None or not entry.note.doubts:
        return None
    if memory.settles(entry.note):
        return None
    return Doubted(topic, entry.note.cycle, entry.note.doubts)


async def settle(client: Client, before: Doubted, memory_topic: str = TOPIC) -> bool:
    """Tells the guard; False: there are other doubts by now than before the audit."""
    if await doubted(client, before.topic, memory_topic) != before:
        return False
    notes = MemoryTopic(client, memory_topic)
    await notes.remember([Audited(before.topic, before.cycle)])
    return True
