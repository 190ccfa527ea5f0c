"""From an audit to jobs: who is wrong, what can be done about it, and what cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sexton.audit.finding import AuditFinding
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.guard.repair_sight import look
from sexton.machines.repair import Job, Sight, Stop, plan_job
from sexton.machines.repair_verdicts import Decision, Judged, decide

DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done about one partition, or why nothing is."""

    decision: Decision
    sight: Sight
    job: Job | None
    refused: Stop | None  # it is clear what to do, and cannot be done


def judged(finding: AuditFinding) -> Judged:
    return Judged(
        finding.identity,
        finding.code,
        finding.partition,
        finding.replicas,
        finding.verdict.right,
        finding.verdict.certainty,
        finding.message,
        finding.verdict.because,
        finding.key,
    )


def judged_of_report(
    told: Mapping[str, object], topic: str, cluster_id: str | None, now_ms: int
) -> list[Judged]:
    """The findings of `sexton audit --format json` about a topic of this cluster, of today."""
    found = told.get("findings")
    if told.get("command") != "audit" or not isinstance(found, list):
        hint = "write one with `sexton audit --format json`"
        raise ConfigError("--findings", "is not the output of an audit", hint)
    summary = told.get("summary")
    _check_summary(summary if isinstance(summary, Mapping) else {}, cluster_id, now_ms)
    for each in told.get("incomplete") or ():  # type: ignore[attr-defined]
        if _is_about(str(each["subject"]), topic):
            why = f"the audit could not read {each['subject']}: {each['why']}"
            raise ConfigError("--findings", why, "audit again when it can be read")
    return [_reported(each) for each in found if each["topic"] == topic]


def _check_summary(summary: Mapping[str, object], cluster_id: str | None, now_ms: int) -> None:
    """A number names another broker elsewhere, and of copies it is the place in the command.

    And it names another copy later: who was right may have been rebuilt, or moved, since.
    """
    found = summary.get("cluster_id")
    if found is None:
        why = "is of copies of directories, whose numbers are not those of brokers"
        raise ConfigError("--findings", why, "audit this cluster")
    if found != cluster_id:
        why = f"is of the cluster {found}, and this is {cluster_id}"
        raise ConfigError("--findings", why, "audit this cluster")
    began_ms = summary.get("started_ms")
    if not isinstance(began_ms, int) or now_ms - began_ms > DAY_MS:
        why = "is more than a day old: a replica that was right then may be wrong now"
        raise ConfigError("--findings", why, "audit again")
    _check_left_out(summary)


def _check_left_out(summary: Mapping[str, object]) -> None:
    """With a replica that is rebuilt goes all that it holds, also what no finding speaks of."""
    if summary.get("acknowledged"):
        why = f"leaves out {summary['acknowledged']} findings, by a baseline: a replica that is "
        why += "wrong in others may be right in these"
        raise ConfigError("--findings", why, "audit without --baseline")
    if summary.get("since"):
        why = f"is of records since {summary['since']}: a replica that is wrong in these may be "
        why += "right in older ones"
        raise ConfigError("--findings", why, "audit without --since")


def _is_about(subject: str, topic: str) -> bool:
    """`orders-0 on broker 2`, `orders-0`, `the topic orders`; orders-eu-0 is of another topic."""
    name, _, number = subject.partition(" ")[0].rpartition("-")
    return subject == f"the topic {topic}" or (name == topic and number.isdecimal())


def _reported(told: Mapping[str, object]) -> Judged:
    right = told["right"]
    replicas = told["replicas"]
    assert isinstance(replicas, list) and (right is None or isinstance(right, list))
    return Judged(
        str(told["identity"]),
        str(told["code"]),
        TopicPartition(str(told["topic"]), int(str(told["partition"]))),
        tuple(replicas),
        None if right is None else tuple(right),
        str(told["certainty"]),
        str(told["message"]),
        str(told["because"]),
    )


async def plan_repair(
    client: Client, findings: Iterable[Judged], *, trusted: int | None = None
) -> list[Plan]:
    """One plan for each partition that something was found in."""
    by_partition: dict[TopicPartition, list[Judged]] = {}
    for each in findings:
        by_partition.setdefault(each.partition, []).append(each)
    if not by_partition:
        return []
    racks = {node: each.rack for node, each in (await client.topology([])).brokers.items()}
    plans = []
    for at, some in sorted(by_partition.items()):
        sight = await look(client, at)
        decision = decide(at, sight.replicas, some, trusted)
        plans.append(_plan(decision, sight, racks))
    return plans


def _plan(decision: Decision, sight: Sight, racks: dict[int, str | None]) -> Plan:
    if not decision.is_clear:
        return Plan(decision, sight, None, None)
    least = sight.min_insync or 1
    found = plan_job(decision.partition, sight, decision.wrong, decision.sources, least, racks)
    if isinstance(found, Stop):
        return Plan(decision, sight, None, found)
    return Plan(decision, sight, found, None)
