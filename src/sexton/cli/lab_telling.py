"""How is a scenario of the lab told? To people while it happens, to programs in rows."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

import typer

from sexton.cli.options import BOOTSTRAP_SERVERS
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.audit.finding import AuditFinding
    from sexton.lab.divergences import Scenario
    from sexton.lab.performing import Ending
    from sexton.lab.places import Place
    from sexton.lab.stage import Step

STEPS = (
    number("step"),
    Column("what"),
    Column("broker_1"),
    Column("broker_2"),
    Column("broker_3"),
)
DEEDS = (number("step"), Column("what"), Column("topic"), Column("why"))
READERS = (number("leader"), Column("sees"), number("up_to_offset"))
VERDICTS = (
    Column("code"),
    Column("wrong"),
    Column("right"),
    Column("certainty"),
    Column("message"),
)
MOST_WIDTH = 100
LEGEND = (
    "Each broker's log: offset:key=value, -key is a delete, @ in a transaction,"
    " COMMIT and ABORT end one, () is a batch that was emptied."
)
GONE = "These brokers are gone when it is over: the commands above are for your own clusters."


class Teller:
    """Told of each step, and of the end."""

    def __init__(self, out: Output, waits: bool, place: Place) -> None:
        self._out = out
        self._waits = waits
        self._place = place
        self._kept: list[Row] = []
        self._deeds: list[Row] = []
        self._width = min(shutil.get_terminal_size((MOST_WIDTH, 24)).columns, MOST_WIDTH)

    def opens(self, scenario: Scenario, early: bool) -> None:
        form, place = ", early form" if early else "", self._place
        self._say(f"{scenario.name}{form}. {scenario.shows[0].upper()}{scenario.shows[1:]}.")
        beside = ", with a guard beside it" if place.guard is not None else ""
        self._say(f"On {place.about}. Compaction: {place.policy}{beside}.")
        self._say(LEGEND)

    def step(self, step: Step) -> None:
        from sexton.lab.stage import held

        logs = {node: held(log) for node, log in step.logs.items()}
        row = (step.number, step.what, *(logs.get(node) for node in (1, 2, 3)))
        if self._out.format is Format.json:
            self._kept.append(row)  # one array, which may not be begun twice
        elif self._out.format is not Format.table:
            self._out.rows("steps", STEPS, [row])
        self._out.say("")
        self._say(f"{step.number}. {step.what}")
        for node in (1, 2, 3):
            self._say(f"broker {node}  {logs.get(node, '-')}", "   ", "             ")
        self._news(step.number)
        if self._waits and step.calm:
            self._wait()

    def _news(self, step: int) -> None:
        """What the guard has done up to this step."""
        if self._place.guard is None:
            return
        for deed in self._place.guard.news():
            why = "; ".join(deed.why)
            self._deeds.append((step, deed.what, deed.topic, why or None))
            said = f"{deed.what} {deed.topic}" + (f": {why}" if why else "")
            self._say(f"guard     {said}", "   ", "             ")

    def _wait(self) -> None:
        self._out.stderr.write("   press any key ")
        self._out.stderr.flush()
        typer.getchar()
        self._out.stderr.write("\r                 \r")

    def ends(self, ending: Ending) -> None:
        from sexton.lab.stage import in_words

        if self._out.format is Format.json:
            self._out.rows("steps", STEPS, self._kept)
        self._news(len(ending.outcome.story))
        if self._out.format is not Format.table:
            self._rows(ending)
            return
        self._out.say("")
        if ending.step_after is not None:
            self._say(f"Before step {ending.step_after}, readers and an audit have looked.")
        for node, seen in ending.readers.items():
            self._say(f"When broker {node} leads, a read_committed consumer sees {in_words(seen)}.")
        self._verdict(ending)
        self._out.say("")
        if self._place.guard is not None:
            self._beside(ending)
        told = "as the scenario says" if not ending.surprises else "NOT as the scenario says"
        after = "replicas diverged" if ending.outcome.diverged else "no divergence"
        self._say(f"After {ending.seconds:.0f} seconds: {after}, {told}.")

    def _beside(self, ending: Ending) -> None:
        """What was there for the guard to do, and what it left behind."""
        if ending.scenario.finding is not None and not ending.scenario.guard_helps:
            self._say(
                "No guard can keep this from happening: nobody was away when the tombstone went."
                " It takes an audit to see it, and `sexton repair` to fix it."
            )
        changed = ", ".join(ending.changed_options)
        left = f"The guard has NOT set back: {changed}." if changed else (
            "The guard has let the topic go: every option is exactly as it was before."
        )  # fmt: skip
        self._say(left)

    def _verdict(self, ending: Ending) -> None:
        from sexton.cli.audit_run import Request
        from sexton.cli.audit_show import page_of
        from sexton.report.audit_text import audit_finding_text

        findings = list(ending.survey.findings)
        self._out.say("")
        self._say("The audit's verdict:" if findings else "The audit's verdict: replicas agree.")
        request = Request(
            {BOOTSTRAP_SERVERS: "localhost:9092"}, (ending.outcome.topic,), show_keys=True
        )
        page = page_of(ending.survey, request, findings, 0)
        for finding in findings:
            self._out.say(audit_finding_text(finding, page, self._width))
        if findings:
            self._out.say("")
            self._say(f"{ending.scenario.remark} {GONE}".lstrip())

    def _rows(self, ending: Ending) -> None:
        from sexton.lab.stage import values_in

        if ending.place.guard is not None:
            self._out.rows("deeds", DEEDS, self._deeds)
        readers = [(node, values_in(seen), seen.position) for node, seen in ending.readers.items()]
        self._out.rows("readers", READERS, readers)
        self._out.rows("verdicts", VERDICTS, map(_verdict_row, ending.survey.findings))
        self._out.summarize(
            scenario=ending.scenario.name,
            on=ending.place.name,
            policy=ending.place.policy,
            guarded=ending.place.guard is not None,
            diverged=ending.outcome.diverged,
            forgotten=ending.outcome.forgotten,
            cleaned_up=ending.outcome.cleaned_up,
            changed_options=", ".join(ending.changed_options) or None,
            as_told=not ending.surprises,
            seconds=round(ending.seconds, 1),
        )

    def _say(self, text: str, indent: str = "", deeper: str = "") -> None:
        for line in textwrap.wrap(
            text, self._width, initial_indent=indent, subsequent_indent=deeper or indent,
            break_long_words=False, break_on_hyphens=False,
        ):  # fmt: skip
            self._out.say(line)


def _verdict_row(found: AuditFinding) -> Row:
    return (
        found.code,
        ",".join(map(str, found.replicas)),
        ",".join(map(str, found.verdict.right or ())),
        found.verdict.certainty,
        found.message,
    )
