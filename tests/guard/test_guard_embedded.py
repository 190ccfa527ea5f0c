"""The guard beside a cluster that forgets by timers, as Apache Kafka does."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.broker import logs
from sexton.client.config_changes import BROKER, DescribedOptions, alter
from sexton.client.roving import RovingClient
from sexton.guard import daemon
from sexton.guard.daemon import QUIET_ROUNDS, Daemon
from sexton.guard.memory import TOPIC as MEMORY
from sexton.guard.memory import MemoryTopic
from sexton.guard.panic import DEFAULT_MIN, recalled
from sexton.lab.divergences import EMBEDDED_OPTIONS
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Hold
from sexton.machines.guard_watched import Watched
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.conftest import RunSexton
from tests.guard.harness import RunningGuard, options_of

COMPACTED = {"cleanup.policy": "compact", MAX_LAG: 7_200_000}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        compaction="independent", options=EMBEDDED_OPTIONS, frozen_clock=True
    ) as embedded:
        yield embedded


@pytest.mark.parametrize(
    ("seed", "actions"),
    [(7, 14), *(pytest.param(seed, 80, marks=pytest.mark.soak) for seed in range(1, 6))],
)
def test_guards_and_brokers_come_and_go_and_every_option_is_as_before(
    seed: int, actions: int, cluster: EmbeddedCluster
) -> None:
    """Guards end between any two requests, as by kill -9; at times there are two, or none."""
    rng = random.Random(seed)
    servers = cluster.bootstrap_servers
    topics = {"plain": {}, "both": {MIN_LAG: 1_000, MAX_LAG: 60_000}, "min": {MIN_LAG: 5}}
    for topic, more in topics.items():
        cluster.create_topic(topic, [[1, 2, 3], [2, 3, 1]], {"cleanup.policy": "compact", **more})
    before = {topic: options_of(servers, topic) for topic in topics}
    guards = [RunningGuard(servers).__enter__()]
    guards[0].catch_up()
    down: int | None = None
    froze = 0
    for _ in range(actions):
        match rng.randrange(3):
            case 0 if down is None:
                down = rng.choice((1, 2, 3))
                cluster.kill(down)
            case 0 if down is not None:
                cluster.restart(down)
                down = None
            case 1 if guards:
                guards.pop(rng.randrange(len(guards))).kill()
            case _:
                guards.append(RunningGuard(servers).__enter__())
        if guards and rng.random() < 0.6:
            guards[0].catch_up(rng.randrange(1, 4))
        froze += any(guard.status().frozen for guard in guards)
    assert froze, "nothing was ever frozen: this proves nothing"
    if down is not None:
        cluster.restart(down)
    for guard in guards:
        guard.__exit__()
    assert run_audited(servers), "replicas that were away while nobody looked were looked at"
    with RunningGuard(servers) as guard:
        until(lambda: all(guard.state_of(topic) == "free" for topic in topics), "all are free")
        assert {topic: options_of(servers, topic) for topic in topics} == before


def run_audited(servers: str) -> bool:
    from sexton.cli.main import main

    return main(["guard", "thaw", "--all", "--audited", "-b", servers]) in (0, 1, 3)


# ── the commands ──


@pytest.fixture
def orders(cluster: EmbeddedCluster) -> EmbeddedCluster:
    cluster.create_topic("orders", [[1, 2, 3]], COMPACTED)
    cluster.create_topic("alone", [[1]], {"cleanup.policy": "compact"})
    cluster.create_topic("events", [[1, 2, 3]], {"cleanup.policy": "delete"})
    return cluster


FILL_BYTES = 100_000


def fill(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(100):
        producer.produce(topic, b"x" * (FILL_BYTES // 100), str(number).encode())
    assert producer.flush(60) == 0


async def is_held(servers: str, topic: str) -> bool:
    """Is it noted that somebody wants this very topic to be frozen?"""
    async with RovingClient(servers) as client:
        topic_id = (await client.topology([topic])).topic(topic).topic_id.hex()
        hold = (await recalled(MemoryTopic(client))).holds[topic]
        return hold.held and hold.topic_id == topic_id


def test_by_hand_and_back(run_sexton: RunSexton, orders: EmbeddedCluster) -> None:
    reach = ("-b", orders.bootstrap_servers, "--format", "json")
    before = options_of(orders.bootstrap_servers, "orders")
    frozen = run_sexton("guard", "freeze", "orders", *reach)
    assert frozen.code == 0, frozen.stderr
    assert options_of(orders.bootstrap_servers, "orders")[MIN_LAG].own == FOREVER
    assert asyncio.run(is_held(orders.bootstrap_servers, "orders"))
    status = run_sexton("guard", "status", *reach).json
    (row,) = [row for row in status["topics"] if row["topic"] == "orders"]
    assert (row["state"], row["why"]) == ("frozen", "frozen by hand")
    assert (row["previous_min"], row["previous_max"]) == ("not set", "7200000")
    assert {row["topic"] for row in status["topics"]} == {"orders", "alone", "_sexton_guard"}
    orders.create_topic("other", [[1, 2, 3]], COMPACTED)  # one that is not held
    fill(orders.bootstrap_servers, "orders")
    status = run_sexton("guard", "status", *reach).json
    held_back = {row["topic"]: row["held_back_bytes"] for row in status["topics"]}
    assert 3 * FILL_BYTES < held_back["orders"] < 4 * FILL_BYTES, "on three brokers"
    assert held_back["other"] is None
    assert [row["broker"] for row in status["disks"]] == [1, 2, 3]
    assert all(row["held_growth_bytes_per_s"] > 0 for row in status["disks"])
    thawed = run_sexton("guard", "thaw", "orders", *reach)
    assert thawed.code == 0, thawed.stderr
    assert options_of(orders.bootstrap_servers, "orders") == before


def test_of_what_is_not_held_it_is_said_that_there_was_nothing_to_set_back(
    run_sexton: RunSexton, orders: EmbeddedCluster
) -> None:
    reach = ("-b", orders.bootstrap_servers)

    def told(*words: str) -> str:
        answer = run_sexton("guard", "thaw", *words, *reach)
        assert answer.code == 0, answer.stderr
        return answer.stdout

    nothing = ": there was nothing to set back.\n"
    assert f"events is not held{nothing}" in told("events")
    assert f"events, orders are not held{nothing}" in told("orders", "events")
    assert f"no topic is held{nothing}" in told("--all")
    assert run_sexton("guard", "freeze", "orders", *reach).code == 0
    assert f"\nevents is not held{nothing}" in told("orders", "events")


def test_all_are_those_that_can_be_frozen(run_sexton: RunSexton, orders: EmbeddedCluster) -> None:
    """A topic with one replica is no reason to call it incomplete."""
    servers = orders.bootstrap_servers
    frozen = run_sexton("guard", "freeze", "--all", "-b", servers, "--format", "json")
    assert frozen.code == 0, frozen.stderr
    states = {row["topic"]: row["state"] for row in frozen.json["topics"]}
    assert (states["orders"], states["alone"]) == ("frozen", "free")
    assert options_of(servers, "orders")[MIN_LAG].own == FOREVER


def test_what_somebody_unfroze_is_frozen_again_by_hand(
    run_sexton: RunSexton, orders: EmbeddedCluster
) -> None:
    """As the runbook says of guard-drift."""
    servers = orders.bootstrap_servers
    assert run_sexton("guard", "freeze", "orders", "-b", servers).code == 0
    orders.alter_topic("orders", {MIN_LAG: 5})
    again = run_sexton("guard", "freeze", "orders", "-b", servers)
    assert again.code == 0, again.stderr
    assert options_of(servers, "orders")[MIN_LAG].own == FOREVER


def test_a_guard_that_sees_no_topic_says_so(
    run_sexton: RunSexton, cluster: EmbeddedCluster
) -> None:
    """There may be none, or its user may see none: then nothing is guarded, and all looks well."""
    words = ("guard", "run", "--once", "-b", cluster.bootstrap_servers, "--format", "json")
    for _ in range(2):  # before there is a memory, and beside one
        answer = run_sexton(*words)
        assert [each["code"] for each in answer.json["findings"]] == ["guard-sees-nothing"]
        assert answer.code == 1
    cluster.create_topic("events", [[1, 2, 3]], {"cleanup.policy": "delete"})
    answer = run_sexton(*words)
    assert (answer.json["findings"], answer.code) == ([], 0)


def test_maintenance_does_not_call_frozen_what_somebody_unfroze(
    run_sexton: RunSexton, orders: EmbeddedCluster
) -> None:
    servers = orders.bootstrap_servers
    assert run_sexton("guard", "freeze", "orders", "-b", servers).code == 0
    orders.alter_topic("orders", {MIN_LAG: 5})
    begun = run_sexton("guard", "maintenance", "--for", "2h", "-b", servers, "--format", "json")
    (row,) = [row for row in begun.json["topics"] if row["topic"] == "orders"]
    is_frozen = options_of(servers, "orders")[MIN_LAG].own == FOREVER
    assert is_frozen == (row["state"] == "frozen")
    assert is_frozen or begun.code != 0, "brokers would be restarted now"


def test_nor_what_brokers_do_not_agree_about(
    run_sexton: RunSexton, orders: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is cut off from its controller: nothing is noted by what it alone says."""
    servers = orders.bootstrap_servers
    monkeypatch.setattr(Watched, "agreement", lambda _watched: None)
    monkeypatch.setattr(daemon, "MOST_ROUNDS", 3)
    begun = run_sexton("guard", "maintenance", "--for", "2h", "-b", servers)
    assert options_of(servers, "orders")[MIN_LAG].own != FOREVER
    assert begun.code == 3 and "orders: is free" in begun.stderr, begun.stderr
    assert "alone" not in begun.stderr and "events" not in begun.stderr


def test_one_that_runs_once_tells_what_it_could_not_freeze(
    run_sexton: RunSexton, orders: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = orders.bootstrap_servers
    orders.kill(3)
    orders.wait_for("orders", 0, lambda state: 3 not in state.isr)
    with monkeypatch.context() as broken:
        broken.setattr(Watched, "agreement", lambda _watched: None)
        broken.setattr(daemon, "MOST_ROUNDS", 3)
        ended = run_sexton("guard", "run", "--once", "-b", servers)
    assert options_of(servers, "orders")[MIN_LAG].own != FOREVER
    assert ended.code == 3 and "orders: is free, and a replica is away" in ended.stderr, ended
    assert "and a replica is away" not in run_sexton("guard", "run", "--once", "-b", servers).stderr
    assert options_of(servers, "orders")[MIN_LAG].own == FOREVER


def test_what_was_not_set_back_is_not_said_to_be(
    run_sexton: RunSexton, orders: EmbeddedCluster
) -> None:
    """Somebody was killed right after the note that says so, and may have been about to do it."""
    servers = orders.bootstrap_servers
    assert run_sexton("guard", "freeze", "orders", "-b", servers).code == 0

    async def say() -> None:
        async with RovingClient(servers) as client:
            topic = MemoryTopic(client)
            entry = (await recalled(topic)).in_force("orders")
            assert entry is not None
            now_ms = time.time_ns() // 1_000_000
            note = replace(
                entry.note, state="thawing", by="another", at_ms=now_ms, seen=entry.newest
            )
            await topic.remember([Hold("orders", False, now_ms), note])

    asyncio.run(say())
    for command in (("thaw", "orders"), ("maintenance", "--off")):
        ended = run_sexton("guard", *command, "-b", servers)
        assert options_of(servers, "orders")[MIN_LAG].own == FOREVER
        assert ended.code == 3 and "is not set back yet" in ended.stderr, ended.stderr


def test_what_makes_no_sense_is_refused(run_sexton: RunSexton, orders: EmbeddedCluster) -> None:
    reach = ("-b", orders.bootstrap_servers)
    for topic, why in (("nope", "no such topic"), ("events", "not compacted"), ("alone", "one")):
        answer = run_sexton("guard", "freeze", topic, *reach)
        assert answer.code == 2 and why in answer.stderr, answer.stderr
    assert run_sexton("guard", "freeze", *reach).code == 2
    assert run_sexton("guard", "maintenance", *reach).code == 2
    assert run_sexton("guard", "maintenance", "--for", "soon", *reach).code == 2
    assert run_sexton("guard", "maintenance", "--for", "0s", *reach).code == 2
    assert run_sexton("guard", "panic", "--off", *reach).code == 2
    assert run_sexton("guard", "thaw", "nope", *reach).code == 2
    assert run_sexton("guard", "thaw", "orders", "nope", "--audited", *reach).code == 2
    assert MEMORY not in names(orders), "nothing was changed"


def test_where_nobody_ever_guarded_there_is_nothing_to_take_back(
    run_sexton: RunSexton, orders: EmbeddedCluster
) -> None:
    before = options_of(orders.bootstrap_servers, "orders")
    for command in (("thaw", "orders"), ("thaw", "--all"), ("maintenance", "--off")):
        answer = run_sexton("guard", *command, "-b", orders.bootstrap_servers)
        assert answer.code == 0, answer.stderr
        assert MEMORY not in names(orders)
    assert options_of(orders.bootstrap_servers, "orders") == before


def names(cluster: EmbeddedCluster) -> set[str]:
    async def ask() -> set[str]:
        async with RovingClient(cluster.bootstrap_servers) as client:
            return {*(await client.topology()).topics}

    return asyncio.run(ask())


def test_a_plan_changes_nothing_and_once_does_it(
    run_sexton: RunSexton, orders: EmbeddedCluster
) -> None:
    orders.kill(3)
    orders.wait_for("orders", 0, lambda state: 3 not in state.isr)
    reach = ("-b", orders.bootstrap_servers, "--format", "json")
    plan = run_sexton("guard", "plan", *reach).json
    assert [(step["topic"], step["step"]) for step in plan["steps"]] == [("orders", "freeze")]
    assert options_of(orders.bootstrap_servers, "orders")[MIN_LAG].own is None
    assert run_sexton("guard", "run", "--once", *reach).code == 1, (
        "nobody knows how long it is away"
    )
    assert options_of(orders.bootstrap_servers, "orders")[MIN_LAG].own == FOREVER
    refused = run_sexton("guard", "thaw", "orders", *reach)
    assert refused.code == 1 and "stays frozen" in refused.stderr
    forced = run_sexton("guard", "thaw", "orders", "--force", *reach)
    assert options_of(orders.bootstrap_servers, "orders")[MIN_LAG].own is None, forced.stderr


@pytest.mark.parametrize(
    ("replicas", "policy"), [([1, 2, 3], "delete"), ([1, 2, 3], "compact,delete"), ([1], "compact")]
)
def test_a_memory_that_forgets_is_named(
    run_sexton: RunSexton, orders: EmbeddedCluster, replicas: list[int], policy: str
) -> None:
    """Made by hand, or by a broker that makes topics by itself. When a note is gone nobody knows
    what was set before, and what is frozen stays so."""
    orders.create_topic("_sexton_guard", [replicas], {"cleanup.policy": policy})
    reach = ("-b", orders.bootstrap_servers, "--format", "json")
    once = run_sexton("guard", "run", "--once", *reach)
    (finding,) = [each for each in once.json["findings"] if each["code"] == "guard-forgets"]
    assert once.code == 1 and finding["where"] == "_sexton_guard"
    assert ("cleanup.policy" in finding["remedy"]) is (policy != "compact")
    status = run_sexton("guard", "status", *reach)
    assert "guard-forgets" in {each["code"] for each in status.json["findings"]}


def test_a_memory_that_a_guard_made_keeps_its_notes(
    run_sexton: RunSexton, orders: EmbeddedCluster
) -> None:
    once = run_sexton("guard", "run", "--once", "-b", orders.bootstrap_servers, "--format", "json")
    assert once.code == 0, once.stderr
    assert "guard-forgets" not in {each["code"] for each in once.json["findings"]}


def test_a_topic_whose_options_may_not_be_seen_is_not_said_to_be_missing(
    run_sexton: RunSexton, orders: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_client: object, names: list[str], _options: object) -> DescribedOptions:
        error = Refused(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed")
        return DescribedOptions({}, dict.fromkeys(names, error))

    monkeypatch.setattr("sexton.guard.eyes.describe_topics", refused)
    frozen = run_sexton("guard", "freeze", "orders", "-b", orders.bootstrap_servers)
    assert frozen.code == 1
    assert "error: topic orders: its options cannot be seen: Topic authorization" in frozen.stderr
    assert "allow DescribeConfigs" in frozen.stderr


def test_each_note_and_each_change_is_in_the_log_however_many_topics_there_are(
    run_sexton: RunSexton, cluster: EmbeddedCluster
) -> None:
    """Should the memory be lost with a disk, the log alone tells what was set before."""
    topics = [f"table-{number:02}" for number in range(2 * logs.MOST_LINES)]
    for number, topic in enumerate(topics):
        cluster.create_topic(topic, [[1, 2, 3]], {"cleanup.policy": "compact", MIN_LAG: number})
    cluster.kill(3)
    for topic in topics:
        cluster.wait_for(topic, 0, lambda state: 3 not in state.isr)
    reach = ("-b", cluster.bootstrap_servers, "--log-format", "json")
    said = run_sexton("guard", "run", "--once", *reach).stderr
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    noted = {each["topic"]: each["previous_min"] for each in lines if "previous_min" in each}
    assert noted == {topic: str(number) for number, topic in enumerate(topics)}
    froze = {each["topic"] for each in lines if each["message"] == "freeze"}
    assert froze == set(topics)


def test_a_topic_that_was_just_set_back_is_seen_at_a_glance_when_it_is_to_be_frozen_again(
    run_sexton: RunSexton, orders: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who only looks makes no note, and need not wait for what would come of it."""
    reach = ("-b", orders.bootstrap_servers, "--format", "json")
    assert run_sexton("guard", "freeze", "orders", *reach).code == 0
    assert run_sexton("guard", "thaw", "orders", *reach).code == 0
    orders.kill(3)
    orders.wait_for("orders", 0, lambda state: 3 not in state.isr)
    rounds = []
    whole = Daemon.round

    async def counted(daemon: Daemon) -> bool:
        rounds.append(daemon)
        return await whole(daemon)

    monkeypatch.setattr(Daemon, "round", counted)
    status = run_sexton("guard", "status", *reach).json
    states = {each["topic"]: each["state"] for each in status["topics"]}
    assert states["orders"] == "set back"
    assert len(rounds) <= 2 * QUIET_ROUNDS
    (step,) = [
        each for each in run_sexton("guard", "plan", *reach).json["steps"]
        if each["topic"] == "orders"
    ]  # fmt: skip
    assert step["step"] == "freeze"
    assert step["min_compaction_lag_ms"] == f"not set → {FOREVER}"
    assert step["max_compaction_lag_ms"] == f"7200000 → {FOREVER}"


def test_maintenance_freezes_all_and_panic_the_default(
    run_sexton: RunSexton, orders: EmbeddedCluster
) -> None:
    servers = orders.bootstrap_servers
    before = options_of(servers, "orders")
    assert run_sexton("guard", "maintenance", "--for", "2h", "-b", servers).code == 0
    assert options_of(servers, "orders")[MIN_LAG].own == FOREVER
    assert run_sexton("guard", "maintenance", "--off", "-b", servers).code == 0
    assert options_of(servers, "orders") == before
    orders.create_topic("own", [[1, 2, 3]], {"cleanup.policy": "compact", MIN_LAG: 5})
    panic = run_sexton("guard", "panic", "--yes", "-b", servers, "--format", "json")
    assert panic.code == 1
    assert [finding["where"] for finding in panic.json["findings"]] == ["own"]
    assert options_of(servers, "orders")[MIN_LAG].value == FOREVER
    again = run_sexton("guard", "panic", "--yes", "-b", servers)
    assert again.code == 1, "the first note counts"
    assert run_sexton("guard", "panic", "--off", "-b", servers).code == 0
    assert options_of(servers, "orders") == before


def test_a_broker_with_a_default_of_its_own_goes_on_and_is_named(
    run_sexton: RunSexton, orders: EmbeddedCluster
) -> None:
    """What is set on one broker goes before what is set on all."""
    servers = orders.bootstrap_servers

    async def set_on_broker() -> None:
        async with RovingClient(servers) as client:
            await alter(client, (BROKER, "2"), [(DEFAULT_MIN, "5")])

    asyncio.run(set_on_broker())
    panic = run_sexton("guard", "panic", "--yes", "-b", servers, "--format", "json")
    assert panic.code == 1
    (finding,) = panic.json["findings"]
    assert (finding["code"], finding["where"]) == ("guard-panic-misses", "broker 2")
    assert finding["evidence"] == {DEFAULT_MIN.replace(".", "_"): "5"}
    assert run_sexton("guard", "panic", "--off", "-b", servers).code == 0
