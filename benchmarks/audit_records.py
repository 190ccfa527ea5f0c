"""Records for the audit's benchmark: as many as one likes, made faster than they are folded.

Keys of 16 hexadecimal digits, values of 100 bytes, batches of 16 KiB as the Java producer makes
them. Every key comes at least once, in no order, and the rest are random. The same seed gives the
same records again; none are kept, so that a log of any length takes no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sexton.records import Spans, rows
from sexton.records.encoder import Encoder
from sexton.records.tables import Array

KEY_BYTES, VALUE_BYTES = 16, 100
RECORDS_A_KEY = 8
CHUNK_ROWS = 1 << 15  # about 4 MiB, as much as one fetch brings
_VALUES = 1 << 14
_START_MS = 1_760_000_000_000
_FAR = 1_000_000_007  # a prime: its multiples meet every key before one comes again
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)


@dataclass(frozen=True, slots=True)
class Records:
    """`count` records of `keys` keys: those with the numbers `first`, `first + step`, and so on."""

    count: int
    keys: int
    first: int = 0
    step: int = 1
    seed: int = 1

    def chunks(self) -> Iterator[Array]:
        """Record batches one after the other; a chunk is valid until the next is asked for."""
        random = np.random.default_rng([self.seed, self.first])
        letters = np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)
        values = letters[random.integers(0, len(letters), _VALUES * VALUE_BYTES, np.uint8)]
        encoder = Encoder()
        for begin in range(0, self.count, CHUNK_ROWS):
            places = np.arange(begin, min(begin + CHUNK_ROWS, self.count), dtype=np.int64)
            numbers = self._numbers(places, random) * self.step + self.first
            chosen = random.integers(0, _VALUES, len(places), np.int32) * VALUE_BYTES
            value = _spans(values, chosen, VALUE_BYTES)
            columns = rows(_START_MS + places // 100, keys_of(numbers), value, base_offset=begin)
            yield encoder.encode(columns)

    def _numbers(self, places: Array, random: np.random.Generator) -> Array:
        """Every so many places it is the turn of the next key, far from the last; else of any."""
        every = self.count // self.keys
        numbers = random.integers(0, self.keys, len(places), np.int64)
        turn = places % every == 0
        numbers[turn] = places[turn] // every * _FAR % self.keys
        return numbers


def keys_of(numbers: Array) -> Spans:
    """Each number as 16 hexadecimal digits."""
    digits = _HEX[numbers.astype(">u8").view(np.uint8)].view(np.uint8)
    return _spans(digits, np.arange(len(numbers), dtype=np.int32) * KEY_BYTES, KEY_BYTES)


def _spans(data: Array, position: Array, length: int) -> Spans:
    return Spans(data, position, np.full(len(position), length, np.int32))
