"""A leader dies with records that nobody has copied. Does it cut them off when it is back?

Whoever leads then tells it where its term ended. That is known to who led next; a broker that has
copied the log from it since goes by the first batch that is left of the next term, and cleaning may
have removed the real first ones. Asked by the former leader, such a broker names too late an end:

    offset      0     1     2     3     ...      9
    broker 3    a    (f)    k                              led, and died; k is its own
    broker 2    a          (f)   (f)    (f)      f         led next, from 2 on; cleaned: f is at 9
    broker 1    a                                f         copied that: the next term began at 9

Broker 3 keeps k then, is in sync, and shows it when it leads. So it goes on Apache Kafka, unless a
guard looks, and on ours while each cleans for itself (`tests/cluster/test_divergences.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sexton.lab.divergences import QUICK, late_epoch
from sexton.lab.guarding import guarded, slower
from sexton.lab.performing import Ending, perform
from sexton.lab.places import Place, open_place
from sexton.survey.runner import LocalRunner
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

GUARDED_PACE = slower(QUICK, held_by=late_epoch.held_by)
ALONE_PACE = replace(GUARDED_PACE, most_steps=2 * GUARDED_PACE.most_steps)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Place]:
    with open_place(f"kafka={KAFKA_4}", None, LocalRunner(), late_epoch.broker_options) as place:
        yield place


def assert_it_is_kept_and_named(ending: Ending) -> None:
    assert ending.surprises == []
    assert ending.outcome.forgotten and ending.outcome.diverged
    assert [node for node, seen in ending.readers.items() if "k" in seen.latest] == [3]
    (finding,) = ending.survey.findings
    assert (finding.code, finding.replicas) == ("tombstone-divergence", (3,))
    assert (finding.verdict.right, finding.verdict.certainty) == ((1, 2), "likely")


def test_apache_kafka_keeps_what_was_never_committed_and_the_audit_says_so(kafka: Place) -> None:
    assert_it_is_kept_and_named(perform(late_epoch, kafka))


@pytest.mark.soak
def test_so_does_kafka_3_9() -> None:
    options = late_epoch.broker_options
    with open_place(f"kafka={KAFKA_3_9}", None, LocalRunner(), options) as place:
        assert_it_is_kept_and_named(perform(late_epoch, place))


def test_it_is_cut_off_if_a_guard_looks(kafka: Place) -> None:
    with guarded(kafka) as place:
        ending = perform(late_epoch, place)
    assert ending.surprises == []
    assert not ending.outcome.forgotten and not ending.outcome.diverged
    assert not any("k" in seen.latest for seen in ending.readers.values())
    assert ending.outcome.cleaned_up


@pytest.mark.soak
def test_it_is_kept_without_one_at_the_same_timers(kafka: Place) -> None:
    outcome = late_epoch(kafka.cluster, pace=ALONE_PACE)
    assert outcome.forgotten and outcome.diverged, outcome.story
