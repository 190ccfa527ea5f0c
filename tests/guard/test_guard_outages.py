"""Brokers that answer nothing, brokers that are cut off, and the guard as a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from sexton.client.admin import delete_topic
from sexton.client.client import Client
from sexton.guard.memory import TOPIC
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.guard.harness import RunningGuard, options_of

OPTIONS = {"cleanup.policy": "compact", MIN_LAG: 5, MAX_LAG: 60_000}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(compaction="independent") as embedded:
        embedded.create_topic("orders", [[1, 2, 3]], OPTIONS)
        yield embedded


def is_frozen(cluster: EmbeddedCluster, node: int = 1) -> bool:
    return options_of(cluster.address_of(node), "orders")[MIN_LAG].own == FOREVER


def test_a_broker_that_answers_nothing_does_not_hold_the_guard_up(cluster: EmbeddedCluster) -> None:
    before = options_of(cluster.bootstrap_servers, "orders")
    with RunningGuard(cluster.bootstrap_servers) as guard:
        guard.catch_up()
        cluster.pause(3)
        until(lambda: is_frozen(cluster), "frozen")
        cluster.resume(3)
        until(lambda: guard.state_of("orders") == "free", "free again")
    assert options_of(cluster.bootstrap_servers, "orders") == before


def test_a_broker_that_is_cut_off_says_all_is_well_and_is_not_believed(
    cluster: EmbeddedCluster,
) -> None:
    with RunningGuard(cluster.bootstrap_servers) as guard:
        guard.catch_up()
        cluster.isolate(3)
        until(lambda: is_frozen(cluster), "frozen")
        assert options_of(cluster.address_of(3), "orders")[MIN_LAG].own == "5", "it does not know"
        for _ in range(10):
            guard.catch_up()
            assert is_frozen(cluster)
        cluster.heal()
        until(lambda: guard.state_of("orders") == "free", "free again")
    assert options_of(cluster.bootstrap_servers, "orders")[MIN_LAG].own == "5"


# ── a process ──


class Process:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        command = [
            "guard",
            "run",
            "-b",
            cluster.bootstrap_servers,
            "--http-port",
            "0",
            "--format",
            "json",
        ]
        timers = ["--interval", "100ms", "--hold-down", "300ms", "--request-timeout", "2s"]
        formats = ["--format", "json", "--log-format", "json"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sexton.cli.main", *command, *timers, *formats],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = json.loads(self.process.stdout.readline())["summary"]["http"]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.address + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def end(self, number: int) -> str:
        self.process.send_signal(number)
        return self.process.communicate(timeout=20)[1]


def test_a_guard_that_is_killed_is_replaced_by_another_and_ends_when_it_is_told(
    cluster: EmbeddedCluster,
) -> None:
    before = options_of(cluster.bootstrap_servers, "orders")
    first = Process(cluster)
    try:
        until(lambda: first.get("healthz")[0] == 200, "it sees the cluster")
        cluster.kill(3)
        until(lambda: is_frozen(cluster), "frozen")
        until(lambda: '{topic="orders"}' in first.get("metrics")[1], "told as a metric")
        assert "replica 3 is offline" in first.get("")[1]
    finally:
        first.end(signal.SIGKILL)
    second = Process(cluster)
    try:
        until(lambda: json.loads(second.get("status.json")[1])["frozen"] > 0, "it knows")
        cluster.restart(3)
        until(
            lambda: options_of(cluster.bootstrap_servers, "orders") == before,
            "every option is as before",
        )
    finally:
        said = second.end(signal.SIGTERM)
    assert second.process.returncode == 0
    lines = [json.loads(line) for line in said.splitlines()]
    assert [lines[0]["message"], lines[-1]["message"]] == ["guard starts", "guard stops"]
    assert {"note thawing", "thaw"} <= {line["message"] for line in lines}


def test_a_memory_that_somebody_deletes_is_written_anew(cluster: EmbeddedCluster) -> None:
    before = options_of(cluster.bootstrap_servers, "orders")

    async def delete_memory() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            await delete_topic(client, TOPIC)

    with RunningGuard(cluster.bootstrap_servers) as guard:
        guard.catch_up()
        cluster.kill(3)
        until(lambda: guard.state_of("orders") == "frozen", "frozen, and noted")
        asyncio.run(delete_memory())
        guard.catch_up()
    cluster.restart(3)
    with RunningGuard(cluster.bootstrap_servers) as guard:  # this one knows it from the notes only
        until(lambda: guard.state_of("orders") == "free", "free again")
    assert options_of(cluster.bootstrap_servers, "orders") == before
