"""An audit's answer: the page that all forms are made of, and those that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from sexton import __version__
from sexton.audit.finding import AuditFinding
from sexton.base.findings import Evidence, Finding
from sexton.base.partitions import TopicPartition
from sexton.cli.audit_run import Request
from sexton.cli.cluster_reach import NONE_SEEN
from sexton.cli.durations import moment_ms
from sexton.cli.options import BOOTSTRAP_SERVERS
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.audit_files import write_html, write_parquet
from sexton.report.audit_json import audit_finding_object
from sexton.report.audit_order import in_reading_order, to_draw
from sexton.report.audit_page import AuditPage, PartitionRead, ReplicaRead, Unread
from sexton.report.audit_steps import Advice
from sexton.report.audit_text import TOPICS, audit_finding_text, topic_rows, verdict_lines
from sexton.report.audit_words import key_text, many, verdict_sentence
from sexton.report.quantities import moment
from sexton.survey.survey import PartitionSurvey, Survey

MOST_DRAWN = 20  # findings on a terminal, each about as high as half of one


def page_of(
    survey: Survey, request: Request, findings: Sequence[AuditFinding], known: int
) -> AuditPage:
    limits = []
    if request.since is not None:
        limits.append(f"Only records since {_since(request, survey.started_ms)} were compared.")
    if survey.left_out:
        limits.append(f"Left out, by --sample-partitions: {many(survey.left_out, 'partition')}.")
    settings = request.settings or {}
    places = {number: str(path) for number, path in enumerate(request.paths, 1)}
    return AuditPage(
        version=__version__,
        cluster_id=survey.cluster_id,
        bootstrap=settings.get(BOOTSTRAP_SERVERS, ""),
        started_ms=survey.started_ms,
        finished_ms=survey.finished_ms,
        partitions=tuple(map(_partition, survey.partitions)),
        findings=tuple(findings),
        incomplete=tuple(_unread(survey, request, places)),
        acknowledged=known,
        limits=tuple(limits),
        options=_told(request),
        places=places,
        offline=request.settings is None,
        show_keys=request.show_keys,
        command_config=str(request.command_config or ""),
    )


def _since(request: Request, now_ms: int) -> str:
    """As it was said, and what that came to."""
    said = request.since or ""
    if request.resume is not None:
        return said  # an age was counted from where the first attempt began
    return f"{said} ({moment(moment_ms(said, '--since', now_ms))})"


def _unread(survey: Survey, request: Request, places: Mapping[int, str]) -> Iterator[Unread]:
    seen = survey.partitions or survey.left_out or survey.hidden
    if request.all_compacted and not seen:
        yield Unread("all compacted topics", NONE_SEEN)
    for at, node, why in survey.unread:
        yield Unread(f"{at} in {places[node]}" if places else f"{at} on broker {node}", why, at)
    for each in survey.partitions:
        for why in each.doubts:
            yield Unread(str(each.partition), why, each.partition, keys_only=True)
    for topic, why in survey.hidden.items():
        yield Unread(f"the topic {topic}", why, TopicPartition(topic, 0))


def _partition(found: PartitionSurvey) -> PartitionRead:
    plan = found.plan
    scopes = [group.scope for group in plan.groups]
    return PartitionRead(
        plan.partition,
        scopes[0].start if scopes else 0,
        scopes[0].end if scopes else 0,
        plan.compacted,
        tuple(
            ReplicaRead.of(facts, leader=node == plan.leader, in_sync=node in plan.isr)
            for node, facts in sorted(found.facts.items())
        ),
        assigned=tuple(plan.places),
    )


def _told(request: Request) -> dict[str, str]:
    """Options as they were given; those with passwords are none of the report's business."""
    told = {
        "topics": ", ".join(request.topics) or ("all compacted" if request.all_compacted else ""),
        "engine": request.engine,
        "since": request.since or "",
    }
    return {name: value for name, value in told.items() if value}


def show(page: AuditPage, request: Request, out: Output) -> None:
    """Everything that is said, in every form that was asked for."""
    people = out.format is Format.table
    if out.format is not Format.tsv:
        out.rows("topics", TOPICS, topic_rows(page, people=people))
    out.say("")
    advice = Advice(page)
    ordered = in_reading_order(page.findings)
    drawn = to_draw(ordered, MOST_DRAWN) if people else frozenset(range(len(ordered)))
    for at, finding in enumerate(ordered):
        if at not in drawn:
            out.unshown(finding.severity)
            continue
        told = _told_finding(finding, page, advice)
        out.finding(told, partial(audit_finding_text, finding, page, advice=advice))
    if len(drawn) < len(ordered):
        out.say(_not_drawn([each for at, each in enumerate(ordered) if at not in drawn]))
    out.incomplete_parts((unread.what, unread.why) for unread in page.incomplete)
    if people:
        for line in verdict_lines(page):
            out.say(line)
    else:
        out.summarize(
            standing=page.standing,
            verdict=verdict_sentence(page),
            cluster_id=page.cluster_id,
            started_ms=page.started_ms,
            finished_ms=page.finished_ms,
            acknowledged=page.acknowledged,
            since=request.since,
            limits=" ".join(page.limits),
        )
    if request.write_baseline:
        count = many(len(page.findings) + page.acknowledged, "finding")
        out.say(f"baseline: {request.write_baseline}, {count}; say there why each is accepted")
    if request.html:
        write_html(request.html, page)
        out.say(f"report: {request.html}")
    if request.parquet:
        write_parquet(request.parquet, page)
        out.say(f"findings: {request.parquet}")


def _not_drawn(rest: Sequence[AuditFinding]) -> str:
    places = many(len({each.partition for each in rest}), "partition")
    return (
        f"And {many(len(rest), 'more finding')}, in {places}, which are not drawn here: "
        "--html FILE lists them, --format json and --parquet FILE have them all.\n"
    )


def _told_finding(finding: AuditFinding, page: AuditPage, advice: Advice) -> Finding:
    """The finding as every command tells it; what is particular to an audit is in the details."""
    evidence: dict[str, Evidence] = {"key": key_text(finding.key, page)} if finding.key else {}
    for node, offset in sorted(finding.offsets.items()):
        evidence[f"broker_{node}_offset"] = offset
    evidence["certainty"] = finding.verdict.certainty
    details = audit_finding_object(finding, page, advice)
    for name in ("code", "severity", "message", "remedy"):
        del details[name]
    return Finding(
        finding.code,
        finding.severity,
        str(finding.partition),
        finding.message,
        evidence,
        finding.remedy,
        details,
    )
