"""128 well-mixed bits of a key, from a seed that nobody can guess.

Two multiplications of 64 by 64 bits per 16 bytes, each folded to 64 bits by xor of its halves. The
seed is drawn anew for every use, so keys that collide cannot be prepared in advance.
"""

from __future__ import annotations

import numpy as np

from sexton.records.native import high_product, inline, load_u8, load_u32, load_u64

U = np.uint64
_A, _B = U(0x9E3779B97F4A7C15), U(0xD1B54A32D192ED03)  # odd, from the golden ratio and its square
_C, _D = U(0xBF58476D1CE4E5B9), U(0x94D049BB133111EB)


@inline
def _fold(left, right):
    return (left * right) ^ high_product(left, right)


@inline
def _up_to_eight(place, size):
    """The bytes in one word; nothing outside [place, place + size) is read."""
    if size >= 4:
        return (U(load_u32(place)) << U(32)) | U(load_u32(place + size - 4))
    if size == 0:
        return U(0)
    middle = U(load_u8(place + (size >> 1)))
    return (U(load_u8(place)) << U(16)) | (middle << U(8)) | U(load_u8(place + size - 1))


@inline
def hash128(place, size, seed):
    """(64 bits, another 64 bits) of the bytes at `place`."""
    first = seed ^ _A
    second = seed ^ _B
    left = size
    while left > 16:
        low = load_u64(place)
        high = load_u64(place + 8)
        first = _fold(low ^ _C, high ^ first)
        second = _fold(low ^ _D, high ^ second) + first
        place += 16
        left -= 16
    if left >= 8:
        low = load_u64(place)
        high = load_u64(place + left - 8)
    else:
        low = _up_to_eight(place, left)
        high = U(0)
    one = _fold(_C ^ U(size), _fold(low ^ _A, high ^ first))
    other = _fold(_D ^ U(size), _fold(low ^ _B, high ^ second) + one)
    return one, other
