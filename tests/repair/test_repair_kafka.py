"""Repair and `sexton txn` on Apache Kafka itself: one cluster, with every kind of damage at once.

What is healed is audited, and read by an ordinary consumer from every broker as leader. While it is
repaired somebody watches the replicas in sync: never fewer than before, less the one in question.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sexton.base.partitions import TopicPartition
from sexton.cli.main import main
from sexton.client.client import Client
from sexton.client.config_changes import BROKER, TOPIC, OptionValue, described
from sexton.client.connection import refused
from sexton.guard.repair_options import THROTTLED_RATES
from sexton.lab.divergences import APACHE_KAFKA_OPTIONS
from sexton.lab.looking import Consumed, consumed
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG
from sexton.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sexton.records.few import few_batch
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.kafka_jars import KAFKA_3_9
from sexton.testing.waiting import until
from tests.repair.damage import Damage
from tests.repair.stages import killed_while_it_copies

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

STRANGER = 424_242  # a producer that no coordinator knows
OPTIONS = {
    **APACHE_KAFKA_OPTIONS,
    "transaction.partition.verification.enable": False,
    # On a busy machine no broker should leave the ISR of itself: it is watched who is in it.
    "broker.session.timeout.ms": 6_000,
    "replica.lag.time.max.ms": 20_000,
}
# What the key `k` is in truth: deleted, aborted, or overwritten.
TRUTH = {
    "deleted": None, "two-copies": None, "killed": None, "aborted": None, "hidden": "2",
    "stuck": "2", "witness": "2",
}  # fmt: skip
Run = Callable[..., tuple[int, dict[str, Any]]]
Options = dict[str, dict[str, OptionValue]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(nodes=3, options=OPTIONS)) as three:
        yield three


@pytest.fixture(scope="module")
def topics(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    damage = Damage(kafka, tmp_path_factory.mktemp("images"))
    damage.make()
    return damage.topics()


@pytest.fixture
def run(kafka: ApacheKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def sexton(*arguments: str) -> tuple[int, dict[str, Any]]:
        more = ["--state", str(tmp_path / "notes.json")] if arguments[0] == "repair" else []
        capsys.readouterr()
        code = main([*arguments, *more, "-b", kafka.bootstrap_servers, "--format", "json"])
        return code, json.loads(capsys.readouterr().out)

    return sexton


def options_of(kafka: ApacheKafka, topic: str) -> Options:
    async def ask() -> Options:
        async with Client(kafka.bootstrap_servers) as client:
            names = (MIN_LAG, MAX_LAG, "leader.replication.throttled.replicas")
            found = {"": await described(client, (TOPIC, topic), names)}
            for node in (1, 2, 3):
                place = (BROKER, str(node))
                found[str(node)] = await described(client, place, THROTTLED_RATES)
            return found

    return asyncio.run(ask())


def seen_from_each(kafka: ApacheKafka, topic: str) -> list[Consumed]:
    state = kafka.partition(topic)
    assert state is not None
    seen = []
    for node in sorted(state.replicas):
        kafka.elect(topic, 0, node)
        seen.append(consumed(kafka.bootstrap_servers, topic))
    return seen


@dataclass(slots=True)
class Watched:
    """Who led, and how many were in sync, at every look."""

    leaders: list[int] = field(default_factory=list)
    in_sync: list[int] = field(default_factory=list)


@contextmanager
def watched(kafka: ApacheKafka, topic: str) -> Iterator[Watched]:
    found, over = Watched(), threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            state = kafka.partition(topic)
            if state is not None:
                found.leaders.append(state.leader)
                found.in_sync.append(len(state.isr))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("deleted", ["--throttle", "50"]),
        ("aborted", []),
        ("hidden", []),
        ("stuck", []),
        ("two-copies", []),  # the truth is on a follower only, and nobody is left alone with it
    ],
)
def test_what_was_damaged_is_healed(
    kafka: ApacheKafka, topics: dict[str, str], run: Run, kind: str, more: list[str]
) -> None:
    topic = topics[kind]
    kafka.alter_topic(topic, {MAX_LAG: FOREVER if kind == "hidden" else 3_600_000})
    kafka.alter_topic(topic, {"min.insync.replicas": 2})
    until(lambda: options_of(kafka, topic)[""][MAX_LAG].own is not None, "the option is known")
    before, replicas = options_of(kafka, topic), kafka.partition(topic)
    assert replicas is not None and replicas.leader == 3
    with watched(kafka, topic) as watch:
        code, told = run("repair", f"{topic}:0", "--yes", *more)
    assert code == 0, (told["error"], told["findings"], told["steps"])
    assert told["summary"]["rebuilt"] == 1 and told["summary"]["findings_left"] == 0
    steps = [each["what"] for each in told["steps"]]
    assert not any("it copies again" in step for step in steps), steps
    assert min(watch.in_sync) >= 2, "never below min.insync.replicas"
    gone = next(n for n, step in enumerate(steps) if "gives up its copy" in step)
    assert any("is elected" in step for step in steps[:gone]), "a right replica leads first"
    until(lambda: options_of(kafka, topic) == before, "every option is as it was")
    after = kafka.partition(topic)
    assert after is not None and after.replicas == replicas.replicas
    seen = seen_from_each(kafka, topic)
    assert {each.latest.get("k") for each in seen} == {TRUTH[kind]}
    assert len({each.position for each in seen}) == 1
    assert run("audit", topic, "--engine", "local")[0] == 0


def test_kill_9_while_a_replica_copies(
    kafka: ApacheKafka, topics: dict[str, str], run: Run, tmp_path: Path
) -> None:
    topic = topics["killed"]
    before = options_of(kafka, topic)
    killed_while_it_copies(kafka, topic, tmp_path / "notes.json")
    assert options_of(kafka, topic)[""][MIN_LAG].own == FOREVER
    code, told = run("repair", topic, "--yes")
    assert code == 0, (told["error"], told["findings"], told["steps"])
    assert told["summary"]["rebuilt"] == 1
    until(lambda: options_of(kafka, topic) == before, "every option is as it was")
    assert {each.latest.get("k") for each in seen_from_each(kafka, topic)} == {None}


def test_where_no_replica_is_right_a_person_decides(
    kafka: ApacheKafka, topics: dict[str, str], run: Run
) -> None:
    topic = topics["none-right"]
    before = kafka.partition(topic)
    code, told = run("repair", topic, "--yes")
    assert code == 1 and told["summary"]["to_rebuild"] == 0, told
    assert len(told["findings"]) == 2
    assert all("--publish-tombstone KEY" in each["remedy"] for each in told["findings"])
    assert kafka.partition(topic) == before  # nothing was chosen, and nothing done

    chosen = ["--publish-tombstone", "k", "--keep-value", "j", "--as-on", "1"]
    code, told = run("repair", topic, "--yes", *chosen)
    assert code == 0, (told["error"], told["findings"])
    for seen in seen_from_each(kafka, topic):
        assert seen.latest.get("j") == "1" and "k" not in seen.latest


# ── transactions ──


def abort(run: Run, topic: str, start: int, *more: str) -> tuple[int, dict[str, Any]]:
    where = ("--topic", topic, "--partition", "0", "--start-offset", str(start))
    return run("txn", "abort", *where, *more)


def test_what_was_committed_is_not_aborted(
    kafka: ApacheKafka, topics: dict[str, str], run: Run
) -> None:
    topic = topics["witness"]
    assert consumed(kafka.bootstrap_servers, topic).records == ()  # broker 3 leads, and waits
    code, told = run("txn", "explain", f"{topic}:0")
    assert code == 1
    assert {each["broker"]: each["knows"] for each in told["answers"]} == {
        1: "committed",
        2: "unknown",
        3: "open",
    }
    assert f"sexton repair {topic}:0" in told["findings"][0]["remedy"]
    code, told = abort(run, topic, 0)
    assert code == 1 and "were committed" in told["error"]["why"], told
    assert f"sexton repair {topic}:0" in told["error"]["hint"]
    assert consumed(kafka.bootstrap_servers, topic).records == ()  # nothing is hidden either

    # The negative control: what was acknowledged is hidden from now on, where broker 1 shows it.
    code, told = abort(run, topic, 0, "--force", "--yes")
    assert code == 0 and "were committed" in told["summary"]["lost"]
    until(
        lambda: consumed(kafka.bootstrap_servers, topic).latest.get("k") == "2", "consumers go on"
    )
    offsets = {}
    for node in (3, 1):
        kafka.elect(topic, 0, node)
        offsets[node] = [each.offset for each in consumed(kafka.bootstrap_servers, topic).records]
    assert 0 in offsets[1] and 0 not in offsets[3]


async def write_as_stranger(kafka: ApacheKafka, topic: str, age_ms: int) -> None:
    """A transactional record that nobody has announced: a transaction that will never end."""
    batch = few_batch(
        [(b"h", b"1")],
        time.time_ns() // 1_000_000 - age_ms,
        producer_id=STRANGER,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    async with Client(kafka.bootstrap_servers) as client:
        connection = await client.broker((await client.place(TopicPartition(topic, 0))).leader)
        request = ProduceRequest("stranger", -1, 10_000, [data])
        answer = await connection.ask(request, range(9, 12))
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            raise refused(code, "the stranger's record")


def is_open_everywhere(run: Run, topic: str) -> bool:
    _code, told = run("txn", "explain", f"{topic}:0")
    return [each["knows"] for each in told.get("answers", ())] == ["open"] * 3


def test_a_transaction_that_hangs_is_found_and_aborted(kafka: ApacheKafka, run: Run) -> None:
    topic = "hangs"
    kafka.create_topic(topic, [[1, 2, 3]], {"cleanup.policy": "compact"})
    asyncio.run(write_as_stranger(kafka, topic, age_ms=16 * 60_000))
    until(lambda: is_open_everywhere(run, topic), "all replicas have it")
    code, told = run("txn", "find-hanging", "--topic", topic)
    assert code == 1 and [each["ended"] for each in told["transactions"]] == ["hanging"]
    assert consumed(kafka.bootstrap_servers, topic).position == 0
    assert abort(run, topic, 0)[0] == 0
    until(lambda: consumed(kafka.bootstrap_servers, topic).position == 2, "consumers go on")
    assert consumed(kafka.bootstrap_servers, topic).records == ()


def test_an_unknown_producer_is_given_the_time_that_the_cluster_allows(
    kafka: ApacheKafka, run: Run
) -> None:
    """Its coordinator may be one that we may not see: only age can tell."""
    topic = "young"
    kafka.create_topic(topic, [[1, 2, 3]], {"cleanup.policy": "compact"})
    asyncio.run(write_as_stranger(kafka, topic, age_ms=14 * 60_000))
    until(lambda: is_open_everywhere(run, topic), "all replicas have it")
    assert run("txn", "explain", f"{topic}:0")[0] == 0, "it may end by itself"
    code, told = run("txn", "find-hanging", "--topic", topic)
    assert code == 0 and not told["transactions"]
    code, told = run("txn", "find-hanging", "--topic", topic, "--max-transaction-timeout", "13")
    assert code == 1 and [each["ended"] for each in told["transactions"]] == ["hanging"]
    code, told = abort(run, topic, 0)
    assert code == 1 and "less than 15 minutes ago" in told["error"]["why"]
    assert abort(run, topic, 0, "--force", "--yes")[0] == 0


# ── an older Kafka ──


@pytest.mark.soak
def test_kafka_3_9_is_healed_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ApacheKafka(KafkaConfig(KAFKA_3_9, nodes=3, options=APACHE_KAFKA_OPTIONS)) as kafka:
        damage = Damage(kafka, tmp_path / "images", ("deleted", "stuck"))
        damage.make()
        for kind, topic in damage.topics().items():
            capsys.readouterr()
            where = ["-b", kafka.bootstrap_servers, "--state", str(tmp_path / "notes.json")]
            assert main(["repair", topic, *where, "--yes", "--format", "json"]) == 0
            assert json.loads(capsys.readouterr().out)["summary"]["rebuilt"] == 1
            seen = seen_from_each(kafka, topic)
            assert {each.latest.get("k") for each in seen} == {TRUTH[kind]}
            assert len({each.position for each in seen}) == 1
