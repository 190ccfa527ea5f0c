"""What a repair takes from the report of an audit."""

from __future__ import annotations

from typing import Any

import pytest

from sexton.base.errors import ConfigError
from sexton.guard.repair_planning import DAY_MS, judged_of_report

HERE = "ours"
NOW_MS = 1_800_000_000_000


def report(
    unread: str,
    cluster_id: str | None = HERE,
    started_ms: int | None = NOW_MS - DAY_MS,
    **more: Any,
) -> dict[str, Any]:
    return {
        "command": "audit",
        "summary": {"cluster_id": cluster_id, "started_ms": started_ms, **more},
        "findings": [],
        "incomplete": [{"subject": unread, "why": "it is gone"}],
    }


@pytest.mark.parametrize(
    "subject",
    ["orders-0 on broker 2", "orders-11 in /copies/b 2", "orders-0", "the topic orders"],
)
def test_what_could_not_be_read_of_the_topic_stops_its_repair(subject: str) -> None:
    with pytest.raises(ConfigError, match="could not read"):
        judged_of_report(report(subject), "orders", HERE, NOW_MS)


@pytest.mark.parametrize(
    "subject",
    ["orders-eu-0 on broker 2", "orders-eu-0", "eu-orders-0", "the topic orders-eu", "broker 3"],
)
def test_another_topic_is_none_of_its_business(subject: str) -> None:
    assert judged_of_report(report(subject), "orders", HERE, NOW_MS) == []


@pytest.mark.parametrize(("of", "why"), [("another", "of the cluster another"), (None, "copies")])
def test_a_report_of_another_cluster_or_of_copies_names_other_brokers(
    of: str | None, why: str
) -> None:
    """Whose numbers may be brokers here as well: right ones would be rebuilt from wrong ones."""
    with pytest.raises(ConfigError, match=why):
        judged_of_report(report("broker 3", of), "orders", HERE, NOW_MS)


@pytest.mark.parametrize("started_ms", [NOW_MS - DAY_MS - 1, None])
def test_a_report_of_another_day_tells_of_other_copies(started_ms: int | None) -> None:
    """A replica that it calls right may have been filled from a wrong one since."""
    old = report("broker 3", HERE, started_ms)
    with pytest.raises(ConfigError, match="more than a day old"):
        judged_of_report(old, "orders", HERE, NOW_MS)


@pytest.mark.parametrize(
    ("left_out", "why"), [({"acknowledged": 1}, "baseline"), ({"since": "2h"}, "since 2h")]
)
def test_a_report_that_leaves_something_out_does_not_say_who_is_right(
    left_out: dict[str, Any], why: str
) -> None:
    """In what it leaves out, the replica that it calls wrong may be the only one that is right."""
    with pytest.raises(ConfigError, match=why):
        judged_of_report(report("broker 3", **left_out), "orders", HERE, NOW_MS)
    nothing = report("broker 3", acknowledged=0, since=None)
    assert judged_of_report(nothing, "orders", HERE, NOW_MS) == []
