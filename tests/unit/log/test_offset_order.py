"""As few batches as possible are blamed for offsets that do not rise."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from sexton.log.inspect.offset_order import out_of_order


def rises(batches: list[tuple[int, int]], after: int) -> bool:
    ends = [after, *(last for _, last in batches)]
    return all(first > end for (first, _), end in zip(batches, ends, strict=False))


def fewest_to_leave_out(batches: list[tuple[int, int]], after: int) -> int:
    for kept in range(len(batches), 0, -1):
        if any(rises(list(some), after) for some in combinations(batches, kept)):
            return len(batches) - kept
    return len(batches)


def test_what_stays_rises_and_no_smaller_set_would_do() -> None:
    """Every log of four batches, one or two offsets each, in a small world."""
    spans = [(first, first + more) for first in range(4) for more in (0, 1)]
    for batches, after in product(product(spans, repeat=4), (-1, 1)):
        first, last = (np.array(column) for column in zip(*batches, strict=True))
        left_out = out_of_order(first, last, after).tolist()
        assert rises([b for row, b in enumerate(batches) if row not in left_out], after)
        assert len(left_out) == fewest_to_leave_out(list(batches), after)


def test_one_batch_with_a_flipped_offset_is_found_wherever_it_stands() -> None:
    sound = np.arange(10, 20)
    for row, bit in product(range(9), range(5, 40)):
        flipped = sound.copy()
        flipped[row] ^= 1 << bit
        assert out_of_order(flipped, flipped, 9).tolist() == [row]
