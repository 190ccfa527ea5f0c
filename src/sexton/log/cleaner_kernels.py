"""Which records of a stretch of log stay?

`mark` walks the batches from the last to the first with a set of keys already met. The first time a
key is met its record is the last one with that key, so it stays; every earlier one is superseded.

    batch    k1 k2 k1 │ k3 k1 │ k2 k3       ◀── walked this way
    met                          ✓  ✓
                          ·  ✓
             ·  ·  ·                        what has a ✓ stays

The set holds 64 bits of each key at a slot given by 64 other bits; decision 0005 says why a chance
collision is not to be feared.

Why no input can make these read or write outside their buffers: `lay_out` admits only whole
batches; `count_rows` refuses counts that do not fit into a batch's bytes; `mark` compares its place
with the end of the record after every varint, as `records.kernels.decode` does.
"""

from __future__ import annotations

import numpy as np

from sexton.records.crc_kernels import crc32c
from sexton.records.hash_kernels import hash128
from sexton.records.kernels import (
    BAD_CRC,
    BAD_KEY,
    BAD_OFFSET_DELTA,
    BAD_RECORD_LENGTH,
    BAD_VALUE,
    BYTES_LEFT,
    GUARD,
    HEADER_BYTES,
    OK,
    header_fault,
    varint,
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

MIN_RECORD_BYTES = 7
_NO_KEY = (1 << 61) - 1  # in place of a slot
_IS_TOMBSTONE = 1 << 62  # beside a slot
_CODEC = 0x07


@kernel("UniTuple(int64, 2)(int64, int64, int64, int64, int64, int64)")
def lay_out(raw, size, batches, positions, starts, ends):
    """Notes where each batch of `raw` is, and its records.

    Returns (how many, which codecs there are, a bit each). As many as `batches` are expected, and
    nothing else: otherwise it returns -1.
    """
    place = np.int64(0)
    codecs = np.int64(0)
    for b in range(batches):
        if header_fault(raw + place, size - place) != OK:
            return np.int64(-1), codecs
        end = place + 12 + np.int64(load_be32(raw + place + 8))
        store_i64(positions + 8 * b, place)
        store_i64(starts + 8 * b, place + HEADER_BYTES)
        store_i64(ends + 8 * b, end)
        codecs |= np.int64(1) << (np.int64(load_be16(raw + place + 21)) & _CODEC)
        place = end
    if place != size:
        return np.int64(-1), codecs
    return np.int64(batches), codecs


@inline
def _is_read(fate):
    """Are the records of a batch looked at one by one?"""
    return fate & FATE == DEDUPLICATE or fate & WANTS_HORIZON


@kernel("UniTuple(int64, 3)(int64, int64, int64, int64, int64, int64, int64)")
def count_rows(raw, positions, starts, ends, fates, batches, first_rows):
    """Gives each record that is looked at a row, and notes the first row of each batch.

    Returns (rows, the most in one batch, the most bytes in one); rows are -1 - b if batch b claims
    more records than it has bytes for.
    """
    rows = np.int64(0)
    most = np.int64(0)
    longest = np.int64(0)
    for b in range(batches):
        store_i64(first_rows + 8 * b, rows)
        if _is_read(load_u8(fates + b)):
            size = load_i64(ends + 8 * b) - load_i64(starts + 8 * b)
            count = np.int64(load_be32(raw + load_i64(positions + 8 * b) + 57))
            if count * MIN_RECORD_BYTES > size:
                return np.int64(-1 - b), most, longest
            rows += count
            most = max(most, count)
            longest = max(longest, size)
    return rows, most, longest


@inline
def _note_records(place, end, count, last_delta, seed, slots, table, keys, homes, deltas):
    """Reads the records of one batch into scratch columns and calls for their slots of the set.

    `deltas` is 0 if nobody needs them. Returns OK or why the batch cannot be read.
    """
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
        slot = np.int64(_NO_KEY)
        if size >= 0:
            key, home = hash128(place, size, seed)
            if key == U(0):
                key = U(1)  # 0 is a free slot
            slot = np.int64(high_product(home, U(slots)))
            store_u64(keys + 8 * i, key)
            prefetch(table + 8 * slot)
            place += size
        if place >= stop:
            return BAD_KEY
        size, place = varint(place, 5)
        if size > stop - place:
            return BAD_VALUE
        store_i64(homes + 8 * i, slot | _IS_TOMBSTONE if size < 0 else slot)
        if deltas != 0:
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
    "UniTuple(int64, 3)(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, uint64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)"
)
def mark(
    raw, positions, data, size, starts, ends, fates, batches, first_rows, marks, with_crc, seed,
    table, slots, used, most_used, part, parts, bound, scratch_batch, scratch, most_rows,
):  # fmt: skip
    """Sets the mark of every record that is looked at, last batch first.

    `raw` has the batches as they are on disk, `data` their records, inflated where they were
    compressed. Only keys of one `part` of `parts` are looked at; the others' marks are left alone.
    A tombstone of an expired batch goes if its offset is below `bound`.
    Returns (keys in the set, batches not done, fault). It stops when more than `most_used` slots
    are taken, which are fewer than all; the caller takes a larger set and starts over.
    """
    keys = scratch
    homes = keys + 8 * most_rows
    for b in range(batches - 1, -1, -1):
        batch = raw + load_i64(positions + 8 * b)
        if with_crc:  # while the batch is on its way into the cache
            batch_end = batch + 12 + np.int64(load_be32(batch + 8))
            if np.uint32(load_be32(batch + 17)) != crc32c(batch + 21, batch_end):
                return used, np.int64(b + 1), np.int64(BAD_CRC)
        fate = load_u8(fates + b)
        if not _is_read(fate):
            continue
        count = np.int64(load_be32(batch + 57))
        rows = marks + load_i64(first_rows + 8 * b)
        start = data + load_i64(starts + 8 * b)
        end = data + load_i64(ends + 8 * b)
        if end + GUARD > data + size:
            copy(scratch_batch, start, end - start)
            end = scratch_batch + (end - start)
            start = scratch_batch
        deltas = homes + 8 * most_rows if fate & EXPIRED else np.int64(0)
        last_delta = np.int64(load_be32(batch + 23))
        fault = _note_records(
            start, end, count, last_delta, seed, slots, table, keys, homes, deltas
        )
        if fault != OK:
            return used, np.int64(b + 1), np.int64(fault)
        if fate & FATE != DEDUPLICATE:
            for i in range(count):
                store_u8(rows + i, np.uint8(STAYS if fate & FATE == KEEP else 0))
            continue
        base_offset = load_be64(batch)
        for i in range(count - 1, -1, -1):
            home = load_i64(homes + 8 * i)
            slot = home & ~_IS_TOMBSTONE
            if slot == _NO_KEY:
                store_u8(rows + i, np.uint8(WITHOUT_KEY))  # it has no place in a compacted log
                continue
            key = load_u64(keys + 8 * i)
            if parts > 1 and np.int64(high_product(key, U(parts))) != part:
                continue
            met, added = _met_before(key, slot, slots, table)
            used += added
            if used > most_used:
                return used, np.int64(b + 1), np.int64(OK)
            outcome = np.uint8(0)
            if not met:
                outcome = np.uint8(STAYS)
                if home != slot:
                    gone = fate & EXPIRED and base_offset + load_i64(deltas + 8 * i) < bound
                    outcome = np.uint8(TOMBSTONE if gone else STAYS | TOMBSTONE)
            store_u8(rows + i, outcome)
    return used, np.int64(0), np.int64(OK)
