"""A call of `process` that does not come back: others go on, and what it returns is dropped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from sexton.client.client import Client
from sexton.client.transacting import GROUP
from sexton.protocol.messages.describe_groups import DescribeGroupsRequest
from sexton.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sexton.stores import App, Output, Store, Task
from sexton.stores.coordinators import Coordinator
from sexton.stores.described import describe
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import INPUT, SINK, count, counter
from tests.stores.harness import (
    make_topics,
    regressions,
    sums,
    wait_until_active,
    wait_until_written,
    write,
)

HANGS, SLOW = b"hangs", b"slow"


class Hanging:
    """Hangs at the record that says so, once, until it is let go."""

    def __init__(self) -> None:
        self.hangs, self.let_go = threading.Event(), threading.Event()
        self.slow = 0  # records of that kind that it has begun

    def __call__(self, key: str, value: bytes, store: Store) -> Iterable[Output]:
        if value == SLOW:
            self.slow += 1
            threading.Event().wait(0.3)
        if value == HANGS and not self.let_go.is_set():
            self.hangs.set()
            assert self.let_go.wait(120)
        return count(key, value, store)


Process = Callable[[str, bytes, Store], Iterable[Output]]


@contextmanager
def running(servers: str, home: Path, task: Task, max_poll_interval_ms: int) -> Iterator[App]:
    with App(
        "counter",
        [task],
        bootstrap_servers=servers,
        state_dir=home,
        instance=home.name,
        heartbeat_interval_ms=200,
        max_poll_interval_ms=max_poll_interval_ms,
    ) as app:
        yield app


def hanging(process: Process) -> Task:
    names = ("str", "bytes"), ("str", "int"), ("str", "int64")
    return Task("counts", INPUT, process, SINK, *names)


def test_others_go_on_where_a_call_hangs(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 2)
    servers, process = kafka.bootstrap_servers, Hanging()
    with running(servers, tmp_path / "a", hanging(process), 1_000) as first:
        wait_until_active(first, 2)
        write(servers, [(0, "a"), (1, "b"), (0, "a", HANGS), (0, "a")])
        assert process.hangs.wait(60)
        with running(servers, tmp_path / "b", counter(), 300_000) as second:
            wait_until_active(second, 2)  # the first has left the group
            wait_until_written(servers, 2, 4)
            process.let_go.set()  # what it makes of its record is too late
            until(lambda: roles(first) == {"active", "standby"}, "the first is back", 60)
            write(servers, [(0, "a"), (1, "b")])
            wait_until_written(servers, 2, 6)
    assert sums(servers, 0) == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]
    assert sums(servers, 1) == [("b", 1), ("b", 2)]


def test_no_further_record_of_a_batch_that_is_dropped(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    """Each of the records after the one that hangs is quick enough, and all of them for nothing."""
    make_topics(kafka, 1)
    servers, process = kafka.bootstrap_servers, Hanging()
    write(servers, [(0, "a"), (0, "a", HANGS), *[(0, "a", SLOW)] * 100])
    with running(servers, tmp_path / "a", hanging(process), 1_000) as first:
        assert process.hangs.wait(60)
        with running(servers, tmp_path / "b", counter(), 300_000) as second:
            wait_until_active(second, 1)
            wait_until_written(servers, 1, 102)
            process.let_go.set()
            until(lambda: roles(first) == {"standby"}, "the first is back", 60)
            assert process.slow == 0
    assert sums(servers, 0) == [("a", number) for number in range(1, 103)]


def test_nobody_comes_back_before_his_call_does(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """Thrown out of the group in a call that may take its time: a task would wait behind it."""
    make_topics(kafka, 1)
    servers, process = kafka.bootstrap_servers, Hanging()
    with running(servers, tmp_path / "a", hanging(process), 300_000) as first:
        wait_until_active(first, 1)
        write(servers, [(0, "a"), (0, "a", HANGS)])
        assert process.hangs.wait(60)
        throw_out(servers)
        until(lambda: roles(first) == {"none"}, "the first has heard of it", 60)
        with running(servers, tmp_path / "b", counter(), 300_000) as second:
            wait_until_written(servers, 1, 2)
            assert roles(second) == {"active"}
            assert instances(servers) == ("b",)
            process.let_go.set()
            until(lambda: instances(servers) == ("a", "b"), "the first is back", 60)
    assert sums(servers, 0) == [("a", 1), ("a", 2)]


def throw_out(servers: str) -> None:
    """The one member of the group; it hears of it at its next heartbeat."""

    async def ask() -> None:
        async with Client(servers) as client:
            coordinator = await Coordinator(client, GROUP, "counter").connected()
            [group] = (await coordinator.ask(DescribeGroupsRequest(["counter"]))).groups
            [member] = group.members
            leaving = LeaveGroupRequest("counter", members=[MemberIdentity(member.member_id)])
            assert (await coordinator.ask(leaving, range(3, 6))).error_code == 0

    asyncio.run(ask())


def instances(servers: str) -> tuple[str, ...]:
    async def ask() -> tuple[str, ...]:
        async with Client(servers) as client:
            return (await describe(client, "counter")).instances

    return asyncio.run(ask())


def test_a_store_is_open_while_a_call_uses_it(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """Its task is taken away, and then the instance is closed; the call reads on meanwhile."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    hangs, closing = threading.Event(), threading.Event()
    read: list[int | BaseException] = []

    def reading(key: str, _value: bytes, store: Store) -> Iterable[Output]:
        hangs.set()
        assert closing.wait(120)
        try:
            for _ in range(100):
                threading.Event().wait(0.01)
                read.append(store.get(key, 7))
        except BaseException as error:  # noqa: BLE001 - whatever a closed store raises
            read.append(error)
        return ()

    with (
        ThreadPoolExecutor(1) as pool,
        running(servers, tmp_path / "a", hanging(reading), 1_000) as app,
    ):
        wait_until_active(app, 1)
        write(servers, [(0, "a")])
        assert hangs.wait(60)
        until(lambda: roles(app) == {"none"}, "it has left the group", 60)
        closed = pool.submit(app.close)
        closing.set()
        closed.result(60)
    assert read == [7] * 100


def roles(app: App) -> set[str]:
    return {each.role for each in app.status()}


def test_a_call_that_may_take_its_time_keeps_its_task(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    """The control: with a longer limit nobody takes over, though somebody else is there."""
    make_topics(kafka, 1)
    servers, process = kafka.bootstrap_servers, Hanging()
    with running(servers, tmp_path / "a", hanging(process), 300_000) as first:
        wait_until_active(first, 1)
        write(servers, [(0, "a", HANGS)])
        assert process.hangs.wait(60)
        with running(servers, tmp_path / "b", counter(), 300_000) as second:
            until(lambda: roles(second) == {"standby"}, "the second has a copy", 60)
            assert roles(first) == {"active"}
            process.let_go.set()
            wait_until_written(servers, 1, 1)
            assert roles(first) == {"active"}
    assert regressions(sums(servers, 0)) == []


def test_a_slow_batch_is_no_hanging_call(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """Ten records of 0.3 s each, in one batch, and a limit of a second for each of them."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    rest = threading.Event()

    def slow(key: str, value: bytes, store: Store) -> Iterable[Output]:
        rest.wait(0.3)
        return count(key, value, store)

    write(servers, [(0, "a")] * 10)
    task = Task("counts", INPUT, slow, SINK, ("str", "bytes"), ("str", "int"), ("str", "int64"))
    with running(servers, tmp_path / "a", task, 1_000) as app:
        wait_until_written(servers, 1, 10)
        assert "sexton_stores_promotions_total" in app.metrics()
        assert promotions(app) == 1  # it has never lost its task
    assert regressions(sums(servers, 0)) == []


def promotions(app: App) -> int:
    lines = app.metrics().splitlines()
    [line] = [each for each in lines if each.startswith("sexton_stores_promotions_total")]
    return int(float(line.split()[-1]))
