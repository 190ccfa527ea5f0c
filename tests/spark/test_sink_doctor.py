"""`sexton sink doctor`: does it see what is open, end it rightly, and know who may go on?"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.base.errors import Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.transacting import Committed, commit_offset, end_transaction, init_producer_id
from sexton.machines.retry_records import Watermark
from sexton.spark.sink_marker import Marker
from sexton.spark.sink_protocol import PREFIX, commit, send
from sexton.testing.embedded import EmbeddedCluster
from tests.conftest import Result, RunSexton
from tests.spark.sink_faults import PARTITIONS, blobs, committed, plan_of, trouble, write

Doctor = Callable[..., Result]


@pytest.fixture(scope="module")
def one() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as cluster:
        yield cluster


@pytest.fixture
def doctor(one: EmbeddedCluster, run_sexton: RunSexton) -> Doctor:
    def run(*arguments: object) -> Result:
        where = ("-b", one.bootstrap_servers, "--format", "json")
        return run_sexton("sink", "doctor", *where, *arguments)

    return run


BEGAN_MS = time.time_ns() // 1_000_000 - 60_000


def planned_ms(number: int) -> int:
    return BEGAN_MS + number


def checkpoint_at(place: Path, query: str, planned: int, finished: int) -> Path:
    """As Spark leaves it when a batch was planned, and that one or the one before finished."""
    for log, newest in (("offsets", planned), ("commits", finished)):
        (place / log).mkdir(parents=True)
        for number in range(newest + 1):
            told = json.dumps({"batchTimestampMs": planned_ms(number)}) + "\n{}"
            (place / log / str(number)).write_text(f"v1\n{told if log == 'offsets' else '{}'}")
            (place / log / f".{number}.crc").write_bytes(b"")
    (place / "metadata").write_text(json.dumps({"id": query}))
    return place


def codes(answer: Result) -> dict[str, str]:
    return {each["code"]: each["severity"] for each in answer.json["findings"]}


def test_a_cluster_without_pipelines_is_said_to_have_none(run_sexton: RunSexton) -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        where = ("sink", "doctor", "-b", cluster.bootstrap_servers)
        none = run_sexton(*where)
        assert none.code == 0 and "There is no exactly-once pipeline yet.\n" in none.stdout
        cluster.create_topic("left", PARTITIONS)
        assert write(plan_of(cluster, "left", 0), blobs("left", range(10)))
        assert "There is no" not in run_sexton(*where).stdout


def test_what_is_open_is_seen_and_ended(one: EmbeddedCluster, doctor: Doctor) -> None:
    one.create_topic("left", PARTITIONS)
    assert write(plan_of(one, "left", 0), blobs("left", range(10)))
    plan = plan_of(one, "left", 1)
    answer = send(plan, blobs("left", range(10, 20)))  # and its driver dies
    seen = doctor()
    assert seen.code == 0  # a driver may be at work
    (row,) = [each for each in seen.json["pipelines"] if each["pipeline"] == "left"]
    assert (row["transaction"], row["last_batch"], row["rows"]) == ("Ongoing", 0, 10)
    assert row["marker_expires"] > row["written"]
    assert codes(seen) == {"open-transaction": "note"}
    assert doctor("--end").code == 2  # whose?
    ended = doctor("--name", "left", "--end")
    assert (ended.code, ended.json["summary"]["ended"]) == (0, 1)
    assert ended.json["pipelines"][0]["transaction"] != "Ongoing"
    assert len(committed(one, "left", PARTITIONS)) == 10
    with pytest.raises(Refused):  # the driver was alive after all
        commit(plan, [answer])
    assert write(plan, blobs("left", range(10, 20)))
    assert trouble(committed(one, "left", PARTITIONS), 20) == []
    assert doctor("--name", "left", "--end").json["summary"]["ended"] == 0


def test_readers_wait_for_what_is_open_and_go_on_when_it_is_ended(
    one: EmbeddedCluster, doctor: Doctor
) -> None:
    one.create_topic("awaited", PARTITIONS)
    send(plan_of(one, "awaited", 0), blobs("awaited", range(10)))
    one.create_topic("other", 1)
    assert write(plan_of(one, "other", 0), blobs("awaited", range(4)))
    assert committed(one, "awaited", PARTITIONS, settled=False) == []  # the control
    assert doctor("--name", "awaited", "--end").code == 0
    assert len(committed(one, "awaited", PARTITIONS)) == 4


def test_an_open_transaction_that_kafka_does_not_end_is_a_finding(run_sexton: RunSexton) -> None:
    """The brokers' clock stands still, and ours does not."""
    with EmbeddedCluster(brokers=1, frozen_clock=True) as cluster:
        cluster.create_topic("old", PARTITIONS)
        send(replace(plan_of(cluster, "old", 0), timeout_ms=1), blobs("old", range(10)))
        where = ("-b", cluster.bootstrap_servers, "--format", "json", "--name", "old")
        seen = run_sexton("sink", "doctor", *where)
        assert (seen.code, codes(seen)) == (1, {"open-transaction": "warning"})
        ended = run_sexton("sink", "doctor", *where, "--end")
        assert (ended.code, codes(ended)) == (0, {})


@pytest.mark.parametrize(
    ("planned", "finished", "code", "found"),
    [
        (2, 2, 0, "pipeline-agrees"),  # batch 3 comes next
        (3, 2, 0, "pipeline-agrees"),  # it was begun
        (2, 1, 0, "pipeline-agrees"),  # Spark has not noted the last one
        (1, 1, 1, "pipeline-refused"),  # Spark would plan it anew
        (1, 0, 1, "pipeline-refused"),  # an old checkpoint
        (5, 4, 1, "pipeline-refused"),  # batches are missing
    ],
)
def test_a_checkpoint_is_held_against_the_marker(
    one: EmbeddedCluster, doctor: Doctor, tmp_path: Path, planned: int, finished: int, code: int,
    found: str,
) -> None:  # fmt: skip
    name = f"checked-{planned}-{finished}"
    one.create_topic(name, PARTITIONS)
    for number in range(3):
        plan = plan_of(one, name, number, query=name, planned_ms=planned_ms(number))
        assert write(plan, [])
    place = checkpoint_at(tmp_path / "checkpoint", name, planned, finished)
    answer = doctor("--checkpoint", place)
    assert (answer.code, list(codes(answer))) == (code, [found])
    other = checkpoint_at(tmp_path / "other", "another-query", planned, finished)
    answer = doctor("--checkpoint", other, "--name", name)
    assert codes(answer) == {"pipeline-refused": "error"}
    assert "another checkpoint" in answer.json["findings"][0]["message"]


def test_a_pipeline_that_nobody_knows_is_named(doctor: Doctor, tmp_path: Path) -> None:
    answer = doctor("--job-id", "nobody")
    assert (answer.code, codes(answer)) == (1, {"unknown-pipeline": "warning"})
    # But a checkpoint whose first batch is to come has nothing to be known by.
    new = checkpoint_at(tmp_path / "checkpoint", "new-query", 0, -1)
    assert codes(doctor("--checkpoint", new)) == {"pipeline-agrees": "note"}
    # Unless it was planned longer ago than Kafka would remember it.
    plan = new / "offsets" / "0"
    plan.write_text(plan.read_text().replace(str(planned_ms(0)), "1700000000000"))
    answer = doctor("--checkpoint", new)
    assert (answer.code, codes(answer)) == (1, {"pipeline-refused": "error"})
    assert "after_batch=-1" in answer.json["findings"][0]["remedy"]


def test_what_is_no_checkpoint_is_refused(doctor: Doctor, tmp_path: Path) -> None:
    assert doctor("--checkpoint", tmp_path).code == 2
    assert doctor("--checkpoint", "hdfs://there/checkpoint").code == 2
    place = checkpoint_at(tmp_path / "checkpoint", "q", 0, 0)
    assert doctor("--checkpoint", place, "--job-id", "a").code == 2


def commit_by_hand(
    cluster: EmbeddedCluster, pipeline: str, committed: Committed, partition: int = 0
) -> None:
    async def work() -> None:
        at = TopicPartition(pipeline, partition)
        async with Client(cluster.bootstrap_servers) as client:
            transaction = await init_producer_id(client, f"by-hand-{pipeline}", 10_000)
            await commit_offset(client, transaction, PREFIX + pipeline, at, committed)
            await end_transaction(client, transaction, committed=True)

    asyncio.run(work())


def test_an_offset_of_somebody_else_is_named(one: EmbeddedCluster, doctor: Doctor) -> None:
    one.create_topic("taken", 1)
    commit_by_hand(one, "taken", Committed(7, "mine"))
    answer = doctor("--name", "taken")
    assert (answer.code, codes(answer)) == (1, {"foreign-offset": "error"})


def test_the_positions_of_ordered_retries_are_no_fault(
    one: EmbeddedCluster, doctor: Doctor
) -> None:
    """`ordered_retry` commits them to the group of its marker, in the same transactions."""
    one.create_topic("retried", 2)
    marker = Marker(7, "q", "r", rows=1, at_ms=int(time.time() * 1000))
    commit_by_hand(one, "retried", marker.to_committed())
    commit_by_hand(one, "retried", Committed(17, Watermark(17, 2).encode()), partition=1)
    answer = doctor("--name", "retried")
    assert (answer.code, codes(answer)) == (0, {})
    assert answer.json["pipelines"][0]["last_batch"] == 7


def test_a_pipeline_of_which_positions_are_left_is_known(
    one: EmbeddedCluster, doctor: Doctor
) -> None:
    one.create_topic("positions", 1)
    commit_by_hand(one, "positions", Committed(17, Watermark(17, 1).encode()))
    assert codes(doctor("--name", "positions")) == {}


@pytest.mark.parametrize(("days", "found"), [(5, {}), (6.5, {"marker-expires": "warning"})])
def test_a_marker_that_may_soon_be_forgotten_is_a_finding(
    one: EmbeddedCluster, doctor: Doctor, days: float, found: dict[str, str]
) -> None:
    """Kafka keeps it for a week, if it is not told otherwise."""
    name = f"idle-{days}"
    one.create_topic(name, 1)
    written_ms = int((time.time() - days * 24 * 3600) * 1000)
    commit_by_hand(one, name, Marker(7, "q", "r", rows=1, at_ms=written_ms).to_committed())
    answer = doctor("--name", name)
    assert (answer.code, codes(answer)) == (1 if found else 0, found)
