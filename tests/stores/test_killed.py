"""One instance as a process that is killed, paused, or ended in good order: the sums stay exact."""

from __future__ import annotations

import signal
from pathlib import Path

from sexton.testing.embedded import EmbeddedCluster
from tests.stores.counting import app
from tests.stores.harness import (
    Process,
    make_topics,
    processes,
    regressions,
    restored,
    sums,
    wait_until_active,
    wait_until_written,
    write,
)


def test_kill_9_costs_nothing(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 2)
    servers = kafka.bootstrap_servers
    written = write(servers, [(i % 2, f"key_{i % 10}") for i in range(1000)])
    with processes() as started:
        first = Process(servers, tmp_path / "a")
        started.append(first)
        first.wait_until_said("task is active", 2)
        written += write(servers, [(i % 2, f"key_{i % 10}") for i in range(2000)])
        first.kill()
        written += write(servers, [(i % 2, f"key_{i % 10}") for i in range(1000)])
        again = Process(servers, tmp_path / "a")
        started.append(again)
        wait_until_written(servers, 2, written)
    check(servers, 2, written)
    assert not again.said("thrown away")


def test_a_paused_owner_comes_back_to_nothing(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """The group gives its tasks away; what it does when it wakes up is refused."""
    make_topics(kafka, 2)
    servers = kafka.bootstrap_servers
    written = write(servers, [(i % 2, f"key_{i % 10}") for i in range(500)])
    with processes() as started:
        owner = Process(servers, tmp_path / "a")
        started.append(owner)
        owner.wait_until_said("task is active", 2)
        owner.send(signal.SIGSTOP)
        heir = Process(servers, tmp_path / "b")
        started.append(heir)
        heir.wait_until_said("task is active", 2)
        written += write(servers, [(i % 2, f"key_{i % 10}") for i in range(500)])
        owner.send(signal.SIGCONT)
        owner.wait_until_said("the group has gone on without us")
        written += write(servers, [(i % 2, f"key_{i % 10}") for i in range(500)])
        wait_until_written(servers, 2, written)
    check(servers, 2, written)


def test_sigterm_is_a_clean_end(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    """It commits, leaves the group and closes its stores: the next one need not wait, nor read."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    with processes() as started:
        first = Process(servers, tmp_path / "a", session_timeout_ms=60_000)
        started.append(first)
        first.wait_until_said("task is active")
        write(servers, [(0, "a")] * 10)
        wait_until_written(servers, 1, 10)
        assert first.end(signal.SIGTERM) == 0
        with app(servers, tmp_path / "a") as again:
            wait_until_active(again, 1, 30)
            assert restored(again) == 0


def check(servers: str, partitions: int, written: int) -> None:
    found = [sums(servers, partition) for partition in range(partitions)]
    assert [wrong for each in found for wrong in regressions(each)] == []
    assert sum(map(len, found)) == written
