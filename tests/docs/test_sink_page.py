"""The pages about exactly-once pipelines: calls that would work, options and tests that exist."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sexton.client.connection import ClientConfig
from sexton.spark.sink import exactly_once, write_exactly_once
from sexton.spark.sink_builder import OPTIONS, ExactlyOnceWriter
from sexton.spark.sink_columns import COLUMNS
from sexton.spark.sink_settings import FIXED, NUMBERS, OTHERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/exactly-once-with-spark.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs/reference/spark.md").read_text(encoding="utf-8")
SINK = REFERENCE.partition("## Exactly-once sink\n")[2]
CALLS: dict[str, Callable[..., Any]] = {
    "exactly_once": exactly_once,
    "write_exactly_once": write_exactly_once,
}


def calls() -> Iterator[ast.Call]:
    blocks = re.findall(r"^```py(?:thon)?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        yield from (node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call))


def test_every_call_that_is_shown_fits() -> None:
    shown = set()
    for call in calls():
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name in CALLS:
            given = {each.arg or "": None for each in call.keywords}
            inspect.signature(CALLS[name]).bind(*call.args, **given)
            shown.add(name)
        if name == "option" and isinstance(call.args[0], ast.Constant):
            option = str(call.args[0].value)
            known = option in OPTIONS or option in ("subscribe", "kafka.isolation.level")
            assert known, option
        if name in ("queryName", "trigger", "start", "save"):
            assert hasattr(ExactlyOnceWriter, name)
    assert shown == set(CALLS)


def test_every_test_that_is_named_is_there() -> None:
    section = PAGE.partition("## What happens if\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", section))
    assert len(named) > 10
    places = [*(ROOT / "tests/spark").glob("*.py"), *(ROOT / "tests/unit/spark").glob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in places)
    assert [name for name in sorted(named) if f"def {name}(" not in text] == []


def test_every_finding_of_the_doctor_is_explained() -> None:
    source = (ROOT / "src/sexton/cli/sink_doctor.py").read_text(encoding="utf-8")
    used = set(re.findall(r'Finding\(\s*"([a-z-]+)"', source))
    assert set(re.findall(r"^\| `([a-z]+-[a-z]+)` \|", PAGE, re.MULTILINE)) == used


def first_cells(table: int) -> set[str]:
    tables = re.findall(r"(?:^\|.*\n)+", SINK, re.MULTILINE)
    rows = tables[table].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([\w.*]+)`", row.split("|")[1])}


def test_every_option_setting_and_column_is_there() -> None:
    assert first_cells(0) == set(OPTIONS)
    security = {"security.protocol", "ssl.*", "sasl.*"}
    assert first_cells(1) == {*NUMBERS, *OTHERS, *security} - {"bootstrap.servers"}
    assert first_cells(2) == set(COLUMNS)
    arguments = {*inspect.signature(exactly_once).parameters, "job_id"}
    for name in re.findall(r"^\| \S+ \| `(\w+)` \|", SINK, re.MULTILINE):
        assert name in arguments


@pytest.mark.parametrize("name", FIXED)
def test_what_cannot_be_set_is_said(name: str) -> None:
    assert name in SINK or name.endswith(".serializer")


def test_the_defaults_are_the_true_ones() -> None:
    numbers = {**NUMBERS, "request.timeout.ms": ClientConfig().request_timeout_ms}
    for name, value in numbers.items():
        assert f"| `{name}` | {value} |" in SINK
    assert f"| `client.id` | {ClientConfig().client_id} |" in SINK
