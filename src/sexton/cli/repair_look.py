"""What a repair goes by: an audit that is made now, or the report of one that was made before."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError
from sexton.cli.options import BOOTSTRAP_SERVERS
from sexton.cli.output import Output
from sexton.cli.repair_request import Request

if TYPE_CHECKING:
    from sexton.audit.finding import AuditFinding
    from sexton.base.partitions import TopicPartition
    from sexton.guard.repair_choices import Choice
    from sexton.machines.repair_verdicts import Judged

OF_AN_AUDIT = "write one with `sexton audit --format json`"


@dataclass(frozen=True, slots=True)
class Looked:
    """What an audit came to."""

    judged: Sequence[Judged]
    findings: Sequence[AuditFinding] = ()
    unread: Sequence[tuple[TopicPartition, int, str]] = ()
    unjudged: Mapping[TopicPartition, int] = field(default_factory=dict)  # more that may differ
    doubts: Sequence[tuple[TopicPartition, str]] = ()  # why one is not known to be well, a clause
    alone: bool = False  # there is one replica of each partition
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)  # compared up to there
    behind: Sequence[tuple[TopicPartition, int]] = ()  # out of sync: compared in part
    read: Mapping[TopicPartition, Collection[int]] = field(default_factory=dict)  # brokers, by it
    chosen: Sequence[Judged] = ()  # a dry run: what goes away when keys are written anew

    @property
    def agrees(self) -> bool:
        """Every replica was read, and none is wrong."""
        from sexton.machines.repair_verdicts import NOT_OF_REPLICAS

        differing = [each for each in self.judged if each.code not in NOT_OF_REPLICAS]
        return not (differing or self.unread or self.unjudged)

    def without(self, choices: Sequence[Choice]) -> Looked:
        """What is left to plan for, once these keys are written anew."""
        keys = {(each.partition, each.key) for each in choices}
        return replace(
            self,
            judged=[each for each in self.judged if (each.partition, each.key) not in keys],
            findings=[each for each in self.findings if (each.partition, each.key) not in keys],
            chosen=[each for each in self.judged if (each.partition, each.key) in keys],
        )


async def audited(request: Request, out: Output, only: Sequence[TopicPartition]) -> Looked:
    """The topic, or only these partitions of it."""
    from sexton.guard.repair_planning import judged
    from sexton.survey.plan import Wanted
    from sexton.survey.runner import LocalRunner
    from sexton.survey.survey import run_survey

    settings = dict(request.settings)
    servers = settings.pop(BOOTSTRAP_SERVERS)
    wanted = Wanted(servers, settings, topics=(request.topic,), partitions=tuple(only))
    with out.progress("auditing"):
        survey = await asyncio.to_thread(run_survey, wanted, LocalRunner())
    found = list(survey.findings)
    return Looked(
        [judged(each) for each in found],
        found,
        list(survey.unread),
        {each.partition: each.not_judged for each in survey.partitions if each.not_judged},
        [(each.partition, why) for each in survey.partitions for why in each.doubts],
        all(len(each.plan.places) < 2 for each in survey.partitions),
        {
            each.partition: min((group.scope.end for group in each.plan.groups), default=0)
            for each in survey.partitions
        },
        [
            (each.partition, node)
            for each in survey.partitions
            for node in each.plan.places
            if node not in each.plan.isr
        ],
        {each.partition: frozenset(each.plan.places) for each in survey.partitions},
    )


def reported(path: Path, request: Request, cluster_id: str | None) -> Looked:
    from sexton.guard.repair_planning import judged_of_report
    from sexton.survey.plan import is_meant

    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(str(path), f"cannot be read: {why.lower()}", OF_AN_AUDIT) from error
    if not isinstance(told, dict):
        raise ConfigError(str(path), "is not the output of an audit", OF_AN_AUDIT)
    judged = judged_of_report(told, request.topic, cluster_id, int(time.time() * 1000))
    return Looked([each for each in judged if is_meant(each.partition, request.only)])
