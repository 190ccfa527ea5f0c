"""lz4 frames as Java's client writes them, many batches in one call.

    frame   04 22 4d 18 60 40 82, then blocks, then four zero bytes
    block   size uint32 (bit 31: stored as it is), then so many bytes; inflated, at most 64 KiB

Other frames, and whatever is wrong with one, are left to `codecs`, which knows them all and finds
the words for what is wrong. Why nothing here leaves its buffers: a block is looked at only if it
ends inside its batch and if 64 KiB are free in the output; lz4 itself is told both limits.
"""

from __future__ import annotations

import numpy as np

from sexton.records.crc_kernels import crc32c
from sexton.records.kernels import GUARD, HEADER_BYTES
from sexton.records.native import (
    call_int32,
    copy,
    inline,
    kernel,
    load_be16,
    load_be32,
    load_i64,
    load_u8,
    load_u32,
    store_be32,
    store_i64,
    store_u8,
    store_u32,
)

BLOCK = 1 << 16
STORED = np.int64(1) << 31
HEAD_BYTES = 7
END_BYTES = 4
_MAGIC = 0x184D2204
_LZ4 = 3
_CODEC = 7

# Why `inflate` stopped before a batch.
DONE = 0  # there is none
ENOUGH = 1
NO_ROOM = 2
NOT_MINE = 3


@inline
def _is_javas(place, end):
    return (
        end - place >= HEAD_BYTES + END_BYTES
        and load_u32(place) == _MAGIC
        and load_u8(place + 4) == 0x60
        and load_u8(place + 5) == 0x40
        and load_u8(place + 6) == 0x82
    )


@inline
def _inflate_frame(place, end, out, out_end, most, decompress):
    """(why it stopped, the end of what was written)"""
    if not _is_javas(place, end):
        return NOT_MINE, out
    place += HEAD_BYTES
    begin = out
    while True:
        if end - place < 4:
            return NOT_MINE, begin
        size = np.int64(load_u32(place))
        place += 4
        if size == 0:
            return DONE, out
        stored = size & STORED
        size &= STORED - 1
        if size > BLOCK or size > end - place:
            return NOT_MINE, begin
        if out_end - out < BLOCK:
            return NO_ROOM, begin
        if stored:
            copy(out, place, size)
            written = size
        else:
            written = np.int64(call_int32(decompress, place, out, np.int32(size), np.int32(BLOCK)))
            if written < 0:
                return NOT_MINE, begin
        out += written
        place += size
        if out - begin > most:
            return NOT_MINE, begin


@kernel(
    "UniTuple(int64, 3)(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64, int64)"
)
def inflate(
    raw, positions, first, batches, wanted, out, used, room, enough, starts, ends, most, decompress,
):  # fmt: skip
    """The records of the batches from `first` on, side by side in `out`, where `used` bytes are.

    Notes where those of each batch start and end there; a batch that is not wanted has none. Stops
    when `enough` bytes are used. Returns (the batch it stopped before, bytes used, why). `out` has
    `room` for records; one batch gives `most` at the most. Without `decompress` no lz4 is its own.
    """
    for b in range(first, batches):
        if used >= enough:
            return b, used, ENOUGH
        batch = raw + load_i64(positions + 8 * b)
        place = batch + HEADER_BYTES
        end = batch + 12 + np.int64(load_be32(batch + 8))
        store_i64(starts + 8 * b, used)
        store_i64(ends + 8 * b, used)
        if load_u8(wanted + b) == 0:
            continue
        codec = np.int64(load_be16(batch + 21)) & _CODEC
        if codec == 0:
            if end - place > room - used:
                return b, used, NO_ROOM
            copy(out + used, place, end - place)
            used += end - place
        elif codec == _LZ4 and decompress != 0:
            why, stop = _inflate_frame(place, end, out + used, out + room, most, decompress)
            if why != DONE:
                return b, used, why
            used = stop - out
        else:
            return b, used, NOT_MINE
        store_i64(ends + 8 * b, used)
    return batches, used, DONE


@inline
def deflated_bytes(plain):
    """The most that a frame can take for `plain` bytes: every block may have to be stored."""
    return HEAD_BYTES + plain + 4 * ((plain + BLOCK - 1) // BLOCK) + END_BYTES


@inline
def _deflate_frame(place, end, out, compress):
    store_u32(out, np.uint32(_MAGIC))
    store_u8(out + 4, np.uint8(0x60))
    store_u8(out + 5, np.uint8(0x40))
    store_u8(out + 6, np.uint8(0x82))
    out += HEAD_BYTES
    while place < end:
        size = min(end - place, np.int64(BLOCK))
        written = np.int64(call_int32(compress, place, out + 4, np.int32(size), np.int32(size - 1)))
        if written > 0:
            store_u32(out, np.uint32(written))
        else:
            copy(out + 4, place, size)
            store_u32(out, np.uint32(size | STORED))
            written = size
        out += 4 + written
        place += size
    store_u32(out, np.uint32(0))
    return out + END_BYTES


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def deflate(plain, sizes, again, batches, out, room, compress):
    """Copies the batches to `out`, those that are to be compressed `again` as lz4 frames.

    Returns how many bytes that took, or -1 if `room` could be too little for it.
    """
    begin = out
    for b in range(batches):
        size = load_i64(sizes + 8 * b)
        if not load_u8(again + b):
            if size + GUARD > room - (out - begin):
                return np.int64(-1)
            copy(out, plain, size)
            out += size
        else:
            if HEADER_BYTES + deflated_bytes(size - HEADER_BYTES) > room - (out - begin):
                return np.int64(-1)
            copy(out, plain, HEADER_BYTES)
            end = _deflate_frame(plain + HEADER_BYTES, plain + size, out + HEADER_BYTES, compress)
            store_be32(out + 8, np.int32(end - out - 12))
            store_be32(out + 17, np.int32(crc32c(out + 21, end)))
            out = end
        plain += size
    return out - begin
