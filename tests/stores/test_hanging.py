"""A call of `process` that does not come back: others go on, and what it returns is dropped."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sexton.stores import App, Output, Store, Task
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

HANGS = b"hangs"


class Hanging:
    """Hangs at the record that says so, once, until it is let go."""

    def __init__(self) -> None:
        self.hangs, self.let_go = threading.Event(), threading.Event()

    def __call__(self, key: str, value: bytes, store: Store) -> Iterable[Output]:
        if value == HANGS and not self.let_go.is_set():
            self.hangs.set()
            assert self.let_go.wait(120)
        return count(key, value, store)


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


def hanging(process: Hanging) -> Task:
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
