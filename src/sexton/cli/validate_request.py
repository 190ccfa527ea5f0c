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
from sexton.cli.options import BOOTSTRAP_SERVERS, client_settings, must_be_writable
from sexton.cli.validate_options import IsolationLevel

if TYPE_CHECKING:
    from sexton.survey.validating import Asked

_OF_RULES = (
    "key", "value", "sequence", "id", "content", "source", "source_id", "compare_isolation",
    "skip_unreadable",
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
    follow: bool
    checkpoint: Path | None
    every: str
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
        name, number = topic_and_partition(topic)
        rules = Rules(
            rising="rising" if rising else "never-back",
            committed=isolation_level is IsolationLevel.read_committed,
            **{each: others.pop(each) for each in _OF_RULES},
        )
        _check(rules, rising=rising, table=others["table"])
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
        self._check_table()
        if self.follow and self.checkpoint is None:
            hint = "name a directory; --checkpoint keeps what is known there"
            raise ConfigError("--follow", "needs --checkpoint", hint)
        milliseconds(self.every, "--every")
        must_be_writable(self.html, self.parquet, self.write_baseline)

    def _check_table(self) -> None:
        if self.table_value is not None and self.rules.value is None:
            hint = "such as --value json:balance --table-value balance"
            raise ConfigError("--table-value", "needs --value to be compared with", hint)
        if self.table is None:
            return
        if not self.table.exists():
            raise ConfigError(str(self.table), "there is no such table")
        if "," in self.rules.key:
            hint = "one EXPR, for the column that --table-key names"
            raise ConfigError("--key", "of several parts does not go with --table", hint)
        if self.checkpoint is not None:
            hint = "compare the table in a run of its own"
            raise ConfigError("--table", "does not go with --checkpoint", hint)

    def asked(self) -> Asked:
        from sexton.audit.checks import MOST_KEYS
        from sexton.survey.validating import Asked

        settings = dict(self.settings)
        return Asked(
            settings.pop(BOOTSTRAP_SERVERS), self.topic, self.rules, settings, self.partitions,
            since_ms=None if self.since is None else moment_ms(self.since, "--since"),
            until_ms=None if self.until is None else moment_ms(self.until, "--until"),
            most_keys=self.most_keys or MOST_KEYS, max_bytes_per_s=self.max_bytes_per_s,
        )  # fmt: skip


def _check(rules: Rules, *, rising: bool, table: Path | None) -> None:
    """Is there anything that has to hold, and can it be understood?"""
    from sexton.audit.expressions import number, parts

    if rising and rules.value is None:
        raise ConfigError("--rising", "says how --value has to be", "name it: --value json:n")
    asked = (rules.value, rules.sequence, rules.id, table)
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
