"""The bytes that remain of a stretch of log, once it is known which records stay.

Batch by batch, as Kafka's cleaner does it: a batch that keeps all its records is copied; one that
loses some keeps its base offset and last offset and is written anew; one that loses all is gone, or
stays as an empty batch where a producer's last one must not be forgotten.

Only batches whose records `cleaner_kernels.mark` has read are written anew, so what is found at
their lengths is inside of them; and the caller gives room for every record at its longest.
"""

from __future__ import annotations

import numpy as np

from sexton.log.cleaner_kernels import (
    CLEAR_TRANSACTIONAL,
    DEDUPLICATE,
    DROP,
    FATE,
    KEEP,
    STAYS,
    STAYS_EMPTY,
    TOMBSTONE,
    WANTS_HORIZON,
    WITHOUT_KEY,
)
from sexton.records.crc_kernels import crc32c
from sexton.records.kernels import HEADER_BYTES, put_varint, varint, varint_size
from sexton.records.native import (
    copy,
    inline,
    kernel,
    load_be16,
    load_be32,
    load_be64,
    load_i64,
    load_u8,
    store_be16,
    store_be32,
    store_be64,
    store_i64,
    store_u8,
)

# What `gather` did with a batch.
GONE = 0
COPIED = 1
REBUILT = 2
EMPTIED = 3

# What `gather` counts, as int64 each.
SUPERSEDED = 0
ABORTED = 1
TOMBSTONES = 2
MARKERS = 3
KEYLESS = 4
EMPTY_BATCHES = 5
TALLY_WORDS = 6

_CODEC = 0x07
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_KEPT_WHEN_EMPTY = 0x38  # timestamp type, transactional, control
_DELETE_HORIZON = 0x40


@inline
def _rebuild(out, batch, start, count, rows, attributes, horizon):
    """Writes the batch with its marked records only; returns its end. The CRC is not set yet."""
    copy(out, batch, HEADER_BYTES)
    old_base = load_be64(batch + 27)
    old_max = load_be64(batch + 35)
    appended = attributes & _LOG_APPEND_TIME
    base = horizon
    newest = np.int64(-1)
    kept = 0
    to = out + HEADER_BYTES
    place = start
    for i in range(count):
        length, place = varint(place, 5)
        stop = place + length
        if load_u8(rows + i) & STAYS:
            delta, place = varint(place + 1, 10)
            time = old_max if appended else old_base + delta
            if kept == 0 and horizon < 0:
                base = time
            newest = max(newest, time)
            kept += 1
            rest = stop - place  # from the offset delta on nothing changes
            to = put_varint(to, np.int64(1 + varint_size(time - base) + rest))
            store_u8(to, np.uint8(0))
            to = put_varint(to + 1, time - base)
            copy(to, place, rest)
            to += rest
        place = stop
    store_be16(out + 21, np.int16(attributes))
    store_be64(out + 27, base)
    store_be64(out + 35, old_max if appended else newest)
    store_be32(out + 57, np.int32(kept))
    return to


@inline
def _empty(out, batch, attributes):
    copy(out, batch, HEADER_BYTES)
    store_be16(out + 21, np.int16(attributes & _KEPT_WHEN_EMPTY))
    store_be64(out + 27, np.int64(-1))
    store_be32(out + 57, np.int32(0))
    return out + HEADER_BYTES


@inline
def _seal(out, end):
    store_be32(out + 8, np.int32(end - out - 12))
    store_be32(out + 17, np.int32(crc32c(out + 21, end)))


@inline
def _add(tally, what, count):
    store_i64(tally + 8 * what, load_i64(tally + 8 * what) + count)


@inline
def _counted(fate, attributes, count, rows, tally):
    """How many records of a batch stay, and how many of these are tombstones; tallies the rest."""
    kept = count if fate & FATE == KEEP else np.int64(0)
    waiting = np.int64(0)
    if fate & FATE == DEDUPLICATE:
        tombstones = np.int64(0)
        keyless = np.int64(0)
        for i in range(count):
            mark_of_row = load_u8(rows + i)
            kept += np.int64(mark_of_row & STAYS)
            waiting += np.int64(mark_of_row == STAYS | TOMBSTONE)
            tombstones += np.int64(mark_of_row == TOMBSTONE)
            keyless += np.int64(mark_of_row == WITHOUT_KEY)
        _add(tally, SUPERSEDED, count - kept - tombstones - keyless)
        _add(tally, TOMBSTONES, tombstones)
        _add(tally, KEYLESS, keyless)
    elif fate & FATE == DROP:
        _add(tally, MARKERS if attributes & _CONTROL else ABORTED, count)
    return kept, waiting


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64)"
)
def gather(
    raw, positions, data, starts, fates, batches, first_rows, marks, new_horizon, out, sizes, kinds,
    tally,
):  # fmt: skip
    """Writes what stays of each batch at `out`, one after the other; returns how many bytes.

    `raw` has the batches as they are on disk, `data` their records, inflated where they were
    compressed. A rebuilt batch is written without compression; if it had one the caller compresses
    and seals it. `out` has room for all of `raw` and `data`, and for each record a few bytes more:
    a longer time delta and length.
    """
    begin = out
    for b in range(batches):
        batch = raw + load_i64(positions + 8 * b)
        size = 12 + np.int64(load_be32(batch + 8))
        count = np.int64(load_be32(batch + 57))
        rows = marks + load_i64(first_rows + 8 * b)
        fate = load_u8(fates + b)
        attributes = np.int64(load_be16(batch + 21))
        kept, waiting = _counted(fate, attributes, count, rows, tally)
        cleared = attributes & ~_TRANSACTIONAL if fate & CLEAR_TRANSACTIONAL else attributes
        had_horizon = attributes & _DELETE_HORIZON
        wants = kept and not had_horizon and (waiting or fate & WANTS_HORIZON)
        if kept and kept == count and not wants:
            copy(out, batch, size)
            end = out + size
            if cleared != attributes:
                store_be16(out + 21, np.int16(cleared))
                _seal(out, end)
            kind = COPIED
        elif kept:
            horizon = np.int64(-1)
            if had_horizon:
                horizon = load_be64(batch + 27)
            elif wants:
                horizon = new_horizon
                cleared |= _DELETE_HORIZON
            start = data + load_i64(starts + 8 * b)
            end = _rebuild(out, batch, start, count, rows, cleared, horizon)
            if attributes & _CODEC == 0:
                _seal(out, end)
            kind = REBUILT
        elif fate & STAYS_EMPTY:
            end = _empty(out, batch, cleared)
            _seal(out, end)
            kind = EMPTIED
        else:
            end = out
            kind = GONE
            if count == 0:
                _add(tally, EMPTY_BATCHES, 1)
        store_i64(sizes + 8 * b, end - out)
        store_u8(kinds + b, np.uint8(kind))
        out = end
    return out - begin
