from __future__ import annotations

import random

import numpy as np
import pytest
from crc32c import crc32c as expected

from sexton.records.crc_kernels import crc32c, crc32c_by_tables
from sexton.records.native import address

# Around the stretches that are summed three at a time (128, 1024 and 8192 bytes), and words.
LENGTHS = sorted(
    {n * size + d for size in (8, 128, 1024, 8192) for n in (0, 1, 3, 6, 7) for d in (-1, 0, 1, 9)}
    - {-1}
)


@pytest.mark.parametrize("kernel", [crc32c, crc32c_by_tables], ids=["cpu", "tables"])
@pytest.mark.parametrize("alignment", range(8))
def test_the_checksum_is_crc32c_at_any_length_and_alignment(kernel: object, alignment: int) -> None:
    assert callable(kernel)
    data = np.frombuffer(random.Random(3).randbytes(70_000), np.uint8)
    for length in LENGTHS:
        piece = data[alignment : alignment + length]
        start = address(data) + alignment
        assert kernel(start, start + length) == expected(piece.tobytes()), length


def test_the_checksum_of_the_standards_example_is_right() -> None:
    digits = np.frombuffer(b"123456789", np.uint8)
    for kernel in (crc32c, crc32c_by_tables):
        assert kernel(address(digits), address(digits) + 9) == 0xE3069283
