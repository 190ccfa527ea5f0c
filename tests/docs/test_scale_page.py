"""What `docs/internals/scale.md` counts, counted again: messages, requests of a guard and an audit.

Processor times and memory depend on the machine and are not taken here.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from random import Random

import pytest
from confluent_kafka import Producer

from sexton.broker.traffic import Traffic
from sexton.client.roving import RovingClient
from sexton.guard.daemon import Daemon
from sexton.lab.guarding import CLIENT
from sexton.lab.sim_cluster import OPERATOR
from sexton.machines import controller as admin
from sexton.machines.guard_events import GuardConfig
from sexton.node.messages import CollectProgress
from sexton.node.outside import CONTROLLER
from sexton.sim.network import Address, Network
from sexton.sim.options import HOUR_MS, Options
from sexton.sim.run import START_MS
from sexton.sim.world import World
from sexton.survey.plan import Wanted
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import run_survey
from sexton.testing.embedded import EmbeddedCluster
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs/internals/scale.md").read_text(encoding="utf-8")
# brokers, partitions, shared by a pair, messages an hour, by the model
COUNTED = re.findall(r"(?m)^\| (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE)
QUICK = [row for row in COUNTED if int(row[1]) < 100]  # the others take minutes


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Requests that brokers of this process were sent."""
    counted: Counter[str] = Counter()
    ours = Traffic.asked

    def count(traffic: Traffic, api: str, size: int) -> None:
        counted[api.removesuffix("Request")] += 1
        ours(traffic, api, size)

    monkeypatch.setattr(Traffic, "asked", count)
    return counted


# ── coordination ──


class CountingNetwork(Network):
    questions = 0

    def delays(self, source: Address, target: Address, kind: type) -> list[int]:
        self.questions += kind is CollectProgress
        return super().delays(source, target, kind)


def questions_in_a_day(brokers: int, partitions: int) -> int:
    """Of all leaders to all followers, nothing else going on."""
    options = Options(1, brokers=brokers)
    nodes = range(1, brokers + 1)
    world = World([options.broker(n) for n in nodes], options.controller(), 1, START_MS)
    world.network = network = CountingNetwork(Random("network"))
    for address in world.processes:
        world.start(address)
    world.run_until(START_MS + HOUR_MS)
    chance = Random("replicas")
    replicas = tuple(tuple(chance.sample(nodes, 3)) for _ in range(partitions))
    compacted = (("cleanup.policy", "compact"),)
    topic = admin.CreateTopic(None, "orders", "1" * 32, -1, -1, replicas, compacted, internal=False)
    world.send(OPERATOR, CONTROLLER, topic, lambda _answer: None, 60_000, 0)
    world.run_until(world.now_ms + 2 * HOUR_MS)
    before = network.questions
    world.run_until(world.now_ms + 24 * HOUR_MS)
    return network.questions - before


def test_the_page_has_the_table() -> None:
    assert len(COUNTED) == 5 and len(QUICK) == 2


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: f"{row[0]} brokers, {row[1]} partitions")
def test_the_model_gives_what_the_page_says(row: tuple[str, ...]) -> None:
    brokers, partitions, shared, messages, model = map(float, row)
    pairs = brokers * (brokers - 1)
    assert shared == pytest.approx(2 * partitions / pairs, rel=0.01)
    assert model == pytest.approx(60 * (1 - math.exp(-1.09 * shared / 60)), abs=0.1)
    assert messages == pytest.approx(model, rel=0.02)


@pytest.mark.parametrize("row", QUICK, ids=lambda row: f"{row[0]} brokers, {row[1]} partitions")
def test_so_many_messages_are_counted(row: tuple[str, ...]) -> None:
    brokers, partitions = int(row[0]), int(row[1])
    hourly = questions_in_a_day(brokers, partitions) / 24 / (brokers * (brokers - 1))
    assert hourly == pytest.approx(float(row[3]), rel=0.1)


# ── the guard ──


def test_a_look_of_the_guard_is_four_requests(asked: Counter[str]) -> None:
    assert "One look at a cluster that is well is four requests" in PAGE
    a_minute = 4 * 60 / 5 + 1000 / 500 + 5  # every 5 seconds, 1,000 topics
    assert a_minute in (55, 56) and "**56 a minute**" in PAGE
    look = Counter(Metadata=2, ListPartitionReassignments=1, Fetch=1)

    async def guard(servers: str) -> None:
        async with RovingClient(servers, CLIENT) as client:
            daemon = Daemon(client, GuardConfig())
            await daemon.once()  # until there is nothing left to note
            asked.clear()
            before = _metric(daemon)
            for _ in range(10):
                await daemon.round()
            assert asked == Counter({name: 10 * count for name, count in look.items()})
            assert _metric(daemon) - before == asked  # it tells of itself what brokers see
            asked.clear()
            daemon.clock.ahead_ms += 61_000  # a minute later, the options and the note
            await daemon.round()
            more = asked - look
            assert more.pop("DescribeConfigs") == 1
            assert more.total() == 5, more

    with EmbeddedCluster(brokers=1) as kafka:
        for number in range(10):
            kafka.create_topic(f"orders-{number}", 12, {"cleanup.policy": "compact"})
        asyncio.run(guard(kafka.bootstrap_servers))


def _metric(daemon: Daemon) -> Counter[str]:
    found: Counter[str] = Counter()
    for (metric, labels), count in daemon.counters.items():
        if metric == "sexton_guard_requests_total":
            found[str(dict(labels)["api"])] += count
    return found


# ── the audit ──


def test_a_replica_with_next_to_nothing_in_it_is_ten_requests(asked: Counter[str]) -> None:
    assert "| a replica with next to nothing in it | 10 requests" in PAGE
    partitions, brokers = 20, 3
    with EmbeddedCluster(brokers=brokers) as kafka:
        kafka.create_topic("orders", partitions, {"cleanup.policy": "compact"})
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        for number in range(20 * partitions):
            producer.produce("orders", b"x", str(number), partition=number % partitions)
        assert producer.flush(30) == 0
        kafka.clean()  # waits until followers have heard what is committed
        asked.clear()
        survey = run_survey(Wanted(kafka.bootstrap_servers, topics=("orders",)), LocalRunner())
    assert not list(survey.findings)
    each = {name: count / (partitions * brokers) for name, count in asked.items()}
    assert {name: round(count) for name, count in each.items() if count > 0.5} == {
        "ApiVersions": 2,  # five handshakes for three replicas
        "Metadata": 1,
        "ListOffsets": 4,
        "Fetch": 4,
        "DescribeProducers": 1,
    }
