"""All that a validation has to tell, in one place for every form of it.

As with the audit's page, what was *not* looked at is part of it: a page that says "what was
promised" and leaves out that a partition could not be read would be worse than no page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from sexton.audit.checks import ID, ISOLATION, SEQUENCE, VALUE
from sexton.audit.validation import (
    COMPLETE,
    DIFFERENT_ROW,
    DUPLICATE,
    INCONSISTENT,
    KEY_SEQUENCE_GAP,
    LOST,
    MISSING_ROW,
    ORDER_VIOLATION,
    SOURCE,
    STALE_ROW,
    STATE_REGRESSION,
    TABLE,
    UNCOMMITTED,
    PartitionFacts,
    Rules,
    Sighting,
)
from sexton.audit.validation_words import MEANINGS, message, remedy
from sexton.base.digests import digest
from sexton.base.findings import Evidence, Finding, Severity
from sexton.base.lazy_dataclass import dataclass
from sexton.log.inspect.rendering import auto_text
from sexton.report.audit_words import many
from sexton.report.tables import one_line

Standing = Literal["broken", "incomplete", "unread", "kept"]


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that was asked of the topic."""

    what: str
    expression: str
    findings: int
    judged: int  # in how many records there was something to judge
    whole: bool = True  # False: not everything could be read

    @property
    def kept(self) -> bool | None:
        """None: nobody knows."""
        return False if self.findings else True if self.judged and self.whole else None


@dataclass(frozen=True, slots=True)
class ValidationPage:
    version: str  # of sexton
    cluster_id: str | None
    bootstrap: str
    topic: str
    rules: Rules
    partitions: tuple[PartitionFacts, ...]
    sightings: tuple[Sighting, ...]  # those that are told one by one
    counts: Mapping[str, int]  # by code, of all
    started_ms: int
    finished_ms: int
    incomplete: tuple[tuple[str, str], ...] = ()  # what could not be read, and why
    limits: tuple[str, ...] = ()
    acknowledged: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    table: str = ""  # that was compared with the topic
    show_keys: bool = False
    acknowledged_of_sequence: int = 0  # of those: numbers of a sequence that went back
    compared: Mapping[str, int] = field(default_factory=dict)  # as in `Validation`
    read_by_us: bool = True  # as in `Validation`
    unsettled: int = 0  # as in `Validation`

    @property
    def of_sequence(self) -> int:
        """How many numbers of a sequence went back."""
        return sum(each.of_sequence for each in self.partitions) - self.acknowledged_of_sequence

    @property
    def isolation(self) -> str | None:
        """None: nobody knows."""
        if not self.read_by_us:
            return None
        return "read_committed" if self.rules.committed else "read_uncommitted"

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    @property
    def standing(self) -> Standing:
        """The whole in one word."""
        if any(self.counts.values()):
            return "broken"
        if self.incomplete:
            return "incomplete"
        return "kept" if all(each.judged for each in promises(self)) else "unread"

    def judged(self, rule: str) -> int:
        """In how many records a rule of `checks` had something to judge."""
        return sum(each.judged.get(rule, 0) for each in self.partitions)

    def shown(self, data: bytes | None) -> str | None:
        """A key or id, as this page may show it."""
        if data is None:
            return None
        return one_line(auto_text(data)) if self.show_keys else digest(data)


STANDINGS: dict[Standing, str] = {
    "broken": "broken",
    "incomplete": "incomplete",
    "unread": "not judged",
    "kept": "kept",
}
_ORDER = list(MEANINGS)


def promises(page: ValidationPage) -> list[Promise]:
    """What was asked, in the user's words, and how often it did not hold."""
    whole = not page.incomplete
    return [Promise(*asked, whole) for asked in _asked(page)]


def _asked(page: ValidationPage) -> Iterator[tuple[str, str, int, int]]:
    rules, counts, compared = page.rules, Counter(page.counts), Counter(page.compared)
    if rules.value is not None:
        what = "rises with every record" if rules.rising == "rising" else "never goes back"
        found = counts[STATE_REGRESSION] - page.of_sequence
        yield f"per key, {what}", rules.value, found, page.judged(VALUE)
    if rules.sequence is not None:
        found = counts[KEY_SEQUENCE_GAP] + page.of_sequence
        yield "per key, one more each time", rules.sequence, found, page.judged(SEQUENCE)
    if rules.id is not None:
        found = counts[DUPLICATE] + counts[INCONSISTENT]
        yield "comes once", rules.id, found, page.judged(ID)
    if rules.source is not None:
        found = counts[ORDER_VIOLATION]
        yield f"in the order of {rules.source}", rules.id or "", found, compared[SOURCE]
    if rules.complete:
        expression = rules.source_id or rules.id or ""
        yield f"has all of {rules.source}", expression, counts[LOST], compared[COMPLETE]
    if rules.compare_isolation:
        found = counts[UNCOMMITTED]
        yield "read_uncommitted shows the same", rules.key, found, page.judged(ISOLATION)
    if page.table:
        found = counts[STALE_ROW] + counts[MISSING_ROW] + counts[DIFFERENT_ROW]
        yield "the table is the topic", page.table, found, compared[TABLE]


def left_out(partitions: Sequence[PartitionFacts]) -> Iterator[str]:
    """Which of the records that were read were not judged, as sentences."""
    unreadable = [each for each in partitions if each.unreadable]
    if unreadable:
        skipped, first = sum(each.unreadable for each in unreadable), unreadable[0]
        yield (
            f"{many(skipped, 'record')} in which an expression found nothing {_were(skipped)} left"
            f" out, the first at {first.partition}, offset {first.first_unreadable}."
        )
    keyless = sum(each.without_key for each in partitions)
    if keyless:
        yield (
            f"{many(keyless, 'record')} without a key {_were(keyless)} left out of what holds per"
            " key."
        )


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def verdict_sentence(page: ValidationPage) -> str:
    match page.standing:
        case "broken":
            found = [many(page.counts[code], code) for code in _ORDER if page.counts.get(code)]
            whole = " Not everything could be read." if page.incomplete else ""
            return f"{page.topic} is not what was promised: {', '.join(found)}.{whole}"
        case "incomplete":
            missing = many(len(page.incomplete), "part")
            return f"Nothing was found, but not everything could be read: {missing} missing."
        case "unread":
            return _nothing_judged(page)
        case "kept":
            how = " in all that was looked at" if page.limits else ""
            aside = ""
            if page.acknowledged:
                aside = f", apart from {many(page.acknowledged, 'acknowledged finding')}"
            return f"{page.topic} is what was promised{how}{aside}."


def _nothing_judged(page: ValidationPage) -> str:
    if not page.records:
        return f"Nothing was read: {page.topic} has no records in what was asked for."
    unknown = " and ".join(
        f"{each.what} ({each.expression})" for each in promises(page) if not each.judged
    )
    return f"Nothing was found, but in {page.topic} nothing could be judged of: {unknown}."


def in_reading_order(page: ValidationPage) -> list[Sighting]:
    """What does the most harm first, then by place."""
    return sorted(
        page.sightings, key=lambda each: (_ORDER.index(each.code), each.partition, each.offset)
    )


def severity(code: str) -> Severity:
    return "warning" if code == UNCOMMITTED else "error"


def finding_of(sighting: Sighting, page: ValidationPage) -> Finding:
    """The sighting as every command tells its findings."""
    key, id_ = page.shown(sighting.key), page.shown(sighting.id)
    where = f"{sighting.partition} offset {sighting.offset}"
    if sighting.offset < 0:
        where = page.table or str(sighting.partition)
    return Finding(
        sighting.code,
        severity(sighting.code),
        where,
        message(sighting, key, id_, isolation=page.isolation),
        _evidence(sighting, key, id_, page),
        remedy(sighting.code),
        {"identity": sighting.identity},
    )


def _evidence(
    sighting: Sighting, key: str | None, id_: str | None, page: ValidationPage
) -> dict[str, Evidence]:
    lost = sighting.code == LOST
    elsewhere = sighting.last_partition != sighting.partition.partition
    numbers = {
        "last_partition": sighting.last_partition if elsewhere else -1,
        "last_offset": sighting.last_offset,
        "source_offset" if lost else "new_offset": sighting.offset,
        "last_timestamp_ms": sighting.last_timestamp_ms,
        "new_timestamp_ms": sighting.timestamp_ms,
        "last_producer_id": sighting.last_producer_id,
        "last_producer_epoch": sighting.last_producer_epoch,
        "new_producer_id": sighting.producer_id,
        "new_producer_epoch": sighting.producer_epoch,
    }
    words = {
        "source": sighting.partition.topic if lost else "",
        "id": id_,
        "last_value": sighting.last_value,
        "new_value": sighting.value,
    }
    return {
        "partition": sighting.partition.partition,
        "key": key,
        **{name: text for name, text in words.items() if text},
        **{name: value for name, value in numbers.items() if value >= 0},
        **({"isolation": page.isolation} if page.isolation else {}),
    }
