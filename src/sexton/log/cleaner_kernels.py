"""Which records of a stretch of log stay, and the bytes that remain of it.

`mark` walks the batches from the last to the first with a set of keys already met. The first time a
key is met its record is the last one with that key, so it stays; every earlier one is superseded.

    batch    k1 k2 k1 │ k3 k1 │ k2 k3       ◀── walked this way
    met                          ✓  ✓
                          ·  ✓
             ·  ·  ·                        what has a ✓ stays

`gather` then writes what stays, batch by batch, as Kafka's cleaner does: a batch that keeps all its
records is copied; one that loses some keeps its base offset and last offset and is written anew.

The set holds 64 bits of each key at a slot given by 64 other bits; decision 0005 says why a chance
collision is not to be feared. Both kernels check every bound against the bytes they are given.
"""

from __future__ import annotations

import numpy as np

from sexton.records.crc_kernels import crc32c
from sexton.records.hash_kernels import hash128
from sexton.records.kernels import (
    BAD_KEY,
    BAD_OFFSET_DELTA,
    BAD_RECORD_LENGTH,
    BAD_VALUE,
    BYTES_LEFT,
    COUNT_TOO_LARGE,
    GUARD,
    HEADER_BYTES,
    OK,
    put_varint,
    varint,
    varint_size,
)
from sexton.records.native import (
    copy,
    high_product,
    inline,
    kernel,
    load_be16,
    load_be32,
    load_be64,
    load_i64,
    load_u8,
    load_u64,
    prefetch,
    store_be16,
    store_be32,
    store_be64,
    store_i64,
    store_u8,
    store_u64,
)

U = np.uint64

# What happens to a batch, decided by `cleaner_rules`. The low bits say which of its records stay:
DROP = 0  # none
KEEP = 1  # all
DEDUPLICATE = 2  # the last of each key
FATE = 3
# Further bits:
EXPIRED = 4  # its delete horizon has passed: tombstones below the bound may go
STAYS_EMPTY = 8  # an empty batch is left where no record stays
WANTS_HORIZON = 16  # its record waits for nothing but a delete horizon
CLEAR_TRANSACTIONAL = 32  # the outcome is known and applied: it is an ordinary batch from now on

# What `mark` says of a record: a tombstone without STAYS has expired, 0 is superseded or aborted.
STAYS = 1
TOMBSTONE = 2
WITHOUT_KEY = 4

# What `gather` did with a batch.
GONE = 0
COPIED = 1
REBUILT = 2
EMPTIED = 3

_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_KEPT_WHEN_EMPTY = 0x38  # timestamp type, transactional, control
_DELETE_HORIZON = 0x40


@inline
def _note_records(place, end, count, last_delta, seed, slots, table, keys, homes, kinds, deltas):
    """Reads the records of one batch into scratch columns and calls for their slots of the set.

    Returns OK or why the batch cannot be read.
    """
    if count * 7 > end - place:
        return COUNT_TOO_LARGE
    previous = np.int64(-1)
    for i in range(count):
        length, place = varint(place, 5)
        stop = place + length
        if length < 6 or stop > end:
            return BAD_RECORD_LENGTH
        _delta, place = varint(place + 1, 10)
        if place > stop:
            return BAD_RECORD_LENGTH
        delta, place = varint(place, 5)
        if delta <= previous or delta > last_delta or place > stop:
            return BAD_OFFSET_DELTA
        previous = delta
        size, place = varint(place, 5)
        if size > stop - place:
            return BAD_KEY
        if size >= 0:
            key, home = hash128(place, size, seed)
            if key == U(0):
                key = U(1)  # 0 is a free slot
            slot = np.int64(high_product(home, U(slots)))
            store_u64(keys + 8 * i, key)
            store_i64(homes + 8 * i, slot)
            prefetch(table + 8 * slot)
            place += size
        else:
            store_i64(homes + 8 * i, np.int64(-1))
        if place >= stop:
            return BAD_KEY
        size, place = varint(place, 5)
        if size > stop - place:
            return BAD_VALUE
        store_u8(kinds + i, np.uint8(TOMBSTONE if size < 0 else 0))
        store_i64(deltas + 8 * i, delta)
        place = stop
    if place != end:
        return BYTES_LEFT
    return OK


@inline
def _met_before(key, slot, slots, table):
    """(was the key in the set?, 1 if it was added)"""
    while True:
        found = load_u64(table + 8 * slot)
        if found == key:
            return True, 0
        if found == U(0):
            store_u64(table + 8 * slot, key)
            return False, 1
        slot += 1
        if slot == slots:
            slot = 0


@kernel(
    "UniTuple(int64, 3)(int64, int64, int64, int64, int64, int64, int64, int64, int64, uint64,"
    " int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)"
)
def mark(
    data, size, headers, starts, ends, fates, batches, first_rows, marks, seed,
    table, slots, used, most_used, part, parts, bound, scratch_batch, scratch, most_rows,
):  # fmt: skip
    """Sets the mark of every record, last batch first.

    Only keys of one `part` of `parts` are looked at; the others' marks are left alone. A tombstone
    of an expired batch goes if its offset is below `bound`.
    Returns (keys in the set, batches not done, fault). It stops before a batch that could fill the
    set beyond `most_used`; the caller takes a larger one and starts over.
    """
    keys = scratch
    homes = keys + 8 * most_rows
    deltas = homes + 8 * most_rows
    kinds = deltas + 8 * most_rows
    for b in range(batches - 1, -1, -1):
        header = headers + HEADER_BYTES * b
        count = np.int64(load_be32(header + 57))
        rows = marks + load_i64(first_rows + 8 * b)
        fate = load_u8(fates + b)
        if fate & FATE != DEDUPLICATE:
            for i in range(count):
                store_u8(rows + i, np.uint8(fate & FATE))
            continue
        if used + count > most_used:
            return used, np.int64(b + 1), np.int64(OK)
        start = data + load_i64(starts + 8 * b)
        end = data + load_i64(ends + 8 * b)
        if end + GUARD > data + size:
            copy(scratch_batch, start, end - start)
            end = scratch_batch + (end - start)
            start = scratch_batch
        last_delta = np.int64(load_be32(header + 23))
        fault = _note_records(
            start, end, count, last_delta, seed, slots, table, keys, homes, kinds, deltas
        )
        if fault != OK:
            return used, np.int64(b + 1), np.int64(fault)
        base_offset = load_be64(header)
        for i in range(count - 1, -1, -1):
            slot = load_i64(homes + 8 * i)
            if slot < 0:
                store_u8(rows + i, np.uint8(WITHOUT_KEY))  # it has no place in a compacted log
                continue
            key = load_u64(keys + 8 * i)
            if parts > 1 and np.int64(high_product(key, U(parts))) != part:
                continue
            met, added = _met_before(key, slot, slots, table)
            used += added
            kind = load_u8(kinds + i)
            if met:
                kind = np.uint8(0)
            elif not (
                kind == TOMBSTONE
                and fate & EXPIRED
                and base_offset + load_i64(deltas + 8 * i) < bound
            ):
                kind |= np.uint8(STAYS)
            store_u8(rows + i, kind)
    return used, np.int64(0), np.int64(OK)


# ── gather ──


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


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def gather(
    raw, positions, data, starts, fates, batches, first_rows, marks, new_horizon, out, sizes, kinds,
):  # fmt: skip
    """Writes what stays of each batch at `out`, one after the other; returns how many bytes.

    `raw` has the batches as they are on disk, `data` their records, inflated where they were
    compressed. A rebuilt batch is written without compression; the caller compresses it. `out` has
    room for all of `data`, and for each record a few bytes more: a longer time delta and length.
    """
    begin = out
    for b in range(batches):
        batch = raw + load_i64(positions + 8 * b)
        size = 12 + np.int64(load_be32(batch + 8))
        count = np.int64(load_be32(batch + 57))
        rows = marks + load_i64(first_rows + 8 * b)
        fate = load_u8(fates + b)
        kept = 0
        tombstones = 0
        for i in range(count):
            mark_of_row = load_u8(rows + i)
            kept += np.int64(mark_of_row & STAYS)
            tombstones |= np.int64(mark_of_row == STAYS | TOMBSTONE)
        attributes = np.int64(load_be16(batch + 21))
        cleared = attributes & ~_TRANSACTIONAL if fate & CLEAR_TRANSACTIONAL else attributes
        had_horizon = attributes & _DELETE_HORIZON
        wants = kept and not had_horizon and (tombstones or fate & WANTS_HORIZON)
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
            _seal(out, end)
            kind = REBUILT
        elif fate & STAYS_EMPTY:
            end = _empty(out, batch, cleared)
            _seal(out, end)
            kind = EMPTIED
        else:
            end = out
            kind = GONE
        store_i64(sizes + 8 * b, end - out)
        store_u8(kinds + b, np.uint8(kind))
        out = end
    return out - begin
