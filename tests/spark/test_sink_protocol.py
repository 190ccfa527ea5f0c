"""The sink's protocol without Spark: exact whatever fails, and only because of its rules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sexton.base.errors import ConfigError, PeerError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.retry_topics import Names
from sexton.client.retrying import Patience
from sexton.client.transacting import ANNOUNCED, IMPLIED
from sexton.protocol.messages.metadata import MetadataRequest
from sexton.protocol.wire import Request, Response
from sexton.spark import sink_protocol
from sexton.spark.retry_outputs import Target, targets_of
from sexton.spark.retry_topics import Topics, prepare
from sexton.spark.sink_marker import SinkRefused
from sexton.spark.sink_memory import looked_back
from sexton.spark.sink_protocol import (
    RULES,
    STEPS,
    Answer,
    Plan,
    Rules,
    TooSlow,
    abandon,
    begin,
    commit,
    deliver,
    send,
)
from sexton.spark.sink_topics import TopicLimits, client_for, limits_by, topic_limits
from sexton.testing.embedded import EmbeddedCluster
from tests.spark.sink_faults import (
    PARTITIONS,
    QUICK,
    SOME_ARE_SENT,
    WIDE,
    Injected,
    blobs,
    committed,
    fail_at,
    plan_of,
    trouble,
    until_over,
    write,
)
from tests.spark.sink_rules import rules_of

R = TypeVar("R", bound=Response)


@pytest.fixture(scope="module")
def one() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


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


def test_without_the_marker_a_batch_is_there_twice(one: EmbeddedCluster, tmp_path: Path) -> None:
    """The control of the test above, at the step at which only the marker knows."""
    one.create_topic("unmarked", PARTITIONS)
    probe = fail_at("committed", tmp_path / "failed")
    plan = plan_of(one, "unmarked", 0, probe=probe, rules=rules_of("unmarked", tmp_path))
    with pytest.raises(Injected):
        write(plan, blobs("unmarked", range(20)))
    assert write(plan, blobs("unmarked", range(20)))
    assert any("twice" in line for line in trouble(committed(one, "unmarked", PARTITIONS), 20))


def in_two_orders(
    cluster: EmbeddedCluster, topic: str, tmp_path: Path, rules: Rules = RULES
) -> list[str]:
    """One attempt dies on its way, the next one has the same batches in another order."""
    cluster.create_topic(topic, PARTITIONS)
    given = blobs(topic, range(4))
    given = [(TopicPartition(topic, 0), data) for _at, data in given]
    plan = plan_of(cluster, topic, 0, probe=fail_at("sending", tmp_path / topic), rules=rules)
    with pytest.raises(Injected):
        send(plan, [(at, bytearray(b)) for at, b in given])
    assert write(plan, [(at, bytearray(data)) for at, data in reversed(given)])
    return [
        line for line in trouble(committed(cluster, topic, PARTITIONS), 4) if "after" not in line
    ]


def test_attempts_with_one_epoch_lose_records_without_an_error(
    one: EmbeddedCluster, tmp_path: Path
) -> None:
    """Why every attempt takes an epoch of its own: a broker takes other data for a repetition."""
    assert in_two_orders(one, "fresh", tmp_path) == []
    found = in_two_orders(one, "shared", tmp_path, rules_of("shared", tmp_path / "epoch"))
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


def end_by_clock(cluster: EmbeddedCluster, pipeline: str) -> None:
    """Time passes until the coordinator has ended the open transaction of a pipeline."""
    cluster.advance_clock(60_000)
    until_over(cluster, pipeline)


def test_a_transaction_that_timed_out_is_written_again(one: EmbeddedCluster) -> None:
    one.create_topic("slow", PARTITIONS)
    plan = replace(plan_of(one, "slow", 0), timeout_ms=30_000)
    answer = send(plan, blobs("slow", range(10)))
    end_by_clock(one, "slow")
    with pytest.raises(Refused, match=r"longer than transaction.timeout.ms \(30000\)"):
        commit(plan, [answer])
    assert write(plan, blobs("slow", range(10)))
    assert trouble(committed(one, "slow", PARTITIONS), 10) == []


def test_a_sender_that_is_too_slow_says_so(one: EmbeddedCluster) -> None:
    """It does not fail: Spark would run it again, with no more time than before."""
    one.create_topic("slower", PARTITIONS)
    # With somebody who watches, every batch is on its way before the next is made.
    plan = replace(plan_of(one, "slower", 0), timeout_ms=1, probe=lambda _step, _batch: None)

    def slowly() -> Iterator[tuple[TopicPartition, bytearray]]:
        for number, blob in enumerate(blobs("slower", range(20))):
            if number == 4:
                end_by_clock(one, "slower")
            yield blob

    answer = send(plan, slowly())
    assert answer.late_ms >= 1
    with pytest.raises(TooSlow, match=r"not sent within transaction.timeout.ms \(1\)"):
        commit(plan, [answer])
    assert committed(one, "slower", PARTITIONS) == []


def test_what_is_given_up_does_not_keep_readers_waiting(
    one: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.create_topic("given-up", PARTITIONS)
    plan = plan_of(one, "given-up", 0)
    answer = send(plan, blobs("given-up", range(10)))
    one.create_topic("behind", 1)
    assert write(plan_of(one, "behind", 0), blobs("given-up", range(4)))
    assert committed(one, "given-up", PARTITIONS, settled=False) == []  # they wait
    abandon(plan)
    until_over(one, "given-up")
    assert len(committed(one, "given-up", PARTITIONS)) == 4
    with pytest.raises(Refused):
        commit(plan, [answer])
    monkeypatch.setattr(sink_protocol, "SHORTLY_MS", 50)
    nowhere = replace(plan, kafka={"bootstrap.servers": "127.0.0.1:1"})
    abandon(nowhere)  # nobody answers, and nothing is said about it


def test_several_senders_are_one_attempt(one: EmbeddedCluster) -> None:
    one.create_topic("parted", PARTITIONS)
    plan = replace(plan_of(one, "parted", 0), senders=2)
    parts: list[list[tuple[TopicPartition, bytearray]]] = [[], []]
    for at, data in blobs("parted", range(40)):
        parts[at.partition].append((at, data))
    begun = begin(plan)
    lost = deliver(plan, begun, [(at, bytearray(b)) for at, b in parts[0]], 0)
    again = begin(plan)  # the attempt before ended half-way
    answers = [deliver(plan, again, part, number) for number, part in enumerate(parts)]
    with pytest.raises(PeerError, match=r"senders \[1\], of 2"):
        commit(plan, answers[1:])
    with pytest.raises(PeerError, match="several attempts, with the epochs"):
        commit(plan, [lost, answers[1]])
    assert commit(plan, answers)
    assert trouble(committed(one, "parted", PARTITIONS), 40) == []


def test_a_marker_that_expired_is_not_taken_for_the_beginning() -> None:
    with EmbeddedCluster(brokers=1, options={"offsets.retention.minutes": 10}) as cluster:
        cluster.create_topic("idle", PARTITIONS)
        assert write(plan_of(cluster, "idle", 0), blobs("idle", range(10)))
        assert not write(plan_of(cluster, "idle", 0), [])
        cluster.advance_clock(11 * 60_000)
        cluster.restart(1)  # which looks at the clock anew

        def is_gone() -> bool:
            return begin(plan_of(cluster, "idle", 1)).marker is None

        cluster.wait_until(is_gone, "the end of the marker")
        with pytest.raises(SinkRefused, match=r"no marker, but batch 1 is not the first"):
            write(plan_of(cluster, "idle", 1), blobs("idle", range(10, 20)))
        assert write(plan_of(cluster, "idle", 1, after=0), blobs("idle", range(10, 20)))
        assert trouble(committed(cluster, "idle", PARTITIONS), 20) == []


@pytest.mark.parametrize("version", [ANNOUNCED, IMPLIED])
def test_a_marker_that_is_kept_by_another_topic_is_not_overlooked(
    one: EmbeddedCluster, version: int
) -> None:
    topic, other = f"kept-{version}", f"kept-elsewhere-{version}"
    for name in (topic, other):
        one.create_topic(name, PARTITIONS)
    plan = plan_of(one, topic, 0, version=version)
    moved = replace(plan, marker_at=TopicPartition(other, 0))
    assert write(plan, blobs(topic, range(10)))
    with pytest.raises(SinkRefused, match=rf"kept by the topic {topic}, .* by {other}"):
        write(moved, blobs(topic, range(10)))
    with pytest.raises(SinkRefused, match=f"marker_topic='{topic}'"):
        looked_back_by(moved)
    assert looked_back_by(plan) == plan
    until_over(one, topic)
    assert trouble(committed(one, topic, PARTITIONS), 10) == []
    assert write(plan_of(one, topic, 1, version=version), blobs(topic, range(10, 20)))
    assert trouble(committed(one, topic, PARTITIONS), 20) == []


def looked_back_by(plan: Plan) -> Plan:
    async def look() -> Plan:
        async with client_for(plan.kafka) as client:
            return await looked_back(plan, client)

    return asyncio.run(look())


def test_a_first_batch_that_was_planned_too_long_ago_is_not_written_again() -> None:
    """Spark has not noted that it is there, and Kafka has forgotten it."""
    with EmbeddedCluster(brokers=1, options={"offsets.retention.minutes": 10}) as cluster:
        cluster.create_topic("rested", PARTITIONS)
        now_ms = time.time_ns() // 1_000_000
        planned = plan_of(cluster, "rested", 0, planned_ms=now_ms - 11 * 60_000)
        assert write(planned, blobs("rested", range(10)))
        assert not write(looked_back_by(planned), blobs("rested", range(10)))
        cluster.advance_clock(11 * 60_000)
        cluster.restart(1)  # which looks at the clock anew
        cluster.wait_until(lambda: begin(planned).marker is None, "the end of the marker")
        with pytest.raises(SinkRefused, match="it may be in the topic, or not"):
            write(looked_back_by(planned), blobs("rested", range(10)))
        younger = plan_of(cluster, "rested", 0, planned_ms=now_ms - 9 * 60_000)
        assert not looked_back_by(younger).batch.may_be_forgotten
        assert trouble(committed(cluster, "rested", PARTITIONS), 10) == []
        known = plan_of(cluster, "rested", 0, planned_ms=planned.batch.planned_ms, after=0)
        assert not write(looked_back_by(known), blobs("rested", range(10)))
        assert write(plan_of(cluster, "rested", 1, after=0), blobs("rested", range(10, 20)))
        assert trouble(committed(cluster, "rested", PARTITIONS), 20) == []


def test_a_leader_and_a_coordinator_die_on_the_way() -> None:
    """The first while batches are sent, the other between the answer and the commit."""
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("moving", [[1, 2, 3], [2, 3, 1]])
        given = blobs("moving", range(40), WIDE // 2)

        def until_it_dies() -> Iterator[tuple[TopicPartition, bytearray]]:
            for number, (at, data) in enumerate(given):
                if number == SOME_ARE_SENT:
                    killed.append(cluster.leader_of("moving", at.partition))
                    cluster.kill(killed[0])
                yield at, bytearray(data)

        killed: list[int] = []
        plan = plan_of(cluster, "moving", 0)
        try:
            done = write(plan, until_it_dies())
        except (PeerError, Refused):  # whichever it is, the batch is run again
            done = write(plan, [(at, bytearray(data)) for at, data in given])
        assert done
        assert trouble(committed(cluster, "moving", PARTITIONS), 40) == []
        cluster.restart(killed[0])
        for number, coordinator in enumerate(("__transaction_state", "__consumer_offsets"), 1):
            plan = plan_of(cluster, "moving", number)
            first = 20 + 20 * number
            answer = send(plan, blobs("moving", range(first, first + 20)))
            cluster.wait_until_in_sync(coordinator)
            node = cluster.leader_of(coordinator)
            cluster.kill(node)
            assert commit(plan, [answer])  # by the one that takes over
            cluster.restart(node)
        assert trouble(committed(cluster, "moving", PARTITIONS), 80) == []


# ── a coordinator that was replaced, and does not know ──


@contextmanager
def replaced_coordinator() -> Iterator[tuple[EmbeddedCluster, dict[str, str]]]:
    """Batch 0 is there. Broker 1, of the marker, is cut off from the others, and not from us.

    With the addresses of the others: who asks these writes batch 1, and broker 1 hears nothing.
    """
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("replaced", [[2, 3, 1], [3, 2, 1]])
        assert write(plan_of(cluster, "replaced", 0), blobs("replaced", range(10)))
        for topic, leader in (("__consumer_offsets", 1), ("__transaction_state", 2)):
            cluster.wait_until_in_sync(topic)
            cluster.elect(topic, 0, leader)
        begin(plan_of(cluster, "replaced", 1))  # it has read its log
        cluster.isolate(1)
        cluster.wait_until(lambda: cluster.leader_of("__consumer_offsets") != 1, "another one")
        servers = ",".join(cluster.address_of(node) for node in (2, 3))
        yield cluster, {"bootstrap.servers": servers}


def begun_again(cluster: EmbeddedCluster, **more: Any) -> tuple[Plan, Answer]:
    """Another attempt at batch 1, which asks broker 1 first."""
    plan = plan_of(cluster, "replaced", 1, **more)
    answer = send(plan, blobs("replaced", range(10, 20)))
    assert answer.marker is not None
    assert answer.marker.offset == 0
    return plan, answer


def seen_after(cluster: EmbeddedCluster) -> list[str]:
    cluster.kill(1)
    return trouble(committed(cluster, "replaced", PARTITIONS), 20)


def test_a_batch_is_not_written_again_on_the_word_of_a_coordinator_that_was_replaced() -> None:
    with replaced_coordinator() as (cluster, others):
        early = replace(plan_of(cluster, "replaced", 1, run="early"), kafka=others)
        assert write(early, blobs("replaced", range(10, 20)))
        plan, answer = begun_again(cluster)
        assert not commit(plan, [answer])
        plan, answer = begun_again(cluster, run="early")  # whose own answer was lost
        with pytest.raises(PeerError, match="not the one that this attempt began with"):
            commit(plan, [answer])
        assert seen_after(cluster) == []


def test_a_coordinator_that_was_replaced_may_be_right() -> None:
    with replaced_coordinator() as (cluster, _others):
        plan, answer = begun_again(cluster)
        assert commit(plan, [answer])
        assert seen_after(cluster) == []


def test_whoever_believes_a_coordinator_that_was_replaced_writes_twice(tmp_path: Path) -> None:
    """The control."""
    with replaced_coordinator() as (cluster, others):
        early = replace(plan_of(cluster, "replaced", 1, run="early"), kafka=others)
        assert write(early, blobs("replaced", range(10, 20)))
        plan, answer = begun_again(cluster, rules=rules_of("believed", tmp_path))
        assert commit(plan, [answer])
        assert any("twice" in line for line in seen_after(cluster))


# ── topics that brokers have not heard of yet ──


class Late(Client):
    """A topic is made when the first answer was that there is none."""

    def __init__(self, cluster: EmbeddedCluster, late: str) -> None:
        super().__init__(cluster.bootstrap_servers)
        self._cluster, self._late, self._made = cluster, late, False

    async def ask(self, request: Request[R], versions: range = range(1 << 15)) -> R:
        answer = await super().ask(request, versions)
        if isinstance(request, MetadataRequest) and not self._made:
            self._made = True
            await asyncio.to_thread(self._cluster.create_topic, self._late, PARTITIONS)
        return answer


def test_a_topic_that_was_made_a_moment_ago_is_asked_for_again(one: EmbeddedCluster) -> None:
    async def limits() -> dict[str, TopicLimits]:
        async with Late(one, "just-made") as client:
            return await limits_by(client, ["just-made"], QUICK)

    assert asyncio.run(limits())["just-made"].partitions == PARTITIONS


def test_topics_of_a_retry_pipeline_that_were_made_a_moment_ago_are_asked_for_again(
    one: EmbeddedCluster,
) -> None:
    one.create_topic("taken", PARTITIONS)
    names = Names.of("taken", "group")

    async def prepared() -> int:
        async with Late(one, "taken-out") as client:
            return await prepare(client, Topics(names, "taken-out"), QUICK)

    async def targets() -> dict[str, Target]:
        async with Late(one, "just-made-out") as client:
            return await targets_of(client, ["just-made-out"], QUICK, were_there=True)

    assert asyncio.run(prepared()) == PARTITIONS
    assert asyncio.run(targets())["just-made-out"].limits is not None


def test_a_topic_that_is_not_there_is_told_soon(one: EmbeddedCluster) -> None:
    kafka = {"bootstrap.servers": one.bootstrap_servers}
    patient = Patience(timeout_ms=600_000, backoff_ms=20)
    with pytest.raises(ConfigError, match=r"topic nowhere: there is no such topic \(create it"):
        asyncio.run(asyncio.wait_for(topic_limits(kafka, ["nowhere"], patient), 30))
