"""What every command prints with `--format json` is what the schema and the page say.

Each command is asked once, in the world of the pages, with a retry and an application running and
a `sexton up` beside it. Its answer has to fit docs/reference/sexton-1.schema.json; its tables and
columns have to be those of docs/reference/json.md. `pytest --rewrite` writes these anew; read that
diff: a column that goes breaks somebody's script.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from sexton.cli import registry
from sexton.cli.writers import ENVELOPE_VERSION
from tests import datadriven
from tests.docs.blocks import ROOT
from tests.docs.json_schema import violations
from tests.docs.prepared import a_retry_with_a_held_key, an_application_with_state
from tests.docs.shell import Said, Shell
from tests.docs.world import the_world

pytestmark = pytest.mark.xdist_group("json")  # one worker asks, for all of them

SCHEMA = json.loads((ROOT / "docs/reference/sexton-1.schema.json").read_text(encoding="utf-8"))
PAGE = ROOT / "docs/reference/json.md"
ROW = re.compile(r"^\| `([a-z -]+)` \| (.+) \|$", re.MULTILINE)
NOT_ASKED = {
    "up": "stays; tests/unit/cli/test_up.py and tests/cluster/test_up.py read what it says",
    "demo": "takes a minute; test_readme.py runs it",
    "sim shrink": "needs a seed that fails, and there is none",
}

ON = "-b localhost:9092"
RETRY = f"--topic orders --group billing {ON}"
DATA = "tests/data/kafka-4.3.1"
ASKED = {
    "audit": f"orders:3 {ON}",
    "validate": f"counts {ON} --value json:count",
    "repair": f"orders:3 {ON}",
    "cluster status": ON,
    "cluster offsets": "orders",
    "cluster topics": f"orders {ON}",
    "cluster kill": "2",
    "cluster restart": "2",
    "cluster pause": "3",
    "cluster resume": "3",
    "cluster isolate": "1",
    "cluster heal": "",
    "cluster elect": f"orders-3 --leader 1 {ON}",
    "cluster reassign": f"orders-2=1,2 {ON}",
    "cluster clean": "",
    "guard run": f"--once {ON}",
    "guard status": ON,
    "guard plan": ON,
    "guard freeze": f"orders {ON}",
    "guard thaw": f"orders {ON}",
    "guard maintenance": f"--for 1h {ON}",
    "guard panic": f"--yes {ON}",
    "lab list": "",
    "lab run": "tombstone-divergence",
    "log dump": f"{DATA}/txn-segments",
    "log verify": f"{DATA}/data-directory/data txn-segments-0",
    "log clean": "--dry-run orders-3",
    "log stats": f"{DATA}/cleaned-txn.after",
    "retry status": RETRY,
    "retry locks": RETRY,
    "retry explain": f"customer-42 {RETRY}",
    "retry dead": RETRY,
    "retry reap": f"--dry-run {RETRY}",
    "retry redrive": f"--all-held --dry-run {RETRY}",
    "retry skip": f"orders-3-17 --dry-run {RETRY}",
    "sim run": "--seeds 1 --hours 1",
    "sim replay": "1 --hours 1",
    "sim faults": "",
    "sink doctor": ON,
    "stores status": f"word-counts {ON}",
    "stores inspect": "state --entries 1",
    "stores verify": f"state {ON}",
    "txn list": ON,
    "txn describe": f"--transactional-id orders-7 {ON}",
    "txn describe-producers": f"--topic orders --partition 3 {ON}",
    "txn find-hanging": f"--topic orders {ON}",
    "txn abort": f"--topic orders --partition 3 --start-offset 0 {ON}",
    "txn explain": f"orders:3 {ON}",
    "doctor": "",
    "warmup": "",
}


@pytest.fixture(scope="module")
def answers(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Said]]:
    here = tmp_path_factory.mktemp("json")
    with ExitStack() as around:
        patch = around.enter_context(pytest.MonkeyPatch.context())
        patch.chdir(here)
        patch.setenv("SEXTON_DATA", str(here / "up"))
        world = around.enter_context(the_world(built, here))
        around.enter_context(a_retry_with_a_held_key(world))
        around.enter_context(an_application_with_state(world))
        shell = Shell(here)
        around.callback(shell.close)
        assert shell.run("sexton up").fine
        assert shell.run(
            "sexton cluster topics orders --create --config cleanup.policy=compact"
        ).fine
        yield {
            command: shell.run(world.real(f"sexton {command} {words} --format json"))
            for command, words in ASKED.items()
        }


def test_every_command_is_asked() -> None:
    assert {*ASKED, *NOT_ASKED} == {entry.path for entry in registry.COMMANDS}
    assert not set(ASKED) & set(NOT_ASKED)


@pytest.mark.parametrize("command", ASKED)
def test_an_answer_is_what_the_schema_says(command: str, answers: dict[str, Said]) -> None:
    said = answers[command]
    answer = json.loads(said.stdout)
    assert not list(violations(answer, SCHEMA, SCHEMA))
    assert answer["command"] == command
    assert answer["exit_code"] == said.code


def tables(said: Said) -> dict[str, list[str]]:
    """Array to columns, of one answer."""
    answer = json.loads(said.stdout)
    own = [name for name in answer if name not in SCHEMA["properties"]]
    return {name: list(answer[name][0]) for name in own if answer[name]}


def told(found: dict[str, list[str]]) -> str:
    return "; ".join(
        f"**{name}**: {', '.join(f'`{column}`' for column in columns)}"
        for name, columns in found.items()
    )


def declared(command: registry.Entry) -> dict[str, list[str]]:
    """The same from the source: `rows("plans", PLANS, ...)`, where PLANS is a tuple of columns.

    A command that stays hands the three to `announce`, as a tuple.
    """
    module = import_module(command.module)
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        match node:
            case (
                ast.Call(
                    func=ast.Attribute(attr="rows"),
                    args=[ast.Constant(value=str(name)), ast.Name(id=columns), *_],
                )
                | ast.Tuple(elts=[ast.Constant(value=str(name)), ast.Name(id=columns), _])
            ) if columns.isupper():
                found[name] = [column.name for column in getattr(module, columns)]
    return found


def on_the_page() -> dict[str, dict[str, str]]:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {
        command: {part.split("**")[1]: part for part in cells.split("; ")}
        for command, cells in rows
    }


def test_tables_and_columns_are_those_on_the_page(answers: dict[str, Said]) -> None:
    wanted: dict[str, dict[str, str]] = {}
    for entry in registry.COMMANDS:
        printed = tables(answers[entry.path]) if entry.path in answers else {}
        found = declared(entry) | printed
        parts = {name: told({name: columns}) for name, columns in found.items()}
        wanted |= {entry.path: parts} if parts else {}
    if datadriven.rewriting:
        _rewrite(wanted)
    page = on_the_page()
    for command, parts in wanted.items():
        assert parts.items() <= page.get(command, {}).items(), command  # empty ones are there, too


def _rewrite(wanted: dict[str, dict[str, str]]) -> None:
    known = on_the_page()
    parts = {command: known.get(command, {}) | found for command, found in wanted.items()}
    rows = "".join(
        f"| `{command}` | {'; '.join(each.values())} |\n" for command, each in parts.items()
    )
    text = ROW.sub("", PAGE.read_text(encoding="utf-8")).rstrip()
    PAGE.write_text(f"{text}\n{rows}", encoding="utf-8")


def test_columns_are_found_in_the_source() -> None:
    (abort,) = [entry for entry in registry.COMMANDS if entry.path == "txn abort"]
    assert declared(abort) == {"replicas": ["broker", "knows", "how"]}
    (up,) = [entry for entry in registry.COMMANDS if entry.path == "up"]
    assert declared(up) == {"brokers": ["broker", "host", "port"]}


@pytest.mark.parametrize("command", ["log verify", "log stats", "warmup"])
def test_lines_are_what_the_schema_says(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    words = ASKED[command].replace("txn-segments-0", "")
    said = Shell(tmp_path).run(f"sexton {command} {words} --format jsonl")
    *lines, last = [json.loads(line) for line in said.stdout.splitlines()]
    for line in lines:
        assert not list(violations(line, SCHEMA["$defs"]["line"], SCHEMA))
    assert not list(violations(last, SCHEMA["$defs"]["end"], SCHEMA))


@pytest.mark.parametrize("line", ["sexton log verify nowhere", "sexton warmup --nonsense"])
def test_an_error_is_what_the_schema_says(line: str, tmp_path: Path) -> None:
    said = Shell(tmp_path).run(f"{line} --format json")
    answer = json.loads(said.stdout)
    assert not list(violations(answer, SCHEMA, SCHEMA))
    assert answer["error"] is not None


GOOD: dict[str, Any] = {
    "sexton": 1, "command": "log stats", "segments": [{"file": "a", "bytes": 3}],
    "findings": [{"code": "torn-tail", "severity": "note", "where": "a", "message": "b",
                  "evidence": {}, "remedy": None}],
    "summary": {"bytes": 3}, "incomplete": [{"subject": "a", "why": "b"}], "ok": True,
    "exit_code": 0, "error": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"sexton": 2}, {"sexton": True}, {"command": None}, {"segments": [{"file": ["a"]}]},
        {"segments": {"file": "a"}}, {"segments": [{"Not A Name": 1}]}, {"other": 1},
        {"findings": [{"code": "torn-tail"}]}, {"summary": {"a": {}}}, {"ok": 1},
        {"exit_code": 7}, {"error": {"kind": "usage"}}, {"incomplete": [{"subject": "a"}]},
    ],
)  # fmt: skip
def test_what_does_not_fit_would_be_noticed(wrong: dict[str, Any]) -> None:
    assert not list(violations(GOOD, SCHEMA, SCHEMA))
    assert list(violations(GOOD | wrong, SCHEMA, SCHEMA))


def test_the_version_is_that_of_the_code() -> None:
    assert SCHEMA["properties"]["sexton"] == {"const": ENVELOPE_VERSION}
    assert f"sexton-{ENVELOPE_VERSION}.schema.json" in PAGE.read_text(encoding="utf-8")
