"""Repair and `txn abort` on Apache Kafka itself: one cluster, two divergences that hurt most."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.base.partitions import TopicPartition
from sexton.cli.main import main
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.guard.repair_options import BROKER, THROTTLED_RATES, TOPIC, Value, described
from sexton.lab.divergences import APACHE_KAFKA_OPTIONS, SCENARIOS
from sexton.lab.looking import consumed
from sexton.machines.guard_notes import MAX_LAG, MIN_LAG
from sexton.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sexton.records.few import few_batch
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.waiting import until
from tests.repair.stages import Enough

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

STRANGER = 424_242  # a producer that no coordinator knows
OPTIONS = {**APACHE_KAFKA_OPTIONS, "transaction.partition.verification.enable": False}


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(nodes=3, options=OPTIONS)) as three:
        yield three


def options_of(kafka: ApacheKafka, topic: str) -> dict[str, object]:
    async def ask() -> dict[str, object]:
        async with Client(kafka.bootstrap_servers) as client:
            names = (MIN_LAG, MAX_LAG, "leader.replication.throttled.replicas")
            found: dict[str, object] = dict(await described(client, (TOPIC, topic), names))
            for node in (1, 2, 3):
                rates = await described(client, (BROKER, str(node)), THROTTLED_RATES)
                found[str(node)] = rates
            return found

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("name", "value", "more"),
    [
        ("tombstone-divergence", None, ["--throttle", "50"]),
        ("stuck-partition", "2", []),
    ],
)
def test_a_diverged_topic_is_healed(
    kafka: ApacheKafka,
    name: str,
    value: str | None,
    more: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def look(topic: str) -> None:
        kafka.alter_topic(topic, {MAX_LAG: 3_600_000})
        until(
            lambda: _own(options_of(kafka, topic)[MAX_LAG]) == "3600000", "the option is known"
        )  # fmt: skip
        before = options_of(kafka, topic)
        state = str(tmp_path / "notes.json")
        where = ["-b", kafka.bootstrap_servers]
        arguments = ["repair", topic, *where, "--state", state, "--yes", "--format", "json"]
        code = main([*arguments, *more])
        told = json.loads(capsys.readouterr().out)
        assert code == 0, (told["error"], told["findings"], told["steps"])
        assert told["summary"]["rebuilt"] == 1
        steps = [each["what"] for each in told["steps"]]
        assert not any("once more" in step for step in steps), steps
        until(lambda: options_of(kafka, topic) == before, "every option is as it was")
        seen = []
        for node in (1, 2, 3):
            kafka.elect(topic, 0, node)
            seen.append(consumed(kafka.bootstrap_servers, topic))
        assert {each.latest.get("k") for each in seen} == {value}
        assert len({each.position for each in seen}) == 1
        raise Enough

    with pytest.raises(Enough):
        SCENARIOS[name](kafka, look)


def _own(value: object) -> str | None:
    assert isinstance(value, Value)
    return value.own


async def write_as_stranger(kafka: ApacheKafka, topic: str) -> None:
    """A transactional record that nobody has announced: a transaction that will never end."""
    batch = few_batch(
        [(b"h", b"1")],
        time.time_ns() // 1_000_000,
        producer_id=STRANGER,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    async with Client(kafka.bootstrap_servers) as client:
        connection = await client.broker((await client.place(TopicPartition(topic, 0))).leader)
        request = ProduceRequest("stranger", -1, 10_000, [data])
        answer = await connection.ask(request, range(9, 12))
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            raise refused(code, "the stranger's record")


def test_a_transaction_that_hangs_is_found_and_aborted(
    kafka: ApacheKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = "hangs"
    kafka.create_topic(topic, [[1, 2, 3]], {"cleanup.policy": "compact"})
    asyncio.run(write_as_stranger(kafka, topic))
    where = ["-b", kafka.bootstrap_servers, "--format", "json"]
    hanging = ["txn", "find-hanging", "--topic", topic, "--max-transaction-timeout", "0"]
    until(lambda: main([*hanging, *where]) == 1, "it is found on all replicas")
    capsys.readouterr()
    assert main(["txn", "explain", f"{topic}:0", *where]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {each["knows"] for each in told["answers"]} == {"open"}
    assert consumed(kafka.bootstrap_servers, topic).position == 0
    place = ["--topic", topic, "--partition", "0", "--start-offset", "0"]
    assert main(["txn", "abort", *place, *where]) == 0
    until(lambda: consumed(kafka.bootstrap_servers, topic).position == 2, "consumers go on")
    assert consumed(kafka.bootstrap_servers, topic).records == ()
