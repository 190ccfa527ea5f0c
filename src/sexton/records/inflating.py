"""The records of compressed batches as they were before, side by side in one buffer.

    raw     │header│ lz4 │header│ lz4 │header│ zstd  │
    plain   │ records │   records    │  records │        ◀── starts and ends of each batch

The buffer is used again and again, and grows only if one batch needs it. lz4 as Java writes it, the
common case, is inflated by a kernel many batches at a time; the rest goes through `codecs`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sexton.base.errors import CorruptLog
from sexton.records import lz4_kernels
from sexton.records.codecs import MOST_INFLATED_BYTES, inflate
from sexton.records.kernels import GUARD
from sexton.records.layout import HEADER_BYTES, BatchHeader
from sexton.records.liblz4 import find_lz4
from sexton.records.native import address
from sexton.records.tables import Array

FIRST_BYTES = 1 << 20
# How much room is asked for at once: a block of lz4 is inflated only where a whole one fits.
_STEP = lz4_kernels.BLOCK


@dataclass(frozen=True, slots=True)
class Plain:
    """Records of some batches, from the first of those that were given on; `data` is borrowed."""

    data: Array
    starts: Array  # in data, one for each batch
    ends: Array
    faults: dict[int, str] = field(default_factory=dict)  # what is wrong with a batch, if anything


class Inflater:
    """Inflates into the same memory each time: a result is valid until the next one."""

    def __init__(self, most: int = MOST_INFLATED_BYTES) -> None:
        self._most = most  # bytes out of one batch
        self._out = np.empty(0, np.uint8)

    def run(self, data: Array, position: Array, wanted: Array, where: str, enough: int) -> Plain:
        """Of the batches at `position` of `data` as many as give about `enough` bytes.

        A batch that is not wanted, or that is damaged, has no records here. The caller has found
        the batches with `scan`, so each of them is whole.
        """
        lz4 = find_lz4()
        count = len(position)
        position = np.ascontiguousarray(position)
        wished = np.ascontiguousarray(wanted, np.uint8)
        starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
        faults: dict[int, str] = {}
        stop = used = 0
        self._make_room(min(FIRST_BYTES, enough) + _STEP, 0)
        while True:
            stop, used, why = lz4_kernels.inflate(
                address(data), address(position), stop, count, address(wished),
                address(self._out), used, len(self._out) - GUARD, enough,
                address(starts), address(ends), self._most, lz4.decompress if lz4 else 0,
            )  # fmt: skip
            if why == lz4_kernels.NO_ROOM:
                self._make_room(2 * len(self._out), used)
            elif why == lz4_kernels.NOT_MINE:
                try:
                    used = self._keep(self._section(data, int(position[stop]), where), used)
                except CorruptLog as error:
                    faults[stop] = error.why
                ends[stop] = used
                stop += 1
            else:
                return Plain(self._out[:used], starts[:stop], ends[:stop], faults)

    def _section(self, data: Array, position: int, where: str) -> bytes:
        raw = data.data
        header = BatchHeader.unpack(raw, position)
        section = raw[position + HEADER_BYTES : position + header.size]
        return inflate(header.codec, section, where, self._most)

    def _keep(self, section: bytes, used: int) -> int:
        """Copies a section behind what is there; returns its end."""
        end = used + len(section)
        self._make_room(end, used)
        self._out[used:end] = np.frombuffer(section, np.uint8)
        return end

    def _make_room(self, room: int, used: int) -> None:
        if len(self._out) < room + GUARD:
            larger = np.empty(max(room, 2 * used) + GUARD, np.uint8)
            larger[:used] = self._out[:used]
            self._out = larger
