"""The pages list every metric with its kind and meaning, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from sexton.broker.metrics import METRICS as OF_BROKERS
from sexton.cli.audit_watch import METRICS as OF_AUDITS
from sexton.guard.metrics import METRICS as OF_GUARDS
from sexton.retry.metrics import METRICS as OF_RETRIES
from sexton.stores.instance_metrics import metrics_text
from sexton.stores.numbers import Numbers
from sexton.stores.task import AppConfig

METRICS = OF_BROKERS | OF_AUDITS
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference/metrics.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([a-z_]+)` \| ([a-z]+) \| (.+) \|$", re.MULTILINE)
NO_METRICS = {"sexton_kernel"}


def everything() -> set[str]:
    text = metrics_text(AppConfig("counts", "localhost:9092"), Numbers(), (), 1)
    of_stores = re.findall(r"# TYPE (\S+)", text)
    return {*METRICS, *OF_GUARDS, *OF_RETRIES, *of_stores}


def test_every_metric_is_on_the_page_in_its_own_words() -> None:
    listed = {name: (kind, meaning) for name, kind, meaning in ROW.findall(PAGE)}
    assert listed == METRICS


def test_every_metric_is_on_some_page() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    told = set(re.findall(r"`((?:sexton|kafka|process)_[a-z0-9_]+)`", pages))
    told |= {"sexton_stores_commit_seconds_p99"}  # as `_p99`, beside its brother
    assert everything() - told == set()


def test_every_metric_that_a_page_names_is_there() -> None:
    for path in DOCS.rglob("*.md"):
        named = re.findall(r"(?<![.\w])sexton_[a-z0-9_]+\b", path.read_text(encoding="utf-8"))
        assert {name for name in named if not name.endswith("_")} - everything() <= NO_METRICS, path
