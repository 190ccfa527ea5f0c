"""Which partition does a record go to? Its key says (`records.key_hash`), or they take turns.

Keys come again and again, so what was worked out once is remembered, for as many keys as fit.
"""

from __future__ import annotations

from typing import Final

from sexton.records.key_hash import partition_of

MOST_REMEMBERED: Final = 100_000


class Partitioner:
    def __init__(self, partitions: int) -> None:
        assert partitions > 0
        self.count = partitions
        self._known: dict[bytes, int] = {}
        self._next = 0

    def of(self, key: bytes | None) -> int:
        """Records without a key take turns."""
        if self.count == 1:
            return 0
        if key is None:
            self._next = (self._next + 1) % self.count
            return self._next
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            found = self._known[key] = partition_of(key, self.count)
        return found
