"""`sexton demo`: four corruptions happen, are found, and then do not happen."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from sexton.base.errors import Missing
from sexton.base.extras import need
from sexton.cli.engines import Engine, interrupted_quietly
from sexton.cli.options import BOOTSTRAP_SERVERS, FormatOption, must_be_writable
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.lab.demo import Scene
    from sexton.report.audit_page import AuditPage
    from sexton.survey.runner import Runner
    from sexton.survey.survey import Survey

EXAMPLES = (
    ("Run the demo", "sexton demo"),
    ("Run without Spark, in half the time", "sexton demo --fast"),
    ("Explain each step", "sexton demo --explain"),
    ("Get the outcome as JSON", "sexton demo --format json"),
)
SCENES = (
    Column("policy"),
    Column("act"),
    Column("topic"),
    Column("diverged"),
    Column("findings"),
    number("seconds"),
)
MOST_WIDTH = 100


def command(
    fast: Annotated[
        bool, typer.Option("--fast", help="Audit in this process instead of on Spark.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain why each thing happens.")
    ] = False,
    html: Annotated[
        Path, typer.Option("--html", metavar="FILE", help="File to write the report to.")
    ] = Path("sexton-demo.html"),
    format: FormatOption = Format.table,
) -> None:
    """Show four ways replicas come to disagree, find each one, then show them prevented.

    Starts three brokers in this process, first with Apache Kafka's way of compaction, then with
    coordinated compaction, and audits them with Spark. Leaves nothing behind but a report.
    """
    need("confluent_kafka")
    must_be_writable(html)
    from sexton.lab.demo import play

    with Output("demo", format) as out, _runner(fast, out) as runner:
        teller = _Teller(out, explain)
        teller.opens()
        scenes: list[Scene] = []
        for policy in ("independent", "coordinated"):
            teller.begins(policy)
            for scene in play(policy, runner.audit):
                scenes.append(scene)
                teller.shows(scene)
        diverged = [scene for scene in scenes if scene.policy == "independent"]
        _write_report(diverged, runner.engine, html)
        if format is Format.table:
            teller.closes(html)
        else:
            out.rows("scenes", SCENES, map(_row, scenes))
            out.summarize(report=str(html))


def _row(scene: Scene) -> tuple[str | bool | float, ...]:
    return (
        scene.policy,
        scene.act.title,
        scene.outcome.topic,
        scene.outcome.diverged,
        ",".join(finding.code for finding in scene.survey.findings),
        round(scene.seconds, 2),
    )


# ── where audits run ──


class _Auditor:
    """Starts Spark while the first scene is under way; it takes as long as that."""

    def __init__(self, fast: bool, out: Output) -> None:
        self.engine = Engine.local
        self._out = out
        self._stack = ExitStack()
        self._pool = ThreadPoolExecutor(1)
        self._runner: Future[Runner] = self._pool.submit(self._start, fast)

    def _start(self, fast: bool) -> Runner:
        from sexton.survey.runner import LocalRunner

        if fast:
            return LocalRunner()
        try:
            from sexton.spark.runner import SparkRunner
            from sexton.spark.session import spark_session

            interrupted_quietly()
            spark = self._stack.enter_context(spark_session("local[2]", app="sexton demo"))
        except Missing as missing:
            self._out.say(f"(no Spark: {missing.subject} {missing.why}; auditing in this process)")
            return LocalRunner()
        self.engine = Engine.spark
        return SparkRunner(spark)

    def audit(self, bootstrap_servers: str, topic: str) -> Survey:
        from sexton.survey.plan import Wanted
        from sexton.survey.survey import run_survey

        return run_survey(Wanted(bootstrap_servers, topics=(topic,)), self._runner.result())

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        self._stack.close()


@contextmanager
def _runner(fast: bool, out: Output) -> Iterator[_Auditor]:
    auditor = _Auditor(fast, out)
    try:
        yield auditor
    finally:
        auditor.close()


# ── telling it ──


class _Teller:
    def __init__(self, out: Output, explain: bool) -> None:
        self._out = out
        self._explain = explain
        self._number = 0
        self._began = time.monotonic()
        self._width = min(shutil.get_terminal_size().columns, MOST_WIDTH)

    def opens(self) -> None:
        self._say(
            "Three Kafka brokers are starting in this process: real replicas, real clients,"
            " no JVM, no Docker. Time is scaled, so that a day of timers passes in a second."
            " They are gone when it is over: the commands below are for your own clusters."
        )

    def begins(self, policy: str) -> None:
        self._number = 0
        if policy == "independent":
            self._heading("As Apache Kafka does it: each replica forgets by its own timers")
        else:
            self._heading("The same again with coordinated compaction: replicas ask each other")

    def shows(self, scene: Scene) -> None:
        self._number += 1
        diverges = scene.policy == "independent"
        title = scene.act.title if diverges else scene.act.instead
        self._out.say(Text(f"\n{self._number}. {title}", "bold"))
        if self._explain and diverges:
            self._say(scene.act.why, indent="   ")
        story = _until_seen(scene.outcome.story) if diverges else scene.outcome.story
        self._say(" → ".join(story), indent="   ")
        if diverges:
            self._diverged(scene)
        else:
            verdict, colour = ("the replicas agree", "green")
            if not scene.agrees:
                verdict, colour = ("THE REPLICAS DISAGREE", "bold red")
            self._out.say(Text.assemble("   audit: ", (verdict, colour)))

    def _diverged(self, scene: Scene) -> None:
        from sexton.report.audit_text import audit_finding_text

        self._out.say("")
        findings = list(scene.survey.findings)
        page = _page([scene], Engine.local)  # a finding does not show it
        for finding in findings:
            self._out.say(audit_finding_text(finding, page, self._width))

    def closes(self, html: Path) -> None:
        took = time.monotonic() - self._began
        self._heading(f"That took {took:.0f} seconds. Next:")
        sexton = _ourselves()
        self._out.say(f"  look at the report      {html.absolute()}")
        self._out.say(f"  run such a cluster      {sexton} up")
        self._out.say(f"  audit your own          {sexton} audit -b HOST:PORT --all-compacted")
        self._out.say("  how it works            docs/concepts/coordinated-compaction.md")

    def _heading(self, text: str) -> None:
        self._out.say(Text(f"\n── {text} ".ljust(self._width, "─"), "bold blue"))

    def _say(self, text: str, indent: str = "") -> None:
        for line in textwrap.wrap(
            text, self._width, initial_indent=indent, subsequent_indent=indent
        ):
            self._out.say(line)


def _ourselves() -> str:
    """What to type: `make demo` runs a command that is in .venv, and not on anybody's path."""
    if shutil.which("sexton"):
        return "sexton"
    called = Path(sys.argv[0])
    here = Path.cwd()
    return str(called.relative_to(here) if called.is_relative_to(here) else called)


def _until_seen(story: tuple[str, ...]) -> tuple[str, ...]:
    """Up to where a consumer sees the damage: that is when the audit was made."""
    seen = [number for number, what in enumerate(story) if what.startswith("a consumer sees")]
    return story[: seen[0] + 1] if seen else story


def _write_report(scenes: list[Scene], engine: Engine, html: Path) -> None:
    from sexton.report.audit_files import write_html

    write_html(html, _page(scenes, engine))


def _page(scenes: list[Scene], engine: Engine) -> AuditPage:
    """One audit of all topics, as far as a reader is concerned."""
    from sexton.cli.audit_run import Request
    from sexton.cli.audit_show import page_of
    from sexton.survey.survey import Survey

    surveys = [scene.survey for scene in scenes]
    whole = Survey(
        surveys[0].cluster_id,
        tuple(each for survey in surveys for each in survey.partitions),
        0,
        surveys[0].started_ms,
        surveys[-1].finished_ms,
    )
    topics = tuple(scene.outcome.topic for scene in scenes)
    settings = {BOOTSTRAP_SERVERS: "localhost:9092"}
    request = Request(settings, topics, engine=engine, show_keys=True)
    return page_of(whole, request, list(whole.findings), 0)
