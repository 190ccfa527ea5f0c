"""The last messages that were put into the retry topic, so that most need not be read back.

A bounded number of bytes; the oldest go first. What is not here is read at its offset. A message is
also kept while its round runs, whatever else comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sexton.retry.messages import Payload

MOST_BYTES = 32 << 20  # of one task
OVERHEAD_BYTES = 200  # of Python, for each


class PayloadCache:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._kept: dict[int, Payload] = {}
        self._sizes: dict[int, int] = {}
        self._bytes = 0

    def __contains__(self, id: object) -> bool:
        return id in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, id: int) -> Payload | None:
        return self._kept.get(id)

    def of(self, ids: Sequence[int]) -> dict[int, Payload | None]:
        """By id; None: it has to be read."""
        return dict(zip(ids, map(self._kept.get, ids), strict=True))

    def put(self, id: int, payload: Payload) -> None:
        self.forget((id,))
        size = payload.size + OVERHEAD_BYTES
        self._kept[id] = payload
        self._sizes[id] = size
        self._bytes += size

    def shrink(self) -> None:
        """Between rounds: what a round was told is here has to stay while it runs."""
        while self._bytes > self.most_bytes and self._kept:
            self.forget((next(iter(self._kept)),))

    def forget(self, ids: Iterable[int]) -> None:
        kept, sizes = self._kept, self._sizes
        for each in ids:
            if kept.pop(each, None) is not None:
                self._bytes -= sizes.pop(each)
