"""Does a key go where the Java client would send it, and do records without one share the room?"""

from __future__ import annotations

import random

import numpy as np
import pytest

from sexton.records.columns import Spans
from sexton.spark.partitioner import partitions_of

MANY = (1 << 31) - 1  # so many partitions that the hash itself shows


def placed(keys: list[bytes | None], partitions: int, first: int = 0) -> list[int]:
    sizes = np.full(len(keys), 100, np.int64)
    found: list[int] = partitions_of(
        Spans.from_list(keys), partitions, sizes, batch_bytes=250, first=first
    ).tolist()
    return found


@pytest.mark.parametrize(
    ("key", "hashed"),
    [  # of Kafka's own tests
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_in_java(key: bytes, hashed: int) -> None:
    assert placed([key], MANY) == [hashed & 0x7FFFFFFF]


def slowly(key: bytes) -> int:
    """The same hash word by word, in Python's whole numbers."""
    words, rest = len(key) // 4, key[len(key) // 4 * 4 :]
    mixed = 0x9747B28C ^ len(key)
    for number in range(words):
        word = int.from_bytes(key[4 * number : 4 * number + 4], "little") * 0x5BD1E995 % (1 << 32)
        word = (word ^ word >> 24) * 0x5BD1E995 % (1 << 32)
        mixed = mixed * 0x5BD1E995 % (1 << 32) ^ word
    if rest:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * 0x5BD1E995 % (1 << 32)
    mixed = (mixed ^ mixed >> 13) * 0x5BD1E995 % (1 << 32)
    return mixed ^ mixed >> 15


def test_a_column_of_keys_is_hashed_row_by_row() -> None:
    chance = random.Random(5)
    keys = [chance.randbytes(chance.randrange(40)) for _ in range(500)]
    expected = [(slowly(key) & 0x7FFFFFFF) % 12 for key in keys]
    assert placed(list(keys), 12) == expected
    assert len(set(expected)) == 12


def test_records_without_a_key_fill_a_batch_and_go_on() -> None:
    assert placed([None] * 8, 3, first=2) == [2, 2, 2, 0, 0, 1, 1, 1]
    mixed = placed([None, b"21", None], 3, first=1)
    assert [mixed[0], mixed[2]] == [1, 1]
    assert mixed[1] == (-973932308 & 0x7FFFFFFF) % 3
