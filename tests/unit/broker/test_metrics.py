from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from sexton.broker.chronicle import Chronicle
from sexton.broker.cluster import ClusterConfig, LocalCluster
from sexton.broker.metrics import METRICS, Metrics
from sexton.broker.metrics_server import MetricsServer
from sexton.broker.steward import Steward
from sexton.client import admin
from sexton.client.client import Client
from sexton.report.serving import MOST_BYTES, MOST_VISITORS

LINE = re.compile(r'^[a-z_]+(\{([a-z]+="[^"]*"(,|(?=\})))+\})? -?\d+(\.\d+)?$')


def scrape(data: Path) -> dict[str, float]:
    """The text of a small cluster after some work, checked line by line; sample to value."""

    async def run() -> str:
        cluster = LocalCluster(data, ClusterConfig(brokers=2))
        chronicle = Chronicle(asyncio.get_running_loop().call_later)
        metrics = Metrics(cluster, chronicle)
        cluster.on_decision, cluster.on_broker = chronicle.decided, metrics.watch
        cluster.start()
        try:
            await cluster.ready()
            async with Client(cluster.bootstrap_servers) as client:
                await admin.create_topic(client, "orders", 2, 2, {"cleanup.policy": "compact"})
                await admin.create_topic(client, "plain", 1, 1)
            await Steward(cluster).clean()
            cluster.kill_broker(2)
            return metrics.text()
        finally:
            cluster.stop()

    text = asyncio.run(run())
    samples = {}
    named: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("gauge", "counter", "summary")
            assert (kind == "counter") == name.endswith("_total")
            named.add(name)
            continue
        assert LINE.match(line), line
        sample, _, value = line.rpartition(" ")
        bare = sample.partition("{")[0]
        assert bare in named or bare.rpartition("_")[0] in named, f"{bare} comes before its TYPE"
        samples[sample] = float(value)
    assert named == set(METRICS)
    return samples


def test_what_is_there_is_told(tmp_path: Path) -> None:
    samples = scrape(tmp_path)
    assert samples["kafka_controller_kafkacontroller_globaltopiccount"] == 2
    assert samples["kafka_controller_kafkacontroller_globalpartitioncount"] == 3
    assert samples['sexton_broker_up{broker="1"}'] == 1
    assert samples['sexton_broker_up{broker="2"}'] == 0
    assert samples['kafka_cluster_partition_replicascount{topic="orders",partition="1"}'] == 2
    requests = "kafka_network_requestmetrics_requests_total"
    created = [v for k, v in samples.items() if k.startswith(requests) and "CreateTopics" in k]
    assert sum(created) == 2
    times = "kafka_network_requestmetrics_totaltimems_count"
    answered = [v for k, v in samples.items() if k.startswith(times) and "CreateTopics" in k]
    assert sum(answered) == 2
    incoming = "kafka_server_socket_server_metrics_incoming_byte_total"
    assert sum(v for k, v in samples.items() if k.startswith(incoming)) > 100
    assert samples["process_resident_memory_bytes"] > 10 << 20


def test_the_four_offsets_are_told_of_compacted_topics_and_living_brokers(tmp_path: Path) -> None:
    samples = scrape(tmp_path)
    for offset in ("mcco", "mtro", "mxfo", "mxro"):
        found = [s for s in samples if s.startswith(f"sexton_compaction_{offset}{{")]
        assert found == [
            f'sexton_compaction_{offset}{{topic="orders",partition="{number}",broker="1"}}'
            for number in (0, 1)
        ]


# ── over HTTP ──


async def get(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def served(*requests: bytes) -> list[bytes]:
    async def run() -> list[bytes]:
        server = MetricsServer("127.0.0.1", 0, lambda: "up 1\n")
        await server.start()
        port = int(server.address.rsplit(":", 1)[1].partition("/")[0])
        try:
            return [await get(port, request) for request in requests]
        finally:
            await server.stop()

    return asyncio.run(run())


def test_prometheus_gets_its_page() -> None:
    (answer,) = served(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"text/plain; version=0.0.4" in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert body == b"up 1\n"


@pytest.mark.parametrize(
    ("request_", "start"),
    [
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 "),
        (b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 "),
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 "),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 "),
        (b"\r\n\r\n", b"HTTP/1.1 405 "),
        (b"\xff" * (MOST_BYTES * 4), b""),
    ],
)
def test_nothing_else_is_served_and_the_next_one_gets_its_answer(
    request_: bytes, start: bytes
) -> None:
    first, second = served(request_, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert first.startswith(start) and (start or not first)
    assert second.startswith(b"HTTP/1.1 200 ")


def test_visitors_who_say_nothing_are_few() -> None:
    async def run() -> None:
        server = MetricsServer("127.0.0.1", 0, lambda: "")
        await server.start()
        port = int(server.address.rsplit(":", 1)[1].partition("/")[0])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_VISITORS)]
        assert await get(port, b"GET /metrics HTTP/1.1\r\n\r\n") == b""
        for _reader, writer in silent:
            writer.close()
        await server.stop()

    asyncio.run(run())
