"""A finding of the audit: what is wrong, with all that one needs to believe it and to act.

`identity` is the same in every run that finds the same thing, so that a person can acknowledge it
once and a scheduled audit can be clean again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from sexton.audit.plain import Plain
from sexton.audit.remedies import remedy, severity
from sexton.audit.window import LogWindow
from sexton.base.digests import hex_digest
from sexton.base.findings import Severity
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.records.layout import NO_TIMESTAMP

Certainty = Literal["certain", "likely", "unknown"]
Outcome = Literal["committed", "aborted", "open", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict(Plain):
    """Which replicas are right, and how we know."""

    right: tuple[int, ...] | None  # None: cannot be known
    certainty: Certainty
    because: str


@dataclass(frozen=True, slots=True)
class TransactionEvidence(Plain):
    """How one replica took a transaction."""

    node: int
    producer_id: int
    epoch: int | None
    first_data: int | None
    marker_offset: int | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AuditFinding(Plain):
    """One thing that replicas disagree about, or that one of them cannot be right about."""

    code: str
    severity: Severity
    partition: TopicPartition
    replicas: tuple[int, ...]  # the wrong ones as far as known, else all that disagree
    message: str  # one sentence
    key: bytes | None
    offsets: Mapping[int, int | None]  # by node: where the key's last visible record is
    values: Mapping[int, str | None]  # by node: digest of its value
    transactions: tuple[TransactionEvidence, ...]
    verdict: Verdict
    began_after_ms: int | None
    began_before_ms: int | None
    remedy: str
    windows: tuple[LogWindow, ...]

    @property
    def identity(self) -> str:
        """Stable over runs: what, where, and which key or transaction."""
        return f"{self.code}/{self.partition}/{self._subject()}"

    def _subject(self) -> str:
        if self.key is not None:
            return f"key-{hex_digest(self.key)}"
        if self.transactions:
            producers = sorted({each.producer_id for each in self.transactions})
            firsts = [each.first_data for each in self.transactions if each.first_data is not None]
            named = "-".join(str(producer) for producer in producers)
            return f"producer-{named}-from-{min(firsts, default=0)}"
        nodes = "-".join(str(node) for node in sorted(self.replicas))
        offsets = [offset for offset in self.offsets.values() if offset is not None]
        return f"replica-{nodes}-offset-{min(offsets, default=0)}"


def judged(
    code: str,
    partition: TopicPartition,
    replicas: tuple[int, ...],
    message: str,
    verdict: Verdict,
    *,
    offsets: Mapping[int, int | None],
    key: bytes | None = None,
    values: Mapping[int, str | None] | None = None,
    transactions: tuple[TransactionEvidence, ...] = (),
    began_after_ms: int | None = None,
    advice: str | None = None,
    windows: Sequence[LogWindow] = (),
) -> AuditFinding:
    """What a rule has found; how bad that is and what to do about it goes by its code."""
    return AuditFinding(
        code=code,
        severity=severity(code),
        partition=partition,
        replicas=replicas,
        message=message,
        key=key,
        offsets=offsets,
        values=values or {},
        transactions=transactions,
        verdict=verdict,
        began_after_ms=None if began_after_ms == NO_TIMESTAMP else began_after_ms,
        began_before_ms=None,
        remedy=advice or remedy(code),
        windows=tuple(windows),
    )
