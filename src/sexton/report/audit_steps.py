"""What to do about a finding, step by step, with the commands to copy.

Almost every finding has the same cure: the wrong replica's log is thrown away and copied anew from
a right one. Around that, three things must hold. Cleaning stands still, or more is forgotten in the
meantime. The leader is right about everything, or its error spreads to all that copy from it. And
nothing is thrown away before all replicas were read and one knows who is right.

`sexton repair` sees to all of that, on any Kafka, so it comes first, with a look at what it would
do. Where nobody can know who is right it takes a person's word for it. The commands have the names
of the topic, partition and brokers of this finding in them; docs/runbook/ tells more, and how to do
it by hand.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence

from sexton.audit.finding import AuditFinding
from sexton.audit.summary import key_in_words
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.report.audit_page import AuditPage
from sexton.report.audit_words import nodes_named


@dataclass(frozen=True, slots=True)
class Step:
    text: str
    commands: tuple[str, ...] = ()


class Advice:
    """What to do about each finding of a page, in view of all the others."""

    def __init__(self, page: AuditPage) -> None:
        self._page = page
        self._partitions = {each.partition: each for each in page.partitions}
        self._unread = {each.partition for each in page.incomplete if not each.keys_only}
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

    def first_command(self, finding: AuditFinding) -> str | None:
        """What somebody who reads a terminal can begin with: it changes nothing yet."""
        every = (command for step in self.steps(finding) for command in step.commands)
        return next(every, None)

    def _mend(self, finding: AuditFinding) -> Iterator[Step]:
        page, at = self._page, finding.partition
        yield from _warnings(finding, page)
        right = finding.verdict.right
        wrong = [node for node in finding.replicas if node not in (right or ())]
        sources = [node for node in self._assigned(at) if node not in self._wrong[at]]
        if right is None or not wrong:
            yield from self._wait_for_people(finding, _find_out(finding, page))
        elif at in self._unread or None in self._unread:
            yield from self._wait_for_people(finding, [_read_all(finding, page)])
        elif not sources:
            yield from self._wait_for_people(finding, _no_source(finding, page))
        else:
            yield from _rebuild(finding, page, wrong, sources)

    def _wait_for_people(
        self, finding: AuditFinding, steps: Iterator[Step] | list[Step]
    ) -> Iterator[Step]:
        """That may take days, and cleaning does not wait."""
        at, page = finding.partition, self._page
        compacted = at not in self._partitions or self._partitions[at].compacted
        topic = shlex.quote(at.topic)
        if compacted:
            yield Step(
                "Stop the topic's cleaning, so that nothing more is forgotten meanwhile. Its"
                " settings are remembered.",
                (f"sexton guard freeze {topic} {_servers(page)}",),
            )
        yield from steps
        if compacted:
            yield Step(
                "When the audit is clean, let cleaning resume.",
                (f"sexton guard thaw {topic} {_servers(page)}",),
            )

    def _assigned(self, at: TopicPartition) -> list[int]:
        read = self._partitions.get(at)
        if read is None:
            return []
        return list(read.assigned) or [replica.node for replica in read.replicas]


# ── the wrong replica copies the partition anew ──


def _warnings(finding: AuditFinding, page: AuditPage) -> Iterator[Step]:
    if finding.code == "stuck-partition":
        yield Step(
            "See what every replica knows of the transaction. Do not end it with"
            " kafka-transactions.sh abort, the usual advice: it has ended already, and if it was"
            " committed, an abort would hide its records.",
            (f"sexton txn explain {_place(finding)} {_servers(page)}",),
        )
    if finding.code == "corrupt-batch":
        yield Step("Do not restart the broker first: it may cut the log at the damaged batch.")


def _rebuild(
    finding: AuditFinding, page: AuditPage, wrong: Sequence[int], sources: Sequence[int]
) -> Iterator[Step]:
    command = f"sexton repair {_place(finding)} {_servers(page)}"
    yield Step(
        "See what a repair would do, and why. It changes nothing.", (f"{command} --dry-run",)
    )
    kept = ""
    if finding.verdict.certainty != "certain":
        command += " --keep-copy wrong/"
        kept = (
            " Which replica is right is likely, not certain, so this keeps a copy of what"
            f" {nodes_named(wrong, page)} {'holds' if len(wrong) == 1 else 'hold'}."
        )
    yield Step(
        f"Repair it. The topic is not cleaned meanwhile, {nodes_named(sources[:1], page)} leads,"
        f" {nodes_named(wrong, page)} {'copies' if len(wrong) == 1 else 'copy'} everything again,"
        " never fewer than min.insync.replicas are in sync, and at the end it is audited again."
        f"{kept} If it is interrupted, run it again, and it continues.",
        (command,),
    )


def _read_all(finding: AuditFinding, page: AuditPage) -> Step:
    return Step(
        "Not every replica could be read. Bring the missing ones back and audit again before"
        " anything is rebuilt: they may know better, and a repair would refuse.",
        (_audit(finding, page),),
    )


def _no_source(finding: AuditFinding, page: AuditPage) -> Iterator[Step]:
    yield Step(
        "Every replica of this partition is wrong about something, so none can serve as the source"
        " of the others, and a repair chooses none."
    )
    yield from _say_what_is_true(finding, page)


def _find_out(finding: AuditFinding, page: AuditPage) -> Iterator[Step]:
    what = "this key" if finding.key is not None else "these records"
    yield Step(
        f"Which replica is right cannot be read from the logs. Ask whoever wrote {what} what"
        " should be there. Rebuild no replica before that is known: the one thrown away may be the"
        " last that has it."
    )
    yield from _say_what_is_true(finding, page)


def _say_what_is_true(finding: AuditFinding, page: AuditPage) -> Iterator[Step]:
    command = f"sexton repair {_place(finding)} {_servers(page)}"
    if finding.key is not None:
        key = shlex.quote(key_in_words(finding.key, plain=page.show_keys) or "")
        yield Step(
            "If you know what the key should be, have it written once more, as a delete or with the"
            " value of one broker: every replica gets the new record, and what they held before no"
            " longer matters.",
            (
                f"{command} --publish-tombstone {key}",
                f"{command} --keep-value {key} --as-on BROKER",
            ),
        )
    yield Step(
        "If you know that one broker is right about everything, have the others copy from it.",
        (f"{command} --trust BROKER --keep-copy wrong/",),
    )


# ── the others ──


def _end_transaction(finding: AuditFinding, page: AuditPage) -> Iterator[Step]:
    starts = [each.first_data for each in finding.transactions if each.first_data is not None]
    yield Step(
        "See who wrote it, what its coordinator says, and what every replica knows. A producer that"
        " still runs may yet commit: then it only needs time.",
        (f"sexton txn explain {_place(finding)} {_servers(page)}",),
    )
    named = str(min(starts)) if starts else "OFFSET"
    yield Step(
        "If the producer is gone, end it as aborted. Every replica is asked once more first; what"
        " was committed is not aborted.",
        (f"sexton txn abort {_place(finding)} --start-offset {named} {_servers(page)}",),
    )
    yield Step("Audit again.", (_audit(finding, page),))


def _explain_gap(finding: AuditFinding, page: AuditPage) -> Iterator[Step]:
    named = nodes_named(finding.replicas, page)
    yield Step(
        f"Look into the log on {named} itself; this explains every missing offset.",
        (f"sexton log verify --cleanup-policy delete LOG_DIR/{finding.partition}",),
    )
    yield Step(
        "If the topic used to be compacted, nothing is wrong: accept it in the baseline. No replica"
        " holds these offsets, so there is nothing to copy."
    )


def _audit(finding: AuditFinding, page: AuditPage) -> str:
    return f"sexton audit {_place(finding)} {_servers(page)}"


def _place(finding: AuditFinding) -> str:
    return shlex.quote(f"{finding.partition.topic}:{finding.partition.partition}")


def _servers(page: AuditPage) -> str:
    servers = f"-b {shlex.quote(page.bootstrap)}"
    if page.command_config:
        servers += f" --command-config {shlex.quote(page.command_config)}"
    return servers
