"""When does a machine have to look at something again?

A machine with a million deadlines must not walk them all at every tick. Each key has at most one
alarm, which rings no later than the key's deadline; a heap finds the ones that are due:

    by(key, deadline)   from now on the key's alarm rings at the deadline, or earlier
    due(now, limit)     the keys whose alarm has rung; who still has a deadline sets it again
    new_wake_ms()       when to be woken, if that is earlier than what was asked for before

That an alarm may ring early is the trick. Most deadlines move away again and again, at each commit
and each transaction; such a key keeps the alarm it has, and nothing is done until that one rings.
Only a deadline that comes nearer costs a place in the heap. Places left behind are thrown out when
they are more than the alarms, so that memory follows the number of keys.
"""

from __future__ import annotations

import heapq
from typing import Any, Generic, Protocol, TypeVar


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


Key = TypeVar("Key", bound=_Ordered)


class Alarms(Generic[Key]):
    """Two alarms at one time ring in the order of their keys: the same in every run."""

    def __init__(self) -> None:
        self._at: dict[Key, int] = {}
        self._heap: list[tuple[int, Key]] = []
        self._wake_ms: int | None = None  # what was asked for and has not come

    def __len__(self) -> int:
        return len(self._at)

    def at(self, key: Key) -> int | None:
        return self._at.get(key)

    def by(self, key: Key, deadline_ms: int) -> None:
        current = self._at.get(key)
        if current is not None and current <= deadline_ms:
            return
        self._at[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, key))
        if len(self._heap) > 2 * len(self._at) + 16:
            self._heap = [(at, key) for key, at in self._at.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: Key) -> None:
        self._at.pop(key, None)

    def due(self, now_ms: int, limit: int) -> list[Key]:
        rung: list[Key] = []
        while len(rung) < limit and (first := self.first_ms) is not None and first <= now_ms:
            key = heapq.heappop(self._heap)[1]
            del self._at[key]
            rung.append(key)
        return rung

    def woken(self) -> None:
        """A tick has come, whether it was asked for or not."""
        self._wake_ms = None

    def new_wake_ms(self) -> int | None:
        first = self.first_ms
        if first is None or (self._wake_ms is not None and first >= self._wake_ms):
            return None
        self._wake_ms = first
        return first

    @property
    def first_ms(self) -> int | None:
        """When the next one rings."""
        heap, at = self._heap, self._at
        while heap and at.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)  # replaced by an earlier alarm, or cancelled
        return heap[0][0] if heap else None
