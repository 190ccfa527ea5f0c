"""What `sexton repair` says: who is wrong, what will be done, and what is left undone and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sexton.audit.remedies import severity
from sexton.audit.summary import finding_of, key_in_words
from sexton.base.findings import Evidence, Finding
from sexton.cli.output import Output
from sexton.cli.repair_look import Looked
from sexton.cli.repair_request import Request
from sexton.cli.writers import Format
from sexton.report.tables import Cell, Column, Row, number

if TYPE_CHECKING:
    from sexton.guard.repair_choices import Choice
    from sexton.guard.repair_planning import Plan
    from sexton.machines.repair_verdicts import Judged

STEPS = (Column("topic"), number("partition"), number("step"), Column("what"))
WRONG = (
    Column("topic"), number("partition"), Column("code"), Column("wrong"), Column("right"),
    Column("certainty"), Column("because"),
)  # fmt: skip
DO_IT = "Run the same command without --dry-run."
CHOICES = (
    "State what is true: `--publish-tombstone KEY` if the key was deleted, `--keep-value KEY "
    "--as-on BROKER` if it exists, or `--trust BROKER` if you know whose copy is right."
)


def show_plans(plans: Sequence[Plan], request: Request, out: Output) -> None:
    from sexton.machines.repair import planned_steps

    rows: list[Row] = [
        (
            *each.partition, each.code, _numbers(each.replicas),
            _numbers(each.right) if each.right else None, each.certainty, each.because,
        )
        for plan in plans
        for each in plan.decision.settled
    ]  # fmt: skip
    if rows:
        out.rows("verdicts", WRONG, _alike(rows) if out.format is Format.table else rows)
    steps: list[Row] = [
        (*plan.job.partition, count, what)
        for plan in plans
        if plan.job is not None
        for count, what in enumerate(planned_steps(plan.job, plan.sight), 1)
    ]
    if steps:
        out.say("\nplan: stop cleaning the topic, then for each partition")
        out.rows("plans", STEPS, steps)
        out.say(f"then audit {request} again, and let {request.topic} be cleaned as before")


def _alike(rows: Sequence[Row]) -> list[Row]:
    """For people: a hundred keys of a partition that are wrong in one way are one row."""
    reasons: dict[Row, list[Cell]] = {}
    for *same, because in rows:
        reasons.setdefault(tuple(same), []).append(because)
    return [
        (*same, because[0] if len(because) == 1 else f"{because[0]}; {len(because) - 1} more alike")
        for same, because in reasons.items()
    ]


def show_choices(choices: Sequence[Choice], request: Request, out: Output) -> None:
    rows = [
        (*each.partition, count, each.in_words(plain_keys=request.show_keys))
        for count, each in enumerate(choices, 1)
    ]
    out.rows("choices", STEPS, rows)
    out.say(f"then audit {request} again, and rebuild only what still differs")


def show_left(plans: Sequence[Plan], looked: Looked, request: Request, out: Output) -> None:
    """All that is not repaired, with the reason."""
    for plan in plans:
        for each in plan.decision.open:
            out.finding(_open(each, plain_keys=request.show_keys))
        for each in plan.decision.aside:
            out.finding(_aside(each))
        if plan.refused is not None:
            why, hint = plan.refused.why, plan.refused.hint
            where = str(plan.decision.partition)
            advice = f"{hint[:1].upper()}{hint[1:]}."
            out.finding(Finding("not-repaired", "error", where, f"{why}.", {}, advice))
    out.incomplete_parts((f"{at} on broker {node}", why) for at, node, why in looked.unread)
    out.incomplete_parts((str(at), why) for at, why in looked.doubts)
    if looked.alone:
        out.say(f"There is one replica of {request}: nothing to compare it with.")
    elif not plans and looked.agrees and not looked.chosen:
        out.say(f"The replicas of {request} agree.")


def show_undone(plans: Sequence[Plan], looked: Looked, out: Output) -> None:
    """After a dry run: what could be repaired, and is still wrong."""
    planned = [each for plan in plans if plan.job is not None for each in plan.decision.settled]
    out.findings(
        Finding(
            each.code, severity(each.code), f"{each.partition} on {_numbers(each.replicas)}",
            each.message, {}, DO_IT,
        )
        for each in (*looked.chosen, *planned)
    )  # fmt: skip


def show_unfinished(topic: str, replicas: int, out: Output) -> None:
    """After a dry run: an earlier repair waits for somebody to go on with it."""
    left = f"{replicas} replica{'' if replicas == 1 else 's'} to rebuild"
    message = f"A repair of it was interrupted and is not finished: {left}."
    out.finding(Finding("not-repaired", "error", topic, message, {}, DO_IT))


def show_left_behind(topics: Sequence[str], out: Output) -> None:
    """Of other topics: nobody may remember them, least of all if the topic was deleted since."""
    for topic in topics:
        message = "A repair of it was interrupted, and its settings are still in place."
        remedy = f"Run `sexton repair {topic}` again, with the same -b."
        out.finding(Finding("not-repaired", "note", topic, message, {}, remedy))


def show_not_mended(plans: Sequence[Plan], looked: Looked, request: Request, out: Output) -> None:
    """What was rebuilt and is wrong all the same."""
    settled = {each.identity for plan in plans for each in plan.decision.settled}
    for each in looked.findings:
        if each.identity in settled:
            out.finding(finding_of(each, plain_keys=request.show_keys))


def _open(each: Judged, *, plain_keys: bool) -> Finding:
    evidence: dict[str, Evidence] = {}
    if each.key is not None:
        evidence["key"] = key_in_words(each.key, plain=plain_keys)
    evidence |= {"right": "cannot be known", "because": each.because}
    where = f"{each.partition} on {_numbers(each.replicas)}"
    return Finding(each.code, "error", where, each.message, evidence, CHOICES)


def _aside(each: Judged) -> Finding:
    from sexton.machines.repair_verdicts import NOT_OF_REPLICAS

    return Finding(
        each.code, severity(each.code), str(each.partition), each.message, {},
        f"Rebuilding a replica does not help: {NOT_OF_REPLICAS[each.code]}.",
    )  # fmt: skip


def _numbers(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))
