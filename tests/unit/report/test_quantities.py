"""Sizes, times and durations: the edges at which the unit changes, and what no calendar knows."""

from __future__ import annotations

import pytest

from sexton.cli.txn_reach import when
from sexton.guard.status import size as guard_size
from sexton.report.quantities import duration, exact_moment, iso, moment, size, whole_seconds

AT = 1_794_773_953_428  # 2026-11-15 20:19:13.428 UTC


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (999_949, "999.9 kB"),
        (999_990, "1.0 MB"), (251_900_000, "251.9 MB"), (7_000_000_000_000_000, "7000.0 TB"),
    ],
)  # fmt: skip
def test_a_size_has_one_form_everywhere(count: int, told: str) -> None:
    assert size(count) == guard_size(count) == told


def test_a_time() -> None:
    assert moment(AT) == "2026-11-15 20:19:13 UTC"
    assert exact_moment(AT) == "2026-11-15 20:19:13.428"
    assert iso(AT) == "2026-11-15T20:19:13Z"


@pytest.mark.parametrize("none", [None, -1])
def test_no_time(none: int | None) -> None:
    assert (moment(none), exact_moment(none), iso(none)) == ("not known", None, None)


@pytest.mark.parametrize("factor", [1_000, 1_000_000], ids=["microseconds", "nanoseconds"])
def test_a_time_that_no_calendar_knows_stays_a_number(factor: int) -> None:
    """Producers may write what they like."""
    far = AT * factor
    assert (moment(far), exact_moment(far), iso(far)) == (f"{far} ms", str(far), f"{far} ms")
    assert when(far) == f"{far} ms"


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [
        (-5, "0.0 s"), (2_540, "2.5 s"), (60_000, "1 min 0 s"), (303_400, "5 min 3 s"),
        (12_000_000, "3 h 20 min"),
    ],
)  # fmt: skip
def test_a_duration(milliseconds: int, told: str) -> None:
    assert duration(milliseconds) == told


def test_whole_seconds() -> None:
    assert [whole_seconds(n) for n in (0, 59, 60, 3_599, 3_600)] == [
        "0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min",
    ]  # fmt: skip
