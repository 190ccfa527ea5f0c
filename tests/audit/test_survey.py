"""What a survey does when things go wrong on the way: nothing half-read is ever called whole."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sexton.base.errors import ConfigError, SextonError
from sexton.base.partitions import TopicPartition as At
from sexton.client.client import Client
from sexton.client.retrying import Patience, Trying
from sexton.client.topology import Topology
from sexton.records.layout import BatchHeader
from sexton.survey import survey as survey_module
from sexton.survey import tasks
from sexton.survey.plan import Plan, Wanted, plan
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import run_files_survey, run_survey
from sexton.survey.tasks import FoldTask, Result
from sexton.testing.embedded import EmbeddedCluster

TOPIC = "orders"


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as started:
        started.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1]], {"cleanup.policy": "compact"})
        producer = Producer({"bootstrap.servers": started.bootstrap_servers})
        for number in range(500):
            producer.produce(TOPIC, f"value {number}", f"key {number}", partition=number % 2)
        assert producer.flush(30) == 0
        yield started


class Counting:
    """A runner that does something before a task, and remembers which ran."""

    slots = 1

    def __init__(self, stop_after: int | None = None) -> None:
        self.ran: list[FoldTask] = []
        self._stop_after = stop_after

    def run(self, wanted: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]:
        for number, task in enumerate(wanted):
            if len(self.ran) == self._stop_after:
                raise KeyboardInterrupt
            self.ran.append(task)
            ((_zero, result),) = LocalRunner(1).run([task])
            yield number, result


def wanted(cluster: EmbeddedCluster) -> Wanted:
    return Wanted(cluster.bootstrap_servers, topics=(TOPIC,))


def test_replicas_that_were_read_are_not_read_again(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    interrupted = Counting(stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        run_survey(wanted(cluster), interrupted, journal=journal)
    rest = Counting()
    survey = run_survey(wanted(cluster), rest, journal=journal)
    assert len(interrupted.ran) == 4 and len(rest.ran) == 2
    assert not list(survey.findings) and not list(survey.unread)
    assert sum(len(each.facts) for each in survey.partitions) == 6
    assert not journal.exists()


@pytest.mark.parametrize("replicas_then", [[1, 2, 9], [1, 2]], ids=["one left", "one came"])
def test_replicas_that_came_or_left_since_are_no_obstacle(
    cluster: EmbeddedCluster, tmp_path: Path, replicas_then: list[int]
) -> None:
    """A partition was reassigned between an interrupted audit and the one that goes on."""
    journal = tmp_path / "journal"
    with pytest.raises(KeyboardInterrupt):
        run_survey(wanted(cluster), Counting(stop_after=0), journal=journal)
    head = json.loads(journal.read_text())
    head["groups"][0]["nodes"] = replicas_then
    journal.write_text(json.dumps(head) + "\n")
    survey = run_survey(wanted(cluster), LocalRunner(), journal=journal)
    assert not list(survey.findings) and not list(survey.unread)
    assert [sorted(each.facts) for each in survey.partitions] == [[1, 2, 3], [1, 2, 3]]


def test_a_topic_that_was_not_compacted_then_is_compared_as_it_is_now(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """Each replica is cleaned at its own time, and what it has removed is not lost."""
    journal = tmp_path / "journal"
    with pytest.raises(KeyboardInterrupt):
        run_survey(wanted(cluster), Counting(stop_after=0), journal=journal)
    head = json.loads(journal.read_text())
    for group in head["groups"]:
        group["scope"]["compacted"] = False
    journal.write_text(json.dumps(head) + "\n")
    rest = Counting()
    run_survey(wanted(cluster), rest, journal=journal)
    assert [task.scope.compacted for task in rest.ran] == [True] * 6


class Killing(Counting):
    """A runner for whose first tasks broker 3 is dead, and for later ones perhaps as well."""

    def __init__(self, cluster: EmbeddedCluster, *, comes_back: bool = False) -> None:
        super().__init__()
        self._cluster = cluster
        self._comes_back = comes_back

    def run(self, wanted: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]:
        if not self.ran:
            self._cluster.kill(3)
        elif self._comes_back:
            self._cluster.restart(3)
            self._comes_back = False
        yield from super().run(wanted)


class Waits(Trying):
    """How many reads have waited for a broker?"""

    began: ClassVar[set[int]] = set()

    async def pause(self, error: SextonError) -> None:
        self.began.add(id(self))
        await super().pause(error)


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "PATIENCE", Patience(timeout_ms=300))
    monkeypatch.setattr(tasks, "Trying", Waits)
    monkeypatch.setattr(tasks, "_given_up", {})
    for module in (tasks, survey_module):
        monkeypatch.setattr(module, "RECENTLY_S", 2.0)
    monkeypatch.setattr(Waits, "began", set())


@pytest.mark.usefixtures("impatience")
def test_a_broker_that_dies_while_it_is_read_is_named(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("wide", [[1, 2, 3]] * 8, {"cleanup.policy": "compact"})
    survey = run_survey(replace(wanted(cluster), topics=("wide",)), Killing(cluster))
    assert [(at.partition, node) for at, node, _why in survey.unread] == [(n, 3) for n in range(8)]
    assert not list(survey.findings)
    assert len(Waits.began) == 2, "once, and once more in the end: not for each partition"


@pytest.mark.usefixtures("impatience")
def test_a_broker_that_is_back_in_the_end_is_read(cluster: EmbeddedCluster) -> None:
    runner = Killing(cluster, comes_back=True)
    survey = run_survey(wanted(cluster), runner)
    assert not list(survey.unread) and not list(survey.findings)
    assert sum(len(each.facts) for each in survey.partitions) == 6
    assert len(runner.ran) == 8, "both tasks of broker 3 twice"


def test_more_keys_than_memory_has_room_for(cluster: EmbeddedCluster) -> None:
    """The log is read several times, for some of the keys each time, with the same digests."""
    roomy = run_survey(wanted(cluster), LocalRunner())
    tight = run_survey(
        Wanted(cluster.bootstrap_servers, topics=(TOPIC,), most_keys=40), LocalRunner()
    )
    assert not list(tight.findings)
    for one, other in zip(roomy.partitions, tight.partitions, strict=True):
        assert [facts.keys for facts in one.facts.values()] == [250] * 3
        assert [facts.keys for facts in other.facts.values()] == [250] * 3


def test_only_what_is_recent_is_compared(cluster: EmbeddedCluster) -> None:
    far = Wanted(cluster.bootstrap_servers, topics=(TOPIC,), since_ms=1 << 42)
    survey = run_survey(far, LocalRunner())
    assert [each.plan.groups[0].scope.start for each in survey.partitions] == [250, 250]
    assert all(facts.keys == 0 for each in survey.partitions for facts in each.facts.values())


def test_a_share_of_the_partitions(cluster: EmbeddedCluster) -> None:
    half = Wanted(cluster.bootstrap_servers, topics=(TOPIC,), sample_partitions=0.5)
    survey = run_survey(half, LocalRunner())
    assert len(survey.partitions) == 1 and survey.left_out == 1


def test_one_partition_of_a_topic(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("beside", [[1, 2, 3], [1, 2, 3]], {"cleanup.policy": "compact"})
    only = (At(TOPIC, 1),)
    asked = Wanted(cluster.bootstrap_servers, topics=(TOPIC, "beside"), partitions=only)
    survey = run_survey(asked, LocalRunner())
    read = [each.partition for each in survey.partitions]
    assert read == [At(TOPIC, 1), At("beside", 0), At("beside", 1)]
    paths = [cluster.data_directory(node) for node in (1, 2)]
    copies = run_files_survey(paths, LocalRunner(), topics=(TOPIC,), partitions=only)
    assert [each.partition for each in copies.partitions] == [At(TOPIC, 1)]
    with pytest.raises(ConfigError, match="there is no such partition"):
        run_survey(replace(asked, partitions=(At(TOPIC, 2),)), LocalRunner())


def test_a_topic_that_is_deleted_while_it_is_asked_about(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("short-lived", [[1, 2, 3]], {"cleanup.policy": "compact"})

    class Slow(Client):
        """Between what it is told and what it asks next, somebody deletes a topic."""

        async def topology(self, topics: Iterable[str] | None = None) -> Topology:
            found = await super().topology(topics)
            if topics is None:
                assert "short-lived" in found.topics
                await asyncio.to_thread(cluster.delete_topic, "short-lived")
                while "short-lived" in (await super().topology(["short-lived"])).topics:
                    pass  # not every broker has heard of it
            return found

    async def planned() -> Plan:
        async with Slow(cluster.bootstrap_servers) as client:
            return await plan(client, Wanted(cluster.bootstrap_servers, all_compacted=True))

    assert {each.partition.topic for each in asyncio.run(planned()).partitions} == {TOPIC}


class Deleting:
    """A runner that deletes the first records of every partition before it reads."""

    slots = 2

    def __init__(self, bootstrap_servers: str, before: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        self._before = before

    def run(self, wanted: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]:
        partitions = {task.scope.partition for task in wanted}
        deleted = self._admin.delete_records(
            [TopicPartition(each.topic, each.partition, self._before) for each in partitions]
        )
        for each in deleted.values():
            each.result(30)
        yield from LocalRunner(self.slots).run(wanted)


@pytest.mark.parametrize("policy", ["compact,delete", "delete"])
def test_retention_may_move_the_start_of_what_is_read(
    cluster: EmbeddedCluster, policy: str
) -> None:
    cluster.create_topic("short", [[1, 2, 3]], {"cleanup.policy": policy})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(300):
        producer.produce("short", f"value {number}", f"key {number}")
        if number % 10 == 9:
            assert producer.flush(30) == 0
    survey = run_survey(
        Wanted(cluster.bootstrap_servers, topics=("short",)),
        Deleting(cluster.bootstrap_servers, 200),
    )
    assert not list(survey.findings) and not list(survey.unread)
    (partition,) = survey.partitions
    leader = partition.facts[partition.plan.leader]
    assert (leader.log_start, leader.read_to) == (200, 300)
    assert 100 <= leader.records < 120  # from the batch with offset 200 on


def test_who_stops_waiting_does_not_wait_for_slow_reads(cluster: EmbeddedCluster) -> None:
    planned = Counting()
    run_survey(wanted(cluster), planned)
    quick = planned.ran[0]
    slow = replace(planned.ran[1], max_bytes_per_s=100)  # more than a minute
    results = LocalRunner(2).run([slow, quick])
    assert next(results)[0] == 1
    began = time.monotonic()
    results.close()
    assert time.monotonic() - began < 30


def test_internal_topics_beside_named_ones(cluster: EmbeddedCluster) -> None:
    writer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"})
    writer.init_transactions(30)
    for named, expected in (
        ((TOPIC,), {TOPIC, "__transaction_state"}),
        ((), {"__transaction_state"}),
    ):
        asked = Wanted(cluster.bootstrap_servers, topics=named, internal=True)
        survey = run_survey(asked, LocalRunner())
        assert {each.partition.topic for each in survey.partitions} == expected


def test_copies_of_records_without_keys_are_compared_batch_by_batch(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for topic in ("tea", "coffee"):
        cluster.create_topic(topic, [[1, 2, 3]])
        producer.produce(topic, topic)
    assert producer.flush(30) == 0

    def copy(topic: str, name: str) -> Path:
        whole = cluster.data_directory(1) / f"{topic}-0"
        return shutil.copytree(whole, tmp_path / name / "drinks-0").parent

    paths = [copy("tea", "one"), copy("tea", "two")]
    assert not list(run_files_survey(paths, LocalRunner()).findings)
    paths.append(copy("coffee", "three"))
    (finding,) = run_files_survey(paths, LocalRunner()).findings
    assert "different records at offset 0" in finding.message


def test_a_replica_that_lost_its_first_segment_is_named(cluster: EmbeddedCluster) -> None:
    """Its log begins later than its leader's, and it is in sync: somebody deleted a file.

    Where records are deleted for their age, logs begin at different offsets all the time.
    """
    topic, at = "whole", At("whole", 0)
    policy = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    cluster.create_topic(topic, [[1, 2, 3]], policy)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(4):
        producer.produce(topic, bytes(600_000), f"key {number}")
        assert producer.flush(30) == 0
    cluster.stop(3)
    first, *_others = sorted(cluster.data_directory(3).rglob(f"{at}/*.log"))
    first.unlink()
    cluster.restart(3)
    cluster.wait_until_in_sync(topic, 0)
    question = Wanted(cluster.bootstrap_servers, topics=(topic,))
    (finding,) = run_survey(question, LocalRunner()).findings
    assert (finding.code, finding.replicas, finding.key) == ("missing-record", (3,), b"key 0")
    assert finding.verdict.right == (1, 2) and "begins at offset 1" in finding.verdict.because
    cluster.alter_topic(topic, {"cleanup.policy": "compact,delete", "retention.ms": "-1"})
    assert not list(run_survey(question, LocalRunner()).findings)


def test_a_stuck_replica_is_found_behind_an_older_open_transaction(
    cluster: EmbeddedCluster,
) -> None:
    """While that is open nobody is stable past it; the log tells that the other one has ended."""
    topic, at = "behind", At("behind", 0)
    cluster.create_topic(topic, [[1, 2, 3]], {"cleanup.policy": "compact"})
    older, other = (
        Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
        for name in ("older", "other")
    )
    for producer in (older, other):
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, "1", "k")
        assert producer.flush(30) == 0
    plain = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(100):  # its marker is not where people are shown the start of it
        plain.produce(topic, "1", f"{number}")
    assert plain.flush(30) == 0
    other.commit_transaction(30)
    plain.produce(topic, "1", "after")
    assert plain.flush(30) == 0
    question = Wanted(cluster.bootstrap_servers, topics=(topic,))
    assert not list(run_survey(question, LocalRunner()).findings)

    cluster.stop(3)
    (log,) = sorted(cluster.data_directory(3).rglob(f"{at}/*.log"))
    batches = [log.read_bytes()[begin:end] for begin, end in _batches(log)]
    log.write_bytes(b"".join(each for each in batches if not BatchHeader.unpack(each).is_control))
    for beside in (*log.parent.glob("*.index"), *log.parent.glob("*.snapshot")):
        beside.unlink()
    cluster.restart(3)
    cluster.wait_until_in_sync(topic, 0)
    found = run_survey(question, LocalRunner())
    (finding,) = found.findings
    assert (finding.code, finding.replicas) == ("stuck-partition", (3,))
    assert finding.verdict.right == (1, 2) and finding.verdict.certainty == "certain"
    assert "it was committed" in finding.verdict.because
    assert not any(each.not_judged for each in found.partitions)
    older.abort_transaction(30)


def _batches(log: Path) -> Iterator[tuple[int, int]]:
    data, position = log.read_bytes(), 0
    while position < len(data):
        after = position + BatchHeader.unpack(data, position).size
        yield position, after
        position = after


def test_nor_are_those_of_another_topic_of_that_name_taken_for_read(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    """It was deleted and made again since the audit was interrupted, and is just as long."""
    journal = tmp_path / "journal"
    with pytest.raises(KeyboardInterrupt):
        run_survey(wanted(cluster), Counting(stop_after=4), journal=journal)
    cluster.delete_topic(TOPIC)
    cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1]], {"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(500):
        producer.produce(TOPIC, f"other {number}", f"key {number}", partition=number % 2)
    assert producer.flush(30) == 0
    rest = Counting()
    survey = run_survey(wanted(cluster), rest, journal=journal)
    assert len(rest.ran) == 6, "each replica of this one"
    assert not list(survey.findings) and not list(survey.unread)


@pytest.fixture
def four() -> Iterator[EmbeddedCluster]:
    """Broker 1 is cut off. Since then broker 4 has a copy of one topic, and there is a new one."""
    with EmbeddedCluster(4) as started:
        compacted = {"cleanup.policy": "compact"}
        started.create_topic(TOPIC, [[2, 3]], compacted)
        servers = ",".join(started.address_of(node) for node in (2, 3, 4))
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(TOPIC, "value", "key")
        assert producer.flush(30) == 0
        started.isolate(1)
        started.reassign(TOPIC, 0, [2, 3, 4])
        started.wait_for(TOPIC, 0, lambda state: len(state.isr) == 3)
        started.create_topic("new", [[2, 3]], compacted)
        yield started


@pytest.mark.parametrize("bootstrap", ["cut off", "another"])
@pytest.mark.parametrize("topics", [(), (TOPIC, "new")])
def test_a_broker_with_old_news_does_not_hide_a_replica(
    four: EmbeddedCluster, bootstrap: str, topics: tuple[str, ...]
) -> None:
    """That all replicas agree is not said of those that it has heard of alone."""
    servers = four.address_of(1 if bootstrap == "cut off" else 2)
    survey = run_survey(Wanted(servers, topics=topics, all_compacted=not topics), LocalRunner(1))
    read = {str(each.partition): {*each.facts} for each in survey.partitions}
    assert read == {"orders-0": {2, 3, 4}, "new-0": {2, 3}}
    assert not list(survey.unread) and not list(survey.findings)
