"""Do the scripts of the embedded cluster come to the same end on Apache Kafka itself?

They do: it has no other policy than `independent`. And the audit finds each by its name, over the
wire, on brokers that have never heard of us. `late-epoch`, which has brokers of its own, is in
`test_late_epochs`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sexton.lab.divergences import (
    APACHE_KAFKA_OPTIONS,
    SCENARIOS,
    WHOLE_LIFE,
    late_epoch,
    marker_lifecycle,
)
from sexton.survey.plan import Wanted
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import Survey, run_survey
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

NAMES = {
    "tombstone-divergence": "tombstone-divergence",
    "aborted-as-committed": "aborted-as-committed",
    "committed-as-aborted": "committed-as-aborted",
    "stuck-partition": "stuck-partition",
    "slow-reassignment": "tombstone-divergence",
    "stale-disk": "tombstone-divergence",
}
SELDOM = ("stale-disk",)  # restarts a broker twice more than the others


@pytest.fixture(scope="module")
def three() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(nodes=3, options=APACHE_KAFKA_OPTIONS)) as kafka:
        yield kafka


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.soak] if n in SELDOM else []) for n in NAMES],
)
def test_replicas_of_apache_kafka_diverge_and_the_audit_says_so(
    name: str, three: ApacheKafka
) -> None:
    surveys: list[Survey] = []

    def audit(topic: str) -> None:
        wanted = Wanted(three.bootstrap_servers, topics=(topic,))
        surveys.append(run_survey(wanted, LocalRunner()))

    outcome = SCENARIOS[name](three, audit)
    assert outcome.forgotten
    assert outcome.diverged
    (survey,) = surveys
    (finding,) = survey.findings
    assert finding.code == NAMES[name]
    assert finding.replicas == (3,)
    assert finding.verdict.right == (1, 2)
    assert not list(survey.unread)


def test_all_are_played() -> None:
    assert {*NAMES, late_epoch.name} == SCENARIOS.keys()


@pytest.mark.soak
def test_a_marker_of_apache_kafka_is_emptied_and_then_goes(three: ApacheKafka) -> None:
    outcome = marker_lifecycle(three)
    assert outcome.states == WHOLE_LIFE
    assert not outcome.diverged
