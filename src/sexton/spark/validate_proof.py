"""What a validation came to, for a notebook, a job that must not go on, or a report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sexton import __version__
from sexton.audit.validation import PartitionFacts, Rules
from sexton.base.errors import SextonError
from sexton.base.findings import Finding
from sexton.report.validation_page import (
    ValidationPage,
    finding_of,
    in_reading_order,
    left_out,
    verdict_sentence,
)
from sexton.survey.validating import Validation


class PromiseBroken(SextonError):
    """The topic is not what was promised."""


@dataclass(frozen=True)
class Proof:
    """What a validation came to."""

    validation: Validation
    bootstrap_servers: str = ""
    table: str = ""
    show_keys: bool = False

    @property
    def kept(self) -> bool:
        """Does everything hold, was everything read, and was there something to read?"""
        return self.page.standing == "kept"

    @property
    def counts(self) -> Mapping[str, int]:
        """How many findings there are, by code."""
        return self.validation.counts

    @property
    def unsettled(self) -> int:
        """Records of the source that are not there, and too young to be called lost."""
        return self.validation.unsettled

    @cached_property
    def findings(self) -> list[Finding]:
        """The first ones of each partition and code, what does the most harm first."""
        return [finding_of(each, self.page) for each in in_reading_order(self.page)]

    @cached_property
    def page(self) -> ValidationPage:
        """All that a report says, before it is HTML, Parquet or text."""
        found = self.validation
        return ValidationPage(
            version=__version__, cluster_id=found.cluster_id, bootstrap=self.bootstrap_servers,
            topic=found.topic, rules=found.rules, partitions=found.partitions,
            sightings=found.sightings, counts=found.counts, started_ms=found.started_ms,
            finished_ms=found.finished_ms, table=self.table,
            limits=(*found.limits, *left_out(found.partitions)),
            incomplete=tuple((str(at), why) for at, why in found.unread),
            show_keys=self.show_keys, compared=found.compared,
            read_by_us=found.read_by_us, unsettled=found.unsettled,
        )  # fmt: skip

    def __str__(self) -> str:
        return verdict_sentence(self.page)

    def _repr_html_(self) -> str:
        """In a notebook."""
        from sexton.report.validation_html import html_page

        return html_page(self.page)

    def write_html(self, path: str | Path) -> None:
        """The report as one page that needs no other file."""
        from sexton.report.validation_files import write_html

        write_html(Path(path), self.page)

    def write_parquet(self, path: str | Path) -> None:
        """One row for each finding that is told one by one."""
        from sexton.report.validation_files import write_parquet

        write_parquet(Path(path), self.page)

    def check(self) -> None:
        """PromiseBroken if it does not hold; for a job that must not go on then."""
        if not self.kept:
            first = f" First: {self.findings[0].message}" if self.findings else ""
            raise PromiseBroken(self.validation.topic, f"{self}{first}")


def summed(
    facts: list[PartitionFacts], rules: Rules, limits: tuple[str, ...], started_ms: int
) -> Validation:
    """Of what was found in the partitions of a DataFrame."""
    counts: dict[str, int] = {}
    for each in facts:
        for code, count in each.counts.items():
            counts[code] = counts.get(code, 0) + count
    topics = sorted({each.partition.topic for each in facts})
    unread = tuple((each.partition, _why_passed_over(each)) for each in facts if each.passed_over)
    if rules.id is not None:
        limits = (*limits, "Ids were looked for within each partition, not across partitions.")
    return Validation(
        ", ".join(topics) or "the DataFrame", None, rules,
        tuple(sorted(facts, key=lambda each: each.partition)),
        tuple(sighting for each in facts for sighting in each.sightings), counts, unread, limits,
        started_ms, now_ms(), read_by_us=False,
    )  # fmt: skip


def _why_passed_over(facts: PartitionFacts) -> str:
    return (
        f"{facts.passed_over:,} records came at offsets that an earlier batch has had, and were not"
        " judged: was the topic deleted and made again? Then begin anew with another checkpoint;"
        " copies can be dropped before"
    )


def now_ms() -> int:
    return int(time.time() * 1000)
