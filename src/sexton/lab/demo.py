"""The story of the demo: four ways in which replicas come to disagree, then none.

Each scene is a scenario of `divergences` on an embedded cluster of three brokers, and an audit at
the moment when a consumer could see the damage. Whoever shows it brings the audit along.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from sexton.lab.divergences import (
    EMBEDDED_OPTIONS,
    Scenario,
    aborted_as_committed,
    committed_as_aborted,
    stuck_partition,
    tombstone_divergence,
)
from sexton.lab.stage import Outcome
from sexton.survey.survey import Survey
from sexton.testing.embedded import EmbeddedCluster

Policy = Literal["independent", "coordinated"]
Audit = Callable[[str, str], Survey]  # bootstrap servers, topic


@dataclass(frozen=True, slots=True)
class Act:
    """One way to diverge."""

    title: str
    instead: str  # what coordinated compaction makes of it
    scenario: Scenario
    why: str  # for those who want to know


ACTS: Final = (
    Act(
        "A deleted key comes back",
        "A deleted key stays deleted",
        tombstone_divergence,
        "While broker 3 is away, a key is deleted. The others remove the value, and the tombstone"
        " delete.retention.ms later. Broker 3 comes back, is in sync by Kafka's rules, and has"
        " never heard of the tombstone.",
    ),
    Act(
        "Aborted data is served as committed",
        "Aborted data stays hidden",
        aborted_as_committed,
        "Broker 3 has a record whose transaction is aborted while it is away. The others remove the"
        " record and then the ABORT marker. The producer's next COMMIT settles, for broker 3, both"
        " transactions.",
    ),
    Act(
        "Committed data vanishes",
        "Committed data stays",
        committed_as_aborted,
        "The reverse: the COMMIT marker is gone when broker 3 comes back, and the producer's next"
        " ABORT hides what was committed.",
    ),
    Act(
        "A partition freezes",
        "The partition goes on",
        stuck_partition,
        "The marker is gone and none follows. Broker 3 waits for the end of a transaction that"
        " ended long ago; whoever reads committed data from it waits with it, for ever.",
    ),
)


@dataclass(frozen=True, slots=True)
class Scene:
    act: Act
    policy: Policy
    outcome: Outcome
    survey: Survey  # at the moment when all is to be seen
    seconds: float

    @property
    def agrees(self) -> bool:
        return not self.outcome.diverged and not list(self.survey.findings)


def play(policy: Policy, audit: Audit) -> Iterator[Scene]:
    """All acts on one cluster, with Kafka's behaviour or with ours."""
    with EmbeddedCluster(compaction=policy, options=EMBEDDED_OPTIONS, frozen_clock=True) as cluster:
        for act in ACTS:
            yield _scene(act, policy, cluster, audit)


def _scene(act: Act, policy: Policy, cluster: EmbeddedCluster, audit: Audit) -> Scene:
    began = time.monotonic()
    surveys: list[Survey] = []
    outcome = act.scenario(
        cluster, lambda topic: surveys.append(audit(cluster.bootstrap_servers, topic))
    )
    (survey,) = surveys
    return Scene(act, policy, outcome, survey, time.monotonic() - began)
