"""The sink's protocol without Spark: exact whatever fails, and only because of its two rules."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sexton.base.errors import PeerError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client import transacting
from sexton.client.client import Client
from sexton.client.retrying import Patience
from sexton.client.transacting import ANNOUNCED, IMPLIED, Transaction
from sexton.client.transactions import transactions
from sexton.records.columns import Spans
from sexton.records.encoder import encode, rows
from sexton.spark import sink_protocol
from sexton.spark.sink_marker import Batch, SinkRefused
from sexton.spark.sink_protocol import STEPS, Answer, Plan, commit, send, unwatched
from sexton.testing.embedded import EmbeddedCluster
from tests.spark.sink_faults import Injected, committed, fail_at, trouble

Blobs = list[tuple[TopicPartition, bytearray]]
PARTITIONS = 2
QUICK = Patience(timeout_ms=20_000, backoff_ms=10, most_backoff_ms=100)


@pytest.fixture(scope="module")
def one() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


def plan_of(cluster: EmbeddedCluster, topic: str, number: int, **more: Any) -> Plan:
    probe, version = more.pop("probe", unwatched), more.pop("version", None)
    batch = Batch(topic, number, **{"query": "q", "run": "r", **more})
    kafka = {"bootstrap.servers": cluster.bootstrap_servers}
    return Plan(kafka, batch, TopicPartition(topic, 0), 60_000, QUICK, probe, version)


def blobs(topic: str, numbers: range) -> Blobs:
    """Two records a batch, the batches of each partition in order."""
    found: Blobs = []
    for first in range(numbers.start, numbers.stop, 2):
        pair = [str(n).encode() for n in (first, first + 1)]
        at = TopicPartition(topic, first // 2 % PARTITIONS)
        key = Spans.from_list([str(at.partition).encode()] * 2)
        data = encode(rows(np.zeros(2), key, Spans.from_list(list(pair))))
        found.append((at, bytearray(data)))
    return found


def write(plan: Plan, batches: Iterable[tuple[TopicPartition, bytearray]]) -> bool:
    return commit(plan, [send(plan, batches)])


@pytest.mark.parametrize("version", [ANNOUNCED, IMPLIED])
def test_batches_are_written_once_in_order(one: EmbeddedCluster, version: int) -> None:
    topic = f"plain-{version}"
    one.create_topic(topic, PARTITIONS)
    assert write(plan_of(one, topic, 0, version=version), blobs(topic, range(40)))
    assert not write(plan_of(one, topic, 0, version=version), blobs(topic, range(40)))
    assert write(plan_of(one, topic, 1, version=version), [])  # an empty one moves the marker, too
    assert write(plan_of(one, topic, 2, version=version), blobs(topic, range(40, 60)))
    assert trouble(committed(one, topic, PARTITIONS), 60) == []
    with pytest.raises(SinkRefused, match="up to 2"):
        write(plan_of(one, topic, 1, version=version), [])
    with pytest.raises(SinkRefused, match="another checkpoint"):
        write(plan_of(one, topic, 3, version=version, query="other"), [])


@pytest.mark.parametrize("version", [ANNOUNCED, IMPLIED])
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_any_step_is_made_good_by_running_again(
    one: EmbeddedCluster, tmp_path: Path, step: str, version: int
) -> None:
    topic = f"failing-{step}-{version}"
    one.create_topic(topic, PARTITIONS)
    assert write(plan_of(one, topic, 0, version=version), blobs(topic, range(20)))
    probe = fail_at(step, tmp_path / "failed", batch=1)
    with pytest.raises(Injected):
        write(plan_of(one, topic, 1, version=version, probe=probe), blobs(topic, range(20, 40)))
    again = write(plan_of(one, topic, 1, version=version), blobs(topic, range(20, 40)))
    assert again == (step != "committed")
    assert trouble(committed(one, topic, PARTITIONS), 40) == []


def test_without_the_marker_a_batch_is_there_twice(
    one: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above, at the step at which only the marker knows."""
    monkeypatch.setattr(sink_protocol, "is_to_write", lambda *_: True)
    one.create_topic("unmarked", PARTITIONS)
    probe = fail_at("committed", tmp_path / "failed")
    with pytest.raises(Injected):
        write(plan_of(one, "unmarked", 0, probe=probe), blobs("unmarked", range(20)))
    assert write(plan_of(one, "unmarked", 0), blobs("unmarked", range(20)))
    assert any("twice" in line for line in trouble(committed(one, "unmarked", PARTITIONS), 20))


def in_two_orders(cluster: EmbeddedCluster, topic: str, tmp_path: Path) -> list[str]:
    """One attempt dies on its way, the next one has the same batches in another order."""
    cluster.create_topic(topic, PARTITIONS)
    given = blobs(topic, range(4))
    given = [(TopicPartition(topic, 0), data) for _at, data in given]
    probe = fail_at("sending", tmp_path / topic)
    with pytest.raises(Injected):
        send(plan_of(cluster, topic, 0, probe=probe), [(at, bytearray(b)) for at, b in given])
    other = [(at, bytearray(data)) for at, data in reversed(given)]
    assert write(plan_of(cluster, topic, 0), other)
    return [
        line for line in trouble(committed(cluster, topic, PARTITIONS), 4) if "after" not in line
    ]


def test_attempts_with_one_epoch_lose_records_without_an_error(
    one: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why every attempt takes an epoch of its own: a broker takes other data for a repetition."""
    assert in_two_orders(one, "fresh", tmp_path) == []
    shared: list[Transaction] = []

    async def init_once(*given: Any) -> Transaction:
        if not shared:
            shared.append(await transacting.init_producer_id(*given))
        return shared[0]

    monkeypatch.setattr(sink_protocol, "init_producer_id", init_once)
    found = in_two_orders(one, "shared", tmp_path)
    assert any("lost" in line for line in found)


def test_a_late_commit_of_an_earlier_attempt_is_refused(one: EmbeddedCluster) -> None:
    """A driver that was believed dead: the other one's epoch has fenced it."""
    one.create_topic("late", PARTITIONS)
    early = plan_of(one, "late", 0, run="early")
    answer = send(early, blobs("late", range(10)))
    assert write(plan_of(one, "late", 0, run="new"), blobs("late", range(10)))
    with pytest.raises(Refused):
        commit(early, [answer])
    assert not write(early, blobs("late", range(10)))
    assert trouble(committed(one, "late", PARTITIONS), 10) == []
    with pytest.raises(SinkRefused, match="another driver"):
        write(plan_of(one, "late", 1, run="early", committed_before=True), [])


def test_an_attempt_that_is_overtaken_cannot_go_on(one: EmbeddedCluster) -> None:
    one.create_topic("overtaken", PARTITIONS)
    answers: list[Answer] = []

    def slowly() -> Iterator[tuple[TopicPartition, bytearray]]:
        for number, blob in enumerate(blobs("overtaken", range(20))):
            if number == 4:
                answers.append(send(plan_of(one, "overtaken", 0), blobs("overtaken", range(20))))
            yield blob

    with pytest.raises(Refused):
        send(plan_of(one, "overtaken", 0), slowly())
    assert commit(plan_of(one, "overtaken", 0), answers)
    assert trouble(committed(one, "overtaken", PARTITIONS), 20) == []


def test_a_transaction_that_timed_out_is_written_again(one: EmbeddedCluster) -> None:
    one.create_topic("slow", PARTITIONS)
    plan = replace(plan_of(one, "slow", 0), timeout_ms=1_000)
    answer = send(plan, blobs("slow", range(10)))
    one.advance_clock(60_000)

    async def is_over() -> bool:
        producer_id = answer.transaction.producer_id
        async with Client(one.bootstrap_servers) as client:
            found = (await transactions(client, [producer_id])).by_producer
        return producer_id not in found or not found[producer_id].is_open

    one.wait_until(lambda: asyncio.run(is_over()), "the end of the transaction")
    with pytest.raises(Refused, match=r"longer than transaction.timeout.ms \(1000\)"):
        commit(plan, [answer])
    assert write(plan, blobs("slow", range(10)))
    assert trouble(committed(one, "slow", PARTITIONS), 10) == []


def test_a_broker_dies_while_batches_are_sent() -> None:
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("moving", [[1, 2, 3], [2, 3, 1]])
        given = blobs("moving", range(40))

        def until_it_dies() -> Iterator[tuple[TopicPartition, bytearray]]:
            for number, (at, data) in enumerate(given):
                if number == 7:
                    cluster.kill(cluster.leader_of("moving", at.partition))
                yield at, bytearray(data)

        plan = plan_of(cluster, "moving", 0)
        try:
            done = write(plan, until_it_dies())
        except (PeerError, Refused):  # whichever it is, the batch is run again
            done = write(plan, [(at, bytearray(data)) for at, data in given])
        assert done
        assert trouble(committed(cluster, "moving", PARTITIONS), 40) == []
