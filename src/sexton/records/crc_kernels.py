"""CRC-32C of a stretch of memory, at the speed of the memory.

The CPU's instruction takes three cycles and can start one each cycle, so three stretches of equal
length are summed side by side and then joined: appending n zero bytes to a message is a linear map
of its CRC, which four tables of 256 entries apply. CPUs without the instruction use eight tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sexton.records.native import (
    Constant,
    crc32c_byte,
    crc32c_word,
    has_crc32c,
    inline,
    kernel,
    load_u8,
    load_u64,
    prefetch,
)

_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
U = np.uint64
Tables = np.ndarray[Any, np.dtype[np.uint32]]


def _apply(matrix: list[int], vector: int) -> int:
    """A 32x32 matrix over the bits, one column an integer, times a vector."""
    result = 0
    for column in matrix:
        if vector & 1:
            result ^= column
        vector >>= 1
    return result


def _zeros(size: int) -> list[int]:
    """The matrix that appends `size` zero bytes, by repeated squaring of the one for a zero bit."""
    power = [_POLYNOMIAL] + [1 << bit for bit in range(31)]
    result = [1 << bit for bit in range(32)]
    bits = size * 8
    while bits:
        if bits & 1:
            result = [_apply(power, column) for column in result]
        power = [_apply(power, column) for column in power]
        bits >>= 1
    return result


def _shift_tables(size: int) -> Tables:
    matrix = _zeros(size)
    table = [[_apply(matrix, byte << (8 * place)) for byte in range(256)] for place in range(4)]
    return np.array(table, np.uint32)


def _byte_tables() -> Tables:
    """Table k: the CRC of one byte followed by k zero bytes."""
    table = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        table[0, byte] = crc
    for k in range(1, 8):
        table[k] = (table[k - 1] >> 8) ^ table[0, table[k - 1] & 0xFF]
    return table


_LONG, _MIDDLE, _SHORT = 8192, 1024, 128
_AFTER_LONG: Any = Constant(lambda: _shift_tables(_LONG))
_AFTER_MIDDLE: Any = Constant(lambda: _shift_tables(_MIDDLE))
_AFTER_SHORT: Any = Constant(lambda: _shift_tables(_SHORT))
_BYTES: Any = Constant(_byte_tables)


@inline
def _shift(tables, crc):
    return U(
        tables[0, crc & U(255)]
        ^ tables[1, (crc >> U(8)) & U(255)]
        ^ tables[2, (crc >> U(16)) & U(255)]
        ^ tables[3, (crc >> U(24)) & U(255)]
    )


@inline
def _three_streams(tables, size, ahead, crc, start, end):
    """Sums as many 3 x `size` bytes as fit; returns the CRC and where it stopped.

    Asks for memory `ahead` bytes before it is needed: the CPU does not see three streams coming.
    """
    while end - start >= 3 * size:
        second = U(0)
        third = U(0)
        stop = start + size
        while start < stop:
            prefetch(start + ahead)
            prefetch(start + size + ahead)
            prefetch(start + 2 * size + ahead)
            for _ in range(8):
                crc = crc32c_word(crc, load_u64(start))
                second = crc32c_word(second, load_u64(start + size))
                third = crc32c_word(third, load_u64(start + 2 * size))
                start += 8
        crc = _shift(tables, _shift(tables, crc) ^ second) ^ third
        start += 2 * size
    return crc, start


@inline
def _by_instruction(start, end):
    crc = U(0xFFFFFFFF)
    crc, start = _three_streams(_AFTER_LONG, _LONG, 512, crc, start, end)
    crc, start = _three_streams(_AFTER_MIDDLE, _MIDDLE, 3 * _MIDDLE, crc, start, end)
    crc, start = _three_streams(_AFTER_SHORT, _SHORT, 3 * _SHORT, crc, start, end)
    while end - start >= 8:
        crc = crc32c_word(crc, load_u64(start))
        start += 8
    while start < end:
        crc = crc32c_byte(crc, load_u8(start))
        start += 1
    return np.uint32(crc ^ U(0xFFFFFFFF))


@inline
def _by_tables(start, end):
    crc = U(0xFFFFFFFF)
    while end - start >= 8:
        word = load_u64(start) ^ crc
        crc = U(0)
        for k in range(8):
            crc ^= U(_BYTES[7 - k, (word >> U(8 * k)) & U(255)])
        start += 8
    while start < end:
        crc = (crc >> U(8)) ^ U(_BYTES[0, (crc ^ U(load_u8(start))) & U(255)])
        start += 1
    return np.uint32(crc ^ U(0xFFFFFFFF))


if has_crc32c():

    @kernel("uint32(int64, int64)")
    def crc32c(start, end):
        return _by_instruction(start, end)

else:

    @kernel("uint32(int64, int64)")
    def crc32c(start, end):
        return _by_tables(start, end)


@kernel("uint32(int64, int64)")
def crc32c_by_tables(start, end):
    """What a CPU without the instruction runs; compiled everywhere, so tests compare the two."""
    return _by_tables(start, end)
