"""Waiting ends at the first good answer, or says what it waited for."""

from __future__ import annotations

import pytest

from sexton.testing.waiting import TimedOut, until


def test_the_first_good_answer_ends_the_wait() -> None:
    answers = iter([None, False, 3])
    assert until(lambda: next(answers), "an answer") == 3


@pytest.mark.parametrize("nothing", [0, [], {}, "", b""])
def test_nothing_seen_yet_is_no_good_answer(nothing: object) -> None:
    answers = iter([nothing, ["seen"]])
    assert until(lambda: next(answers), "anything seen") == ["seen"]


def test_a_wait_in_vain_says_for_what_and_why() -> None:
    with pytest.raises(TimedOut, match=r"(?s)the broker: not within 0 s.*it is asleep"):
        until(lambda: None, "the broker", 0, lambda: "it is asleep")
