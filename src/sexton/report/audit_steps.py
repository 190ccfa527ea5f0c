"""What to do about a finding, step by step, with the commands to copy.

Almost every finding has the same cure: the wrong replica's log is thrown away and copied anew from
a right one. Around that, three things must hold. Cleaning stands still, or more is forgotten in the
meantime. Who leads is right about everything, or its error spreads to whoever copies from it. And
nothing is thrown away before all replicas were read and one knows who is right.

The commands are Kafka's own, and those of sexton that work with any Kafka. They have the names of
the topic, partition and brokers of this finding in them; docs/runbook/ tells more.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence

from sexton.audit.finding import AuditFinding
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.report.audit_page import AuditPage
from sexton.report.audit_words import node_name, nodes_named

FROZEN = 2**63 - 1  # min.compaction.lag.ms: nothing is ever old enough


@dataclass(frozen=True, slots=True)
class Step:
    text: str
    commands: tuple[str, ...] = ()


class Advice:
    """What to do about each finding of a page, in view of all the others."""

    def __init__(self, page: AuditPage) -> None:
        self._page = page
        self._partitions = {each.partition: each for each in page.partitions}
        self._unread = {each.partition for each in page.incomplete}
        # No replica may serve as the source of a copy that is itself wrong about something.
        self._wrong: dict[TopicPartition, set[int]] = defaultdict(set)
        for finding in page.findings:
            if finding.verdict.right is not None:
                self._wrong[finding.partition] |= {*finding.replicas} - {*finding.verdict.right}

    def steps(self, finding: AuditFinding) -> tuple[Step, ...]:
        """In this order."""
        if self._page.offline:
            said = "Only copies of directories were compared: audit the cluster they are from."
            return (Step(said),)
        match finding.code:
            case "hanging-transaction":
                return tuple(_end_transaction(finding, self._page))
            case "offset-gap":
                return tuple(_explain_gap(finding, self._page))
            case _:
                return tuple(self._mend(finding))

    def _mend(self, finding: AuditFinding) -> Iterator[Step]:
        page, at = self._page, finding.partition
        compacted = at not in self._partitions or self._partitions[at].compacted
        if compacted:
            yield _freeze(finding, page)
        yield from _warnings(finding)
        right = finding.verdict.right
        wrong = [node for node in finding.replicas if node not in (right or ())]
        sources = [node for node in self._assigned(at) if node not in self._wrong[at]]
        if right is None or not wrong:
            yield from _find_out(finding)
        elif at in self._unread or None in self._unread:
            yield _read_all(finding, page)
        elif not sources:
            yield from _no_source(finding)
        else:
            others = [node for node in self._assigned(at) if node not in (*sources, *wrong)]
            yield from _rebuild(finding, page, wrong, [*sources, *others, *wrong])
            if compacted:
                yield _thaw(finding, page)

    def _assigned(self, at: TopicPartition) -> list[int]:
        read = self._partitions.get(at)
        if read is None:
            return []
        return list(read.assigned) or [replica.node for replica in read.replicas]


# ── the wrong replica copies the partition anew ──


def _warnings(finding: AuditFinding) -> Iterator[Step]:
    if finding.code == "stuck-partition":
        yield Step(
            "Do not end the transaction with kafka-transactions.sh abort, the usual advice. It has"
            " ended already; if it was committed, an abort would hide its records."
        )
    if finding.code == "corrupt-batch":
        yield Step("Do not restart the broker first: it may cut the log at the damaged batch.")


def _rebuild(
    finding: AuditFinding, page: AuditPage, wrong: Sequence[int], ordered: Sequence[int]
) -> Iterator[Step]:
    """`ordered` are all replicas, those first from which one may copy."""
    if finding.verdict.certainty != "certain":
        yield Step(
            f"Who is right is likely, not certain. Keep a copy of LOG_DIR/{finding.partition} on"
            f" {nodes_named(wrong, page)} until you are sure."
        )
    yield _lead(finding, page, ordered[0])
    for node in wrong:
        yield _copy_anew(finding, page, node, ordered)
    yield _again(finding, page)


def _read_all(finding: AuditFinding, page: AuditPage) -> Step:
    topic = shlex.quote(finding.partition.topic)
    return Step(
        "Not every replica could be read. Bring the missing ones back and audit again before"
        " anything is rebuilt: they may know better, and none of them should be forgotten when"
        " replicas are reassigned.",
        (f"sexton audit {_servers(page)} --topic {topic}",),
    )


def _no_source(finding: AuditFinding) -> Iterator[Step]:
    yield Step(
        "Every replica of this partition is wrong about something, so none can serve as the source"
        " of the others. Keep a copy of each before you change any."
    )
    if finding.key is not None:
        yield _write_again()


def _find_out(finding: AuditFinding) -> Iterator[Step]:
    what = "this key" if finding.key is not None else "these records"
    yield Step(
        f"Which replica is right cannot be read from the logs. Ask whoever wrote {what} what"
        " should be there. Rebuild no replica before that is known: the one thrown away may be the"
        " last that has it."
    )
    if finding.key is not None:
        yield _write_again()


def _write_again() -> Step:
    return Step(
        "The safe way out is to write the key again, its value or a delete: every replica gets the"
        " new record, and what they held before no longer matters."
    )


def _freeze(finding: AuditFinding, page: AuditPage) -> Step:
    return Step(
        "Stop the topic's cleaning, so that nothing more is forgotten meanwhile. Note the old value"
        " first, if it has one.",
        (
            f"{_configs(finding, page)} --describe",
            f"{_configs(finding, page)} --alter --add-config min.compaction.lag.ms={FROZEN}",
        ),
    )


def _thaw(finding: AuditFinding, page: AuditPage) -> Step:
    return Step(
        "When the audit is clean, let cleaning go on (or put the old value back).",
        (f"{_configs(finding, page)} --alter --delete-config min.compaction.lag.ms",),
    )


def _lead(finding: AuditFinding, page: AuditPage, leader: int) -> Step:
    return Step(
        f"Have a right replica lead: {node_name(leader, page)}.",
        (f"sexton cluster elect {finding.partition} --leader {leader} {_servers(page)}",),
    )


def _copy_anew(finding: AuditFinding, page: AuditPage, node: int, replicas: Sequence[int]) -> Step:
    kept = ",".join(str(each) for each in replicas if each != node)
    every = f"{kept},{node}"
    return Step(
        f"Take the replica on {node_name(node, page)} away, which deletes its log, and add it"
        " again: it copies everything from the leader. Without it there must still be"
        " min.insync.replicas replicas.",
        (
            f"sexton cluster reassign {finding.partition}={kept} {_servers(page)}",
            f"sexton cluster reassign {finding.partition}={every} {_servers(page)}",
        ),
    )


def _again(finding: AuditFinding, page: AuditPage) -> Step:
    topic = shlex.quote(finding.partition.topic)
    return Step("Look again.", (f"sexton audit {_servers(page)} --topic {topic}",))


# ── the others ──


def _end_transaction(finding: AuditFinding, page: AuditPage) -> Iterator[Step]:
    starts = [each.first_data for each in finding.transactions if each.first_data is not None]
    tool = f"kafka-transactions.sh --bootstrap-server {shlex.quote(page.bootstrap)}"
    topic, partition = shlex.quote(finding.partition.topic), finding.partition.partition
    yield Step(
        "See who wrote it, and whether that producer still runs. One that does may yet commit:"
        " then it only needs time.",
        (f"{tool} describe-producers --topic {topic} --partition {partition}",),
    )
    named = str(min(starts)) if starts else "OFFSET"
    yield Step(
        "If the producer is gone, and its coordinator knows nothing of the transaction, it was"
        " never committed: end it as aborted.",
        (f"{tool} abort --topic {topic} --partition {partition} --start-offset {named}",),
    )
    yield _again(finding, page)


def _explain_gap(finding: AuditFinding, page: AuditPage) -> Iterator[Step]:
    named = nodes_named(finding.replicas, page)
    yield Step(
        f"Look into the log on {named} itself; this says for every missing offset why it is.",
        (f"sexton log verify --cleanup-policy delete LOG_DIR/{finding.partition}",),
    )
    yield Step(
        "If another replica holds these offsets, rebuild the one that does not, as in"
        " docs/runbook/missing-record.md."
    )


def _configs(finding: AuditFinding, page: AuditPage) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {shlex.quote(page.bootstrap)}"
        f" --entity-type topics --entity-name {shlex.quote(finding.partition.topic)}"
    )


def _servers(page: AuditPage) -> str:
    return f"-b {shlex.quote(page.bootstrap)}"
