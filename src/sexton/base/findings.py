"""What is wrong with a log, said so that a person can act and a machine can count.

A damaged log under inspection is no error: the inspection worked. It is a `Finding` with a stable
code, the place, one sentence, the evidence, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from sexton.base.lazy_dataclass import dataclass

Severity = Literal["error", "warning", "note"]
Evidence = int | str | float | bool | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found. An `error` or `warning` makes a command exit 1; a `note` only informs."""

    code: str  # stable, kebab-case: scripts match on it
    severity: Severity
    where: str  # a file and position, a partition and offset
    message: str
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    remedy: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)  # for programs: what nests

    @property
    def counts(self) -> bool:
        """Does this finding make the whole inspection fail?"""
        return self.severity != "note"
