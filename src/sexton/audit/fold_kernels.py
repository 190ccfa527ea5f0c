"""The last visible record of each key, in one table, at memory speed.

A slot of the table has 16 bytes: the key's fingerprint, and a number that stands for its last
record (0: a tombstone).

    slot   │ fingerprint │ mix(fingerprint, offset, value) │      fingerprint 0: free

The low bits of a fingerprint say where the search for it begins, the high ones which bucket it
belongs to. Rows are taken in blocks: the first loop works out fingerprints and calls for their
slots, the second finds them in the cache.

Rows come from `records.decode`, which has checked that every key and value is inside its buffer.
The caller sees to it that a table has a free slot for every row of a block.
"""

from __future__ import annotations

import numpy as np

from sexton.records.hash_kernels import hash128
from sexton.records.native import (
    high_product,
    inline,
    kernel,
    load_i32,
    load_i64,
    load_u8,
    load_u64,
    prefetch,
    store_i64,
    store_u64,
)

U = np.uint64
BLOCK = 256  # rows
SCRATCH_BYTES = 24 * BLOCK
SLOT_BYTES = 16
BUCKET_SHIFT = 52  # the high 12 bits: 4096 buckets
NEVER = np.int64(2**63 - 1)  # later than any offset

_A, _B = U(0x9E3779B97F4A7C15), U(0xD1B54A32D192ED03)


@inline
def _fingerprint(place, size, seed):
    bits, _more = hash128(place, size, seed)
    if bits == U(0):
        bits = U(1)  # 0 is a free slot
    return bits


@inline
def _mix(fingerprint, offset, value):
    """One number for a record, such that a sum over all keys tells if any of them differs."""
    left = fingerprint ^ _A
    right = (U(offset) * _B) ^ value
    return (left * right) ^ high_product(left, right) ^ value


@kernel("uint64(int64, int64, uint64)")
def fingerprint(place, size, seed):
    """Of one key."""
    return _fingerprint(place, size, seed)


@kernel(
    "UniTuple(int64, 5)(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, uint64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)"
)
def fold(
    first_rows, visible, batches, offsets, keys, key_at, key_len, values, value_at, value_len,
    scratch, seed, start, end, low, high, table, slots, used, most_used, batch, row, first_repeat,
):  # fmt: skip
    """Takes the rows of visible batches from (`batch`, `row`) on, offsets in [start, end).

    Only keys whose bucket is in [low, high) are looked at. Returns (slots used, batch, row, the
    smallest offset at which a key came again, tombstones met). It stops before a block for which
    there may be no room; else `batch` is `batches`.
    """
    mask = slots - 1
    tombstones = np.int64(0)
    while batch < batches:
        stop = load_i64(first_rows + 8 * batch + 8)
        if load_u8(visible + batch) == 0:
            row = stop
        while row < stop:
            if used + BLOCK > most_used:
                return used, np.int64(batch), np.int64(row), first_repeat, tombstones
            block_end = min(row + BLOCK, stop)
            count = 0
            while row < block_end:
                offset = load_i64(offsets + 8 * row)
                size = np.int64(load_i32(key_len + 4 * row))
                if size >= 0 and offset >= start and offset < end:
                    place = keys + np.int64(load_i32(key_at + 4 * row))
                    bits = _fingerprint(place, size, seed)
                    bucket = np.int64(bits >> U(BUCKET_SHIFT))
                    size = np.int64(load_i32(value_len + 4 * row))
                    if size < 0:
                        tombstones += 1
                    if bucket >= low and bucket < high:
                        prefetch(table + SLOT_BYTES * (np.int64(bits) & mask))
                        mixed = U(0)
                        if size >= 0:
                            place = values + np.int64(load_i32(value_at + 4 * row))
                            value, _more = hash128(place, size, seed)
                            mixed = _mix(bits, offset, value)
                        store_u64(scratch + 24 * count, bits)
                        store_u64(scratch + 24 * count + 8, mixed)
                        store_i64(scratch + 24 * count + 16, offset)
                        count += 1
                row += 1
            for i in range(count):
                bits = load_u64(scratch + 24 * i)
                slot = np.int64(bits) & mask
                found = load_u64(table + SLOT_BYTES * slot)
                while found != bits and found != U(0):
                    slot = (slot + 1) & mask
                    found = load_u64(table + SLOT_BYTES * slot)
                if found == bits:
                    first_repeat = min(first_repeat, load_i64(scratch + 24 * i + 16))
                else:
                    store_u64(table + SLOT_BYTES * slot, bits)
                    used += 1
                store_u64(table + SLOT_BYTES * slot + 8, load_u64(scratch + 24 * i + 8))
        batch += 1
    return used, np.int64(batch), np.int64(row), first_repeat, tombstones


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def move(table, slots, low, high, into, into_slots):
    """Copies what is in buckets [low, high) to an empty table; returns how many slots that uses."""
    used = np.int64(0)
    mask = into_slots - 1
    for old in range(slots):
        bits = load_u64(table + SLOT_BYTES * old)
        bucket = np.int64(bits >> U(BUCKET_SHIFT))
        if bits != U(0) and bucket >= low and bucket < high:
            slot = np.int64(bits) & mask
            while load_u64(into + SLOT_BYTES * slot) != U(0):
                slot = (slot + 1) & mask
            store_u64(into + SLOT_BYTES * slot, bits)
            store_u64(into + SLOT_BYTES * slot + 8, load_u64(table + SLOT_BYTES * old + 8))
            used += 1
    return used


@kernel("void(int64, int64, int64)")
def sum_up(table, slots, digests):
    """Adds every key's number to the digest of its bucket."""
    for slot in range(slots):
        bits = load_u64(table + SLOT_BYTES * slot)
        if bits != U(0):
            place = digests + 8 * np.int64(bits >> U(BUCKET_SHIFT))
            store_u64(place, load_u64(place) + load_u64(table + SLOT_BYTES * slot + 8))


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, uint64, int64, int64, uint64,"
    " int64, int64)"
)
def select(
    first_rows, visible, batches, offsets, keys, key_at, key_len, seed, start, asked, ceiling,
    rows, fingerprints,
):  # fmt: skip
    """Notes visible rows from offset `start` on whose key is in a bucket that is `asked` for.

    A fingerprint at or over the ceiling is left out. Returns how many rows were noted.
    """
    count = np.int64(0)
    for batch in range(batches):
        if load_u8(visible + batch) == 0:
            continue
        for row in range(load_i64(first_rows + 8 * batch), load_i64(first_rows + 8 * batch + 8)):
            size = np.int64(load_i32(key_len + 4 * row))
            if size < 0 or load_i64(offsets + 8 * row) < start:
                continue
            place = keys + np.int64(load_i32(key_at + 4 * row))
            bits = _fingerprint(place, size, seed)
            if bits < ceiling and load_u8(asked + np.int64(bits >> U(BUCKET_SHIFT))) != 0:
                store_i64(rows + 8 * count, row)
                store_u64(fingerprints + 8 * count, bits)
                count += 1
    return count
