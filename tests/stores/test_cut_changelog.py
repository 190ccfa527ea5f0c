"""An unclean election of the changelog's leader: two histories, and a store is of one of them.

    broker 1    leads the changelog, and has everything; broker 2 is away
    A, B        count on and copy; what they add is on broker 1 alone
                ── broker 1 goes, broker 2 comes back and is made the leader ──
    A           would commit once more on top of records that are gone: it stops

Records were lost, and nobody brings them back; whether to go on without them is for people to say.
If A were to commit nevertheless (`careless`):

    A, B        have them still, and must not: the changelog has them no more

A store is what its changelog says.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sexton.client.reading import LogTruncated
from sexton.machines import stores as machine
from sexton.machines.stores_events import Bounds, Commit
from sexton.stores import App
from sexton.stores import changelog as changelogs
from sexton.stores.rows import Rows
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import app
from tests.stores.harness import (
    CHANGELOG,
    committed,
    count_to,
    make_topics,
    placed,
    state,
    wait_until_active,
    wait_until_done,
    write,
)
from tests.stores.unclean import changed_history, counts_to_8, fails, slow


@pytest.fixture
def three() -> Iterator[EmbeddedCluster]:
    with placed([3], [1, 2]) as cluster:
        yield cluster


def logged(servers: str) -> dict[str, int]:
    """What the changelog comes to."""
    found = dict(committed(servers, CHANGELOG, 0))
    numbers = {key[1:]: value for key, value in found.items() if key.startswith("\x01") and value}
    return {key: int.from_bytes(value) - (1 << 63) for key, value in numbers.items()}


def has(app: App, role: str, inputs: int) -> bool:
    return [(each.role, each.input_position) for each in app.status()] == [(role, inputs)]


@pytest.fixture
def slow_copy(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    return slow(monkeypatch, CHANGELOG)


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks where an owner's records land."""
    monkeypatch.setattr(Commit, "lands", lambda *_: True)


def test_nobody_commits_on_top_of_what_is_lost(three: EmbeddedCluster, tmp_path: Path) -> None:
    """The group's offset stays ahead of the changelog, and whoever comes next sees it."""
    servers = three.bootstrap_servers
    one = counts_to_8(three, tmp_path / "a", CHANGELOG)
    changed_history(three, CHANGELOG)
    write(servers, [(0, "new")])
    fails(one, "it has lost records")
    again = app(servers, tmp_path / "a")
    again.start()
    fails(again, "committed input up to 8, but the changelog knows of 5")
    assert logged(servers) == {"kept": 5}


def two_histories(
    three: EmbeddedCluster, tmp_path: Path, slow_copy: threading.Event
) -> list[dict[str, int]]:
    """The stores of A and B, and the changelog, in the end.

    B does not hear of the change before the new history is longer than the old one was: else its
    place would be beyond the end, which is found in any case.
    """
    servers = three.bootstrap_servers
    with app(servers, tmp_path / "a") as first:
        write(servers, [(0, "kept")] * 5)
        wait_until_done(first, 5)
        for topic in ("__consumer_offsets", "__transaction_state"):
            three.elect(topic, 0, 3)
        with app(servers, tmp_path / "b") as second:
            until(lambda: has(second, "standby", 5), "the copy has it")
            three.kill(2)
            three.wait_for(CHANGELOG, 0, lambda state: state.isr == (1,))
            write(servers, [(0, "lost")] * 3)
            until(lambda: has(second, "standby", 8), "the copy has what will be lost")
            slow_copy.set()
            changed_history(three, CHANGELOG)
            for inputs in range(9, 13):
                write(servers, [(0, "new")])
                wait_until_done(first, inputs, 120)
            slow_copy.clear()
            until(lambda: has(second, "standby", 12), "the copy has what came then", 120)
            return [state(first, 0), state(second, 0), logged(servers)]


@pytest.mark.usefixtures("careless")
def test_a_store_is_of_one_history(
    three: EmbeddedCluster,
    tmp_path: Path,
    slow_copy: threading.Event,
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner, copy, changelog = two_histories(three, tmp_path, slow_copy)
    assert owner == copy == changelog == {"kept": 5, "new": 4}
    assert caplog.text.count("local state is thrown away") == 2


@pytest.mark.usefixtures("careless")
def test_without_that_question_both_are_mixed(
    three: EmbeddedCluster,
    tmp_path: Path,
    slow_copy: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: an epoch is as good as another."""
    right = changelogs._bounds

    async def bounds(*given: Any) -> Bounds:
        return replace(await right(*given), parts_at=None, leader_epoch=-1)

    monkeypatch.setattr(changelogs, "_bounds", bounds)
    monkeypatch.setattr(machine.Task, "_is_news", lambda *_: False)
    owner, copy, changelog = two_histories(three, tmp_path, slow_copy)
    assert owner == copy == {"kept": 5, "lost": 3, "new": 4}
    assert changelog == {"kept": 5, "new": 4}


def test_a_restore_that_was_cut_in_the_middle_begins_again(
    kafka: EmbeddedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The reader has found out itself; what it has read so far is of no use."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    count_to(servers, tmp_path / "a", 0, 5)
    right = changelogs.replay
    cut: list[Rows] = []

    async def replay(*given: Any) -> AsyncGenerator[Rows, None]:
        async for rows in right(*given):
            if not cut:
                cut.append(rows)
                ghost: list[bytes | None] = [b"\x01ghost"]
                yield Rows(rows.start, 1, [0], [0], ghost, [bytes(8)], 9, 0, 99, rows.asked_ms, 9)
                raise LogTruncated("the changelog", 1, 0)
            yield rows

    monkeypatch.setattr(changelogs, "replay", replay)
    with app(servers, tmp_path / "b") as cold:
        wait_until_active(cold, 1)
        assert state(cold, 0) == {"key_17": 5}
    [told] = [r for r in caplog.records if "local state is thrown away" in r.message]
    assert "its new leader's log parts from it at 0" in told.__dict__["why"]
