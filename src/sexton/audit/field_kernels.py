"""A field of each record, found where it stands: in a JSON object, among headers, as digits.

Nothing is copied and no Python object is made. For each row the kernels say where the field's bytes
are and what they look like; whatever is unusual (an escape in a name, a number with an exponent) is
marked as such, and left to Python, which meets it once in a million rows.

    value   {"user": {"id": 7}, "count": 110}        path  count
                                         ▲▲▲         kind  a number, 3 bytes

Rows come from `records.decode`, which has checked that every span is inside its buffer.
"""

from __future__ import annotations

import numpy as np

from sexton.records.hash_kernels import hash128
from sexton.records.native import (
    inline,
    kernel,
    load_be32,
    load_be64,
    load_i32,
    load_i64,
    load_u8,
    load_u64,
    store_i32,
    store_i64,
    store_u8,
    store_u64,
)

U = np.uint64
# What a field looks like.
ABSENT, NUMBER, STRING, ESCAPED, WORD, NESTED, NULL, NOTHING, BROKEN, ODD = range(10)
# What became of a row: it has a number; there is nothing (a null); it cannot be read.
FOUND, EMPTY, UNREADABLE = range(3)

_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _PLUS = 34, 92, 44, 58, 45, 43
_OPEN, _CLOSE, _LEFT, _RIGHT = 123, 125, 91, 93  # {} []


@inline
def _blank(place, end):
    """Past spaces, tabs and line ends."""
    while place < end and (
        load_u8(place) == 32 or load_u8(place) == 10 or load_u8(place) == 13 or load_u8(place) == 9
    ):
        place += 1
    return place


@inline
def _string_end(place, end):
    """Of a string that begins at `place`: (where its closing quote is, was there an escape)."""
    escaped = 0
    while place < end and load_u8(place) != _QUOTE:
        if load_u8(place) == _BACKSLASH:
            escaped = 1
            place += 1
        place += 1
    return place, escaped


@inline
def _value_end(place, end):
    """Where a value that begins at `place` ends; `end + 1` if it does not."""
    first = load_u8(place)
    if first == _QUOTE:
        closing, _escaped = _string_end(place + 1, end)
        return closing + 1
    if first in (_OPEN, _LEFT):
        depth = 0
        while place < end:
            byte = load_u8(place)
            if byte == _QUOTE:
                closing, _escaped = _string_end(place + 1, end)
                place = closing
            elif byte in (_OPEN, _LEFT):
                depth += 1
            elif byte in (_CLOSE, _RIGHT):
                depth -= 1
                if depth == 0:
                    return place + 1
            place += 1
        return end + 1
    while place < end:
        byte = load_u8(place)
        if byte in (_COMMA, _CLOSE, _RIGHT) or byte <= 32:
            return place
        place += 1
    return place


@inline
def _same(left, right, size):
    for at in range(size):  # noqa: SIM110  a generator is no kernel's
        if load_u8(left + at) != load_u8(right + at):
            return False
    return True


@inline
def _member(place, end, name, size):
    """(where the value of member `name` of the object at `place` begins, what was found)."""
    if place >= end:
        return place, BROKEN
    if load_u8(place) != _OPEN:
        return place, ABSENT
    place = _blank(place + 1, end)
    if place < end and load_u8(place) == _CLOSE:
        return place, ABSENT
    while True:
        if place >= end or load_u8(place) != _QUOTE:
            return place, BROKEN
        begins = place + 1
        closing, escaped = _string_end(begins, end)
        if escaped == 1:
            return place, ODD
        place = _blank(closing + 1, end)
        if place >= end or load_u8(place) != _COLON:
            return place, BROKEN
        place = _blank(place + 1, end)
        if place >= end:
            return place, BROKEN
        if closing - begins == size and _same(begins, name, size):
            return place, NESTED
        place = _blank(_value_end(place, end), end)
        if place >= end:
            return place, BROKEN
        byte = load_u8(place)
        if byte == _CLOSE:
            return place, ABSENT
        if byte != _COMMA:
            return place, BROKEN
        place = _blank(place + 1, end)


@inline
def _looks(place, end):
    """What the value at `place` looks like, where it begins and ends."""
    first = load_u8(place)
    after = _value_end(place, end)
    if after > end:
        return BROKEN, place, place
    if first == _QUOTE:
        closing, escaped = _string_end(place + 1, end)
        if escaped == 1:
            return ESCAPED, place, after
        return STRING, place + 1, closing
    if first in (_OPEN, _LEFT):
        return NESTED, place, after
    if first == _MINUS or (first >= 48 and first <= 57):
        return NUMBER, place, after
    if first == 110:
        return NULL, place, after
    if first == 116 or first == 102:
        return WORD, place, after
    return BROKEN, place, after


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def find_json(data, position, length, rows, count, path, steps, out_at, out_size, out_kind):
    """Finds `path` (for each step the size of a name, then the name) in each of `count` rows."""
    for i in range(count):
        row = load_i64(rows + 8 * i)
        size = np.int64(load_i32(length + 4 * row))
        kind = np.int64(NOTHING)
        begins = np.int64(0)
        after = np.int64(0)
        if size >= 0:
            start = data + np.int64(load_i32(position + 4 * row))
            end = start + size
            place = _blank(start, end)
            kind = np.int64(NESTED)
            at = path
            for _step in range(steps):
                name_size = np.int64(load_i32(at))
                place, found = _member(place, end, at + 4, name_size)
                at += 4 + name_size
                kind = np.int64(found)
                if found != NESTED:
                    break
            if kind == NESTED:
                looks, begins, after = _looks(place, end)
                kind = np.int64(looks)
                begins -= data
                after -= data
        store_i32(out_at + 4 * i, np.int32(begins))
        store_i32(out_size + 4 * i, np.int32(after - begins))
        store_u8(out_kind + i, np.uint8(kind))


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64)")
def take_spans(position, length, rows, count, out_at, out_size, out_kind, kind):
    """The whole of each row's span."""
    for i in range(count):
        row = load_i64(rows + 8 * i)
        size = np.int64(load_i32(length + 4 * row))
        looks = np.int64(kind)
        if size < 0:
            looks = np.int64(NOTHING)
            size = np.int64(0)
        store_i32(out_at + 4 * i, load_i32(position + 4 * row))
        store_i32(out_size + 4 * i, np.int32(size))
        store_u8(out_kind + i, np.uint8(looks))


@inline
def _varint(place):
    """(zigzag value, the place after it) of a varint that has been checked."""
    value = np.int64(0)
    shift = np.int64(0)
    while True:
        byte = np.int64(load_u8(place))
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return (value >> 1) ^ -(value & 1), place


@kernel("void(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def find_header(data, position, length, rows, count, name, size, out_at, out_size, out_kind):
    """The last header of that name in each of `count` rows."""
    for i in range(count):
        row = load_i64(rows + 8 * i)
        kind = np.int64(ABSENT)
        begins = np.int64(0)
        taken = np.int64(0)
        if load_i32(length + 4 * row) > 0:
            place = data + np.int64(load_i32(position + 4 * row))
            headers, place = _varint(place)
            for _header in range(headers):
                name_size, place = _varint(place)
                same = name_size == size and _same(place, name, size)
                value_size, place = _varint(place + name_size)
                if same:
                    kind = np.int64(STRING)
                    if value_size < 0:
                        kind = np.int64(NULL)
                    begins = place - data
                    taken = max(value_size, np.int64(0))
                place += max(value_size, np.int64(0))
        store_i32(out_at + 4 * i, np.int32(begins))
        store_i32(out_size + 4 * i, np.int32(taken))
        store_u8(out_kind + i, np.uint8(kind))


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def digits(data, at, size, kinds, count, out, status):
    """Decimal digits to numbers; returns how many rows could not be read this way."""
    wrong = np.int64(0)
    for i in range(count):
        kind = load_u8(kinds + i)
        state = np.int64(UNREADABLE)
        number = np.int64(0)
        if kind == NOTHING:
            state = np.int64(EMPTY)
        elif kind in (NUMBER, STRING):
            place = data + np.int64(load_i32(at + 4 * i))
            end = place + np.int64(load_i32(size + 4 * i))
            negative = False
            if place < end and (load_u8(place) == _MINUS or load_u8(place) == _PLUS):
                negative = load_u8(place) == _MINUS
                place += 1
            left = end - place
            good = left > 0 and left <= 18
            while place < end and good:
                digit = np.int64(load_u8(place)) - 48
                good = digit >= 0 and digit <= 9
                number = number * 10 + digit
                place += 1
            if good:
                state = np.int64(FOUND)
                if negative:
                    number = -number
        if state == UNREADABLE:
            wrong += 1
        store_i64(out + 8 * i, number)
        store_u8(status + i, np.uint8(state))
    return wrong


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def fixed(data, at, size, kinds, count, width, out, status):
    """Big-endian integers of 4 or 8 bytes, as Kafka's serializers write them."""
    wrong = np.int64(0)
    for i in range(count):
        state = np.int64(UNREADABLE)
        number = np.int64(0)
        if load_u8(kinds + i) == NOTHING:
            state = np.int64(EMPTY)
        elif np.int64(load_i32(size + 4 * i)) == width:
            place = data + np.int64(load_i32(at + 4 * i))
            state = np.int64(FOUND)
            if width == 8:
                number = np.int64(load_be64(place))
            else:
                number = np.int64(load_be32(place))
        if state == UNREADABLE:
            wrong += 1
        store_i64(out + 8 * i, number)
        store_u8(status + i, np.uint8(state))
    return wrong


@kernel("int64(int64, int64, int64, int64, int64, int64, uint64, int64, int64)")
def fingerprints(data, at, size, kinds, count, first, seed, out, status):
    """128 bits of each row's bytes; of several parts, each goes on from the last.

    Returns how many rows could not be read. `first` is 1 for the first part.
    """
    wrong = np.int64(0)
    for i in range(count):
        kind = load_u8(kinds + i)
        state = np.int64(FOUND)
        if kind in (NOTHING, NULL):
            state = np.int64(EMPTY)
        elif kind in (ABSENT, BROKEN, ODD, ESCAPED):
            state = np.int64(UNREADABLE)
            wrong += 1
        else:
            place = data + np.int64(load_i32(at + 4 * i))
            start = seed
            more = U(0)
            if first == 0:
                start = seed ^ load_u64(out + 16 * i)
                more = load_u64(out + 16 * i + 8)
            one, other = hash128(place, np.int64(load_i32(size + 4 * i)), start)
            store_u64(out + 16 * i, one)
            store_u64(out + 16 * i + 8, other ^ (more * U(0x9E3779B97F4A7C15)))
        if first == 1 or state > np.int64(load_u8(status + i)):
            store_u8(status + i, np.uint8(state))
    return wrong
