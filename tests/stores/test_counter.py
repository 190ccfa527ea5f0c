"""A counting task on the embedded cluster: exact, whatever happens to its instances."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sexton.base.partitions import TopicPartition
from sexton.stores import App, Output, Store, Task, TaskFailed, instance
from sexton.stores import changelog as changelogs
from sexton.stores.rows import Rows
from sexton.stores.status import TaskStatus
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import INPUT, SINK, app
from tests.stores.harness import (
    committed,
    delete_before,
    make_topics,
    regressions,
    restored,
    state,
    sums,
    wait_until_active,
    wait_until_done,
    write,
)


def test_every_record_counts_once(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 2)
    servers = kafka.bootstrap_servers
    write(servers, [(i % 2, f"key_{i % 10}") for i in range(1000)])
    with app(servers, tmp_path / "a") as first:
        wait_until_done(first, 1000)
        assert state(first, 0) == {f"key_{i}": 100 for i in (0, 2, 4, 6, 8)}
    for partition in range(2):
        found = sums(servers, partition)
        assert regressions(found) == []
        assert len(found) == 500


def test_a_clean_restart_uses_what_is_on_the_disk(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, f"key_{i % 10}") for i in range(100)])
    with app(servers, tmp_path / "a") as first:
        wait_until_done(first, 100)
    with app(servers, tmp_path / "a") as again:
        wait_until_active(again, 1)
        assert state(again, 0) == {f"key_{i}": 10 for i in range(10)}
        assert restored(again) == 0
    with app(servers, tmp_path / "b") as cold:
        wait_until_active(cold, 1)
        assert state(cold, 0) == {f"key_{i}": 10 for i in range(10)}
        assert restored(cold) >= 11  # ten keys and the input position


def test_instances_share_tasks_and_keep_copies(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 4)
    servers = kafka.bootstrap_servers
    write(servers, [(i % 4, f"key_{i}") for i in range(400)])
    with app(servers, tmp_path / "a") as first:
        wait_until_done(first, 400)
        with app(servers, tmp_path / "b") as second:
            wait_until_active(second, 2)
            wait_until_active(first, 2)

            def copied() -> bool:
                copies = [each for each in second.status() if each.role == "standby"]
                return len(copies) == 2 and all(each.input_position == 100 for each in copies)

            until(copied, "the second instance has its copies")
            write(servers, [(i % 4, f"key_{i}") for i in range(400)])
            wait_until_done(first, 400)
            wait_until_done(second, 400)
            # The first goes; the second has everything, from its copies.
            first.close()
            wait_until_active(second, 4)
            write(servers, [(i % 4, f"key_{i}") for i in range(400)])
            wait_until_done(second, 1200)
            for partition in range(4):
                view = second.query("counts", partition)
                assert set(dict(view.scan()).values()) == {3}
                assert view.input_position == 300
                assert view.role == "active"
    for partition in range(4):
        assert regressions(sums(servers, partition)) == []


def test_a_view_does_not_change_under_its_reader(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, "a"), (0, "b")])
    with app(servers, tmp_path / "a") as first:
        wait_until_done(first, 2)
        view = first.query("counts", 0)
        write(servers, [(0, "a"), (0, "c")])
        wait_until_done(first, 4)
        assert dict(view.scan()) == {"a": 1, "b": 1}
        assert (view.get("a"), view.get("c"), view.input_position) == (1, None, 2)
        assert dict(first.query("counts", 0).prefix("")) == {"a": 2, "b": 1, "c": 1}
        assert list(first.query("counts", 0).scan(backwards=True)) == [("c", 1), ("b", 1), ("a", 2)]


def test_what_raises_commits_nothing(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers

    def picky(key: str, value: bytes, store: Store) -> list[Output]:
        store.put(key, store.get(key, 0) + 1)
        if key == "bad":
            raise ValueError("not this one")
        return [Output(key, 1, SINK, 0)]

    task = Task(
        "counts", INPUT, picky, SINK, ("str", "bytes"), ("str", "int"), ("str", "int64")
    )  # fmt: skip
    write(servers, [(0, "good"), (0, "bad"), (0, "good")])
    failing = App("counter", [task], bootstrap_servers=servers, state_dir=tmp_path / "a")
    with pytest.raises(TaskFailed) as caught, failing:
        until(lambda: bool(failing.failures()), "it fails")
    said = "ValueError: not this one, at offset 1 of numbers-0"
    assert str(caught.value) == f"counts-0: {said}"
    assert isinstance(caught.value.__cause__, ValueError)
    assert f"counts-0: task failed: {said}" in caplog.messages
    assert sums(servers, 0) == []
    # Another program counts it, from where nothing was committed.
    with app(servers, tmp_path / "a") as better:
        wait_until_done(better, 3)
        assert state(better, 0) == {"good": 2, "bad": 1}


class OutOfTime(BaseException):
    """As some libraries' timeouts are: no `except Exception` is to keep it."""


RAISED = [
    StopIteration("none"),
    asyncio.CancelledError("by itself"),
    OutOfTime("at last"),
    SystemExit("enough"),
]


@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: type(raised).__name__)
def test_whatever_is_raised_is_told(
    kafka: EmbeddedCluster, tmp_path: Path, raised: BaseException
) -> None:
    """Neither gets out of a thread by itself: the task would stand still, and its end too."""

    def process(key: bytes | None, value: bytes, store: Store) -> None:
        raise raised

    make_topics(kafka, 1)
    write(kafka.bootstrap_servers, [(0, "a")])
    failing = App("counter", [Task("counts", INPUT, process)],
        bootstrap_servers=kafka.bootstrap_servers, state_dir=tmp_path)  # fmt: skip
    with pytest.raises(TaskFailed) as caught, failing:
        until(lambda: bool(failing.failures()), "it fails")
    said = f"RuntimeError: process() raised {type(raised).__name__}: {raised}"
    assert caught.value.why == f"{said}, at offset 0 of numbers-0"


def test_an_input_that_cannot_be_decoded_is_named(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 1)
    serdes = ("str", "int64")
    task = Task("counts", INPUT, lambda *_: None, input_serdes=serdes)
    eight = bytes(8)
    write(kafka.bootstrap_servers, [(0, "a", eight), (0, "b", eight), (0, "c", b"three")])
    failing = App("counter", [task], bootstrap_servers=kafka.bootstrap_servers, state_dir=tmp_path)
    with pytest.raises(TaskFailed, match="has 5 bytes, not 8, at offset 2 of numbers-0"), failing:
        until(lambda: bool(failing.failures()), "it fails")


def test_deleted_keys_are_tombstones(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, "a"), (0, "b"), (0, "a", b"forget")])
    with app(servers, tmp_path / "a") as first:
        wait_until_done(first, 3)
        assert state(first, 0) == {"b": 1}
    changelog = committed(servers, "counter-counts-changelog", 0)
    assert dict(changelog)["\x01a"] is None
    with app(servers, tmp_path / "b") as cold:
        wait_until_active(cold, 1)
        assert state(cold, 0) == {"b": 1}


@pytest.mark.kafka_options(brokers=3)
def test_a_broker_may_go(kafka_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """The coordinator of the group and of the transactions, and a leader: all at once."""
    make_topics(kafka_cluster, 2)
    servers = kafka_cluster.bootstrap_servers
    write(servers, [(i % 2, f"key_{i % 10}") for i in range(200)])
    with app(servers, tmp_path / "a", replication_factor=3) as first:
        wait_until_done(first, 200)
        kafka_cluster.kill(1)
        write(servers, [(i % 2, f"key_{i % 10}") for i in range(200)])
        wait_until_done(first, 400, 120)
        kafka_cluster.restart(1)
        kafka_cluster.kill(2)
        write(servers, [(i % 2, f"key_{i % 10}") for i in range(200)])
        wait_until_done(first, 600, 120)
        assert state(first, 1) == {f"key_{i}": 60 for i in (1, 3, 5, 7, 9)}
    assert regressions(sums(servers, 0)) == []


def test_inputs_that_are_gone_stop_the_task(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """Nobody but its owner may decide that they did not matter."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, "a"), (0, "b")])
    with app(servers, tmp_path / "a") as first:
        wait_until_done(first, 2)
    write(servers, [(0, "c")] * 3)
    delete_before(servers, TopicPartition(INPUT, 0), 4)
    late = app(servers, tmp_path / "a")
    with pytest.raises(TaskFailed, match="InputGone"), late:
        until(lambda: bool(late.failures()), "it fails")


def test_a_record_that_is_too_large_stops_the_task(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 1)
    kafka.alter_topic(SINK, {"max.message.bytes": 1_000})
    servers = kafka.bootstrap_servers
    write(servers, [(0, "long" * 1_000)])
    one = app(servers, tmp_path / "a")
    with pytest.raises(TaskFailed, match="TOO_LARGE"), one:
        until(lambda: bool(one.failures()), "it fails")


def test_a_store_in_memory_is_read_again_from_its_changelog(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, "a"), (0, "b"), (0, "a")])
    with app(servers, tmp_path / "a", store="memory") as first:
        wait_until_done(first, 3)
        assert state(first, 0) == {"a": 2, "b": 1}
    assert not (tmp_path / "a").exists()
    with app(servers, tmp_path / "a", store="memory") as again:
        wait_until_active(again, 1)
        assert state(again, 0) == {"a": 2, "b": 1}
        assert restored(again) >= 3
    assert regressions(sums(servers, 0)) == []


def test_a_restore_says_how_far_it_is(
    kafka: EmbeddedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "sexton.stores")
    monkeypatch.setattr(instance, "_TOLD_S", 0.05)
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, f"key_{number}") for number in range(100)])
    with app(servers, tmp_path / "a") as first:
        wait_until_done(first, 100)
    right, seen = changelogs.replay, threading.Event()

    async def replay(*given: Any) -> AsyncGenerator[Rows, None]:
        """The first half, and the rest when somebody has seen that."""
        async for rows in right(*given):
            half = rows.start + 50
            yield replace(
                rows, next_offset=half, offsets=rows.offsets[:50], keys=rows.keys[:50],
                values=rows.values[:50],
            )  # fmt: skip
            await asyncio.to_thread(seen.wait, 60)
            yield replace(
                rows, start=half, offsets=rows.offsets[50:], keys=rows.keys[50:],
                values=rows.values[50:],
            )  # fmt: skip

    monkeypatch.setattr(changelogs, "replay", replay)
    with app(servers, tmp_path / "b") as cold:
        told = until(lambda: half_way(cold), "it is half-way", 60)
        assert (told.state, told.position) == ("restoring", 50)
        until(lambda: ": restoring: " in caplog.text, "it is in the log")
        seen.set()
        wait_until_active(cold, 1)
        assert cold.status()[0].restore is None
        assert len(state(cold, 0)) == 100
    lines = [r.__dict__["how"] for r in caplog.records if ": restoring: " in r.message]
    assert all(re.match(r"\d+%, .* MB/s, .* left$", line) for line in lines), lines


def half_way(app: App) -> TaskStatus | None:
    """50 of 102 at best: there are markers and positions."""
    found = [each for each in app.status() if each.position == 50]
    return found[0] if found and re.match(r"4\d%", found[0].restore or "") else None
