"""The headers of a file's batches, without reading what is between them.

A batch of 16 KiB has a header of 61 bytes: to learn which batches there are it is enough to hop
from one to the next. The first bytes of each are read in a small window; if several batches fit
into one, the next window is larger, and if there is only one, smaller.

    file     │h│records............│h│records.......│h│records..........│
    windows  ▐██▌                   ▐██▌             ▐██▌

A window is only looked at as far as the file really filled it. So nothing here can read outside of
it, not even if the file is cut by somebody else meanwhile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sexton.records.kernels import HEADER_BYTES, OK, header_fault
from sexton.records.native import CFunction, copy, kernel, load_be32, store_i64

SHORT_READ = -1  # the file ends before its size, or cannot be read
LEAST_WINDOW = 256

_pread: Any = CFunction("pread", "int64(int32, int64, int64, int64)")


@kernel("UniTuple(int64, 3)(int32, int64, int64, int64, int64, int64, int64, int64)")
def walk(file, start, size, positions, headers, most, window, window_bytes):
    """As `records.kernels.scan`, of an open file of `size` bytes from a batch's start on.

    Returns how many batches, where it stopped, and why; SHORT_READ if bytes were missing.
    """
    place = start
    found = 0
    want = np.int64(LEAST_WINDOW)
    window_start = place
    window_end = place
    seen = 0
    while place < size and found < most:
        left = size - place
        if place + min(left, HEADER_BYTES) > window_end:
            want = min(2 * want, window_bytes) if seen > 1 else max(want // 2, LEAST_WINDOW)
            got = _pread(file, window, min(want, left), place)
            if got < min(left, HEADER_BYTES):
                return found, place, np.int64(SHORT_READ)
            window_start = place
            window_end = place + got
            seen = 0
        header = window + (place - window_start)
        fault = header_fault(header, left)
        if fault != OK:
            return found, place, np.int64(fault)
        store_i64(positions + 8 * found, place)
        copy(headers + HEADER_BYTES * found, header, HEADER_BYTES)
        found += 1
        seen += 1
        place += 12 + np.int64(load_be32(header + 8))
    return found, place, np.int64(OK)
