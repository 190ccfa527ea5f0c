"""What the pages on ordered retry show in Python runs; parameters and metrics are the true ones."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from sexton.retry import OrderedRetry
from sexton.retry.metrics import METRICS
from tests.docs.test_testing_page import BLOCK, run_pytest

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO = (DOCS / "how-to/ordered-retry.md").read_text(encoding="utf-8")
OPERATE = (DOCS / "how-to/operate-ordered-retry.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "reference/retry.md").read_text(encoding="utf-8")
PARAMETER = re.compile(r"^\| `([a-z_]+)` \| (?:`(.*?)` )?\|", re.MULTILINE)
METRIC = re.compile(r"^\| `(sexton_[a-z_]+)` \| ([a-z]+) \| (.+) \|$", re.MULTILINE)


def test_the_examples_pass(tmp_path: Path) -> None:
    files = {match["name"]: match["code"] for match in BLOCK.finditer(HOW_TO)}
    assert HOW_TO.count("```python") == len(files)
    for name, code in files.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    (tmp_path / "test_billing.py").write_text(_BILLING, encoding="utf-8")
    run = run_pytest(tmp_path, "-q")
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^6 passed", run.stdout, re.MULTILINE), run.stdout


_BILLING = """
import pytest
from billing import handle
from sexton.retry import Drop, OrderedRetry
from sexton.retry.messages import Message, Place


def test_the_decorated_handler_can_be_called():
    assert isinstance(handle, OrderedRetry)
    message = Message(Place("orders", 0, 1), 0, b"k", b"a tea", None)
    handle(message)
    assert message.outputs == [("invoices", b"a tea, please pay", b"k", -1, (), 0)]
    with pytest.raises(Drop):
        handle(Message(Place("orders", 0, 1), 0, b"k", b"nothing", None))
"""


def test_every_parameter_is_there_with_its_default() -> None:
    section = REFERENCE.partition("## Parameters")[2].partition("## Topics")[0]
    told = {name: default or None for name, default in PARAMETER.findall(section)}
    true = {
        name: None if each.default is inspect.Parameter.empty else repr(each.default)
        for name, each in inspect.signature(OrderedRetry.__init__).parameters.items()
        if name not in ("self", "handler")
    }
    assert told == true


def test_every_metric_is_there_in_its_own_words() -> None:
    told = {name: (kind, meaning) for name, kind, meaning in METRIC.findall(REFERENCE)}
    assert told == METRICS
    for named in re.findall(r"sexton_retry_[a-z_]+", OPERATE):
        assert named in METRICS
