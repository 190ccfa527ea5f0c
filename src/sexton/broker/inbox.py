"""Which of the bytes that have come make a whole request?

    ┌──────┬─────────┐ ┌──────┬─────────┐
    │ size │ payload │ │ size │ payload │ ...
    └──────┴─────────┘ └──────┴─────────┘

What is read lands in a buffer that all connections share; what is not taken at once is copied, for
others read into it, too. A frame that does not fit has a buffer of its own, which grows as its
bytes come: whoever announces much and sends little costs little.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from sexton.broker.limits import SMALL
from sexton.protocol.wire import Buffer

_SIZE = struct.Struct(">i")
_KEY = struct.Struct(">h")
_MOST_AT_ONCE = 1 << 20  # what a frame is given in advance, on a connection that has had such
_NOTHING = memoryview(b"")

Judge = Callable[[int, int | None], bool]  # may a frame of this size, with this API key, be read?


class Inbox:
    def __init__(self, scratch: memoryview) -> None:
        self._scratch = scratch
        # What was read and not taken yet: a part of the shared buffer while bytes are being taken,
        # and a copy of its own from one event to the next.
        self._data, self._start, self._end = _NOTHING, 0, 0
        self._large: bytearray | None = None  # a frame of its own, without the size
        self._large_filled = self._large_size = 0
        self._largest = 0  # frame that came to its end

    @property
    def held_bytes(self) -> int:
        return self._end if self._large is None else self._end + len(self._large)

    @property
    def is_half_full(self) -> bool:
        return self._large is not None or self._end > SMALL // 2

    def clear(self) -> None:
        self._large, self._data, self._start, self._end = None, _NOTHING, 0, 0

    def room(self) -> memoryview:
        """Where to read to."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        left = self._end - self._start
        if left:
            self._scratch[:left] = self._data[self._start : self._end]
        return self._scratch[left:]

    def filled(self, count: int) -> None:
        """So many bytes were read there."""
        if self._large is not None:
            self._large_filled += count
        else:
            left = self._end - self._start
            self._data, self._start, self._end = self._scratch, 0, left + count

    def keep(self) -> None:
        """Others will read into the shared buffer now."""
        if self._data is self._scratch:
            self._data = memoryview(bytes(self._data[self._start : self._end]))
            self._start, self._end = 0, len(self._data)

    def next_payload(self, may_be: Judge) -> Buffer | None:
        """The next whole request, if there is one that may be."""
        if self._large is not None:
            return self._next_large()
        there = self._end - self._start
        if there < _SIZE.size:
            return None
        size: int = _SIZE.unpack_from(self._data, self._start)[0]
        first = self._start + _SIZE.size
        knows_key = self._end - first >= _KEY.size
        if not may_be(size, _KEY.unpack_from(self._data, first)[0] if knows_key else None):
            return None
        if size <= there - _SIZE.size:
            self._start = first + size
            return bytes(self._data[first : self._start])
        if size > SMALL - _SIZE.size and (there == SMALL or self._largest > SMALL):
            self._begin_large(first, size)
        return None

    # ── a frame that is larger than the shared buffer ──

    def _begin_large(self, first: int, size: int) -> None:
        """A first piece as large as this client has shown to fill, the others as bytes come."""
        there = self._end - first
        piece = bytearray(min(size, max(min(self._largest, _MOST_AT_ONCE), 4 * SMALL)))
        piece[:there] = self._data[first : self._end]
        self._large, self._large_size, self._large_filled = piece, size, there
        self._data, self._start, self._end = _NOTHING, 0, 0

    def _next_large(self) -> Buffer | None:
        large, size = self._large, self._large_size
        assert large is not None
        if self._large_filled == size:
            self._large, self._largest = None, max(self._largest, size)
            return memoryview(large)
        if self._large_filled == len(large):
            grown = bytearray(min(size, 4 * len(large)))
            grown[: len(large)] = large
            self._large = grown
        return None
