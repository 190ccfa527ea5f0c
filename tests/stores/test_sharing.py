"""Who gets which task, where instances are not all alike, and what each says of its copies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sexton.base.errors import ConfigError
from sexton.client.client import Client
from sexton.machines.stores_assignment import Member, Share, TaskId
from sexton.machines.stores_events import Checkpoint, Lineage
from sexton.stores import App, Task, local
from sexton.stores.changelog import Changelog
from sexton.stores.disks import RocksDisk
from sexton.stores.fetching import Fetcher, now_ms
from sexton.stores.instance import Instance
from sexton.stores.layout import CHECKPOINT, encode_checkpoint
from sexton.stores.partitioner import Partitioner
from sexton.stores.producing import Membership
from sexton.stores.sayings import Claims, Said, agreed, decode_claims, encode_claims
from sexton.stores.surroundings import Surroundings
from sexton.stores.task import AppConfig
from sexton.stores.worker import Worker
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import SINK, app, counter
from tests.stores.harness import make_topics, wait_until_active, wait_until_done, write

LETTERS = "letters"
HOUR_MS = 3_600_000
COUNTS = TaskId("counts", 0)


def running(servers: str, home: Path, *tasks: Task, **options: Any) -> App:
    return App(
        "counter",
        tasks,
        bootstrap_servers=servers,
        state_dir=home,
        instance=home.name,
        heartbeat_interval_ms=200,
        **options,
    )


def letters(name: str = "letters") -> Task:
    return Task(name, LETTERS, lambda *_: None)


def roles(app: App) -> dict[str, str]:
    return {f"{each.task}-{each.partition}": each.role for each in app.status()}


# ── tasks that share an input ──


def test_two_tasks_of_an_application_do_not_share_an_input() -> None:
    """The group has one offset for a partition: each would skip what the other has read."""
    with pytest.raises(ConfigError, match="x and y both read numbers") as caught:
        App("counter", [counter("x"), counter("y")], bootstrap_servers="localhost:1")
    assert caught.value.hint is not None
    assert "one task with several outputs" in caught.value.hint


def test_two_tasks_do_not_share_a_name() -> None:
    with pytest.raises(ConfigError, match="two are called x"):
        App("counter", [counter("x"), letters("x")], bootstrap_servers="localhost:1")


def test_two_instances_whose_tasks_share_an_input(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    with running(servers, tmp_path / "a", counter("x")) as first:
        wait_until_active(first, 1)
        with running(servers, tmp_path / "b", counter("y")) as second:
            until(lambda: "x and y both read numbers" in told(caplog), "somebody says so")
            write(servers, [(0, "a")] * 3)
            wait_until_done(first, 3)
            assert second.status() == []


def told(caplog: pytest.LogCaptureFixture) -> str:
    return " ".join(r.__dict__.get("why", "") for r in caplog.records)


# ── a rolling deploy ──


def test_a_task_that_the_leader_has_no_code_for_is_worked_on(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    make_topics(kafka, 2)
    kafka.create_topic(LETTERS, 3)
    servers = kafka.bootstrap_servers
    with running(servers, tmp_path / "a", counter()) as first:
        wait_until_active(first, 2)
        with running(servers, tmp_path / "b", counter(), letters()) as second:
            wait_until_active(second, 3)
            mine = {name for name, role in roles(second).items() if role == "active"}
            assert mine == {"letters-0", "letters-1", "letters-2"}
            assert all(name.startswith("counts") for name in roles(first))


def test_everybody_gets_what_it_has_code_for() -> None:
    old = Said("a", {"counts": "numbers"}, Member("a", frozenset({"counts"}), frozenset({COUNTS})))
    new = Said("b", {"counts": "numbers", "more": LETTERS}, Member("b", frozenset()))
    inputs, members, wrong = agreed([new, old])
    assert inputs == {"counts": "numbers", "more": LETTERS}
    assert {each.name: set(each.tasks) for each in members} == {
        "a": {"counts"},
        "b": {"counts", "more"},
    }
    assert wrong == []


def test_a_task_whose_input_was_changed_stays_with_those_who_work_on_it() -> None:
    new = Said("a", {"counts": LETTERS}, Member("a", frozenset()))
    old = Said("b", {"counts": "numbers"}, Member("b", frozenset(), frozenset({COUNTS})))
    inputs, members, wrong = agreed([new, old])
    assert inputs == {"counts": "numbers"}
    assert {each.name: set(each.tasks) for each in members} == {"a": set(), "b": {"counts"}}
    assert wrong == ["counts reads numbers here and letters there"]


def test_what_changes_while_a_share_is_taken_is_told_as_well(
    kafka: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that is warm before the other stores are open: its instance joins once more."""
    make_topics(kafka, 1)
    right = Instance._shared
    calls: list[Share] = []

    async def shared(instance: Instance, share: Share) -> bool:
        if not calls:
            instance._group.ask_again()
        calls.append(share)
        return await right(instance, share)

    monkeypatch.setattr(Instance, "_shared", shared)
    with app(kafka.bootstrap_servers, tmp_path / "a"):
        until(lambda: len(calls) > 1, "it joins again")


# ── copies ──


def test_what_a_member_says_of_its_copies_is_heard() -> None:
    claims = Claims({"counts": "numbers"}, [COUNTS], {COUNTS: 7}, {COUNTS: 3})
    member = decode_claims("m", encode_claims(claims, "a", 5)).member
    owned = frozenset({COUNTS})
    assert member == Member("m", frozenset({"counts"}), owned, 5, {COUNTS: 7}, {COUNTS: 3})


def test_copies_say_themselves_how_much_they_lack(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, "a")] * 3)
    with app(servers, tmp_path / "a") as first, app(servers, tmp_path / "b") as second:
        until(lambda: claims_of(first).lags == {COUNTS: 0}, "one of them says so", 60)
        until(lambda: claims_of(second).lags == {COUNTS: 0}, "the other one, too", 60)


def claims_of(app: App) -> Claims:
    assert app._instance is not None
    assert app._loop is not None
    return asyncio.run_coroutine_threadsafe(app._instance._claims(), app._loop).result(60)


def test_a_store_that_nobody_keeps_up_to_date_is_not_asked(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    """One that was moved away stays on the disk, and would answer with what was once so."""
    make_topics(kafka, 2)
    servers = kafka.bootstrap_servers
    with app(servers, tmp_path / "a", standbys=0) as first:
        wait_until_active(first, 2)
        with app(servers, tmp_path / "b", standbys=0) as second:
            wait_until_active(second, 1)
            wait_until_active(first, 1)
            [left] = [each.partition for each in first.status() if each.role == "none"]
            with pytest.raises(ConfigError, match="is not on this instance") as caught:
                first.query("counts", left)
            assert caught.value.hint == f"here: counts-{1 - left}"
            assert second.query("counts", left).role == "active"


@asynccontextmanager
async def alone(home: Path) -> AsyncIterator[Worker]:
    """A worker without a cluster."""
    config = AppConfig("counter", "localhost:1", home)
    client = Client(config.bootstrap_servers)
    around = Surroundings(
        config,
        client,
        Fetcher(client, 1),
        ThreadPoolExecutor(1),
        lambda: Membership("counter", "", -1),
        lambda *_: None,
        lambda _: None,
        {SINK: Partitioner(1)},
    )
    changelog = Changelog("counter-counts-changelog", Lineage("c", b"t"), 24 * HOUR_MS)
    try:
        yield Worker(COUNTS, counter(), changelog, around)
    finally:
        await around.fetcher.close()
        await client.close()
        around.pool.shutdown()


@pytest.mark.parametrize(("age_ms", "named"), [(HOUR_MS, True), (24 * HOUR_MS, False)])
def test_copies_that_may_lack_tombstones_are_not_named(
    tmp_path: Path, age_ms: int, named: bool
) -> None:
    config = AppConfig("counter", "localhost:1", tmp_path)
    disk = RocksDisk(config.directory(*COUNTS))
    left = Checkpoint(Lineage("c", b"t"), 7, 0, now_ms() - age_ms)
    disk.write({CHECKPOINT: encode_checkpoint(left)})
    disk.close()

    async def claims() -> Claims:
        async with alone(tmp_path) as worker:
            instance = Instance(config, {"counts": counter()})
            await worker.open()
            instance.workers[COUNTS] = worker
            said = await instance._claims()
            await worker.close()
            return said

    said = asyncio.run(claims())
    assert (COUNTS in said.copies) is named
    assert said.lags == {}  # it does not follow the changelog, so it cannot know


def test_a_store_that_is_opened_for_nobody_is_closed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its instance leaves the group meanwhile, and will open the same store when it is back."""
    opening, go_on = threading.Event(), threading.Event()

    class Slow(RocksDisk):
        def __init__(self, path: Path) -> None:
            opening.set()
            assert go_on.wait(60)
            super().__init__(path)

    monkeypatch.setattr(local, "RocksDisk", Slow)

    async def cancelled() -> None:
        async with alone(tmp_path) as worker:
            task = asyncio.create_task(worker.open())
            await asyncio.to_thread(opening.wait, 60)
            task.cancel()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled())
    RocksDisk(AppConfig("counter", "", tmp_path).directory(*COUNTS)).close()
