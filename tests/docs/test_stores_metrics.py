"""Every number of an application with stores is on its page, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

from sexton.stores.instance_metrics import metrics_text
from sexton.stores.numbers import Numbers
from sexton.stores.task import AppConfig

PAGE = Path(__file__).parents[2] / "docs/reference/stores.md"


def test_every_metric_is_on_the_page() -> None:
    config = AppConfig("counts", "localhost:9092")
    names = set(re.findall(r"# TYPE (\S+)", metrics_text(config, Numbers(), (), 1)))
    page = PAGE.read_text(encoding="utf-8").replace("`_p99`", "`sexton_stores_commit_seconds_p99`")
    assert set(re.findall(r"`(sexton_stores_\w+)`", page)) == names
