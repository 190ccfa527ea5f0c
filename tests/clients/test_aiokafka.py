"""aiokafka, an asyncio client of its own making: records, groups, transactions, administration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    CommitFailedError,
    InvalidProducerEpoch,
    MessageSizeTooLargeError,
    ProducerFenced,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    for_code,
)

from sexton.testing.embedded import EmbeddedCluster

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
PATIENCE_S = 30.0
YEAR_2001_MS = 978_307_200_000


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 2 * PATIENCE_S))


@asynccontextmanager
async def producing(cluster: EmbeddedCluster, **more: Any) -> AsyncIterator[AIOKafkaProducer]:
    # With its default, acks=1, what was acknowledged may not be readable yet.
    chosen = {"acks": "all", **more}
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **chosen)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consuming(
    cluster: EmbeddedCluster, *topics: str, **more: Any
) -> AsyncIterator[AIOKafkaConsumer]:
    chosen = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **more}
    consumer = AIOKafkaConsumer(
        *topics,
        bootstrap_servers=cluster.bootstrap_servers,
        fetch_max_wait_ms=100,
        heartbeat_interval_ms=100,
        **chosen,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    return [await asyncio.wait_for(consumer.getone(), PATIENCE_S) for _ in range(count)]


async def everything(
    cluster: EmbeddedCluster, topic: str, level: str = "read_committed"
) -> list[Any]:
    """All records of partition 0, up to where a reader may read."""
    place = TopicPartition(topic, 0)
    async with consuming(cluster, isolation_level=level) as consumer:
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        await consumer.seek_to_beginning(place)
        found: list[Any] = []
        while await consumer.position(place) < end:
            for batch in (await consumer.getmany(timeout_ms=100)).values():
                found += batch
        return found


async def values(cluster: EmbeddedCluster, topic: str, level: str = "read_committed") -> list[str]:
    return [record.value.decode() for record in await everything(cluster, topic, level)]


async def until(
    done: Callable[[], bool | Awaitable[bool]], what: str, *consumers: AIOKafkaConsumer
) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        answer = done()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert asyncio.get_running_loop().time() < deadline, f"not seen in time: {what}"
        for consumer in consumers:
            await consumer.getmany(timeout_ms=20)


@pytest.mark.parametrize("codec", CODECS)
def test_every_kind_of_record_comes_back_as_it_was_sent(
    cluster: EmbeddedCluster, topic: str, codec: str | None
) -> None:
    sent: list[tuple[bytes | None, bytes | None, Any]] = [
        (b"key", b"value", ()),
        (None, b"no key", ()),
        (b"tombstone", None, ()),
        (b"", b"", ()),
        (b"headers", b"v", (("trace", b"\x00\xff"), ("trace", b"again"))),
        (b"compressible", b"a" * 50_000, ()),
    ]

    async def test() -> None:
        async with producing(cluster, compression_type=codec, linger_ms=20) as producer:
            waiting = [
                await producer.send(
                    topic,
                    value,
                    key,
                    partition=0,
                    timestamp_ms=YEAR_2001_MS + at,
                    headers=list(headers),
                )
                for at, (key, value, headers) in enumerate(sent)
            ]
            await asyncio.gather(*waiting)
        found = await everything(cluster, topic)
        assert [(r.key, r.value, r.headers) for r in found] == sent
        assert [r.timestamp for r in found] == [YEAR_2001_MS + at for at in range(len(sent))]

    run(test())


def test_a_record_that_is_too_large_is_refused(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("aio-large", 1, {"max.message.bytes": 100_000})

    async def test() -> None:
        async with producing(cluster, max_request_size=10_000_000) as producer:
            await producer.send_and_wait("aio-large", bytes(99_900))
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait("aio-large", bytes(99_950))
        assert len(await everything(cluster, "aio-large")) == 1

    run(test())


@pytest.mark.parametrize("assignor", [None, StickyPartitionAssignor])
def test_two_members_share_and_one_takes_over(
    cluster: EmbeddedCluster, topic: str, assignor: type | None
) -> None:
    how: dict[str, Any] = {"group_id": topic}
    if assignor is not None:
        how["partition_assignment_strategy"] = [assignor]

    async def test() -> None:
        async with consuming(cluster, topic, **how) as first:
            await until(lambda: len(first.assignment()) == 2, "one has all", first)
            async with consuming(cluster, topic, **how) as second:
                await until(
                    lambda: len(first.assignment()) == len(second.assignment()) == 1,
                    "each has one",
                    first,
                    second,
                )
                assert first.assignment() != second.assignment()
            await until(lambda: len(first.assignment()) == 2, "one has all again", first)

    run(test())


def test_a_group_goes_on_where_it_committed(cluster: EmbeddedCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)

    async def test() -> None:
        async with producing(cluster) as producer:
            for number in range(6):
                await producer.send_and_wait(topic, str(number).encode(), partition=0)
        async with consuming(cluster, topic, group_id=topic) as consumer:
            await take(consumer, 3)
            await consumer.commit({place: (3, "so far")})
            assert await consumer.committed(place) == 3
            assert await consumer.committed(TopicPartition(topic, 1)) is None
        async with consuming(cluster, topic, group_id=topic) as consumer:
            assert [r.value for r in await take(consumer, 3)] == [b"3", b"4", b"5"]

    run(test())


def test_a_static_member_comes_back_to_its_partitions(cluster: EmbeddedCluster, topic: str) -> None:
    async def test() -> None:
        one = {"group_id": topic, "group_instance_id": "one"}
        two = {"group_id": topic, "group_instance_id": "two"}
        async with consuming(cluster, topic, **one) as first:
            async with consuming(cluster, topic, **two) as second:
                await until(
                    lambda: len(first.assignment()) == len(second.assignment()) == 1,
                    "each has one",
                    first,
                    second,
                )
                had = first.assignment(), second.assignment()
            async with consuming(cluster, topic, **two) as second:
                await until(lambda: len(second.assignment()) == 1, "it is back", first, second)
                assert (first.assignment(), second.assignment()) == had

    run(test())


def test_only_committed_records_are_read(cluster: EmbeddedCluster, topic: str) -> None:
    async def test() -> None:
        async with producing(cluster, transactional_id=topic) as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"a", partition=0)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"b", partition=0)
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"c", partition=0)
            assert await values(cluster, topic) == ["a"]
            await producer.commit_transaction()
        assert await values(cluster, topic) == ["a", "c"]
        assert await values(cluster, topic, "read_uncommitted") == ["a", "b", "c"]

    run(test())


def test_a_second_producer_of_the_same_name_fences_the_first(
    cluster: EmbeddedCluster, topic: str
) -> None:
    async def test() -> None:
        async with (
            producing(cluster, transactional_id=topic) as zombie,
        ):
            await zombie.begin_transaction()
            await zombie.send_and_wait(topic, b"of the zombie", partition=0)
            async with producing(cluster, transactional_id=topic) as heir:
                await heir.begin_transaction()
                await heir.send_and_wait(topic, b"of the heir", partition=0)
                with pytest.raises(ProducerFenced):
                    await zombie.commit_transaction()
                await heir.commit_transaction()
        assert await values(cluster, topic) == ["of the heir"]

    run(test())


def test_a_transaction_that_takes_too_long_is_aborted(cluster: EmbeddedCluster, topic: str) -> None:
    async def test() -> None:
        async with (
            producing(cluster, transactional_id=topic, transaction_timeout_ms=1000) as producer,
            producing(cluster) as other,
        ):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"slow", partition=0)
            await other.send_and_wait(topic, b"behind it", partition=0)

            async def aborted() -> bool:
                return await values(cluster, topic) == ["behind it"]

            await until(aborted, "the coordinator aborts")
            with pytest.raises((ProducerFenced, InvalidProducerEpoch)):
                await producer.commit_transaction()

    run(test())


def test_consume_process_produce_does_each_record_once(
    cluster: EmbeddedCluster, topic: str
) -> None:
    into, place = f"{topic}-into", TopicPartition(topic, 0)
    cluster.create_topic(into, 1)

    async def test() -> None:
        async with producing(cluster) as producer:
            for number in range(20):
                await producer.send_and_wait(topic, str(number).encode(), partition=0)
        round_number = done = 0
        async with producing(cluster, transactional_id=topic) as producer:
            while done < 20:
                round_number += 1
                async with consuming(
                    cluster, topic, group_id=topic, isolation_level="read_committed"
                ) as consumer:
                    batch = await take(consumer, 5)
                    await producer.begin_transaction()
                    for record in batch:
                        await producer.send_and_wait(into, record.value, partition=0)
                    await producer.send_offsets_to_transaction({place: batch[-1].offset + 1}, topic)
                    if round_number % 3 == 0:
                        await producer.abort_transaction()
                    else:
                        await producer.commit_transaction()
                        done += len(batch)
        assert await values(cluster, into) == [str(number) for number in range(20)]
        assert round_number == 5
        async with consuming(cluster, group_id=topic) as consumer:
            assert await consumer.committed(place) == 20

    run(test())


def test_who_is_no_member_cannot_commit(cluster: EmbeddedCluster, topic: str) -> None:
    async def test() -> None:
        async with (
            consuming(cluster, topic, group_id=topic) as member,
            consuming(cluster, group_id=topic) as outsider,
        ):
            await until(lambda: len(member.assignment()) == 2, "one has all", member)
            outsider.assign([TopicPartition(topic, 0)])
            with pytest.raises(CommitFailedError) as raised:
                await outsider.commit({TopicPartition(topic, 0): 1})
            assert isinstance(raised.value.__cause__, UnknownMemberIdError)

    run(test())


def test_positions_by_time(cluster: EmbeddedCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)

    async def test() -> None:
        async with producing(cluster) as producer:
            for at in (1000, 3000, 2000):
                await producer.send_and_wait(
                    topic, b"v", partition=0, timestamp_ms=YEAR_2001_MS + at
                )
        async with consuming(cluster) as consumer:
            found = await consumer.offsets_for_times({place: YEAR_2001_MS + 1001})
            assert (found[place].offset, found[place].timestamp) == (1, YEAR_2001_MS + 3000)
            found = await consumer.offsets_for_times({place: YEAR_2001_MS + 3001})
            assert found[place] is None
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 3}

    run(test())


def test_an_administrators_calls(cluster: EmbeddedCluster) -> None:
    async def test() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        await admin.start()
        try:
            new = NewTopic("aio-admin", 2, 3, topic_configs={"retention.ms": "1000"})
            await admin.create_topics([new])
            (error,) = (await admin.create_topics([new])).topic_errors
            assert for_code(error[1]) is TopicAlreadyExistsError
            await admin.create_partitions({"aio-admin": NewPartitions(3)})

            async def grown() -> bool:
                (found,) = await admin.describe_topics(["aio-admin"])
                return len(found["partitions"]) == 3

            await until(grown, "the third partition")
            resource = ConfigResource(ConfigResourceType.TOPIC, "aio-admin")

            async def shown(option: str) -> str:
                (answer,) = await admin.describe_configs([resource])
                (found,) = [entry[1] for entry in answer.resources[0][4] if entry[0] == option]
                return str(found)

            assert await shown("retention.ms") == "1000"
            changed = ConfigResource(
                ConfigResourceType.TOPIC, "aio-admin", {"cleanup.policy": "compact"}
            )
            await admin.alter_configs([changed])  # all at once: the others are defaults again

            async def altered() -> bool:
                return await shown("cleanup.policy") == "compact"

            await until(altered, "the new option")
            assert await shown("retention.ms") == str(7 * 24 * 3600 * 1000)
            described = await admin.describe_cluster()
            assert len(described["brokers"]) == 3
            async with consuming(cluster, "aio-admin", group_id="aio-group") as consumer:
                await until(lambda: len(consumer.assignment()) == 3, "it has all", consumer)
                assert ("aio-group", "consumer") in {
                    tuple(each[:2]) for each in await admin.list_consumer_groups()
                }
                (answer,) = await admin.describe_consumer_groups(["aio-group"])
                assert answer.groups[0][2] == "Stable"
                await consumer.commit({TopicPartition("aio-admin", 0): 0})
            offsets = await admin.list_consumer_group_offsets("aio-group")
            assert offsets[TopicPartition("aio-admin", 0)].offset == 0
            await admin.delete_topics(["aio-admin"])

            async def gone() -> bool:
                return "aio-admin" not in await admin.list_topics()

            await until(gone, "the topic is gone")
        finally:
            await admin.close()

    run(test())
