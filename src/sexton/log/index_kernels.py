"""The offset and time index of a segment, from the headers of its batches, in one go.

The rules are those of `Segment.index`, which takes note of one batch at a time; a test compares the
two. Entries come out as they are in the files: big-endian, offsets relative to the segment's base.
"""

from __future__ import annotations

import numpy as np

from sexton.records.native import (
    kernel,
    load_be32,
    load_be64,
    load_i64,
    store_be32,
    store_be64,
    store_i64,
)

HEADER_BYTES = 61
NO_TIMESTAMP = -1

# What has to be remembered from one call to the next, as int64 each.
SINCE_ENTRY = 0  # bytes since the last offset entry
MAX_TIMESTAMP = 1  # so far, and the relative offset it was reached at
MAX_OFFSET = 2
TIME_ENTRIES = 3  # how many there are, and the last one of them
LAST_TIME = 4
LAST_TIME_OFFSET = 5
STATE_WORDS = 6


@kernel("UniTuple(int64, 2)(int64, int64, int64, int64, int64, int64, int64, int64)")
def index_batches(headers, batches, position, base_offset, interval, state, offsets, times):
    """Notes the entries for batches that are at `position` of the log file, one after the other.

    Returns how many entries each index got; both have room for one a batch.
    """
    since = load_i64(state + 8 * SINCE_ENTRY)
    newest = load_i64(state + 8 * MAX_TIMESTAMP)
    newest_at = load_i64(state + 8 * MAX_OFFSET)
    told = load_i64(state + 8 * TIME_ENTRIES)
    last_time = load_i64(state + 8 * LAST_TIME)
    last_time_at = load_i64(state + 8 * LAST_TIME_OFFSET)
    entries = 0
    time_entries = 0
    for b in range(batches):
        header = headers + HEADER_BYTES * b
        size = 12 + np.int64(load_be32(header + 8))
        relative = load_be64(header) + np.int64(load_be32(header + 23)) - base_offset
        timestamp = load_be64(header + 35)
        if timestamp > newest:
            newest = timestamp
            newest_at = relative
        if since > interval:
            store_be32(offsets + 8 * entries, np.int32(relative))
            store_be32(offsets + 8 * entries + 4, np.int32(position))
            entries += 1
            if told == 0 or (newest > last_time and newest_at >= last_time_at):
                store_be64(times + 12 * time_entries, newest)
                store_be32(times + 12 * time_entries + 8, np.int32(newest_at))
                time_entries += 1
                told += 1
                last_time = newest
                last_time_at = newest_at
            since = np.int64(0)
        since += size
        position += size
    store_i64(state + 8 * SINCE_ENTRY, since)
    store_i64(state + 8 * MAX_TIMESTAMP, newest)
    store_i64(state + 8 * MAX_OFFSET, newest_at)
    store_i64(state + 8 * TIME_ENTRIES, told)
    store_i64(state + 8 * LAST_TIME, last_time)
    store_i64(state + 8 * LAST_TIME_OFFSET, last_time_at)
    return entries, time_entries
