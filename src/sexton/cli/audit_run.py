"""One audit as a command: what was asked for, where it runs, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.cli.durations import moment_ms
from sexton.cli.engines import THIS_MACHINE, Engine, started
from sexton.cli.naming import topics_and_partitions
from sexton.cli.options import BOOTSTRAP_SERVERS, must_be_writable
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.audit_page import AuditPage
from sexton.report.audit_words import many

if TYPE_CHECKING:
    from sexton.survey.plan import Plan, Wanted
    from sexton.survey.runner import Runner
    from sexton.survey.tasks import FoldTask, Result


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for, checked as far as that is possible without a cluster."""

    settings: dict[str, str] | None  # None: directories
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()  # of a topic that is named here, only these
    all_compacted: bool = False
    internal: bool = False
    paths: tuple[Path, ...] = ()
    engine: Engine = Engine.local
    master: str = THIS_MACHINE
    max_bytes_per_s: int | None = None
    since: str | None = None
    sample_partitions: float | None = None
    baseline: Path | None = None
    write_baseline: Path | None = None
    html: Path | None = None
    parquet: Path | None = None
    show_keys: bool = False
    resume: Path | None = None
    command_config: Path | None = None  # where some of the settings are from

    @classmethod
    def of(cls, named: Sequence[str], settings: dict[str, str] | None, **chosen: Any) -> Request:
        topics, partitions = topics_and_partitions(named)
        return cls(settings, topics, partitions, **chosen)

    def __post_init__(self) -> None:
        if self.settings is not None and not (self.topics or self.all_compacted or self.internal):
            hint = "name a topic, or say --all-compacted"
            raise ConfigError("sexton audit", "does not know what to audit", hint)
        self._check_beside_paths()
        if self.topics and self.all_compacted:
            hint = "choose one of them"
            raise ConfigError("--all-compacted", "does not go with names of topics", hint)
        if self.sample_partitions is not None and not 0 < self.sample_partitions <= 1:
            hint = "0.1 is a tenth of the partitions"
            raise ConfigError("--sample-partitions", "is a share between 0 and 1", hint)
        must_be_writable(self.html, self.parquet, self.write_baseline, self.resume)

    def _check_beside_paths(self) -> None:
        if self.settings is not None:
            return
        for option, given in (
            ("--all-compacted", self.all_compacted),
            ("--internal", self.internal),
            ("--since", self.since is not None),
            ("--sample-partitions", self.sample_partitions is not None),
            ("--max-mb-per-s", self.max_bytes_per_s is not None),
            ("--resume", self.resume is not None),
        ):
            if given:
                why = "does not go with --path: copies are read whole"
                raise ConfigError(option, why, "leave it out; -t chooses topics")


def run_audit(request: Request, chosen: Format, interval: str | None, port: int | None) -> None:
    """Once, or again and again, and all that is said of it."""
    from sexton.cli.audit_show import show
    from sexton.cli.audit_watch import audit_again

    if interval is not None:
        audit_again(request, chosen, interval, port)
        return
    with Output("audit", chosen) as out:
        show(audit(request, out), request, out)


def audit(request: Request, out: Output) -> AuditPage:
    """Runs it, with a bar for those who watch."""
    from sexton.cli.audit_show import page_of
    from sexton.survey.baseline import Baseline, baseline_before, load_baseline, write_baseline
    from sexton.survey.survey import run_files_survey, run_survey

    known = load_baseline(request.baseline) if request.baseline else Baseline()
    if request.write_baseline:
        baseline_before(request.write_baseline)  # says now if that is something else
    wanted = None if request.settings is None else wanted_of(request)
    with runner_of(request, out) as runner, Progress(out) as watcher:
        if wanted is None:
            survey = run_files_survey(
                request.paths,
                runner,
                topics=request.topics,
                partitions=request.partitions,
                watcher=watcher,
            )
        else:
            survey = run_survey(wanted, runner, journal=request.resume, watcher=watcher)
    if request.write_baseline:
        write_baseline(request.write_baseline, survey.findings, known)
    new, acknowledged = known.splits(survey.findings)
    return page_of(survey, request, new, len(acknowledged))


def wanted_of(request: Request) -> Wanted:
    from sexton.survey.plan import Wanted

    settings = dict(request.settings or {})
    return Wanted(
        bootstrap_servers=settings.pop(BOOTSTRAP_SERVERS),
        settings=settings,
        topics=request.topics,
        partitions=request.partitions,
        all_compacted=request.all_compacted,
        internal=request.internal,
        since_ms=None if request.since is None else time_of(request.since),
        since_told=request.since or "",
        sample_partitions=request.sample_partitions,
        max_bytes_per_s=request.max_bytes_per_s,
    )


def time_of(text: str) -> int:
    """A time in milliseconds: an age before now, or a date."""
    return moment_ms(text, "--since")


# ── where it runs ──


@contextmanager
def runner_of(request: Request, out: Output) -> Iterator[Runner]:
    from sexton.survey.runner import LocalRunner

    if request.engine is Engine.local:
        yield LocalRunner()
        return
    from sexton.spark.session import find_spark

    find_spark()  # what is missing is said before anything is asked
    with ExitStack() as stack:
        yield _SparkLater(request.master, out, stack)


class _SparkLater:
    """Spark, started with the first tasks: a topic that is not there need not wait for it."""

    def __init__(self, master: str, out: Output, stack: ExitStack) -> None:
        self._master = master
        self._out = out
        self._stack = stack

    @cached_property
    def _runner(self) -> Runner:
        from sexton.spark.runner import SparkRunner
        from sexton.spark.session import spark_session

        def start() -> Any:
            return self._stack.enter_context(spark_session(self._master, app="sexton audit"))

        with self._out.progress("starting Spark"):
            spark = started(start)
        return SparkRunner(spark)

    @property
    def slots(self) -> int:
        return self._runner.slots

    def run(self, tasks: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]:
        if tasks:
            yield from self._runner.run(tasks)


class Progress:
    """A bar for each round: bytes of the replicas that have been read, or their number."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._bar = ExitStack()
        self._advance: Callable[[int], None] = lambda _amount: None
        self._sized = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def planned(self, plan: Plan) -> None:
        replicas = sum(len(each.stands) for each in plan.partitions)
        self._out.say(f"{many(len(plan.partitions), 'partition')}, {many(replicas, 'replica')}")

    def reads(self, what: str, tasks: Sequence[FoldTask]) -> None:
        self._bar.close()
        self._sized = all(task.size for task in tasks)
        bar = (
            self._out.progress(what, sum(task.size for task in tasks), "bytes")
            if self._sized
            else self._out.progress(what, len(tasks))
        )
        self._advance = self._bar.enter_context(bar)

    def has_read(self, task: FoldTask, _result: Result, /) -> None:
        self._advance(task.size if self._sized else 1)
