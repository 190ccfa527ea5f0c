"""What can be asked of a running cluster, and done to it; on real brokers in this process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sexton.base.errors import ConfigError, PeerError
from sexton.base.partitions import TopicPartition
from sexton.broker.chronicle import Chronicle
from sexton.broker.cluster import ClusterConfig, LocalCluster
from sexton.broker.metrics import Metrics
from sexton.broker.options import with_options
from sexton.broker.steward import Steward
from sexton.client import admin
from sexton.client.client import Client
from sexton.machines.controller import CreateTopic
from sexton.node import controller as controller_node
from sexton.node.outside import CONTROLLER
from sexton.node.replica import Leading
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sexton.records.few import few_batch
from tests.patching import patching

QUICK = {
    "broker.session.timeout.ms": 1_000,
    "broker.heartbeat.interval.ms": 150,
    "replica.fetch.backoff.ms": 20,
    "request.timeout.ms": 1_000,
}
PATIENT_MS = 60_000  # the first pass may have to compile its kernels
ORDERS = TopicPartition("orders", 0)

Work = Callable[[LocalCluster, Steward], Awaitable[None]]


def on_cluster(data: Path, work: Work, **options: object) -> None:
    async def run() -> None:
        dotted = {name.replace("_", "."): value for name, value in options.items()}
        cluster = LocalCluster(data, with_options(ClusterConfig(brokers=3), QUICK | dotted))
        cluster.start()
        try:
            await cluster.ready()
            async with Client(cluster.bootstrap_servers) as client:
                await admin.create_topic(client, "orders", 1, 3, {"cleanup.policy": "compact"})
            await work(cluster, Steward(cluster))
        finally:
            cluster.stop()

    asyncio.run(run())


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110  nodes know nothing of events
            await asyncio.sleep(0.005)


async def write(cluster: LocalCluster, *pairs: tuple[bytes, bytes | None]) -> None:
    """Keys and values to orders-0, acknowledged by all."""
    batch = few_batch(list(pairs), 1_700_000_000_000)
    leader = cluster.image.partitions[ORDERS].leader
    request = ProduceRequest(acks=-1, timeout_ms=10_000)
    data = PartitionProduceData(index=0, records=batch)
    request.topic_data = [TopicProduceData(name="orders", partition_data=[data])]
    async with Client(cluster.bootstrap_servers) as client:
        connection = await client.broker(leader)
        answer = await connection.ask(request, range(9, 10))
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_status_tells_brokers_and_partitions(tmp_path: Path) -> None:
    async def work(cluster: LocalCluster, steward: Steward) -> None:
        status = await steward.handle({"ask": "status"})
        assert status["bootstrap_servers"] == cluster.bootstrap_servers
        assert len(status["cluster_id"]) == 22
        assert (status["topics"], status["partitions"], status["under_replicated"]) == (1, 1, 0)
        assert [b["state"] for b in status["brokers"]] == ["up"] * 3
        assert sum(b["leaders"] for b in status["brokers"]) == 1
        assert [b["in_sync"] for b in status["brokers"]] == [1, 1, 1]

    on_cluster(tmp_path, work)


def test_without_a_controller_it_is_said_that_there_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What it had decided is known, for every broker was told."""

    async def work(cluster: LocalCluster, steward: Steward) -> None:
        before = await steward.handle({"ask": "status"})
        too_large = CreateTopic(None, "large", uuid.UUID(int=7).hex, 300, 3)
        assert await cluster.ask(CONTROLLER, too_large) is None
        status = await steward.handle({"ask": "status"})
        assert (before["controller"], status["controller"]) == ("up", "down")
        for what in ("cluster_id", "topics", "partitions", "under_replicated", "leaderless"):
            assert status[what] == before[what]
        assert [b["in_sync"] for b in status["brokers"]] == [1, 1, 1]
        text = Metrics(cluster, Chronicle(lambda _seconds, _tell: None)).text()
        assert "\nkafka_controller_kafkacontroller_activecontrollercount 0\n" in text
        assert "\nkafka_controller_kafkacontroller_globaltopiccount " not in text
        assert '\nsexton_broker_up{broker="1"} 1\n' in text

    with patching() as patch:
        small = replace(controller_node._CONFIG, max_message_bytes=10_000)
        patch(controller_node, "_CONFIG", small)
        on_cluster(tmp_path, work)
    (halted,) = [r for r in caplog.records if r.levelname == "CRITICAL"]
    assert "the controller halts" in halted.getMessage()
    assert "MESSAGE_TOO_LARGE" in halted.getMessage()
    assert halted.getMessage().count("start the cluster again") == 1


def test_a_killed_broker_is_missed_and_comes_back(tmp_path: Path) -> None:
    async def work(cluster: LocalCluster, steward: Steward) -> None:
        leader = cluster.image.partitions[ORDERS].leader
        assert await steward.handle({"ask": "kill", "broker": leader}) == {
            "broker": leader,
            "state": "down",
        }
        image = cluster.image
        await until(lambda: image.partitions[ORDERS].leader not in (leader, -1))
        rows = (await steward.handle({"ask": "offsets"}))["replicas"]
        away = [row for row in rows if row["role"] == "away"]
        assert [(row["broker"], row["log_end"], row["mcco"]) for row in away] == [
            (leader, None, None)
        ]
        assert (await steward.handle({"ask": "restart", "broker": leader}))["state"] == "up"
        assert image.brokers[leader].active
        await until(lambda: leader in image.partitions[ORDERS].isr)

    on_cluster(tmp_path, work)


def test_a_paused_broker_is_fenced_and_goes_on(tmp_path: Path) -> None:
    async def work(cluster: LocalCluster, steward: Steward) -> None:
        brokers = cluster.image.brokers
        assert (await steward.handle({"ask": "pause", "broker": 2}))["state"] == "paused"
        await until(lambda: not brokers[2].active)
        assert (await steward.handle({"ask": "resume", "broker": 2}))["state"] == "up"
        await until(lambda: brokers[2].active)

    on_cluster(tmp_path, work)


@pytest.mark.parametrize("healed", [{"broker": 3}, {}])
def test_an_isolated_broker_is_fenced_until_it_is_healed(
    tmp_path: Path, healed: dict[str, int]
) -> None:
    async def work(cluster: LocalCluster, steward: Steward) -> None:
        brokers = cluster.image.brokers
        assert (await steward.handle({"ask": "isolate", "broker": 3}))["state"] == "isolated"
        await until(lambda: not brokers[3].active)
        await steward.handle({"ask": "heal", **healed})
        assert steward.state(3) == "up"
        await until(lambda: brokers[3].active)

    on_cluster(tmp_path, work)


def test_cleaning_now_removes_what_was_overwritten_and_moves_the_four(tmp_path: Path) -> None:
    async def work(cluster: LocalCluster, steward: Steward) -> None:
        await write(cluster, (b"a", b"1"), (b"a", b"2"), (b"b", b"1"))
        await write(cluster, (b"b", None))
        await until(lambda: all(row[1] == 4 for row in watermarks(cluster)))
        passes = (await steward.handle({"ask": "clean", "topics": ["orders"]}))["passes"]
        assert [(row["broker"], row["cleaned_until"], row["failed"]) for row in passes] == [
            (1, 4, None),
            (2, 4, None),
            (3, 4, None),
        ]
        await until(lambda: all(r.removable.mtro == 4 for r in replicas(cluster)))
        rows = (await steward.handle({"ask": "offsets", "topics": ["orders"]}))["replicas"]
        for row in rows:
            four = row["mcco"], row["mtro"], row["mxfo"], row["mxro"]
            assert four == (4, 4, 4, 4)
            assert (row["high_watermark"], row["log_end"]) == (4, 4)

    on_cluster(tmp_path, work, broker_session_timeout_ms=PATIENT_MS)


def test_a_replica_that_did_not_clean_holds_the_group(tmp_path: Path) -> None:
    """The negative control: two of three are not all."""

    async def work(cluster: LocalCluster, steward: Steward) -> None:
        await write(cluster, (b"a", b"1"), (b"a", None))
        await until(lambda: all(row[1] == 2 for row in watermarks(cluster)))
        for broker in (1, 2):
            await steward.handle({"ask": "clean", "broker": broker})
        await until(lambda: sorted(heard(cluster).values()) in ([0, 2], [2, 2]))
        assert sorted(r.progress.mcco for r in replicas(cluster)) == [0, 2, 2]
        assert {r.removable.mtro for r in replicas(cluster)} == {0}

    on_cluster(tmp_path, work, broker_session_timeout_ms=PATIENT_MS)


def heard(cluster: LocalCluster) -> dict[int, int]:
    """The MCCO that each follower has reported to the leader."""
    (role,) = [r.role for r in replicas(cluster) if isinstance(r.role, Leading)]
    assert role.compaction is not None
    reports = role.compaction.reports
    return {node: report.progress.mcco for node, report in reports.items()}


def replicas(cluster: LocalCluster) -> list[Any]:
    brokers = [cluster.broker(number) for number in cluster.numbers]
    return [broker.replicas.by_partition[ORDERS] for broker in brokers if broker is not None]


def watermarks(cluster: LocalCluster) -> list[tuple[int, int]]:
    return [(r.site.node, r.log.high_watermark) for r in replicas(cluster)]


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"ask": None},
        {"ask": "explode"},
        {"ask": ["kill"]},
        {"ask": "kill"},
        {"ask": "kill", "brokre": 2},
        {"ask": "kill", "broker": "2"},
        {"ask": "kill", "broker": True},
        {"ask": "kill", "broker": 9},
        {"ask": "kill", "broker": -1},
        {"ask": "status", "broker": 1},
        {"ask": "offsets", "topics": [1]},
        {"ask": "clean", "topics": ["nope"]},
        {"ask": "heal", "broker": 17},
    ],
)
def test_a_request_that_is_not_quite_right_changes_nothing(
    tmp_path: Path, request_: dict[str, Any]
) -> None:
    cluster = LocalCluster(tmp_path, replace(ClusterConfig(), brokers=1))

    async def run() -> None:
        cluster.start()
        try:
            await cluster.ready()
            with pytest.raises(ConfigError):
                await Steward(cluster).handle(request_)
            assert Steward(cluster).state(1) == "up"
        finally:
            cluster.stop()

    asyncio.run(run())


def test_what_is_down_can_neither_be_paused_nor_cleaned(tmp_path: Path) -> None:
    async def work(cluster: LocalCluster, steward: Steward) -> None:
        await steward.handle({"ask": "kill", "broker": 2})
        for verb in ("pause", "resume", "clean"):
            with pytest.raises(ConfigError, match="is down"):
                await steward.handle({"ask": verb, "broker": 2})

    on_cluster(tmp_path, work)


def test_whoever_waits_for_a_pass_hears_that_the_broker_went_away(tmp_path: Path) -> None:
    async def work(cluster: LocalCluster, steward: Steward) -> None:
        await write(cluster, (b"a", b"1"), (b"a", None))
        waiting = asyncio.ensure_future(steward.handle({"ask": "clean", "broker": 1}))
        await asyncio.sleep(0)
        await steward.handle({"ask": "kill", "broker": 1})
        with pytest.raises(PeerError, match="went away before it had cleaned"):
            await asyncio.wait_for(waiting, 20)

    on_cluster(tmp_path, work, broker_session_timeout_ms=PATIENT_MS)
