"""Can it be asked? What is refused before anybody is asked, by the command and from Python alike.

A promise that is listed as kept was looked at. So what goes together and what does not is said in
one place: a question of which a part would be left out is refused, whoever is to answer it. Only
the words differ: `--table-value balance` here, `table_value="balance"` there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Protocol

from sexton.audit.expressions import number, parts
from sexton.audit.validation import Rules
from sexton.base.errors import ConfigError

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)


class Words(Protocol):
    """How somebody says what he asks for."""

    @property
    def asker(self) -> str: ...
    def name(self, option: str) -> str: ...
    def given(self, option: str, example: str) -> str: ...


class OfTheCommand:
    asker = "sexton validate"

    def name(self, option: str) -> str:
        return f"--{option.replace('_', '-')}"

    def given(self, option: str, example: str) -> str:
        return f"{self.name(option)} {example}"


class OfPython:
    asker = "sexton.spark.validate"

    def name(self, option: str) -> str:
        return option

    def given(self, option: str, example: str) -> str:
        return f'{option}="{example}"'


def check_question(
    rules: Rules,
    words: Words,
    *,
    table: Path | None,
    table_value: str | None,
    checkpoint: Path | None,
    until: bool,
    since: bool = False,
    settle: bool = False,
    partition: bool = False,
) -> None:
    """ConfigError if it cannot be answered, or only in part."""
    _check_rules(rules, words, table)
    _check_table(rules, words, table, table_value)
    if table is not None:
        _check_whole(words, "table", since=since, partition=partition)
    if settle and not rules.complete:
        why = f"says how long a record may take to arrive, and needs {words.name('complete')}"
        raise ConfigError(words.name("settle"), why, "ask for both, or for neither")
    if rules.complete:
        _check_complete(rules, words)
        _check_whole(words, "complete", since=since, until=until, partition=partition)
    if checkpoint is not None:
        _check_steps(rules, words, table, until)


def _check_rules(rules: Rules, words: Words, table: Path | None) -> None:
    """Is there anything that has to hold, and can it be understood?"""
    if rules.rising == "rising" and rules.value is None:
        value = words.name("value")
        hint = f"name it: {words.given('value', 'json:n')}"
        raise ConfigError(words.name("rising"), f"needs {value}", hint)
    asked = (rules.value, rules.sequence, rules.id, table)
    if not any(each is not None for each in asked) and not rules.compare_isolation:
        examples = {"value": "json:count", "id": "json:id", "sequence": "int", "table": "PATH"}
        hint = ", ".join(words.given(*each) for each in examples.items())
        raise ConfigError(words.asker, "is not told what must hold", f"such as {hint}")
    for option in ("value", "sequence"):
        expression = getattr(rules, option)
        if expression is not None:
            kind = number(expression, words.name(option)).kind
            if option == "sequence" and kind in ("float", "double"):
                why = f"is read as {kind}, and a sequence counts in whole numbers"
                raise ConfigError(words.name(option), why, "read it as int, int32 or int64")
    for option in ("id", "key", "content", "source_id"):
        expression = getattr(rules, option)
        if expression is not None:
            parts(expression, words.name(option))
    if rules.source is not None and rules.id is None:
        why = f"needs {words.name('id')}, by which records are recognized"
        hint = f"such as {words.given('id', 'json:order_id')}, in both topics"
        raise ConfigError(words.name("source"), why, hint)


def _check_complete(rules: Rules, words: Words) -> None:
    if rules.source is None:
        why = f"needs {words.name('source')}, whose records have to be there"
        hint = f"such as {words.given('source', 'orders')}"
        raise ConfigError(words.name("complete"), why, hint)


def _check_whole(
    words: Words, option: str, *, since: bool, partition: bool, until: bool = False
) -> None:
    """What was not read cannot be called lost, nor a row of it stale."""
    for given, what in (
        (since, words.name("since")),
        (until, words.name("until")),
        (partition, "one partition alone"),
    ):
        if given:
            why = f"needs the whole topic, and does not go with {what}"
            raise ConfigError(words.name(option), why, "ask for it in a run of its own")


def _check_table(rules: Rules, words: Words, table: Path | None, table_value: str | None) -> None:
    if table_value is not None and rules.value is None:
        value, column = words.given("value", "json:balance"), words.given("table_value", "balance")
        why = f"needs {words.name('value')} to be compared with"
        raise ConfigError(words.name("table_value"), why, f"such as {value}, {column}")
    if table is None:
        if table_value is not None:
            hint = f"name it: {words.given('table', 'PATH')}"
            raise ConfigError(words.name("table_value"), "needs a table", hint)
        return
    if table_value is not None and rules.rising == "rising":
        column = words.name("table_value")
        why = f"is not judged with {column}: {words.name('value')} is for the table then"
        hint = f"ask for it in a run of its own, without {column}"
        raise ConfigError(words.name("rising"), why, hint)
    if not table.exists():
        hint = "name a Parquet file, a directory of them, or a Delta table"
        raise ConfigError(str(table), "there is no such table", hint)
    if len(parts(rules.key, words.name("key"))) > 1:
        why = f"of several parts does not go with {words.name('table')}"
        hint = f"one expression, for the column that {words.name('table_key')} names"
        raise ConfigError(words.name("key"), why, hint)


def _check_steps(rules: Rules, words: Words, table: Path | None, until: bool) -> None:
    for option, given in (
        ("compare_isolation", rules.compare_isolation),
        ("source", rules.source is not None),
        ("until", until),
        ("table", table is not None),
    ):
        if given:
            why = "needs the whole topic at once, and a checkpoint takes it step by step"
            hint = f"ask for it in a run of its own, without {words.name('checkpoint')}"
            raise ConfigError(words.name(option), why, hint)


def local_path(given: str | Path) -> Path:
    """A path of this machine; ConfigError for any other place, which `Path` would spoil."""
    found = _URL.match(str(given))
    if found is None or Path(given).exists():
        return Path(given)
    scheme, rest = found.groups()
    if scheme.lower() == "file":
        return Path("/", rest)
    why = "is not a path on this machine, and files are read and written here"
    hint = "mount it or copy it, and name a directory that this machine and all executors reach"
    raise ConfigError(f"{scheme}://{rest}", why, hint)
