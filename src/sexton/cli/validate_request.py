"""What `sexton validate` is asked for, checked as far as that is possible without a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sexton.audit.validation import Rules
from sexton.base.errors import ConfigError
from sexton.cli.durations import milliseconds, moment_ms
from sexton.cli.engines import Engine, engine_for
from sexton.cli.naming import topic_and_partition
from sexton.cli.options import (
    BOOTSTRAP_SERVERS,
    client_settings,
    must_be_a_directory,
    must_be_writable,
)
from sexton.cli.validate_options import IsolationLevel

if TYPE_CHECKING:
    from sexton.survey.validating_plan import Asked

_OF_RULES = (
    "key", "value", "sequence", "id", "content", "source", "source_id", "complete",
    "compare_isolation", "skip_unreadable",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    topic: str
    partitions: tuple[int, ...]
    settings: dict[str, str]
    rules: Rules
    table: Path | None
    table_key: str
    table_value: str | None
    since: str | None
    until: str | None
    settle: str | None
    follow: bool
    checkpoint: Path | None
    interval: str
    engine: Engine
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
        *,
        topic: str,
        bootstrap: str | None,
        settings: list[str] | None,
        command_config: Path | None,
        data: Path | None,
        rising: bool,
        isolation_level: IsolationLevel,
        engine: Engine | None,
        master: str,
        max_mb_per_s: float | None,
        **others: Any,
    ) -> Request:
        """From the command's options, by their names."""
        from sexton.survey.validating_question import OfTheCommand, check_question, local_path

        name, number = topic_and_partition(topic)
        rules = Rules(
            rising="rising" if rising else "never-back",
            committed=isolation_level is IsolationLevel.read_committed,
            **{each: others.pop(each) for each in _OF_RULES},
        )
        for each in ("table", "checkpoint"):
            others[each] = None if others[each] is None else local_path(others[each])
        check_question(
            rules, OfTheCommand(), table=others["table"], table_value=others["table_value"],
            checkpoint=others["checkpoint"], until=others["until"] is not None,
            since=others["since"] is not None, settle=others["settle"] is not None,
            partition=number is not None,
        )  # fmt: skip
        return cls(
            name,
            () if number is None else (number,),
            client_settings(bootstrap, settings, command_config, data),
            rules,
            engine=engine_for(engine, master),
            master=master,
            max_bytes_per_s=None if max_mb_per_s is None else int(max_mb_per_s * 1_000_000),
            **others,
        )

    def __post_init__(self) -> None:
        if self.follow and self.checkpoint is None:
            hint = "name a directory; --checkpoint keeps what is known there"
            raise ConfigError("--follow", "needs --checkpoint", hint)
        milliseconds(self.interval, "--interval")
        must_be_writable(self.html, self.parquet, self.write_baseline)
        must_be_a_directory(self.checkpoint, "--checkpoint")

    def asked(self) -> Asked:
        from sexton.audit.checks import MOST_KEYS
        from sexton.survey.validating_plan import Asked

        settings = dict(self.settings)
        return Asked(
            settings.pop(BOOTSTRAP_SERVERS), self.topic, self.rules, settings, self.partitions,
            since_ms=None if self.since is None else moment_ms(self.since, "--since"),
            until_ms=None if self.until is None else moment_ms(self.until, "--until"),
            settle_ms=None if self.settle is None else milliseconds(self.settle, "--settle"),
            most_keys=self.most_keys or MOST_KEYS, max_bytes_per_s=self.max_bytes_per_s,
        )  # fmt: skip
