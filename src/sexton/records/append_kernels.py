"""Rows into the open batch of their partition, in one walk: which partition, and its record there.

    Arrow columns ──▶ partition: given, or by the key (murmur2, as Kafka's Java client), or in turn
                  ──▶ record, right behind the last one of that partition

Every partition of every topic has a slot: memory in which its next batch grows, record by record.
The walk stops at the first row for which a slot has no room. The caller then makes room, by taking
the batch or by giving more memory, and has the walk go on from that row.

Why nothing outside is read or written: a row's bytes are looked at only after its offsets were
compared with the size of their column; a record is written only if its slot has room for all of it,
and each slot has `GUARD` bytes more than it says, for copies in steps of 32.
"""

from __future__ import annotations

import numpy as np

from sexton.records import key_hash
from sexton.records.kernels import (
    HEADER_BYTES,
    body_size,
    copy_bytes,
    put_varint,
    seal,
    varint_size,
)
from sexton.records.native import (
    inline,
    kernel,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    store_be16,
    store_be32,
    store_be64,
    store_i64,
    store_u8,
)

U32 = np.uint32
_FACTOR = np.uint32(key_hash.FACTOR)
_SEED = np.uint32(key_hash.SEED)

# Why a walk stopped; the second number of its answer says where, the third how much.
DONE = 0
FULL = 1  # slot, bytes that the record takes
NO_PARTITION = 2  # topic, the partition that was asked for
OUTSIDE = 3

# A column of byte strings, as numbers: see `open_batches.Strings`.
_DATA, _SIZE, _ENDS, _VALID, _FIRST = 0, 8, 16, 24, 32
_COLUMN = 40
# What a walk is given: four such columns, then these.
_KEY, _VALUE, _HEADER_KEY, _HEADER_VALUE = 0, _COLUMN, 2 * _COLUMN, 3 * _COLUMN
_LISTS, _TIMES, _NOW, _PARTITIONS, _TOPICS = 160, 168, 176, 184, 192
# A slot, and a topic.
_PLACE, _ROOM, _USED, _COUNT, _BASE_TIME, _MOST_TIME = 0, 8, 16, 24, 32, 40
_SLOT = 48
_FIRST_SLOT, _HOW_MANY, _TURN, _LOOSE, _PER_TURN = 0, 8, 16, 24, 32
_TOPIC = 40
_BETWEEN = 8  # of a row without a key, beside what it holds: it need not be exact


@inline
def murmur2(place, size):
    """As `key_hash.murmur2`; products wrap around."""
    mixed = _SEED ^ U32(size)
    stop = place + (size & ~np.int64(3))
    while place < stop:
        word = U32(load_u32(place) * _FACTOR)
        word = U32((word ^ (word >> U32(24))) * _FACTOR)
        mixed = U32(mixed * _FACTOR) ^ word
        place += 4
    left = size & 3
    if left > 2:
        mixed ^= U32(load_u8(place + 2)) << U32(16)
    if left > 1:
        mixed ^= U32(load_u8(place + 1)) << U32(8)
    if left > 0:
        mixed = U32((mixed ^ U32(load_u8(place))) * _FACTOR)
    mixed = U32((mixed ^ (mixed >> U32(13))) * _FACTOR)
    return mixed ^ (mixed >> U32(15))


@inline
def _length(column, row):
    """Of one item of a column: -1 null, -2 its offsets are wrong."""
    valid = load_i64(column + _VALID)
    if valid != 0:
        bit = load_i64(column + _FIRST) + row
        if not (load_u8(valid + (bit >> 3)) >> (bit & 7)) & 1:
            return np.int64(-1)
    ends = load_i64(column + _ENDS) + 4 * row
    start = np.int64(load_i32(ends))
    end = np.int64(load_i32(ends + 4))
    if start < 0 or end < start or end > load_i64(column + _SIZE):
        return np.int64(-2)
    return end - start


@inline
def _place(column, row):
    return load_i64(column + _DATA) + np.int64(load_i32(load_i64(column + _ENDS) + 4 * row))


@inline
def _put_bytes(to, column, row, size):
    """A length and the bytes; returns the place after them."""
    to = put_varint(to, size)
    if size > 0:
        end = load_i64(column + _DATA) + load_i64(column + _SIZE)
        copy_bytes(to, _place(column, row), size, end)
        to += size
    return to


@kernel("int64(int64, int64)")
def _headers_size(columns, row):
    """Bytes of a row's headers with their count; -2: some offsets are wrong."""
    lists = load_i64(columns + _LISTS) + 4 * row
    start = np.int64(load_i32(lists))
    end = np.int64(load_i32(lists + 4))
    size = np.int64(varint_size(end - start))
    for item in range(start, end):
        key = _length(columns + _HEADER_KEY, item)
        value = _length(columns + _HEADER_VALUE, item)
        if key < 0 or value < -1:
            return np.int64(-2)
        size += varint_size(key) + key + varint_size(value) + max(value, 0)
    return size


@kernel("int64(int64, int64, int64)")
def _put_headers(to, columns, row):
    lists = load_i64(columns + _LISTS) + 4 * row
    start = np.int64(load_i32(lists))
    end = np.int64(load_i32(lists + 4))
    to = put_varint(to, end - start)
    for item in range(start, end):
        key, value = columns + _HEADER_KEY, columns + _HEADER_VALUE
        to = _put_bytes(to, key, item, _length(key, item))
        to = _put_bytes(to, value, item, _length(value, item))
    return to


@inline
def _put_body(to, time_delta, offset_delta, columns, row, key, value, headers):
    """A record but for its length; the sizes are those of its parts."""
    store_u8(to, np.uint8(0))
    to = put_varint(to + 1, time_delta)
    to = put_varint(to, offset_delta)
    to = _put_bytes(to, columns + _KEY, row, key)
    to = _put_bytes(to, columns + _VALUE, row, value)
    if headers > 1:
        _put_headers(to, columns, row)
    else:
        store_u8(to, np.uint8(0))


@inline
def _note(slot, used, count, time):
    """What a slot holds, now that a record of this time is the last of it."""
    if count == 1:
        store_i64(slot + _BASE_TIME, time)
    if count == 1 or time > load_i64(slot + _MOST_TIME):
        store_i64(slot + _MOST_TIME, time)
    store_i64(slot + _USED, used)
    store_i64(slot + _COUNT, count)


@inline
def _stopped(answer, why, where, how_much, row):
    store_i64(answer, np.int64(why))
    store_i64(answer + 8, np.int64(where))
    store_i64(answer + 16, np.int64(how_much))
    return row


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def append(columns, row, rows, topics, slots, answer):
    """Takes rows from `row` on; returns the first that it did not take, and says why."""
    lists = load_i64(columns + _LISTS)
    times = load_i64(columns + _TIMES)
    time = load_i64(columns + _NOW)
    partitions = load_i64(columns + _PARTITIONS)
    numbers = load_i64(columns + _TOPICS)
    while row < rows:
        key = _length(columns + _KEY, row)
        value = _length(columns + _VALUE, row)
        headers = np.int64(1)
        if lists != 0:
            headers = _headers_size(columns, row)
        if key < -1 or value < -1 or headers < 0:
            return _stopped(answer, OUTSIDE, row, 0, row)

        number = np.int64(0)
        if numbers != 0:
            number = np.int64(load_i32(numbers + 4 * row))
        topic = topics + _TOPIC * number
        how_many = load_i64(topic + _HOW_MANY)
        chosen = np.int64(-1)
        if partitions != 0:
            chosen = np.int64(load_i32(partitions + 4 * row))
        if chosen < -1 or chosen >= how_many:
            return _stopped(answer, NO_PARTITION, number, chosen, row)
        loose = np.int64(0)
        if chosen < 0:
            if key >= 0:
                hashed = murmur2(_place(columns + _KEY, row), key)
                chosen = np.int64(hashed & U32(0x7FFFFFFF)) % how_many
            else:
                turn = load_i64(topic + _LOOSE) // load_i64(topic + _PER_TURN)
                chosen = (load_i64(topic + _TURN) + turn) % how_many
                loose = max(value, np.int64(0)) + headers + _BETWEEN

        slot = slots + _SLOT * (load_i64(topic + _FIRST_SLOT) + chosen)
        used = load_i64(slot + _USED)
        count = load_i64(slot + _COUNT)
        if times != 0:
            time = load_i64(times + 8 * row)
        base = time
        if count > 0:
            base = load_i64(slot + _BASE_TIME)
        body = np.int64(body_size(time - base, count, key, value, headers))
        size = varint_size(body) + body
        if used + size > load_i64(slot + _ROOM):
            return _stopped(answer, FULL, (slot - slots) // _SLOT, size, row)

        place = put_varint(load_i64(slot + _PLACE) + used, body)
        _put_body(place, time - base, count, columns, row, key, value, headers)
        _note(slot, used + size, count + 1, time)
        store_i64(topic + _LOOSE, load_i64(topic + _LOOSE) + loose)
        row += 1
    return _stopped(answer, DONE, 0, 0, row)


@kernel("int64(int64, int64)")
def close(slot, attributes):
    """Makes what a slot holds a whole batch but for its producer, where it is; returns its size."""
    place = load_i64(slot + _PLACE)
    size = load_i64(slot + _USED)
    count = load_i64(slot + _COUNT)
    store_be64(place, np.int64(0))
    store_be32(place + 12, np.int32(-1))
    store_u8(place + 16, np.uint8(2))
    store_be16(place + 21, np.int16(attributes))
    store_be32(place + 23, np.int32(count - 1))
    store_be64(place + 27, load_i64(slot + _BASE_TIME))
    store_be64(place + 35, load_i64(slot + _MOST_TIME))
    store_be64(place + 43, np.int64(-1))
    store_be16(place + 51, np.int16(-1))
    store_be32(place + 53, np.int32(-1))
    store_be32(place + 57, np.int32(count))
    seal(place, size)
    store_i64(slot + _USED, np.int64(HEADER_BYTES))
    store_i64(slot + _COUNT, np.int64(0))
    return size
