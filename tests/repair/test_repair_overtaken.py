"""A repair was interrupted, and meanwhile its topic was moved, deleted, or made again.

Nothing that it has set may be left behind: neither the topic frozen nor brokers throttled.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sexton.base.partitions import TopicPartition
from sexton.cli.main import main
from sexton.client.client import Client
from sexton.client.config_changes import BROKER, TOPIC, OptionValue, alter, described
from sexton.client.topology import Topology
from sexton.guard import repair_options
from sexton.guard.repair import Repair
from sexton.guard.repair_notes import Held, Notes, NotesFile, default_path
from sexton.guard.repair_options import THROTTLED_RATES, HeldOptions
from sexton.machines.guard_notes import FOREVER, MIN_LAG
from sexton.machines.repair import Job
from sexton.testing.embedded import EmbeddedCluster

RATE = THROTTLED_RATES[0]
OTHER = "ff" * 16  # the id of a topic that was there
THROTTLED = Held(BROKER, "1", RATE, None, "1000")
Run = Callable[..., tuple[int, dict[str, Any]]]
Changed = list[tuple[tuple[int, str], list[tuple[str, str | None]]]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3) as started:
        yield started


@pytest.fixture
def file(tmp_path: Path) -> NotesFile:
    return NotesFile(tmp_path / "notes.json")


@pytest.fixture
def run(cluster: EmbeddedCluster, file: NotesFile, capsys: pytest.CaptureFixture[str]) -> Run:
    def repair(topic: str, *more: str) -> tuple[int, dict[str, Any]]:
        where = ["-b", cluster.bootstrap_servers, "--state", str(file.path)]
        code = main(["repair", topic, "--yes", *where, "--format", "json", *more])
        return code, json.loads(capsys.readouterr().out)

    return repair


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Changed:
    """What was changed of brokers: those of the embedded cluster have no throttle of their own."""
    changes: Changed = []

    async def seen(client, place, names, node=None):  # type: ignore[no-untyped-def]
        if place[0] == BROKER:
            return {RATE: OptionValue("1000", "1000")}
        return await described(client, place, names, node)

    async def change(client, place, some):  # type: ignore[no-untyped-def]
        if place[0] == BROKER:
            changes.append((place, list(some)))
        else:
            await alter(client, place, some)

    monkeypatch.setattr(repair_options, "described", seen)
    monkeypatch.setattr(repair_options, "alter", change)
    return changes


def own_lag(cluster: EmbeddedCluster, topic: str) -> str | None:
    async def ask() -> str | None:
        async with Client(cluster.bootstrap_servers) as client:
            return (await described(client, (TOPIC, topic), [MIN_LAG]))[MIN_LAG].own

    return asyncio.run(ask())


def begun(
    cluster: EmbeddedCluster, topic: str, *options: Held, topic_id: str | None = None
) -> Notes:
    """Notes of a repair that was to rebuild the copy on broker 3."""

    async def ask() -> Notes:
        async with Client(cluster.bootstrap_servers) as client:
            topology = await client.topology([topic])
            known = topic_id or topology.topic(topic).topic_id.hex()
            job = Job(TopicPartition(topic, 0), (1, 3), (3,), (1,), 1)
            return Notes(topology.cluster_id or "", topic, known, 0, options, (job,))

    return asyncio.run(ask())


def test_what_was_assigned_to_others_is_judged_anew_and_not_left_frozen(
    cluster: EmbeddedCluster, run: Run, file: NotesFile
) -> None:
    """Who removes the notes instead loses what was set before."""
    frozen = {"cleanup.policy": "compact", MIN_LAG: FOREVER}
    cluster.create_topic("moved", [[1, 2]], frozen)
    file.write(begun(cluster, "moved", Held(TOPIC, "moved", MIN_LAG, "7", FOREVER)))
    code, told = run("moved", "--dry-run")
    assert code == 1 and own_lag(cluster, "moved") == FOREVER and file.path.exists()
    code, told = run("moved")
    assert code == 0, told
    assert own_lag(cluster, "moved") == "7"
    assert not file.path.exists()


def test_a_topic_that_was_made_again_is_another_one(
    cluster: EmbeddedCluster, run: Run, file: NotesFile, changed: Changed
) -> None:
    """What was set on the old one is gone with it; what was set on brokers is not."""
    cluster.create_topic("again", [[1, 2]], {"cleanup.policy": "compact", MIN_LAG: "9"})
    old = Held(TOPIC, "again", MIN_LAG, "7", FOREVER)
    file.write(begun(cluster, "again", old, THROTTLED, topic_id=OTHER))
    assert run("again", "--dry-run")[0] == 0
    assert not changed and file.path.exists()
    code, told = run("again")
    assert code == 0, told
    assert changed == [((BROKER, "1"), [(RATE, None)])]
    assert own_lag(cluster, "again") == "9"
    assert not file.path.exists()


def test_of_a_topic_that_is_deleted_nothing_stays_on_brokers(
    cluster: EmbeddedCluster, run: Run, file: NotesFile, changed: Changed
) -> None:
    file.write(begun(cluster, "deleted", THROTTLED, topic_id=OTHER))
    code, told = run("deleted", "--dry-run")
    assert code == 0 and not changed and file.path.exists()
    code, told = run("deleted")
    assert code == 0, told
    assert changed == [((BROKER, "1"), [(RATE, None)])]
    assert not file.path.exists()
    code, told = run("deleted")
    assert code == 2 and "no such topic" in told["error"]["why"]


def test_notes_of_another_repair_are_not_gone_on_with(
    cluster: EmbeddedCluster, run: Run, file: NotesFile, changed: Changed
) -> None:
    """The topic that is named would be audited, and that of the notes set free without."""
    frozen = {"cleanup.policy": "compact", MIN_LAG: FOREVER}
    cluster.create_topic("begun", [[1, 2]], frozen)
    cluster.create_topic("named", [[1, 2]], {"cleanup.policy": "compact"})
    notes = begun(cluster, "begun", Held(TOPIC, "begun", MIN_LAG, "7", FOREVER))
    file.write(notes)
    for more in ([], ["--dry-run"]):
        code, told = run("named", *more)
        assert code == 2
        assert told["error"]["why"] == "has the notes of a repair of begun"
        assert "`sexton repair begun`" in told["error"]["hint"]
    assert own_lag(cluster, "begun") == FOREVER and file.read() == notes
    file.write(replace(notes, cluster_id="elsewhere"))
    code, told = run("begun")
    assert code == 2 and "in the cluster elsewhere, not" in told["error"]["why"]
    assert "-b" in told["error"]["hint"]
    assert not changed


def test_the_next_repair_of_another_topic_tells_of_it(
    cluster: EmbeddedCluster, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody repairs a topic that is not there, and its throttle would stay for good."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    notes = begun(cluster, "vanished", THROTTLED, topic_id=OTHER)
    left = default_path(notes.cluster_id, "vanished")
    with NotesFile(left) as file:
        file.write(notes)
    cluster.create_topic("fine", [[1, 2]], {"cleanup.policy": "compact"})
    code, told = run("fine")
    assert code == 0, "it is about another topic"
    (finding,) = told["findings"]
    assert (finding["where"], finding["severity"]) == ("vanished", "note")
    assert "sexton repair vanished" in finding["remedy"]
    assert left.exists()


def test_a_broker_that_has_not_heard_of_the_topic_does_not_end_its_repair(
    cluster: EmbeddedCluster, file: NotesFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("there", [[1, 2]])
    notes = begun(cluster, "there")
    by_one = Client.topology_by

    async def late(self: Client, node: int, topics: list[str]) -> Topology:
        return await by_one(self, node, [] if node == 1 else topics)

    async def is_gone(notes: Notes) -> bool:
        async with Client(cluster.bootstrap_servers) as client:
            return await Repair(client, file, notes).is_gone()

    monkeypatch.setattr(Client, "topology_by", late)
    assert not asyncio.run(is_gone(notes))
    other = Notes(notes.cluster_id, "there", OTHER, 0)
    assert asyncio.run(is_gone(other)), "the control: all others know another one"


# ── it goes on with another throttle ──


def test_who_goes_on_with_another_throttle_leaves_none_behind(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy did not catch up: it is stopped, and run again with a higher rate. What is found
    then is our own first rate, and nothing to be put back."""
    rates: dict[str, str | None] = dict.fromkeys(THROTTLED_RATES, None)
    rates[RATE] = "5000000"  # an operator's

    async def seen(client, place, names, node=None):  # type: ignore[no-untyped-def]
        if place[0] == BROKER:
            return {name: OptionValue(rates[name], rates[name]) for name in names}
        return await described(client, place, names, node)

    async def change(client, place, some):  # type: ignore[no-untyped-def]
        if place[0] == BROKER:
            rates.update(some)
        else:
            await alter(client, place, some)

    async def throttle_twice(notes: Notes) -> None:
        async with Client(cluster.bootstrap_servers) as client:
            held = HeldOptions(client, notes, lambda _notes: None)
            await held.throttle([1], 1000)
            again = HeldOptions(client, held.notes, lambda _notes: None)
            await again.throttle([1], 2000)
            assert {*rates.values()} == {"2000"}
            assert await again.release() == []

    monkeypatch.setattr(repair_options, "described", seen)
    monkeypatch.setattr(repair_options, "alter", change)
    cluster.create_topic("slow", [[1, 2]], {"cleanup.policy": "compact"})
    asyncio.run(throttle_twice(begun(cluster, "slow")))
    assert rates == {**dict.fromkeys(THROTTLED_RATES, None), RATE: "5000000"}


# ── a broker that was throttled is not up ──


def all_but_released(cluster: EmbeddedCluster, topic: str) -> Notes:
    """All is rebuilt, and what was set is to be put back, on broker 9, too."""
    rate, frozen = Held(BROKER, "9", RATE, None, "1000"), Held(TOPIC, topic, MIN_LAG, "7", FOREVER)
    notes = begun(cluster, topic, rate, frozen)
    return replace(notes, jobs=tuple(replace(job, done=True) for job in notes.jobs))


def test_a_broker_that_was_replaced_does_not_keep_a_repair_from_its_end(
    cluster: EmbeddedCluster, run: Run, file: NotesFile
) -> None:
    """It will never say what is set on it."""
    frozen = {"cleanup.policy": "compact", MIN_LAG: FOREVER}
    cluster.create_topic("replaced", [[1, 2]], frozen)
    file.write(all_but_released(cluster, "replaced"))
    code, told = run("replaced")
    assert code == 0, told
    assert own_lag(cluster, "replaced") == "7" and not file.path.exists()


def test_a_broker_that_is_down_keeps_its_note_and_not_the_topic_frozen(
    cluster: EmbeddedCluster, run: Run, file: NotesFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a replica of the topic, and so will be back."""
    frozen = {"cleanup.policy": "compact", MIN_LAG: FOREVER}
    cluster.create_topic("awaited", [[1, 2]], frozen)
    file.write(all_but_released(cluster, "awaited"))

    async def is_awaited(_: HeldOptions, node: int) -> bool:
        return node == 9

    monkeypatch.setattr(HeldOptions, "_is_awaited", is_awaited)
    code, told = run("awaited")
    assert code == 1 and told["error"]["subject"] == "broker 9", told
    assert own_lag(cluster, "awaited") == "7"
    notes = file.read()
    assert notes is not None and [each.name for each in notes.options] == ["9"]


@pytest.mark.parametrize(
    ("up", "awaited"), [((1, 2, 3), [True, True, False]), ((1,), [True, False, False])]
)
def test_a_broker_is_awaited_if_it_is_up_or_has_a_replica(
    cluster: EmbeddedCluster,
    up: tuple[int, ...],
    awaited: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = f"waits-{len(up)}"
    cluster.create_topic(topic, [[1, 2]])
    by_any = Client.topology

    async def some_are_down(self: Client, topics: list[str]) -> Topology:
        found = await by_any(self, topics)
        return replace(found, brokers={node: found.brokers[node] for node in up})

    async def ask(servers: str) -> list[bool]:
        async with Client(servers) as client:
            monkeypatch.setattr(Client, "topology", some_are_down)
            held = HeldOptions(client, Notes("cluster", topic, "id", 0), lambda _notes: None)
            return [await held._is_awaited(node) for node in (2, 3, 9)]

    assert asyncio.run(ask(cluster.bootstrap_servers)) == awaited
