"""Record batches to columns and back, at memory speed, from bytes that may be hostile.

Why no input can make these read or write outside their buffers:

* `scan` hops from header to header and admits a batch only if all of it is in the buffer.
* `decode` reads a record's length first and requires its end inside the batch. Inside a record it
  compares its place with the record's end after every varint, so it can run at most ten bytes past
  the batch. A batch within `GUARD` bytes of the end of the buffer is copied to a padded scratch
  buffer first (there is at most one: a batch has 61 bytes).
* A record takes seven bytes or more, so a header that claims more records than that is refused
  before anything is allocated for them, and no loop runs longer than its bytes.
* `encode` checks every span against its buffer, and its caller has room for the longest varints.

A bad varint is reported as a place past every end, so one comparison catches both kinds of error.
"""

from __future__ import annotations

import numpy as np

from sexton.records.crc_kernels import crc32c
from sexton.records.native import (
    copy,
    copy32,
    inline,
    kernel,
    load_be32,
    load_be64,
    load_i32,
    load_i64,
    load_u8,
    prefetch,
    store_be32,
    store_i32,
    store_i64,
    store_u8,
)

U = np.uint64
GUARD = 32
NOWHERE = np.int64(1) << 62

# Why a batch is bad; `decoder` puts them into words. scan: 1 to 7, decode: 8 up.
OK = 0
SHORT_HEADER = 1
BAD_MAGIC = 2
BAD_LENGTH = 3
TORN = 4
BAD_BASE_OFFSET = 5
BAD_LAST_OFFSET_DELTA = 6
BAD_COUNT = 7
BAD_CRC = 8
COUNT_TOO_LARGE = 9
BAD_RECORD_LENGTH = 10
BAD_KEY = 11
BAD_VALUE = 12
BAD_HEADERS = 13
BAD_OFFSET_DELTA = 14
BYTES_LEFT = 15

HEADER_BYTES = 61
MOST_OFFSET = np.int64(2**63 - 2)  # the next offset is an int64 as well
# What a record takes beside key, value and headers, with every varint at its longest: length 5,
# attributes 1, timestamp 10, offset 10 (if a caller's offsets are wild), key 5, value 5, headers 1.
ROW_BYTES = 37


# ── varints: zigzag, seven bits a byte, low bits first; an int has at most 5 bytes, a long 10 ──


@inline
def _unzigzag(value):
    return np.int64(value >> U(1)) ^ -np.int64(value & U(1))


@kernel("UniTuple(int64, 2)(int64, int64)")
def _long_varint(place, most):
    value = U(0)
    shift = U(0)
    for _ in range(most):
        byte = load_u8(place)
        place += 1
        value |= U(byte & 0x7F) << shift
        if byte < 0x80:
            # The last byte has room for more bits than its int or long has left.
            if (most == 5 and value >> U(32) != 0) or (shift == U(63) and byte > 1):
                break
            return _unzigzag(value), place
        shift += U(7)
    return np.int64(0), NOWHERE


@inline
def varint(place, most):
    """(value, the place after it); the place is NOWHERE if it does not end in `most` bytes."""
    low = np.int64(load_u8(place))
    if low < 0x80:
        return (low >> 1) ^ -(low & 1), place + 1
    high = np.int64(load_u8(place + 1))
    if high < 0x80:
        value = (low & 0x7F) | (high << 7)
        return (value >> 1) ^ -(value & 1), place + 2
    return _long_varint(place, most)


@inline
def varint_size(value):
    zigzag = U((value << 1) ^ (value >> 63))
    size = 1
    while zigzag >= U(0x80):
        zigzag >>= U(7)
        size += 1
    return size


@inline
def put_varint(place, value):
    zigzag = U((value << 1) ^ (value >> 63))
    if zigzag < U(0x80):
        store_u8(place, np.uint8(zigzag))
        return place + 1
    if zigzag < U(0x4000):
        store_u8(place, np.uint8(zigzag | U(0x80)))
        store_u8(place + 1, np.uint8(zigzag >> U(7)))
        return place + 2
    while zigzag >= U(0x80):
        store_u8(place, np.uint8((zigzag & U(0x7F)) | U(0x80)))
        zigzag >>= U(7)
        place += 1
    store_u8(place, np.uint8(zigzag))
    return place + 1


# ── scan: where are the batches? ──


@inline
def header_fault(place, left):
    if left < HEADER_BYTES:
        return SHORT_HEADER
    if load_u8(place + 16) != 2:
        return BAD_MAGIC
    length = np.int64(load_be32(place + 8))
    if length < HEADER_BYTES - 12:
        return BAD_LENGTH
    base_offset = load_be64(place)
    if base_offset < 0:
        return BAD_BASE_OFFSET
    last_delta = np.int64(load_be32(place + 23))
    if last_delta < 0 or base_offset > MOST_OFFSET - last_delta:
        return BAD_LAST_OFFSET_DELTA
    if load_be32(place + 57) < 0:
        return BAD_COUNT
    if length > left - 12:  # last: what is wrong in itself does not become right with more bytes
        return TORN
    return OK


@kernel("UniTuple(int64, 3)(int64, int64, int64, int64, int64)")
def scan(data, size, positions, headers, most):
    """Notes position and header of each whole batch, `most` at the most.

    Returns how many, where it stopped, and why (OK at the end of the data or if `most` are found).
    """
    place = data
    end = data + size
    found = 0
    while place < end and found < most:
        fault = header_fault(place, end - place)
        if fault != OK:
            return found, place - data, fault
        store_i64(positions + 8 * found, place - data)
        copy(headers + HEADER_BYTES * found, place, HEADER_BYTES)
        found += 1
        place += 12 + np.int64(load_be32(place + 8))
    return found, place - data, OK


@kernel("int64(int64, int64, int64, int64)")
def check_crcs(data, positions, batches, status):
    """Sets status to BAD_CRC where the sum does not match; returns how many do not."""
    bad = 0
    for b in range(batches):
        place = data + load_i64(positions + 8 * b)
        end = place + 12 + np.int64(load_be32(place + 8))
        if np.uint32(load_be32(place + 17)) != crc32c(place + 21, end):
            store_i32(status + 4 * b, np.int32(BAD_CRC))
            bad += 1
    return bad


# ── decode: records to columns ──


@kernel("int64(int64, int64)")
def _headers_fault(place, end):
    """OK if [place, end) is a header count and that many headers, exactly."""
    count, place = varint(place, 5)
    if count < 0 or place > end or count > (end - place) // 2:
        return BAD_HEADERS
    for _ in range(count):
        size, place = varint(place, 5)
        if size < 0 or place > end or size > end - place:
            return BAD_HEADERS
        place += size
        if place >= end:
            return BAD_HEADERS
        size, place = varint(place, 5)
        if place > end or size > end - place:
            return BAD_HEADERS
        if size > 0:
            place += size
    if place != end:
        return BAD_HEADERS
    return OK


@kernel(
    "UniTuple(int64, 2)(int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64, int64, int64, int64, int64, int64, int64)"
)
def _decode_batch(
    zero, place, end, count, base_offset, last_delta, base_timestamp, row,
    offsets, timestamps, key_at, key_len, value_at, value_len, headers_at, headers_len,
):  # fmt: skip
    """Writes `count` rows from `row` on; returns (fault, place of it). Spans count from `zero`."""
    if count * 7 > end - place:
        return COUNT_TOO_LARGE, place
    previous = np.int64(-1)
    # While this batch is picked apart memory is idle: have the next one brought in meanwhile.
    ahead = end - place + HEADER_BYTES
    for i in range(count):
        record = place
        prefetch(record + ahead)
        prefetch(record + ahead + 64)
        length, place = varint(place, 5)
        stop = place + length
        if length < 6 or stop > end:
            return BAD_RECORD_LENGTH, record
        delta, place = varint(place + 1, 10)  # one byte of record attributes, all unused
        if place > stop:
            return BAD_RECORD_LENGTH, record
        store_i64(timestamps + 8 * (row + i), base_timestamp + delta)
        delta, place = varint(place, 5)
        if delta <= previous or delta > last_delta or place > stop:
            return BAD_OFFSET_DELTA, record
        previous = delta
        store_i64(offsets + 8 * (row + i), base_offset + delta)
        size, place = varint(place, 5)
        if size > stop - place:
            return BAD_KEY, record
        store_i32(key_at + 4 * (row + i), np.int32(place - zero))
        store_i32(key_len + 4 * (row + i), np.int32(max(size, -1)))
        place += max(size, 0)
        if place >= stop:
            return BAD_KEY, record
        size, place = varint(place, 5)
        if size > stop - place:
            return BAD_VALUE, record
        store_i32(value_at + 4 * (row + i), np.int32(place - zero))
        store_i32(value_len + 4 * (row + i), np.int32(max(size, -1)))
        place += max(size, 0)
        if place >= stop:
            return BAD_VALUE, record
        store_i32(headers_at + 4 * (row + i), np.int32(place - zero))
        store_i32(headers_len + 4 * (row + i), np.int32(stop - place))
        if (stop - place != 1 or load_u8(place) != 0) and _headers_fault(place, stop) != OK:
            return BAD_HEADERS, record
        place = stop
    if place != end:
        return BYTES_LEFT, place
    return OK, place


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64, int64, int64, int64, int64, int64)"
)
def decode(
    data, size, headers, starts, ends, batches, with_crc, scratch, first_rows, status, fault_at,
    offsets, timestamps, key_at, key_len, value_at, value_len, headers_at, headers_len,
):  # fmt: skip
    """Decodes the records of each batch, at [start, end) of data; returns the number of rows.

    With `with_crc` a batch's header stands before its records (nothing was decompressed) and its
    sum is checked while the bytes are on their way to the cache. A batch whose status is not OK,
    before or after, has no rows. `scratch` holds the longest batch and GUARD bytes.
    """
    row = 0
    for b in range(batches):
        store_i64(first_rows + 8 * b, row)
        if load_i32(status + 4 * b) != OK:
            continue
        header = headers + HEADER_BYTES * b
        start = data + load_i64(starts + 8 * b)
        end = data + load_i64(ends + 8 * b)
        if with_crc and np.uint32(load_be32(header + 17)) != crc32c(start - 40, end):
            store_i32(status + 4 * b, np.int32(BAD_CRC))
            store_i64(fault_at + 8 * b, start - 61 - data)
            continue
        zero = data
        if end + GUARD > data + size:
            copy(scratch, start, end - start)
            zero = scratch - (start - data)
            end = scratch + (end - start)
            start = scratch
        count = np.int64(load_be32(header + 57))
        fault, place = _decode_batch(
            zero, start, end, count, load_be64(header), np.int64(load_be32(header + 23)),
            load_be64(header + 27), row,
            offsets, timestamps, key_at, key_len, value_at, value_len, headers_at, headers_len,
        )  # fmt: skip
        if fault != OK:
            store_i32(status + 4 * b, np.int32(fault))
            store_i64(fault_at + 8 * b, place - zero)
            continue
        row += count
    store_i64(first_rows + 8 * batches, row)
    return row


# ── encode: columns to records ──


@inline
def body_size(time_delta, offset_delta, key_size, value_size, headers_size):
    return (
        1 + varint_size(time_delta) + varint_size(offset_delta)
        + varint_size(key_size) + max(key_size, 0)
        + varint_size(value_size) + max(value_size, 0)
        + max(headers_size, 1)
    )  # fmt: skip


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def measure(
    row, stop, base_offset, base_timestamp, most, offsets, timestamps, key_len, value_len, head_len
):
    """How many rows from `row` on make a batch of at most `most` bytes (one at the least)."""
    size = np.int64(HEADER_BYTES)
    start = row
    while row < stop:
        body = np.int64(
            body_size(
                load_i64(timestamps + 8 * row) - base_timestamp,
                load_i64(offsets + 8 * row) - base_offset,
                np.int64(load_i32(key_len + 4 * row)),
                np.int64(load_i32(value_len + 4 * row)),
                np.int64(load_i32(head_len + 4 * row)),
            )
        )
        size += varint_size(body) + body
        if size > most and row > start:
            break
        row += 1
    return row - start


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def plan(
    first_rows, rows, most_bytes, most_rows, offsets, timestamps, key_len, value_len, head_len
):
    """Notes the first row of each batch and after them `rows`; returns how many batches."""
    batches = 0
    row = np.int64(0)
    while row < rows:
        store_i64(first_rows + 8 * batches, row)
        batches += 1
        row += measure(
            row, min(row + most_rows, rows),
            load_i64(offsets + 8 * row), load_i64(timestamps + 8 * row), most_bytes,
            offsets, timestamps, key_len, value_len, head_len,
        )  # fmt: skip
    store_i64(first_rows + 8 * batches, rows)
    return batches


@kernel("int64(int64, int64)")
def total(lengths, rows):
    """The bytes of a column: a null, of length -1, has none."""
    size = np.int64(0)
    for row in range(rows):
        size += max(np.int64(load_i32(lengths + 4 * row)), np.int64(0))
    return size


@inline
def _outside(at, length, size):
    return length > 0 and (at < 0 or at + length > size)


@inline
def copy_bytes(to, source, size, source_end):
    """Copies in steps of 32 while the source has room for a whole step, else exactly."""
    if source + size + 32 <= source_end:
        stop = to + size
        while to < stop:
            copy32(to, source)
            to += 32
            source += 32
    else:
        copy(to, source, size)


@kernel("void(int64, int64)")
def seal(place, size):
    """Writes length and CRC of the batch of `size` bytes at `place`."""
    store_be32(place + 8, np.int32(size - 12))
    store_be32(place + 17, np.int32(crc32c(place + 21, place + size)))


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64, int64, int64, int64, int64, int64)"
)
def encode(
    out, sizes, headers, first_rows, batches, offsets, timestamps,
    keys, keys_size, key_at, key_len, values, values_size, value_at, value_len,
    heads, heads_size, head_at, head_len,
):  # fmt: skip
    """Writes the batches one after the other and notes their sizes; returns their end.

    Returns -1 - row instead if a span of that row is not inside its buffer. `out` has room for
    ROW_BYTES a row beside its key, value and headers, HEADER_BYTES a batch, and GUARD bytes.
    """
    for b in range(batches):
        header = headers + HEADER_BYTES * b
        base_offset = load_be64(header)
        base_timestamp = load_be64(header + 27)
        place = out + HEADER_BYTES
        for row in range(load_i64(first_rows + 8 * b), load_i64(first_rows + 8 * b + 8)):
            time_delta = load_i64(timestamps + 8 * row) - base_timestamp
            offset_delta = load_i64(offsets + 8 * row) - base_offset
            key, key_size = (
                np.int64(load_i32(key_at + 4 * row)),
                np.int64(load_i32(key_len + 4 * row)),
            )
            value = np.int64(load_i32(value_at + 4 * row))
            value_size = np.int64(load_i32(value_len + 4 * row))
            head = np.int64(0)
            head_size = np.int64(0)
            if heads_size > 1:  # one byte is room for "none" only
                head = np.int64(load_i32(head_at + 4 * row))
                head_size = np.int64(load_i32(head_len + 4 * row))
            if (
                _outside(key, key_size, keys_size)
                or _outside(value, value_size, values_size)
                or _outside(head, head_size, heads_size)
            ):
                return -1 - row
            body = body_size(time_delta, offset_delta, key_size, value_size, head_size)
            place = put_varint(place, np.int64(body))
            store_u8(place, np.uint8(0))
            place = put_varint(place + 1, time_delta)
            place = put_varint(place, offset_delta)
            place = put_varint(place, key_size)
            if key_size > 0:
                copy_bytes(place, keys + key, key_size, keys + keys_size)
                place += key_size
            place = put_varint(place, value_size)
            if value_size > 0:
                copy_bytes(place, values + value, value_size, values + values_size)
                place += value_size
            if head_size > 1:
                copy(place, heads + head, head_size)
                place += head_size
            else:
                store_u8(place, np.uint8(0))
                place += 1
        copy(out, header, HEADER_BYTES)
        seal(out, place - out)
        store_i64(sizes + 8 * b, place - out)
        out = place
    return out
