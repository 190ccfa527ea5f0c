"""Where did the records of a round come to lie? Known only if both ends are."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sexton.retry.records_out import Ends


@dataclass(frozen=True)
class Delivered:
    at: int | None

    def offset(self) -> int | None:
        return self.at


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ((7, 9), {1: 7, 2: 8, 3: 9}),
        ((7, 12), {}),  # something came in between
        ((None, 9), {}),  # librdkafka does not know where a batch is that a later one vouches for
        ((7, None), {}),
        ((None, None), {}),
        ((), {}),
    ],
)
def test_offsets_are_known_if_both_ends_are(
    told: tuple[int | None, ...], known: dict[int, int]
) -> None:
    ends = Ends()
    for at in told:
        ends.note(None, Delivered(at))
    assert ends.offsets([1, 2, 3]) == known


def test_one_record_has_one_end() -> None:
    ends = Ends()
    ends.note(None, Delivered(7))
    assert ends.offsets([1]) == {1: 7}
