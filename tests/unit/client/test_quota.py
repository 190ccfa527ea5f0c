"""Does a reader with a quota read as fast as it may, and no faster?"""

from __future__ import annotations

import pytest

from sexton.base.errors import ConfigError
from sexton.client.quota import ReadQuota


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_second_is_saved_up_and_debts_are_waited_for() -> None:
    clock = Clock()
    quota = ReadQuota(1_000, clock)
    assert quota.owes_s() == 0
    quota.pay(1_000)  # what was saved up
    assert quota.owes_s() == 0
    quota.pay(500)
    assert quota.owes_s() == pytest.approx(0.5)
    clock.now_s += 0.2
    assert quota.owes_s() == pytest.approx(0.3)
    clock.now_s += 60  # an idle minute is no reason for a minute of full speed
    assert quota.owes_s() == 0
    quota.pay(3_000)
    assert quota.owes_s() == pytest.approx(2.0)


def test_over_time_the_rate_holds() -> None:
    clock = Clock()
    quota, read = ReadQuota(1_000, clock), 0
    while clock.now_s < 110:
        clock.now_s += quota.owes_s()
        quota.pay(700)
        read += 700
    allowed = (clock.now_s - 100) * 1_000
    assert allowed <= read <= allowed + 1_000 + 700  # a second saved up, an answer under way


def test_no_rate_is_not_a_rate() -> None:
    with pytest.raises(ConfigError, match="max_bytes_per_s"):
        ReadQuota(0)
