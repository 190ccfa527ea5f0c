"""Which messages wait, and whose turn is it?

A set of ids per key, never a count: to add an id twice or to take it out twice changes nothing.
The smallest id of a key is its head; only the head may run, and only when its time has come.

    by_key    order-123 ▶ 17, 21, 30       17 is the head
              order-77  ▶ 19
    held      17 ▶ order-123, 2 attempts, not before 12:04, retry-p offset 4711

Two heaps answer what a look at every key would: when the next head is due, and which id is the
smallest of all (W). Entries of either are not removed when they are overtaken but skipped when they
come up, so each step costs next to nothing. An id that waits for ever would keep those of all later
ones: when most of them are over, that heap is made anew. A message without a key blocks nobody: it
is filed under its own id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from heapq import heapify, heappop, heappush

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_records import lock_line

LaneKey = bytes | int  # the business key; of a message without one, its id
SPARE = 1_000  # ids that are over; so many and as many again as wait are kept at the most
UNKNOWN = -1  # retry-p offset: written, but not read back yet


@dataclass(slots=True)
class Held:
    """A message that waits. Its payload is in the retry topic only."""

    key: bytes | None
    attempts: int
    not_before_ms: int
    since_ms: int
    dead: bool
    retry_offset: int = UNKNOWN

    def encode(self) -> bytes:
        """Its lock."""
        return lock_line(self.dead, self.attempts, self.not_before_ms, self.since_ms, self.key)


def lane_key(key: bytes | None, message: int) -> LaneKey:
    return message if key is None else key


@dataclass(slots=True)
class Pending:
    held: dict[int, Held] = field(default_factory=dict)
    by_key: dict[LaneKey, list[int]] = field(default_factory=dict)  # ids, smallest first
    heads: list[tuple[int, int]] = field(default_factory=list)  # heap: not before, id
    ids: list[int] = field(default_factory=list)  # heap

    def __len__(self) -> int:
        return len(self.held)

    @classmethod
    def of(cls, held: dict[int, Held]) -> Pending:
        """All at once, as a start does."""
        pending = cls(held)
        by_key = pending.by_key
        for message in sorted(held):
            by_key.setdefault(lane_key(held[message].key, message), []).append(message)
        for ids in by_key.values():
            if not held[ids[0]].dead:
                pending.heads.append((held[ids[0]].not_before_ms, ids[0]))
        heapify(pending.heads)
        pending.ids = sorted(held)  # is a heap
        return pending

    # ── asking ──

    def of_key(self, key: bytes) -> list[int]:
        return list(self.by_key.get(key, ()))

    def keys(self) -> Iterator[LaneKey]:
        return iter(self.by_key)

    def oldest_since_ms(self) -> int | None:
        """Looks at all of them: for people and gauges. 0 is not known: the lock was lost."""
        held = list(self.held.values())  # at once: gauges are read while the main loop goes on
        return min((each.since_ms for each in held if each.since_ms), default=None)

    def smallest(self, without: dict[int, None]) -> int | None:
        """Of all ids but those that are being settled; these never come back in this task."""
        ids = self.ids
        while ids and (ids[0] not in self.held or ids[0] in without):
            heappop(ids)
        return ids[0] if ids else None

    def next_due_ms(self) -> int | None:
        heads = self.heads
        while heads and not self._counts(heads[0]):
            heappop(heads)
        return heads[0][0] if heads else None

    def take_due(self, now_ms: int, limit: int) -> list[int]:
        """Heads whose time has come, longest due first. `offer` puts one back."""
        heads = self.heads
        due: dict[int, None] = {}
        while heads and heads[0][0] <= now_ms and len(due) < limit:
            entry = heappop(heads)
            if self._counts(entry):
                due[entry[1]] = None  # it may have been offered twice
        return list(due)

    def _counts(self, entry: tuple[int, int]) -> bool:
        not_before_ms, message = entry
        held = self.held.get(message)
        if held is None or held.dead or held.not_before_ms != not_before_ms:
            return False
        return self.by_key[lane_key(held.key, message)][0] == message

    # ── changing ──

    def put(self, message: int, held: Held) -> None:
        """A new one, or what an old one has become."""
        if message not in self.held:
            ids = self.by_key.setdefault(lane_key(held.key, message), [])
            ids.append(message)
            if len(ids) > 1 and ids[-2] > message:
                ids.sort()  # a message that was read again
            heappush(self.ids, message)
        self.held[message] = held
        if len(self.ids) > 2 * len(self.held) + SPARE:
            self.ids = sorted(self.held)  # is a heap

    def release(self, message: int) -> None:
        held = self.held.pop(message, None)
        if held is None:
            return
        key = lane_key(held.key, message)
        ids = self.by_key[key]
        ids.remove(message)  # the head as a rule: found at once
        if not ids:
            del self.by_key[key]

    def offer(self, key: LaneKey) -> None:
        """Something has changed for this key: let its head come up."""
        ids = self.by_key.get(key)
        if ids:
            head = self.held[ids[0]]
            if not head.dead:
                heappush(self.heads, (head.not_before_ms, ids[0]))

    def check(self) -> None:
        """Both views show the same, and no head is forgotten that is alive."""
        listed = {message: key for key, ids in self.by_key.items() for message in ids}
        assert listed == {
            message: lane_key(held.key, message) for message, held in self.held.items()
        }
        assert all(ids and ids == sorted(set(ids)) for ids in self.by_key.values())
        assert set(self.held) <= set(self.ids)
