"""What was last seen of each key, in one table, and what a new record does to it.

A slot has 32 bytes: 128 bits of the key's hash, a number, and the offset that it was seen at.

    slot   │ fingerprint │ more of it │ number │ offset + 2 │     0: free      1: forgotten

The low bits of the fingerprint say where the search for it begins, the high ones which bucket it
belongs to (as in `fold_kernels`). Two keys are taken for one only if all 128 bits agree.

Rows have been turned into arrays before: fingerprints, numbers, offsets. The caller sees to it that
there is room for at least one more key, and for one more event.
"""

from __future__ import annotations

import numpy as np

from sexton.records.native import (
    high_product,
    inline,
    kernel,
    load_i64,
    load_u8,
    load_u64,
    prefetch,
    store_i64,
    store_u8,
    store_u64,
)

U = np.uint64
SLOT_BYTES = 32
EVENT_BYTES = 40
BUCKET_SHIFT = 52  # the high 12 bits: 4096 buckets
AHEAD = 12  # rows whose slots are called for
FORGOTTEN = 1
SHIFT = 2  # offsets begin here

# What is asked of a key's numbers: not to fall, to rise, to rise by one; to come once; its last.
NEVER_BACK, RISING, SEQUENCE, ONCE, LAST = range(5)
# What happened: it went back; it left some out; it came again, the same or with other content.
WENT_BACK, LEFT_OUT, AGAIN, AGAIN_OTHERWISE = 1, 2, 3, 4

_FOUND, _EMPTY = 0, 1


@inline
def _slot(table, mask, one, other):
    """The slot of a key: its own, or the free one where it belongs."""
    slot = np.int64(one) & mask
    while True:
        place = table + SLOT_BYTES * slot
        if load_i64(place + 24) == 0:
            return place
        if load_u64(place) == one and load_u64(place + 8) == other:
            return place
        slot = (slot + 1) & mask


@kernel(
    "UniTuple(int64, 3)(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64, int64, int64, int64)"
)
def fold(
    prints, numbers, status, offsets, count, row, mode, low, high, table, slots, used, most_used,
    events, most_events,
):  # fmt: skip
    """Takes rows from `row` on; returns (row, slots used, events).

    It stops before a row for which there may be no room, in the table or among the events. Only
    keys whose bucket is in [low, high) are looked at.
    """
    mask = slots - 1
    noted = np.int64(0)
    while row < count:
        if used >= most_used or noted >= most_events:
            break
        if row + AHEAD < count:
            prefetch(table + SLOT_BYTES * (np.int64(load_u64(prints + 16 * (row + AHEAD))) & mask))
        one = load_u64(prints + 16 * row)
        bucket = np.int64(one >> U(BUCKET_SHIFT))
        state = np.int64(load_u8(status + row))
        if state <= _EMPTY and bucket >= low and bucket < high:
            place = _slot(table, mask, one, load_u64(prints + 16 * row + 8))
            seen = load_i64(place + 24)
            if state == _EMPTY:
                if seen != 0 and mode != ONCE:
                    store_i64(place + 24, FORGOTTEN)
            else:
                number = load_i64(numbers + 8 * row)
                last = load_i64(place + 16)
                kind = np.int64(0)
                if seen == 0:
                    store_u64(place, one)
                    store_u64(place + 8, load_u64(prints + 16 * row + 8))
                    used += 1
                elif seen >= SHIFT:
                    if mode == ONCE:
                        kind = np.int64(AGAIN if number == last else AGAIN_OTHERWISE)
                    elif mode != LAST:
                        if number < last or (mode != NEVER_BACK and number == last):
                            kind = np.int64(WENT_BACK)
                        elif mode == SEQUENCE and number - 1 > last:
                            kind = np.int64(LEFT_OUT)
                if kind != 0:
                    event = events + EVENT_BYTES * noted
                    store_i64(event, row)
                    store_i64(event + 8, kind)
                    store_i64(event + 16, last)
                    store_i64(event + 24, seen - SHIFT)
                    store_i64(event + 32, bucket)
                    noted += 1
                if mode != ONCE or kind == 0:
                    store_i64(place + 16, number)
                    store_i64(place + 24, load_i64(offsets + 8 * row) + SHIFT)
        row += 1
    return row, used, noted


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def move(table, slots, low, high, into, into_slots):
    """Copies the keys of buckets [low, high) that are not forgotten; returns how many."""
    mask = into_slots - 1
    used = np.int64(0)
    for slot in range(slots):
        place = table + SLOT_BYTES * slot
        one = load_u64(place)
        bucket = np.int64(one >> U(BUCKET_SHIFT))
        if load_i64(place + 24) >= SHIFT and bucket >= low and bucket < high:
            to = _slot(into, mask, one, load_u64(place + 8))
            store_u64(to, one)
            store_u64(to + 8, load_u64(place + 8))
            store_i64(to + 16, load_i64(place + 16))
            store_i64(to + 24, load_i64(place + 24))
            used += 1
    return used


@kernel("int64(int64, int64, int64, int64, int64)")
def put(entries, count, table, slots, used):
    """Entries that were kept (slots of another table) into this one; the later one counts."""
    mask = slots - 1
    for entry in range(count):
        place = entries + SLOT_BYTES * entry
        one = load_u64(place)
        to = _slot(table, mask, one, load_u64(place + 8))
        if load_i64(to + 24) == 0:
            if load_i64(place + 24) == FORGOTTEN:
                continue  # there is nothing to forget
            used += 1
        store_u64(to, one)
        store_u64(to + 8, load_u64(place + 8))
        store_i64(to + 16, load_i64(place + 16))
        store_i64(to + 24, load_i64(place + 24))
    return used


@kernel("void(int64, int64, int64, int64, int64)")
def pick(prints, count, table, slots, out):
    """The slots of these keys, as they are now.

    One that is not there is forgotten: `move` has dropped it, and an older entry may still be kept.
    """
    mask = slots - 1
    for row in range(count):
        if row + AHEAD < count:
            prefetch(table + SLOT_BYTES * (np.int64(load_u64(prints + 16 * (row + AHEAD))) & mask))
        one, other = load_u64(prints + 16 * row), load_u64(prints + 16 * row + 8)
        place = _slot(table, mask, one, other)
        seen = load_i64(place + 24)
        to = out + SLOT_BYTES * row
        store_u64(to, one)
        store_u64(to + 8, other)
        store_i64(to + 16, load_i64(place + 16))
        store_i64(to + 24, seen if seen != 0 else np.int64(FORGOTTEN))


@kernel("void(int64, int64, int64)")
def sum_up(table, slots, digests):
    """Adds one number for each key that is there to the digest of its bucket."""
    for slot in range(slots):
        place = table + SLOT_BYTES * slot
        if load_i64(place + 24) >= SHIFT:
            one = load_u64(place)
            left = one ^ U(0x9E3779B97F4A7C15)
            right = load_u64(place + 8) ^ (load_u64(place + 16) * U(0xD1B54A32D192ED03))
            mixed = (left * right) ^ high_product(left, right) ^ load_u64(place + 16)
            digest = digests + 8 * np.int64(one >> U(BUCKET_SHIFT))
            store_u64(digest, load_u64(digest) + mixed)


@kernel("int64(int64, int64, int64, int64, int64)")
def mark(prints, status, count, bits, mask):
    """Sets a bit for each row that has an id; returns how many rows have one."""
    marked = np.int64(0)
    for row in range(count):
        if load_u8(status + row) == _FOUND:
            at = np.int64(load_u64(prints + 16 * row + 8)) & mask
            word = bits + 8 * (at >> 6)
            store_u64(word, load_u64(word) | (U(1) << U(at & 63)))
            marked += 1
    return marked


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def marked(prints, status, count, bits, mask, rows):
    """Which rows have an id whose bit is set; returns how many."""
    found = np.int64(0)
    for row in range(count):
        if load_u8(status + row) == _FOUND:
            at = np.int64(load_u64(prints + 16 * row + 8)) & mask
            if (load_u64(bits + 8 * (at >> 6)) >> U(at & 63)) & U(1) != U(0):
                store_i64(rows + 8 * found, row)
                found += 1
    return found


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def look_up(prints, status, count, table, slots, numbers, out_status):
    """The number of each row's key; returns how many keys are not in the table."""
    mask = slots - 1
    unknown = np.int64(0)
    for row in range(count):
        if row + AHEAD < count:
            prefetch(table + SLOT_BYTES * (np.int64(load_u64(prints + 16 * (row + AHEAD))) & mask))
        state = np.int64(load_u8(status + row))
        number = np.int64(0)
        if state == _FOUND:
            place = _slot(table, mask, load_u64(prints + 16 * row), load_u64(prints + 16 * row + 8))
            if load_i64(place + 24) >= SHIFT:
                number = load_i64(place + 16)
            else:
                state = np.int64(2)
                unknown += 1
        store_i64(numbers + 8 * row, number)
        store_u8(out_status + row, np.uint8(state))
    return unknown
