"""Executors that are processes of their own: a handler loses one, or is overtaken on another."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from tests.spark.retry_driver import ROWS, Pipeline, Work, rows_to
from tests.spark.test_retry_kills import FILES, finish
from tests.spark.test_sink_standalone import SETTINGS, master

__all__ = ["master"]  # a fixture


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["executor", "slow"])
def test_a_handler_loses_its_executor_or_is_overtaken_by_its_copy(
    master: str,
    three: EmbeddedCluster,
    tmp_path: Path,
    fault: str,
) -> None:
    clusters: dict[str, Cluster] = {"ours": three}
    pipeline = Pipeline(three.bootstrap_servers, f"ours-{fault}", fault=fault)
    for topic in (pipeline.topic, pipeline.output):
        three.create_topic(topic, 2)
    rows_to(tmp_path / "files", range(FILES))
    settings = {**SETTINGS, "spark.sql.shuffle.partitions": "1"}
    work = Work(master, str(tmp_path / "files"), str(tmp_path), [pipeline], settings)
    finish(work, clusters, FILES * ROWS)
    assert (tmp_path / f"{pipeline.topic}-{fault}").exists()
    assert fault != "slow" or (tmp_path / f"{pipeline.topic}-copied").exists()
