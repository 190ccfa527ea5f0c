"""A guard holds a topic frozen while it doubts a replica. Who may tell it that all is well?

Whoever has read all replicas and found them to agree: the guard doubts a replica that was away too
long, or was filled while the leader changed, because it may lack a tombstone; an audit sees that.

    doubts before the audit ──▶ audit ──▶ the same doubts still? ──▶ "audited", in the guard's notes

What came up while the audit ran is not settled by it: then nothing is said, and the guard goes on
holding. Nor is anything by an audit of a replica that is behind, which is compared up to where it
stands: the tombstone that it may lack can come after that. Nor by an audit that was planned by the
word of a broker which has not heard of the replica. What it does with the note is its own
business: it waits for its hold-down, and thaws.

Both may have frozen the same topic at the same time. Then the guard has noted so, and what is to be
put back; and the repair leaves that to it, for it may hold the topic for another replica.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.guard.memory import TOPIC, MemoryTopic
from sexton.guard.repair_notes import Notes
from sexton.guard.repair_sight import look
from sexton.machines.guard_notes import MAX_LAG, Audited, Doubt, Lags, Memory

# The guard's clock and ours. A topic that is left to a guard in vain is at least in its notes, and
# any guard lets go of it; one that is taken from under a guard is frozen again by nobody.
CLOCKS_DIFFER_MS = 60_000


@dataclass(frozen=True, slots=True)
class Doubted:
    """A topic that a guard holds, and why it does not trust every replica of it."""

    topic: str
    cycle: int
    doubts: tuple[Doubt, ...]

    def are_within(self, partitions: Collection[int] | None) -> bool:
        """Of these partitions all; None: whichever."""
        return partitions is None or all(doubt.partition in partitions for doubt in self.doubts)


async def not_read(
    client: Client, before: Doubted, read: Mapping[TopicPartition, Collection[int]]
) -> tuple[TopicPartition, int] | None:
    """A replica of a doubted partition that no audit has read, if several brokers are asked."""
    for number in sorted({doubt.partition for doubt in before.doubts}):
        at = TopicPartition(before.topic, number)
        for node in (await look(client, at)).replicas:
            if node not in read.get(at, ()):
                return at, node
    return None


async def doubted(client: Client, topic: str, memory_topic: str = TOPIC) -> Doubted | None:
    """None: no guard holds it for a doubt."""
    memory = await _memory(client, memory_topic)
    entry = memory.in_force(topic)
    if entry is None or not entry.note.doubts:
        return None
    if memory.settles(entry.note):
        return None
    return Doubted(topic, entry.note.cycle, entry.note.doubts)


async def held_by_guard(client: Client, repair: Notes, memory_topic: str = TOPIC) -> Lags | None:
    """What a guard will put back that came to hold the topic during this repair; None: there is no
    such guard. An older note may be of one that is there no more."""
    entry = (await _memory(client, memory_topic)).in_force(repair.topic)
    if entry is None or entry.note.state != "frozen":
        return None
    if entry.note.topic_id != repair.topic_id:
        return None
    if entry.note.at_ms < repair.began_ms - CLOCKS_DIFFER_MS:
        return None
    if not entry.note.raised and any(each.option == MAX_LAG for each in repair.options):
        return None  # it would leave that one as we have set it
    return entry.note.previous


async def _memory(client: Client, memory_topic: str) -> Memory:
    notes, memory = MemoryTopic(client, memory_topic), Memory()
    if await notes.exists():
        now_ms = time.time_ns() // 1_000_000
        for offset, key, value in await notes.recall():
            memory.apply(offset, key, value, now_ms)
    return memory


async def settle(client: Client, before: Doubted, memory_topic: str = TOPIC) -> bool:
    """Tells the guard; False: there are other doubts by now than before the audit."""
    if await doubted(client, before.topic, memory_topic) != before:
        return False
    notes = MemoryTopic(client, memory_topic)
    await notes.remember([Audited(before.topic, before.cycle)])
    return True
