"""Which partition does a key belong to? The one that Kafka's Java client would choose.

murmur2 of the key's bytes, made positive, modulo the number of partitions. Keys come again and
again, so what was worked out once is remembered, for as many keys as fit.
"""

from __future__ import annotations

from typing import Final

MOST_REMEMBERED: Final = 100_000
_FACTOR = 0x5BD1E995
_SEED = 0x9747B28C
_32 = 0xFFFFFFFF


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
            found = self._known[key] = (murmur2(key) & 0x7FFFFFFF) % self.count
        return found


def murmur2(data: bytes) -> int:
    size = len(data)
    mixed = _SEED ^ size
    for at in range(0, size & ~3, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _32
        word = (word ^ word >> 24) * _FACTOR & _32
        mixed = mixed * _FACTOR & _32 ^ word
    if size & 3:
        mixed = (mixed ^ int.from_bytes(data[size & ~3 :], "little")) * _FACTOR & _32
    mixed = (mixed ^ mixed >> 13) * _FACTOR & _32
    return mixed ^ mixed >> 15
