"""`sexton lab run`: one scenario, told step by step."""

from __future__ import annotations

import shutil
import sys
import textwrap
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sexton.base.errors import ConfigError
from sexton.cli.options import BOOTSTRAP_SERVERS, FormatOption
from sexton.cli.output import Output
from sexton.cli.sim_options import Policy
from sexton.cli.stores_lab import run_story
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.lab.divergences import Scenario
    from sexton.lab.performing import Ending
    from sexton.lab.places import Place
    from sexton.lab.stage import Step

EXAMPLES = (
    ("A deleted key comes back, on brokers in this process", "sexton lab run tombstone-divergence"),
    (
        "The same on Apache Kafka itself, the newest or any other",
        "sexton lab run tombstone-divergence --on kafka=3.9.2",
    ),
    (
        "Where replicas ask each other it does not happen",
        "sexton lab run stuck-partition --policy coordinated",
    ),
    (
        "Nor with a guard beside it, on Apache Kafka as it is",
        "sexton lab run tombstone-divergence --on kafka --guard",
    ),
    (
        "At Kafka's default timers, days in a few seconds",
        "sexton lab run aborted-as-committed --on sim",
    ),
    ("A counter goes back although all is exactly once", "sexton lab run eos-checkpoint"),
    ("Look around after each step", "sexton lab run stale-disk --step"),
    ("What happened, for a program", "sexton lab run stuck-partition --early --format json"),
)
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
_POLICIES: dict[Policy | None, Literal["coordinated", "independent"] | None] = {
    None: None,
    Policy.coordinated: "coordinated",
    Policy.independent: "independent",
}
MOST_WIDTH = 100
LEGEND = (
    "Each broker's log: offset:key=value, -key is a delete, @ in a transaction,"
    " COMMIT and ABORT end one, () is a batch that was emptied."
)


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A scenario of `sexton lab list`.")],
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="PLACE",
            help="sim, embedded, kafka, or kafka=VERSION for any version that Maven has.",
        ),
    ] = "embedded",
    policy: Annotated[
        Policy | None,
        typer.Option(
            "--policy",
            help="How replicas clean: coordinated, or independent as Apache Kafka does"
            " (the default). Not for kafka.",
        ),
    ] = None,
    early: Annotated[
        bool,
        typer.Option("--early", help="Without waiting for a producer to expire (KIP-890)."),
    ] = False,
    guard: Annotated[
        bool,
        typer.Option(
            "--guard",
            help="Let a guard look on, as `sexton guard run` does, and tell what it does."
            " Not for sim.",
        ),
    ] = False,
    fixed: Annotated[
        bool,
        typer.Option(
            "--fixed",
            help="For eos-checkpoint and eos-offsets: with the fix on, all is well.",
        ),
    ] = False,
    step: Annotated[bool, typer.Option("--step", help="Wait for a key after each step.")] = False,
    format: FormatOption = Format.table,
) -> None:
    """Let replicas come to disagree, or not, and tell what each broker holds after every step.

    At the end each broker leads in turn, a read_committed consumer says what it sees, and an audit
    gives its verdict. Exits 0 if all ends as the scenario says: replicas disagree where each
    forgets by itself, and agree where they ask each other or a guard looks, and then every option
    is as it was before. Nothing is left behind.
    """
    from sexton.lab.guarding import guarded, refuse_senseless
    from sexton.lab.performing import NotAsTold, perform
    from sexton.lab.places import open_place
    from sexton.lab.stores_eos import STORIES
    from sexton.survey.runner import LocalRunner

    if name in STORIES:
        if guard:
            raise ConfigError("--guard", f"{name} is not about cleaning, which is what guards stop")
        run_story(name, on, fixed, format)
        return
    if fixed:
        raise ConfigError("--fixed", f"{name} has no such form", "see --policy and --guard")
    with Output("lab run", format) as out, ExitStack() as stack:
        scenario = _scenario(name)
        if step and not (format is Format.table and sys.stdin.isatty()):
            raise ConfigError("--step", "needs a person at a terminal")
        if guard:
            refuse_senseless(on, _POLICIES[policy])
        with out.progress("starting"):
            opened = open_place(on, _POLICIES[policy], LocalRunner(), scenario.broker_options)
            place = stack.enter_context(opened)
            if guard:
                place = stack.enter_context(guarded(place))
        teller = _Teller(out, step, place)
        teller.opens(scenario, early)
        ending = perform(scenario, place, early=early, watch=teller.step)
        teller.ends(ending)
        if ending.surprises:
            raise NotAsTold(name, "; ".join(ending.surprises))


def _scenario(name: str) -> Scenario:
    from sexton.lab.divergences import LAB

    if name not in LAB:
        from sexton.lab.stores_eos import STORIES

        there = ", ".join([*LAB, *STORIES])
        raise ConfigError(name, "is no scenario", f"there are {there}")
    return LAB[name]


class _Teller:
    """People are told while it happens, and programs in rows."""

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
                " It takes an audit to see it, and `sexton repair` to mend it."
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
            for line in audit_finding_text(finding, page, self._width).plain.splitlines():
                self._out.say(line)

    def _rows(self, ending: Ending) -> None:
        from sexton.lab.stage import values_in

        readers = ending.readers.items()
        if ending.place.guard is not None:
            self._out.rows("deeds", DEEDS, self._deeds)
        self._out.rows(
            "readers", READERS, [(node, values_in(seen), seen.position) for node, seen in readers]
        )
        self._out.rows(
            "verdicts",
            VERDICTS,
            [
                (
                    found.code,
                    ",".join(map(str, found.replicas)),
                    ",".join(map(str, found.verdict.right or ())),
                    found.verdict.certainty,
                    found.message,
                )
                for found in ending.survey.findings
            ],
        )
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
