"""Ordered retry refuses to run where it could not keep its promise."""

from __future__ import annotations

from random import Random

import pytest

from sexton.base.errors import ConfigError
from sexton.machines.retry_records import Watermark
from sexton.machines.retry_settings import (
    Backoff,
    Settings,
    Standing,
    check_growth,
    check_partitions,
)


class Always(Random):
    def __init__(self, value: float) -> None:
        super().__init__(0)
        self.value = value

    def random(self) -> float:
        return self.value


def test_a_wait_doubles_up_to_its_limit() -> None:
    backoff = Backoff(first_ms=100, factor=2.0, most_ms=1_000, jitter=0.5)
    assert [backoff.wait_ms(n, Always(0)) for n in range(1, 7)] == [100, 200, 400, 800, 1000, 1000]
    assert backoff.wait_ms(10_000, Always(0)) == 1_000


def test_jitter_takes_off_at_most_its_share() -> None:
    backoff = Backoff(first_ms=100, factor=2.0, most_ms=1_000, jitter=0.5)
    assert [backoff.wait_ms(2, Always(x)) for x in (0, 0.5, 1)] == [200, 150, 100]


def test_no_backoff_is_no_wait() -> None:
    assert Backoff(0).wait_ms(5, Always(1)) == 0


@pytest.mark.parametrize(
    "some",
    [{"max_attempts": 0}, {"max_pending": 0}, {"round_limit": 0}, {"backoff": Backoff(-1)},
     {"backoff": Backoff(jitter=1.5)}, {"backoff": Backoff(factor=0.5)}],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused(some: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Settings(**some)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("some", "choices"),
    [({"mode": "transactionel"}, "transactional, compensating"),
     ({"mode": None}, "transactional, compensating"),
     ({"at_ceiling": "hold"}, "freed, held"), ({"at_ceiling": "HELD"}, "freed, held")],
)  # fmt: skip
def test_a_choice_that_is_none_never_weakens_a_promise(
    some: dict[str, object], choices: str
) -> None:
    with pytest.raises(ConfigError, match=f"not one of {choices}"):
        Settings(**some)  # type: ignore[arg-type]


def test_three_topics_have_as_many_partitions_as_each_other() -> None:
    check_partitions(6, 6, 6)
    for counts in ((6, 3, 3), (6, 6, 3), (6, 3, 6)):
        with pytest.raises(ConfigError, match="as many") as refused:
            check_partitions(*counts)
        assert refused.value.hint is not None and "settle" in refused.value.hint


SETTLED = Standing(position=9, end=9, watermark=Watermark(9, 3))


def test_settled_topics_may_have_grown() -> None:
    check_growth(6, {0: SETTLED, 1: SETTLED})


@pytest.mark.parametrize(
    "standing",
    [Standing(9, 9, Watermark(7, 3)), Standing(8, 9, Watermark(8, 3)), Standing(9, 9, None)],
    ids=["something pending", "something unread", "offsets were reset"],
)
def test_topics_that_grew_under_something_unsettled_are_refused(standing: Standing) -> None:
    with pytest.raises(ConfigError, match="partition 1 was not settled"):
        check_growth(6, {0: SETTLED, 1: standing})


def test_growth_is_looked_at_once() -> None:
    """Somebody has committed since; on the other partitions life has gone on."""
    check_growth(6, {0: Standing(9, 9, Watermark(9, 6)), 1: Standing(8, 20, Watermark(2, 3))})


def test_a_group_that_never_committed_may_begin() -> None:
    check_growth(6, {0: Standing(0, 9, None)})
