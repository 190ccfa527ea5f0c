"""Does the audit find every divergence that the lab can make, and call it by its name?

The same scripts under both policies: with `independent` the finding must be there and blame broker
3, with `coordinated` there must be none, at the same moment of the same story.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sexton.audit.finding import AuditFinding
from sexton.lab.divergences import EMBEDDED_OPTIONS, SCENARIOS
from sexton.survey.plan import Wanted
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import Survey, run_survey
from sexton.testing.embedded import EmbeddedCluster

NAMES = {
    "tombstone-divergence": "tombstone-divergence",
    "aborted-as-committed": "aborted-as-committed",
    "committed-as-aborted": "committed-as-aborted",
    "stuck-partition": "stuck-partition",
    "slow-reassignment": "tombstone-divergence",
    "stale-disk": "tombstone-divergence",
}


@pytest.fixture(scope="module")
def independent() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        compaction="independent", options=EMBEDDED_OPTIONS, frozen_clock=True
    ) as started:
        yield started


@pytest.fixture(scope="module")
def coordinated() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        compaction="coordinated", options=EMBEDDED_OPTIONS, frozen_clock=True
    ) as started:
        yield started


def audit(cluster: EmbeddedCluster, topic: str) -> Survey:
    return run_survey(Wanted(cluster.bootstrap_servers, topics=(topic,)), LocalRunner())


def surveyed(cluster: EmbeddedCluster, name: str) -> tuple[bool, Survey]:
    """Did replicas diverge, and what did an audit say at that time?"""
    surveys: list[Survey] = []
    outcome = SCENARIOS[name](cluster, lambda topic: surveys.append(audit(cluster, topic)))
    (survey,) = surveys
    assert not list(survey.unread)
    return outcome.diverged, survey


@pytest.mark.parametrize("name", NAMES)
def test_what_the_lab_makes_is_found_and_named(independent: EmbeddedCluster, name: str) -> None:
    diverged, survey = surveyed(independent, name)
    assert diverged
    findings: list[AuditFinding] = list(survey.findings)
    assert [finding.code for finding in findings] == [NAMES[name]]
    assert findings[0].replicas == (3,)
    assert findings[0].verdict.right == (1, 2)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found_where_replicas_ask_each_other(
    coordinated: EmbeddedCluster, name: str
) -> None:
    diverged, survey = surveyed(coordinated, name)
    assert not diverged
    assert list(survey.findings) == []
