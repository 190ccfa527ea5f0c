"""Columns of byte strings to numbers, and to one buffer.

Spans come from `records.decode`, which has checked that every one of them is inside its buffer.
"""

from __future__ import annotations

import numpy as np

from sexton.records.hash_kernels import hash128
from sexton.records.native import copy, kernel, load_i32, store_i64

# The same in every run, so that an estimate is too. Nobody gains by keys that collide under it:
# they would make a count of keys too low, and nothing is decided by that count.
SEED = np.uint64(0)


@kernel("void(int64, int64, int64, int64, int64)")
def hash_spans(data, position, length, count, out):
    """64 bits for each of `count` spans; a null has no place here."""
    for row in range(count):
        size = np.int64(load_i32(length + 4 * row))
        place = data + np.int64(load_i32(position + 4 * row))
        bits, _more = hash128(place, size, SEED)
        store_i64(out + 8 * row, np.int64(bits))


@kernel("void(int64, int64, int64, int64, int64)")
def gather_spans(data, position, length, count, out):
    """Copies the spans one after the other; nulls take no room."""
    for row in range(count):
        size = np.int64(load_i32(length + 4 * row))
        if size > 0:
            copy(out, data + np.int64(load_i32(position + 4 * row)), size)
            out += size
