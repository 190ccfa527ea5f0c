"""One validation as a command: what was asked for, where it runs, how far it is, what is said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexton.audit.validation import Rules
from sexton.base.errors import ConfigError
from sexton.cli.audit_run import time_of
from sexton.cli.durations import milliseconds
from sexton.cli.naming import topic_and_partition
from sexton.cli.options import BOOTSTRAP_SERVERS
from sexton.cli.output import Output
from sexton.cli.validate_show import Told, engine_of, finish, page_of, show, tables
from sexton.cli.writers import Format
from sexton.report.audit_words import many

if TYPE_CHECKING:
    from sexton.survey.validating import Asked, TaskRunner, Validation
    from sexton.survey.validating_stream import StepRunner
    from sexton.survey.validating_tasks import Task


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for, checked as far as that is possible without a cluster."""

    topic: str
    partitions: tuple[int, ...]
    settings: dict[str, str]
    rules: Rules
    table: Path | None
    table_key: str
    table_value: str | None
    since: str | None
    until: str | None
    follow: bool
    checkpoint: Path | None
    every: str
    engine: str | None
    master: str
    max_bytes_per_s: int | None
    most_keys: int | None
    baseline: Path | None
    write_baseline: Path | None
    html: Path | None
    parquet: Path | None
    show_keys: bool

    @classmethod
    def of(
        cls,
        named: str,
        settings: dict[str, str],
        *,
        rising: bool,
        committed: bool,
        **chosen: Any,
    ) -> Request:
        topic, number = topic_and_partition(named)
        of_rules = (
            "key", "value", "sequence", "id", "content", "source", "source_id",
            "compare_isolation", "skip_unreadable",
        )  # fmt: skip
        rules = Rules(
            rising="rising" if rising else "never-back",
            committed=committed,
            **{name: chosen.pop(name) for name in of_rules},
        )
        if rising and rules.value is None:
            raise ConfigError("--rising", "says how --value has to be", "name it: --value json:n")
        partitions = () if number is None else (number,)
        return cls(topic, partitions, settings, rules, **chosen)

    def __post_init__(self) -> None:
        from sexton.audit.expressions import number, parts

        rules = self.rules
        asked = (rules.value, rules.sequence, rules.id, self.table)
        if not any(each is not None for each in asked) and not rules.compare_isolation:
            hint = "such as --value json:count, --id json:id, --sequence int, --table PATH"
            raise ConfigError("sexton validate", "does not know what has to hold", hint)
        for option, expression in (("--value", rules.value), ("--sequence", rules.sequence)):
            if expression is not None:
                number(expression, option)
        for option, expression in (
            ("--id", rules.id), ("--key", rules.key), ("--content", rules.content),
            ("--source-id", rules.source_id),
        ):  # fmt: skip
            if expression is not None:
                parts(expression, option)
        if rules.source is not None and rules.id is None:
            hint = "such as --id json:order_id, in both topics"
            raise ConfigError("--source", "needs --id, by which records are recognized", hint)
        if self.table_value is not None and rules.value is None:
            hint = "such as --value json:balance --table-value balance"
            raise ConfigError("--table-value", "needs --value to be compared with", hint)
        if self.table is not None and not self.table.exists():
            raise ConfigError(str(self.table), "there is no such table")
        if self.table is not None and "," in rules.key:
            hint = "one EXPR, for the column that --table-key names"
            raise ConfigError("--key", "of several parts does not go with --table", hint)
        if self.follow and self.checkpoint is None:
            hint = "name a directory; --checkpoint keeps what is known there"
            raise ConfigError("--follow", "needs --checkpoint", hint)
        if self.checkpoint is not None and self.table is not None:
            hint = "compare the table in a run of its own"
            raise ConfigError("--table", "does not go with --checkpoint", hint)
        for file in (self.html, self.parquet, self.write_baseline):
            if file is not None and not file.absolute().parent.is_dir():
                raise ConfigError(str(file), "there is no such directory to write it into")

    def asked(self) -> Asked:
        from sexton.audit.checks import MOST_KEYS
        from sexton.survey.validating import Asked

        settings = dict(self.settings)
        return Asked(
            settings.pop(BOOTSTRAP_SERVERS), self.topic, self.rules, settings, self.partitions,
            since_ms=None if self.since is None else time_of(self.since),
            until_ms=None if self.until is None else time_of(self.until),
            most_keys=self.most_keys or MOST_KEYS, max_bytes_per_s=self.max_bytes_per_s,
        )  # fmt: skip


def run_validate(request: Request, chosen: Format) -> None:
    with Output("validate", chosen) as out:
        if request.checkpoint is None:
            show(_once(request, out), request, out)
        else:
            _step_by_step(request, request.checkpoint, out)


def _once(request: Request, out: Output) -> Validation:
    from sexton.survey.validating import validate

    with _tasks(request, out) as runner, Progress(out) as watcher:
        if request.table is None:
            return validate(request.asked(), runner, watcher)
        from sexton.survey.validating_table import validate_table

        return validate_table(
            request.asked(), runner, request.table, request.table_key, request.table_value, watcher
        )


def _step_by_step(request: Request, checkpoint: Path, out: Output) -> None:
    from sexton.survey.validating_stream import Following

    asked, told = request.asked(), Told(request, out)
    with _steps(request, out) as runner:
        following = Following(asked, checkpoint, runner)
        known = following.known
        if known:
            verb = "is" if len(known) == 1 else "are"
            kept = f"{many(len(known), 'finding')} {verb} kept"
            out.say(f"goes on with {checkpoint}, where {kept}")
        told.tell(known, following.validation())
        try:
            while True:
                with out.progress(f"reading {request.topic}"):
                    found = following.step()
                if found:
                    told.tell(found, following.validation())
                if found is None:
                    if not request.follow:
                        break
                    time.sleep(milliseconds(request.every, "--every") / 1000)
        except KeyboardInterrupt:
            if not request.follow:
                raise  # with --follow this is how it ends
    page = page_of(following.validation(), request)
    tables(page, out)
    finish(page, request, out)


# ── where it runs ──


@contextmanager
def _tasks(request: Request, out: Output) -> Iterator[TaskRunner]:
    from sexton.survey.validating_runner import LocalTasks

    if engine_of(request) == "local":
        yield LocalTasks()
        return
    from sexton.spark.validate_runner import SparkTasks

    with _spark(request, out) as spark:
        yield SparkTasks(spark)


@contextmanager
def _steps(request: Request, out: Output) -> Iterator[StepRunner]:
    from sexton.survey.validating_stream import LocalSteps

    if engine_of(request) == "local":
        yield LocalSteps()
        return
    from sexton.spark.validate_runner import SparkSteps

    with _spark(request, out) as spark:
        yield SparkSteps(spark)


@contextmanager
def _spark(request: Request, out: Output) -> Iterator[Any]:
    """A session, from the first task on: a topic that is not there need not wait for it."""
    from sexton.spark.session import find_spark, spark_session

    find_spark()
    with ExitStack() as stack:
        started: list[Any] = []

        def session() -> Any:
            if not started:
                with out.progress("starting Spark"):
                    started.append(
                        stack.enter_context(spark_session(request.master, app="sexton validate"))
                    )
            return started[0]

        yield session


class Progress:
    """A bar for each round, by the offsets that have been read."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._bar = ExitStack()
        self._advance: Callable[[int], None] = lambda _amount: None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def planned(self, topic: str, partitions: int) -> None:
        self._out.say(f"{topic}, {many(partitions, 'partition')}")

    def reads(self, what: str, tasks: Sequence[Task]) -> None:
        self._bar.close()
        bar = self._out.progress(what, sum(task.size for task in tasks))
        self._advance = self._bar.enter_context(bar)

    def has_read(self, task: Task) -> None:
        self._advance(task.size)
