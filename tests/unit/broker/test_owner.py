"""Directories of one cluster in the home of another: it does not start, and nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.broker.cluster import ClusterConfig, LocalCluster
from sexton.client import admin
from sexton.client.client import Client
from sexton.node.owner import META


def run(data: Path, topic: str | None = None) -> str:
    """Starts a cluster of one broker, and stops it once it is ready; its id."""

    async def start_and_stop() -> str:
        cluster = LocalCluster(data, ClusterConfig(brokers=1))
        try:
            cluster.start()
            await cluster.ready()
            if topic is not None:
                async with Client(cluster.bootstrap_servers) as client:
                    await admin.create_topic(client, topic, 1, 1)
            return cluster.cluster_id
        finally:
            cluster.stop()

    return asyncio.run(start_and_stop())


def test_a_lost_controller_costs_no_log(tmp_path: Path) -> None:
    first = run(tmp_path, "orders")
    shutil.move(tmp_path / "controller", tmp_path / "kept")
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            run(tmp_path)
        assert caught.value.subject == str(tmp_path / "broker-1")
        assert f"of cluster {first}, and this is broker 1 of cluster" in caught.value.why
    assert (tmp_path / "broker-1/orders-0/partition.metadata").exists()
    shutil.rmtree(tmp_path / "controller")
    shutil.move(tmp_path / "kept", tmp_path / "controller")
    assert run(tmp_path) == first


def test_what_an_unknown_cluster_left_is_set_aside_and_said_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, "orders")
    (tmp_path / "broker-1" / META).unlink()  # as in a home that an earlier version made
    shutil.rmtree(tmp_path / "controller")
    with caplog.at_level(logging.WARNING):
        run(tmp_path)
    (stray,) = (tmp_path / "broker-1").glob("orders-0.*-stray")
    assert (stray / "partition.metadata").exists()
    assert str(stray) in [getattr(record, "where", None) for record in caplog.records]
