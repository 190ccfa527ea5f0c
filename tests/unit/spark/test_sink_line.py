"""How long does the driver keep its line to Kafka? Nothing is connected here."""

from __future__ import annotations

import pytest

from sexton.spark.sink_line import Line, Talk
from sexton.testing.waiting import until

KAFKA = {"bootstrap.servers": "127.0.0.1:1"}


def is_over(talk: Talk) -> bool:
    return not talk.loop.is_running


def test_the_next_batch_goes_on_with_the_line_of_the_last() -> None:
    line = Line(KAFKA)
    with line.talk() as first:
        pass
    with line.talk() as second:
        assert second is first
    assert not is_over(first)
    line.hang_up()
    assert is_over(first)
    line.hang_up()  # there is none, which is all right


def test_after_an_error_there_is_a_new_line() -> None:
    line = Line(KAFKA)
    with pytest.raises(ValueError, match="anything"), line.talk() as first:
        raise ValueError("anything")
    assert is_over(first)
    with line.talk() as second:
        assert second is not first
    line.hang_up()


def test_a_line_that_nobody_uses_is_hung_up() -> None:
    line = Line(KAFKA, kept_s=0.01)
    with line.talk() as first:
        pass
    until(lambda: is_over(first), "the end of the line")
    with line.talk() as second:
        assert second is not first
    line.hang_up()
