from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from sexton.base.findings import Finding
from sexton.broker.chronicle import MOST_NAMED, Chronicle
from sexton.broker.logs import facts
from sexton.machines.metadata import BrokerRecord, Image, PartitionRecord, Removed, TopicRecord


class Teller:
    """A chronicle, what it wants to do later, and what it has said."""

    def __init__(self, caplog: pytest.LogCaptureFixture, *partitions: PartitionRecord) -> None:
        self.caplog = caplog
        self.later: list[Callable[[], None]] = []
        self.chronicle = Chronicle(lambda _seconds, action: self.later.append(action))
        self.chronicle.loaded(Image.of(partitions))

    def told(self) -> list[tuple[str, dict[str, object]]]:
        waiting, self.later = self.later, []
        for action in waiting:
            action()
        said = [(r.message, facts(r)) for r in self.caplog.records if r.levelno >= logging.INFO]
        self.caplog.clear()
        return said


@pytest.fixture(autouse=True)
def _everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "sexton.cluster")


def led(number: int, leader: int = 1, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionRecord:
    return PartitionRecord("orders", number, (1, 2, 3), (1, 2, 3), isr, leader)


def test_a_broker_comes_and_goes(caplog: pytest.LogCaptureFixture) -> None:
    teller = Teller(caplog)
    up = BrokerRecord(2, "a", 17, fenced=False)
    teller.chronicle.decided((up,))
    teller.chronicle.decided((up,))
    teller.chronicle.decided((replace(up, fenced=True),))
    said = teller.told()
    assert [message for message, _ in said] == [
        "broker is up",
        "broker is away: no leader, and in no ISR",
    ]
    assert said[0][1] == {"broker": 2, "epoch": 17}


def test_a_few_elections_have_a_line_each(caplog: pytest.LogCaptureFixture) -> None:
    teller = Teller(caplog, led(0))
    teller.chronicle.decided((replace(led(0, leader=2, isr=(2, 3)), leader_epoch=1),))
    assert teller.told() == [
        (
            "leader was elected",
            {"partition": "orders-0", "leader": 2, "leader_epoch": 1, "isr": [2, 3]},
        ),
        ("in-sync replicas changed", {"partition": "orders-0", "isr": [2, 3]}),
    ]
    assert teller.chronicle.elections == teller.chronicle.isr_shrinks == 1


def test_many_have_one_together(caplog: pytest.LogCaptureFixture) -> None:
    before = [led(number) for number in range(MOST_NAMED + 1)]
    teller = Teller(caplog, *before)
    for record in before:  # each in a step of its own
        teller.chronicle.decided((replace(record, leader=-1, isr=(2,)),))
    assert teller.told() == [
        ("leaders were elected", {"partitions": 4, "leaderless": 4, "away": []}),
        ("in-sync replicas changed", {"partitions": 4, "under_replicated": 4}),
    ]
    assert teller.chronicle.elections == 0


def test_an_election_that_loses_records_is_always_told(caplog: pytest.LogCaptureFixture) -> None:
    before = [led(number) for number in range(MOST_NAMED + 1)]
    teller = Teller(caplog, *before)
    lost = [replace(r, leader=3, isr=(3,), leader_epoch=4, lost_in=4) for r in before]
    teller.chronicle.decided(tuple(lost))
    lossy = [m for m, _ in teller.told() if m == "leader was elected uncleanly: records are lost"]
    assert len(lossy) == teller.chronicle.unclean_elections == MOST_NAMED + 1


def test_offsets_alone_are_no_news(caplog: pytest.LogCaptureFixture) -> None:
    teller = Teller(caplog, led(0))
    teller.chronicle.decided((replace(led(0), high_watermark=99, mtro=7),))
    assert teller.told() == []


def test_topics_and_reassignments_are_told(caplog: pytest.LogCaptureFixture) -> None:
    teller = Teller(caplog, led(0))
    moving = replace(led(0), replicas=(1, 2, 3, 4), assignments=(1, 2, 3, 9), adding=(4,))
    teller.chronicle.decided((TopicRecord("clicks", "id"), moving))
    teller.chronicle.decided((replace(moving, adding=()), Removed(("topic", "clicks"))))
    assert [message for message, _ in teller.told()] == [
        "topic was created",
        "reassignment began",
        "reassignment ended",
        "topic was deleted",
    ]


def test_what_a_broker_had_to_mend_is_told(caplog: pytest.LogCaptureFixture) -> None:
    teller = Teller(caplog)
    found = Finding("checkpoint-lost", "warning", "recovery-point", "it is empty", {}, "nothing")
    teller.chronicle.opened(2, [found])
    facts_ = {"broker": 2, "code": "checkpoint-lost", "where": "recovery-point"}
    assert teller.told() == [("it is empty", facts_)]
