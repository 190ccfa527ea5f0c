"""All that an audit has to tell, in one place for every form of it.

Whoever audits fills an `AuditPage`; the terminal, JSON, Parquet and HTML forms only read it, so
they cannot disagree. What was *not* looked at is part of it, as plain sentences: a page that says
"the replicas agree" and leaves out that half of them were down would be worse than no page.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from sexton.audit.facts import ReplicaFacts
from sexton.audit.finding import AuditFinding
from sexton.base.findings import Severity
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition

# differ: replicas disagree. unsound: they may agree, but something is wrong with a log.
# alone: there is one replica, and nothing to compare it with.
Standing = Literal["differ", "unsound", "incomplete", "unread", "alone", "agree"]
_WORST_FIRST: tuple[Standing, ...] = (
    "differ", "unsound", "incomplete", "unread", "alone", "agree",
)  # fmt: skip
_DISAGREEMENTS = {
    "tombstone-divergence", "aborted-as-committed", "committed-as-aborted", "stuck-partition",
    "missing-record",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplicaRead:
    """What was read of one replica."""

    node: int
    log_start: int
    last_stable: int
    high_watermark: int
    read_to: int
    records: int
    bytes: int
    keys: int
    tombstones: int
    markers: int
    aborted_records: int
    leader: bool = False
    in_sync: bool = True

    @classmethod
    def of(cls, facts: ReplicaFacts, *, leader: bool = False, in_sync: bool = True) -> ReplicaRead:
        return cls(
            node=facts.node,
            log_start=facts.log_start,
            last_stable=facts.last_stable,
            high_watermark=facts.high_watermark,
            read_to=facts.read_to,
            records=facts.records,
            bytes=facts.bytes,
            keys=facts.keys,
            tombstones=facts.tombstones,
            markers=facts.markers,
            aborted_records=facts.aborted_records,
            leader=leader,
            in_sync=in_sync,
        )


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """What was compared of one partition: [start, end) on each of its replicas."""

    partition: TopicPartition
    start: int
    end: int
    compacted: bool
    replicas: tuple[ReplicaRead, ...]
    assigned: tuple[int, ...] = ()  # all its replicas, read or not; empty: those read

    @property
    def is_alone(self) -> bool:
        return len(self.assigned or self.replicas) < 2


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be looked at."""

    what: str  # "broker 3", "orders-1 on broker 2"
    why: str
    partition: TopicPartition | None = None  # None: it concerns no partition, or many
    keys_only: bool = False  # replicas were read, but not all that may differ was looked at


@dataclass(frozen=True, slots=True)
class AuditPage:
    """One run of the audit."""

    version: str  # of sexton
    cluster_id: str | None
    bootstrap: str  # empty for copies of data directories
    started_ms: int
    finished_ms: int
    partitions: tuple[PartitionRead, ...]
    findings: tuple[AuditFinding, ...]
    incomplete: tuple[Unread, ...] = ()
    acknowledged: int = 0  # findings that the baseline names, and that are not among `findings`
    # Sentences: "Only records since ... were compared.", "A tenth of the partitions was sampled."
    limits: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)  # as they were given
    places: Mapping[int, str] = field(default_factory=dict)  # by node: an address, or a directory
    offline: bool = False  # directories were compared, not brokers
    show_keys: bool = False
    command_config: str = ""  # the file of client settings that was given, for commands to copy

    @property
    def replicas(self) -> Iterator[ReplicaRead]:
        return (replica for each in self.partitions for replica in each.replicas)

    @property
    def nodes(self) -> list[int]:
        return sorted({replica.node for replica in self.replicas})

    @property
    def counts(self) -> Counter[Severity]:
        return Counter(finding.severity for finding in self.findings)

    @property
    def standing(self) -> Standing:
        """The whole in one word."""
        return _standing(self.findings, self.incomplete, self.partitions)


@dataclass(frozen=True, slots=True)
class TopicRead:
    """One topic of a page."""

    topic: str
    partitions: tuple[PartitionRead, ...]
    findings: tuple[AuditFinding, ...]
    incomplete: tuple[Unread, ...]

    @property
    def standing(self) -> Standing:
        return _standing(self.findings, self.incomplete, self.partitions)

    @property
    def replicas(self) -> list[ReplicaRead]:
        return [replica for each in self.partitions for replica in each.replicas]


def topics(page: AuditPage) -> list[TopicRead]:
    """The topics of a page, the worst first."""
    partitions: dict[str, list[PartitionRead]] = defaultdict(list)
    findings: dict[str, list[AuditFinding]] = defaultdict(list)
    incomplete: dict[str, list[Unread]] = defaultdict(list)
    for read in page.partitions:
        partitions[read.partition.topic].append(read)
    for finding in page.findings:
        findings[finding.partition.topic].append(finding)
    for unread in page.incomplete:
        if unread.partition is not None:
            incomplete[unread.partition.topic].append(unread)
    found = [
        TopicRead(topic, tuple(partitions[topic]), tuple(findings[topic]), tuple(incomplete[topic]))
        for topic in sorted({*partitions, *findings, *incomplete})
    ]
    return sorted(found, key=lambda each: _WORST_FIRST.index(each.standing))


def _is_disagreement(finding: AuditFinding) -> bool:
    """Bytes that changed are one replica's own affair, unless several show different ones."""
    if finding.code == "corrupt-batch":
        return len(finding.replicas) > 1
    return finding.code in _DISAGREEMENTS


def _standing(
    findings: Sequence[AuditFinding], incomplete: Sequence[Unread], read: Sequence[PartitionRead]
) -> Standing:
    """What was found wins over what could not be read."""
    serious = [finding for finding in findings if finding.severity != "note"]
    if serious:
        return "differ" if any(map(_is_disagreement, serious)) else "unsound"
    if incomplete:
        return "incomplete"
    if not read:
        return "unread"
    return "alone" if all(each.is_alone for each in read) else "agree"
