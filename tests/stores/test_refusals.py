"""What Kafka refuses, and would refuse again, is an end: nobody asks for it for ever."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.topology import Topic, Topology
from sexton.protocol.messages.fetch import PartitionData
from sexton.stores import App, TaskFailed, fetching, producing
from sexton.stores.fetching import Fetcher, Reader
from sexton.stores.producing import RefusedForGood
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import INPUT, app
from tests.stores.harness import make_topics, wait_until_active, wait_until_done, write


def fails(app: App, why: str) -> None:
    with pytest.raises(TaskFailed, match=why), app:
        until(lambda: bool(app.failures()), "it fails")


def test_an_application_that_could_not_start_can_be_started_again(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    one = app(kafka.bootstrap_servers, tmp_path / "a")
    for _ in range(2):
        with pytest.raises(SextonError, match=INPUT):
            one.start()
    one.close()  # there is nothing to close, and nothing new to say
    make_topics(kafka, 1)
    write(kafka.bootstrap_servers, [(0, "a")])
    with one:
        wait_until_done(one, 1)


def test_a_producer_that_may_not_be_one(
    kafka: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topics(kafka, 1)
    asked = []

    async def refuse(_client: object, name: str, *_: object) -> None:
        asked.append(name)
        raise Refused(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, f"a producer id for {name}")

    monkeypatch.setattr(producing, "init_producer_id", refuse)
    why = r"TRANSACTIONAL_ID_AUTHORIZATION_FAILED.*counter-counts-0 \(no ACL .* ids counter-"
    fails(app(kafka.bootstrap_servers, tmp_path / "a"), why)
    assert asked == ["counter-counts-0"]


def test_a_coordinator_that_never_answers(
    kafka: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other troubles pass, but nobody waits for that without an end."""
    make_topics(kafka, 1)

    async def silence(*_: object) -> None:
        raise PeerError("broker 1", "does not answer")

    monkeypatch.setattr(producing, "init_producer_id", silence)
    one = app(kafka.bootstrap_servers, tmp_path / "a", restore_timeout_ms=500)
    fails(one, "no new producer epoch was given, though asked for 0.5 s")


def test_an_input_that_may_not_be_read(
    kafka: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topics(kafka, 1)
    right = Fetcher._came

    def came(
        fetcher: Fetcher, reader: Reader, offset: int, seeks: int, data: PartitionData, ms: int
    ) -> None:
        if reader.at.topic == INPUT:
            data = replace(data, error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
        right(fetcher, reader, offset, seeks, data, ms)

    monkeypatch.setattr(Fetcher, "_came", came)
    fails(app(kafka.bootstrap_servers, tmp_path / "a"), "TOPIC_AUTHORIZATION_FAILED: records of")


def test_an_input_that_was_deleted(
    kafka: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "DELETED_S", 0.5)
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, "a")])
    one = app(servers, tmp_path / "a")
    one.start()
    wait_until_done(one, 1)
    kafka.delete_topic(INPUT)
    until(lambda: bool(one.failures()), "it fails")
    with pytest.raises(TaskFailed, match="InputGone: numbers-0: there is no topic numbers"):
        one.close()


def test_a_topic_that_one_may_not_see_is_no_trouble_for_others() -> None:
    """Metadata is asked for many topics at once, and refused for all of them."""

    class Strict:
        async def topology(self, names: list[str]) -> Topology:
            if "secret" in names:
                raise Refused(KafkaError.TOPIC_AUTHORIZATION_FAILED, "metadata of the topic secret")
            return Topology("c", 1, {}, {name: Topic(name, b"", False, {}) for name in names})

    async def look() -> list[Any]:
        fetcher = Fetcher(Strict(), 1)  # type: ignore[arg-type]
        at = [TopicPartition(name, 0) for name in ("open", "secret")]
        fetcher._readers = {each: Reader(each, 0) for each in at}
        await fetcher._look()
        fetcher.broken.cancel()
        return [reader.failed for reader in fetcher._readers.values()]

    [seen, hidden] = asyncio.run(look())
    assert seen is None
    assert isinstance(hidden, Refused)
    assert hidden.error is KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_group_of_somebody_elses(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "counter", "log_level": 0})
    joined: list[object] = []
    consumer.subscribe([INPUT], on_assign=lambda _, partitions: joined.extend(partitions))
    try:

        def member() -> bool:
            consumer.poll(0.1)
            return bool(joined)

        until(member, "the consumer is a member")
        one = app(servers, tmp_path / "a")
        one.start()
        assert one._ended is not None
        until(one._ended.done, "it ends")
        with pytest.raises(RefusedForGood, match="INCONSISTENT_GROUP_PROTOCOL"):
            one.close()
    finally:
        consumer.close()
    with app(servers, tmp_path / "a") as later:
        wait_until_active(later, 1)
