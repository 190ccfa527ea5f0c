"""The page lists every metric with its kind and meaning, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from sexton.broker.metrics import METRICS as OF_BROKERS
from sexton.cli.audit_watch import METRICS as OF_AUDITS

METRICS = OF_BROKERS | OF_AUDITS

PAGE = Path(__file__).parents[2] / "docs/reference/metrics.md"
ROW = re.compile(r"^\| `([a-z_]+)` \| ([a-z]+) \| (.+) \|$", re.MULTILINE)


def test_every_metric_is_on_the_page_in_its_own_words() -> None:
    listed = {name: (kind, meaning) for name, kind, meaning in ROW.findall(PAGE.read_text("utf-8"))}
    assert listed == METRICS


def test_every_metric_in_an_example_is_there() -> None:
    named = re.findall(r"\b(?:kafka|sexton)_[a-z_]+\b", PAGE.read_text("utf-8"))
    assert set(named) - {"sexton_"} <= set(METRICS)
