"""A validation's answer: the page that all forms are made of, and those that were asked for.

Of each code the first sightings are told one by one, and all are counted. What was counted and not
told is one more finding of its code: nobody may take the topic for well because they are so many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sexton import __version__
from sexton.audit.validation import Sighting
from sexton.audit.validation_words import remedy
from sexton.base.findings import Finding
from sexton.cli.options import BOOTSTRAP_SERVERS
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.audit_words import many
from sexton.report.validation_page import (
    ValidationPage,
    finding_of,
    in_reading_order,
    left_out,
    severity,
    verdict_sentence,
)
from sexton.report.validation_text import (
    PARTITIONS,
    PROMISES,
    partition_rows,
    promise_rows,
    sighting_text,
    verdict_lines,
)

if TYPE_CHECKING:
    from sexton.cli.validate_request import Request
    from sexton.survey.baseline import Baseline
    from sexton.survey.validating import Validation

MOST_TOLD = 50  # findings on a terminal; files and programs get all


class Told:
    """What a stream has said already."""

    def __init__(self, request: Request, out: Output) -> None:
        self._request, self._out = request, out
        self._said: set[str] = set()
        self.by_code: Counter[str] = Counter()  # how many of them

    def tell(self, found: Sequence[Sighting], validation: Validation) -> None:
        page = page_of(validation, self._request)
        new, _acknowledged = _baseline(self._request).splits(found)
        for each in new:
            if each.identity in self._said:
                continue
            self._said.add(each.identity)
            self.by_code[each.code] += 1
            if len(self._said) <= MOST_TOLD or self._out.format is not Format.table:
                self._out.finding(finding_of(each, page), partial(sighting_text, each, page))


# ── what is said ──


def _baseline(request: Request) -> Baseline:
    from sexton.survey.baseline import Baseline, load_baseline

    return load_baseline(request.baseline) if request.baseline else Baseline()


def page_of(validation: Validation, request: Request) -> ValidationPage:
    new, acknowledged = _baseline(request).splits(validation.sightings)
    counts = dict(validation.counts)
    for each in acknowledged:
        counts[each.code] -= 1
    limits = list(validation.limits)
    if request.since is not None:
        limits.append(f"Only records since {request.since} were read.")
    if request.until is not None:
        limits.append(f"Only records before {request.until} were read.")
    limits += left_out(validation.partitions)
    return ValidationPage(
        version=__version__,
        cluster_id=validation.cluster_id,
        bootstrap=request.settings.get(BOOTSTRAP_SERVERS, ""),
        topic=validation.topic,
        rules=validation.rules,
        partitions=validation.partitions,
        sightings=new,
        counts={code: count for code, count in counts.items() if count},
        started_ms=validation.started_ms,
        finished_ms=validation.finished_ms,
        incomplete=tuple((str(at), why) for at, why in validation.unread),
        limits=tuple(limits),
        acknowledged=len(acknowledged),
        acknowledged_of_sequence=sum(each.of_sequence for each in acknowledged),
        options=_options(request),
        table=str(request.table) if request.table else "",
        show_keys=request.show_keys,
        compared=validation.compared,
        unsettled=validation.unsettled,
    )


def _options(request: Request) -> dict[str, str]:
    told = {
        "key": request.rules.key,
        "isolation level": "read_committed" if request.rules.committed else "read_uncommitted",
        "engine": request.engine,
        "since": request.since or "",
        "until": request.until or "",
        "settle": request.settle or "",
    }
    return {name: value for name, value in told.items() if value}


def show(validation: Validation, request: Request, out: Output) -> None:
    """Everything that is said, in every form that was asked for."""
    page = page_of(validation, request)
    tables(page, out)
    ordered = in_reading_order(page)
    for sighting in ordered[:MOST_TOLD] if out.format is Format.table else ordered:
        out.finding(finding_of(sighting, page), partial(sighting_text, sighting, page))
    _tell_rest(page, Counter(each.code for each in ordered), out)
    finish(page, request, out)
    _keep_baseline(validation, request)


def show_end(validation: Validation, request: Request, told: Told, out: Output) -> None:
    """Of a stream, whose findings were told as they came."""
    page = page_of(validation, request)
    tables(page, out)
    _tell_rest(page, told.by_code, out)
    finish(page, request, out)
    _keep_baseline(validation, request)


def _tell_rest(page: ValidationPage, told: Mapping[str, int], out: Output) -> None:
    for code, count in page.counts.items():
        rest = count - told.get(code, 0)
        if rest > 0:
            said = f"{rest:,} more were counted, beyond those that are told one by one"
            out.finding(
                Finding(code, severity(code), page.topic, said, {"count": rest}, remedy(code))
            )


def _keep_baseline(validation: Validation, request: Request) -> None:
    if request.write_baseline:
        from sexton.survey.baseline import write_baseline

        write_baseline(request.write_baseline, validation.sightings, _baseline(request))


def tables(page: ValidationPage, out: Output) -> None:
    if out.format is Format.tsv:
        return  # findings alone
    out.rows("promises", PROMISES, promise_rows(page))
    out.say("")
    if out.format is not Format.table:
        out.rows("partitions", PARTITIONS, partition_rows(page))


def finish(page: ValidationPage, request: Request, out: Output) -> None:
    out.incomplete_parts(page.incomplete)
    if page.standing == "unread":  # nobody may take that for kept
        out.incomplete(page.topic, "nothing was judged of what was asked for")
    if out.format is Format.table:
        left = len(page.sightings) - MOST_TOLD
        if left > 0:
            out.say(f"{many(left, 'more finding')}: --format json or --parquet has them")
        for line in verdict_lines(page):
            out.say(line)
    else:
        out.summarize(
            standing=page.standing,
            verdict=verdict_sentence(page),
            cluster_id=page.cluster_id,
            records=page.records,
            findings=sum(page.counts.values()),
            started_ms=page.started_ms,
            finished_ms=page.finished_ms,
            acknowledged=page.acknowledged,
            unsettled=page.unsettled,
            limits=" ".join(page.limits),
        )
    if request.html:
        from sexton.report.validation_files import write_html

        write_html(request.html, page)
        out.say(f"report: {request.html}")
    if request.parquet:
        from sexton.report.validation_files import write_parquet

        write_parquet(request.parquet, page)
        out.say(f"findings: {request.parquet}")
