"""A guard that doubts a replica holds its topic; a repair that finds all well sets it free."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.cli.main import main
from sexton.client.client import Client
from sexton.client.topology import Topology
from sexton.guard.memory import MemoryTopic
from sexton.guard.repair_doubts import Doubted, doubted, settle
from sexton.lab.divergences import EMBEDDED_OPTIONS
from sexton.machines.guard_health import LEADER_CHANGED
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Doubt, Lags, Note
from sexton.survey import assigned
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.guard.harness import QUICK, RunningGuard, options_of
from tests.repair.stages import stage

PREVIOUS = {MIN_LAG: "7", MAX_LAG: "86400000"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        compaction="independent", options=EMBEDDED_OPTIONS, frozen_clock=True
    ) as started:
        yield started


def set_on(cluster: EmbeddedCluster, topic: str) -> dict[str, str | None]:
    found = options_of(cluster.bootstrap_servers, topic)
    return {name: found[name].own for name in (MIN_LAG, MAX_LAG)}


def doubts(guard: RunningGuard, topic: str) -> list[str]:
    return [
        finding.message
        for finding in guard.status().findings
        if finding.code == "guard-doubt" and finding.where.startswith(topic)
    ]


def put_in_doubt(cluster: EmbeddedCluster, guard: RunningGuard, topic: str) -> None:
    """Broker 3 is back and wants to copy, and meanwhile another leader is elected."""
    cluster.kill(3)
    cluster.wait_for(topic, 0, lambda state: 3 not in state.isr)
    until(lambda: set_on(cluster, topic)[MIN_LAG] == FOREVER, "the guard freezes it")
    for other in (1, 2):
        cluster.cut(3, other)
    cluster.restart(3)
    guard.catch_up()
    cluster.elect(topic, 0, 2)
    guard.catch_up()
    cluster.heal()
    cluster.wait_for(topic, 0, lambda state: len(state.isr) == 3)
    until(lambda: doubts(guard, topic) == [f"this replica {LEADER_CHANGED}"], "the guard doubts it")


def repair(
    cluster: EmbeddedCluster,
    topic: str,
    state: Path,
    capsys: pytest.CaptureFixture[str],
    *more: str,
) -> tuple[int, dict[str, Any]]:
    where = ["-b", cluster.bootstrap_servers, "--state", str(state)]
    capsys.readouterr()
    code = main(["repair", topic, *where, "--format", "json", *more])
    return code, json.loads(capsys.readouterr().out)


def test_a_doubt_is_settled_by_a_repair_that_finds_all_well(
    cluster: EmbeddedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = stage(cluster, "doubted")
    cluster.alter_topic(at.topic, PREVIOUS)
    at.write("k", "1")
    config = replace(QUICK, only=frozenset({at.topic}))
    state = tmp_path / "notes.json"
    with RunningGuard(cluster.bootstrap_servers, config) as guard:
        guard.catch_up()
        put_in_doubt(cluster, guard, at.topic)

        # The negative control: left to itself, and looked at without consent, it stays frozen.
        code, told = repair(cluster, at.topic, state, capsys, "--dry-run")
        assert code == 0 and "guard_told" not in told["summary"]
        guard.catch_up(20)
        assert set_on(cluster, at.topic) == {MIN_LAG: FOREVER, MAX_LAG: FOREVER}
        assert guard.state_of(at.topic) == "frozen"

        code, told = repair(cluster, f"{at.topic}:0", state, capsys, "--yes")
        assert code == 0, told
        assert told["summary"]["guard_told"] is True
        until(lambda: guard.state_of(at.topic) == "free", "the guard lets it go")
        assert set_on(cluster, at.topic) == PREVIOUS
        assert not doubts(guard, at.topic)


def test_a_doubt_that_came_up_while_it_was_audited_stays(cluster: EmbeddedCluster) -> None:
    """What was doubted before the audit began is settled by it, and nothing else."""
    first, second = Doubt(0, 3, "was away"), Doubt(1, 2, "was away")
    note = Note("told", 4, "guard", "frozen", "id", Lags(), False, 1, 1, doubts=(first,))

    async def story() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            assert await doubted(client, "told", "_notes") is None  # no guard was ever here
            notes = MemoryTopic(client, "_notes")
            await notes.ensure()
            await notes.remember([note])
            before = await doubted(client, "told", "_notes")
            assert before == Doubted("told", 4, (first,))
            await notes.remember([replace(note, doubts=(first, second), revision=1)])
            assert not await settle(client, before, "_notes")
            now = await doubted(client, "told", "_notes")
            assert now == Doubted("told", 4, (first, second))
            assert now.are_within(None) and not now.are_within((0,))
            assert await settle(client, now, "_notes")
            assert await doubted(client, "told", "_notes") is None

    asyncio.run(story())


def hold_in_doubt(cluster: EmbeddedCluster, topic: str) -> None:
    """A guard has noted that it does so, of broker 3's replica."""

    async def doubt() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            topic_id = (await client.topology([topic])).topic(topic).topic_id.hex()
            notes = MemoryTopic(client)
            await notes.ensure()
            why = (Doubt(0, 3, LEADER_CHANGED),)
            note = Note(topic, 1, "guard", "frozen", topic_id, Lags(), False, 1, 1, doubts=why)
            await notes.remember([note])

    asyncio.run(doubt())


def test_a_doubt_is_not_settled_by_an_audit_of_half_a_log(
    cluster: EmbeddedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 3 is back and behind: what it holds can be compared up to there, and all is well so
    far. The tombstone that it may miss comes later in the log."""
    at = stage(cluster, "behind")
    at.write("k", "1")
    cluster.wait_for(at.topic, 0, lambda state: len(state.isr) == 3)
    at.until(lambda: at.has_copied(1), "broker 3 has it")
    cluster.kill(3)
    cluster.wait_for(at.topic, 0, lambda state: 3 not in state.isr)
    at.write("k", None)
    for other in (1, 2):
        cluster.cut(3, other)
    cluster.restart(3)
    hold_in_doubt(cluster, at.topic)
    state = tmp_path / "notes.json"
    try:
        code, told = repair(cluster, at.topic, state, capsys, "--yes")
        assert code == 0 and told["summary"]["guard_told"] is False, told
    finally:
        cluster.heal()
    cluster.wait_for(at.topic, 0, lambda state: len(state.isr) == 3)
    code, told = repair(cluster, at.topic, state, capsys, "--yes")
    assert code == 0 and told["summary"]["guard_told"] is True, "the control: now it is all read"


def test_nor_by_one_that_knows_nothing_of_the_replica(
    cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever is asked first is cut off since before broker 3 was given a copy, and the others say
    nothing in time. The replicas that are known agree, and nobody has looked at that one."""
    at = stage(cluster, "unheard")
    at.write("k", "1")
    cluster.wait_for(at.topic, 0, lambda state: len(state.isr) == 3)
    hold_in_doubt(cluster, at.topic)
    by_any, state = Client.topology, tmp_path / "notes.json"

    async def stale(self: Client, topics: list[str] | None = None) -> Topology:
        found = await by_any(self, topics)
        if at.topic not in found.topics:
            return found
        topic = found.topic(at.topic)
        place = replace(topic.partitions[0], replicas=(1, 2), isr=(1, 2))
        known = replace(topic, partitions={0: place})
        return replace(found, topics={**found.topics, at.topic: known})

    with monkeypatch.context() as patch:
        patch.setattr(Client, "topology", stale)
        patch.setattr(assigned, "VIEWS", 0)
        code, told = repair(cluster, at.topic, state, capsys, "--yes")
    assert code == 0 and told["summary"]["guard_told"] is False, told
    code, told = repair(cluster, at.topic, state, capsys, "--yes")
    assert code == 0 and told["summary"]["guard_told"] is True, "the control: now it is all read"


def test_that_nobody_could_look_for_a_guard_is_said(
    cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who may not read its notes frees a topic that a guard holds, maybe, or leaves it in doubt."""
    at = stage(cluster, "unseen")
    at.write("k", "1")
    cluster.wait_for(at.topic, 0, lambda state: len(state.isr) == 3)
    state = tmp_path / "notes.json"
    code, told = repair(cluster, at.topic, state, capsys, "--yes")
    assert code == 0 and "guard_asked" not in told["summary"], "the control"
    ask = Client.topology

    async def denied(self: Client, topics: list[str] | None = None) -> Topology:
        if topics and "_sexton_guard" in topics:
            raise Refused(KafkaError.TOPIC_AUTHORIZATION_FAILED, "the topic _sexton_guard")
        return await ask(self, topics)

    monkeypatch.setattr(Client, "topology", denied)
    code, told = repair(cluster, at.topic, state, capsys, "--yes")
    assert code == 0 and told["summary"]["guard_asked"] is False
    assert main(["repair", at.topic, "-b", cluster.bootstrap_servers, "--state", str(state)]) == 0
    said = capsys.readouterr().out
    assert "no ACL that allows Describe" in said and "guard status" in said
