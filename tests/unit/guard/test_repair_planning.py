"""What a repair takes from the report of an audit."""

from __future__ import annotations

from typing import Any

import pytest

from sexton.base.errors import ConfigError
from sexton.guard.repair_planning import judged_of_report

HERE = "ours"


def report(unread: str, cluster_id: str | None = HERE) -> dict[str, Any]:
    return {
        "command": "audit",
        "summary": {"cluster_id": cluster_id},
        "findings": [],
        "incomplete": [{"subject": unread, "why": "it is gone"}],
    }


@pytest.mark.parametrize(
    "subject",
    ["orders-0 on broker 2", "orders-11 in /copies/b 2", "orders-0", "the topic orders"],
)
def test_what_could_not_be_read_of_the_topic_stops_its_repair(subject: str) -> None:
    with pytest.raises(ConfigError, match="could not read"):
        judged_of_report(report(subject), "orders", HERE)


@pytest.mark.parametrize(
    "subject",
    ["orders-eu-0 on broker 2", "orders-eu-0", "eu-orders-0", "the topic orders-eu", "broker 3"],
)
def test_another_topic_is_none_of_its_business(subject: str) -> None:
    assert judged_of_report(report(subject), "orders", HERE) == []


@pytest.mark.parametrize(("of", "why"), [("another", "of the cluster another"), (None, "copies")])
def test_a_report_of_another_cluster_or_of_copies_names_other_brokers(
    of: str | None, why: str
) -> None:
    """Whose numbers may be brokers here as well: right ones would be rebuilt from wrong ones."""
    with pytest.raises(ConfigError, match=why):
        judged_of_report(report("broker 3", of), "orders", HERE)
