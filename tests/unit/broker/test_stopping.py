"""A cluster stops in good order, as far as its disks allow."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from sexton.broker.cluster import ClusterConfig, LocalCluster
from sexton.log.names import CLEAN_SHUTDOWN
from sexton.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest


def test_a_log_that_was_removed_keeps_nobody_else_from_closing_theirs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        cluster = LocalCluster(tmp_path, ClusterConfig(brokers=2))
        cluster.start()
        try:
            await cluster.ready()
            topic = CreatableTopic("orders", 1, 2)
            await cluster.ask(1, CreateTopicsRequest([topic], timeout_ms=10_000))
            shutil.rmtree(tmp_path / "broker-1" / "orders-0")
        finally:
            cluster.stop()

    asyncio.run(run())
    closed = [path.parent.name for path in tmp_path.glob(f"*/{CLEAN_SHUTDOWN}")]
    assert sorted(closed) == ["broker-2", "controller"]
    assert "broker 1 could not close its logs" in caplog.text
