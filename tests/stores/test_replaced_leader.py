"""A promotion that asks a leader which was replaced, and has not heard of it.

    broker 1    leads the changelog, and is cut off
    A           goes on with brokers 2 and 3, from 104 to 110
    B           has a copy at 104, and asks broker 1 where the changelog ends: at 104
                ── the line is mended, and an input comes ──
    B           was to write at the end that it was told, and writes after A's records

The group's offset would tell as well; so it has expired, as those of a group without members do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.machines import stores as machine
from sexton.machines.stores_events import Effect
from sexton.machines.stores_phases import CatchingUp, Running
from sexton.protocol.messages.fetch import PartitionData
from sexton.records.columns import Spans
from sexton.records.encoder import encode, rows
from sexton.stores.fetching import Fetcher, Reader
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import INPUT, app
from tests.stores.harness import (
    CHANGELOG,
    count_to,
    placed,
    regressions,
    state,
    sums,
    wait_until_active,
    write,
)


@pytest.fixture
def three() -> Iterator[EmbeddedCluster]:
    with placed([2, 3, 1], [1, 2, 3]) as cluster:
        yield cluster


def forget_offsets(servers: str) -> None:
    """As `offsets.retention.minutes` does, sooner."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.delete_consumer_groups(["counter"])["counter"].result(60)


def promoted_by_old_news(three: EmbeddedCluster, tmp_path: Path) -> list[tuple[str, int]]:
    first, *others = three.bootstrap_servers.split(",")
    count_to(three.bootstrap_servers, tmp_path / "a", 0, 104)
    with app(three.bootstrap_servers, tmp_path / "b") as copying:
        wait_until_active(copying, 1)
        assert state(copying, 0) == {"key_17": 104}
    for topic in ("__consumer_offsets", "__transaction_state"):
        three.elect(topic, 0, 2)
    three.isolate(1)
    three.wait_for(CHANGELOG, 0, lambda state: state.leader != 1)
    count_to(",".join(others), tmp_path / "a", 104, 6)
    forget_offsets(",".join(others))
    with app(first, tmp_path / "b") as back:
        wait_until_active(back, 1)
        assert state(back, 0) == {"key_17": 104}  # it cannot know better
        three.heal()
        three.wait_until_in_sync(CHANGELOG)
        write(",".join(others), [(0, "key_17")])
        until(lambda: len(sums(three.bootstrap_servers, 0)) > 110, "it has counted on", 120)
    return sums(three.bootstrap_servers, 0)


def test_what_was_read_from_a_replaced_leader_is_not_counted_on(
    three: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = promoted_by_old_news(three, tmp_path)
    assert found[-1] == ("key_17", 111)
    assert regressions(found) == []
    assert "commit given up" in caplog.text


def test_without_that_rule_it_counts_from_110_to_105(
    three: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: nobody looks where the first record lands."""
    right = machine.Task._arrive

    def arrive(task: machine.Task, phase: CatchingUp) -> list[Effect]:
        effects = right(task, phase)
        if isinstance(task.phase, Running):
            task.phase = replace(task.phase, lands_at=None)
        return effects

    monkeypatch.setattr(machine.Task, "_arrive", arrive)
    found = promoted_by_old_news(three, tmp_path)
    assert regressions(found) == ["Key: key_17, LastValue: 110, NewValue: 105"]


def test_what_two_leaders_answer_is_taken_once() -> None:
    """While leadership moves the old one is still asked when the new one is: both have it."""

    async def both() -> list[int]:
        fetcher = Fetcher(Client("localhost:1"), 1)
        reader = Reader(TopicPartition(INPUT, 0), 0)
        pair = Spans.from_list([b"a", b"b"])
        records = bytes(encode(rows(np.zeros(2), pair, pair, batch_bytes=1 << 20)))
        for _leader in range(2):
            data = PartitionData(0, 0, 2, 2, 0, records=records)
            fetcher._came(reader, 0, reader.seeks, data, 0)
        fetcher.broken.cancel()
        return [taken.start for taken in reader.queue]

    assert asyncio.run(both()) == [0]
