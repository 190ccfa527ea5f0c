"""Is a partition read whole and once, whatever happens to its brokers meanwhile?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as AdminPartition
from confluent_kafka.admin import AdminClient

from sexton.base.errors import Refused
from sexton.base.partitions import TopicPartition
from sexton.client.admin import UNCLEAN, elect
from sexton.client.client import Client
from sexton.client.connection import ClientConfig
from sexton.client.groups import list_groups
from sexton.client.listing import EARLIEST, LATEST, NOT_FOUND, list_offsets
from sexton.client.reading import LogTruncated, OffsetsGone, PartitionReader, TopicReplaced
from sexton.client.replica import Isolation
from sexton.client.retrying import Patience
from sexton.testing.embedded import EmbeddedCluster

QUICK = ClientConfig(socket_connection_setup_timeout_ms=1_000, request_timeout_ms=2_000)
SHORT = Patience(timeout_ms=500, backoff_ms=20, most_backoff_ms=50, unknown_topic_ms=300)
RECORDS = 60


@pytest.fixture(scope="module")
def three() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


def write(cluster: EmbeddedCluster, topic: str, count: int = RECORDS, size: int = 100) -> None:
    """Records in small batches, so that they come in many chunks."""
    told = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "batch.size": 4 * size}
    producer = Producer(told)
    for number in range(count):
        producer.produce(topic, str(number).rjust(size).encode(), partition=0)
    assert producer.flush(30) == 0


async def read(
    cluster: EmbeddedCluster, topic: str, end: int, *, after_first: object = None, **named: object
) -> list[int]:
    """The offsets of all batches; `after_first` is done when the first chunk has come."""
    async with Client(cluster.bootstrap_servers, QUICK) as client:
        reader = PartitionReader(client, TopicPartition(topic, 0), **named)  # type: ignore[arg-type]
        found: list[int] = []
        async for chunk in reader.read(0, end, chunk_bytes=500):
            for batch in chunk.batches():
                header = batch.header
                found += range(header.base_offset, header.last_offset + 1)
            if after_first is not None:
                await asyncio.to_thread(after_first)  # type: ignore[arg-type]
                after_first = None
        return found


def test_a_leader_that_dies_costs_a_pause_and_no_record(three: EmbeddedCluster) -> None:
    three.create_topic("dying", [[1, 2, 3]])
    write(three, "dying")
    try:
        found = asyncio.run(read(three, "dying", RECORDS, after_first=lambda: three.kill(1)))
        assert found == list(range(RECORDS))
        assert three.leader_of("dying") != 1
    finally:
        three.restart(1)
    three.wait_until_in_sync("dying")


def test_a_leader_that_moves_is_followed(three: EmbeddedCluster) -> None:
    three.create_topic("moving", [[1, 2, 3]])
    write(three, "moving")
    three.wait_until_in_sync("moving")
    moved = asyncio.run(
        read(three, "moving", RECORDS, after_first=lambda: three.elect("moving", 0, 2))
    )
    assert moved == list(range(RECORDS))


@pytest.mark.parametrize(("read_to", "asks"), [(10, True), (40, True), (40, False)])
def test_two_histories_are_never_joined(
    three: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, read_to: int, asks: bool
) -> None:
    """Broker 2 has 20 of the 50 records when it comes to lead, and then gets others.

    Whoever had read less than those 20 goes on; who had read more is told. Without the question
    nobody would notice.
    """
    if not asks:
        monkeypatch.setattr(PartitionReader, "_goes_on", lambda *_: asyncio.sleep(0))
    topic = f"unclean-{read_to}-{asks}"
    three.create_topic(topic, [[1, 2]])
    write(three, topic, 20)
    three.kill(2)
    three.wait_for(topic, 0, lambda state: state.isr == (1,))
    write(three, topic, 30)
    at = TopicPartition(topic, 0)

    async def change_history(client: Client) -> None:
        await asyncio.to_thread(three.kill, 1)
        await asyncio.to_thread(three.wait_for, topic, 0, lambda state: state.leader == -1)
        await asyncio.to_thread(three.restart, 2)
        (election,) = await elect(client, [at], UNCLEAN)
        assert election.elected, election
        await asyncio.to_thread(write, three, topic, 40)

    async def run() -> list[int]:
        async with Client(three.bootstrap_servers, QUICK) as client:
            found: list[int] = []
            changed = False
            async for chunk in PartitionReader(client, at).read(0, 50, chunk_bytes=500):
                for batch in chunk.batches():
                    found += range(batch.header.base_offset, batch.header.last_offset + 1)
                if len(found) >= read_to and not changed:
                    await change_history(client)
                    changed = True
            return found

    try:
        if read_to == 40 and asks:
            with pytest.raises(LogTruncated, match="its new leader's log parts from it at 20"):
                asyncio.run(run())
        else:
            assert asyncio.run(run())[:50] == list(range(50))
    finally:
        three.restart(1)
    three.wait_until_in_sync(topic)


def test_deleted_offsets_are_named(three: EmbeddedCluster) -> None:
    three.create_topic("shrinking", [[1, 2, 3]])
    write(three, "shrinking")

    def delete() -> None:
        admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
        at = AdminPartition("shrinking", 0, RECORDS - 10)
        for done in admin.delete_records([at]).values():
            done.result(20)

    with pytest.raises(OffsetsGone) as caught:
        asyncio.run(read(three, "shrinking", RECORDS, after_first=delete))
    assert caught.value.log_start == RECORDS - 10
    assert caught.value.offset < RECORDS - 10


def test_what_is_not_written_yet_is_not_the_end(three: EmbeddedCluster) -> None:
    three.create_topic("short", [[1, 2, 3]])
    write(three, "short", 3)
    with pytest.raises(Refused, match="cannot be read to 9: its high watermark is 3"):
        asyncio.run(read(three, "short", 9, patience=SHORT))


def test_a_topic_that_goes_is_an_error(three: EmbeddedCluster) -> None:
    three.create_topic("leaving", [[1, 2, 3]])
    write(three, "leaving")

    def delete() -> None:
        three.delete_topic("leaving")

    with pytest.raises(Refused, match=r"UNKNOWN_TOPIC_OR_PARTITION"):
        asyncio.run(read(three, "leaving", RECORDS, patience=SHORT, after_first=delete))


def test_a_topic_made_again_is_another_topic(three: EmbeddedCluster) -> None:
    three.create_topic("again", [[1, 2, 3]])
    write(three, "again")

    async def topic_id() -> bytes:
        async with Client(three.bootstrap_servers) as client:
            return (await client.topology(["again"])).topic("again").topic_id

    def make_again() -> None:
        three.delete_topic("again")
        three.create_topic("again", [[1, 2, 3]])
        write(three, "again")

    meant = asyncio.run(topic_id())
    with pytest.raises(TopicReplaced, match="again was deleted and made again"):
        asyncio.run(read(three, "again", RECORDS, topic_id=meant, after_first=make_again))
    # Without the id nobody could tell: that is what it is for.
    assert asyncio.run(read(three, "again", RECORDS)) == list(range(RECORDS))


def test_one_replica_is_read_whoever_leads(three: EmbeddedCluster) -> None:
    three.create_topic("copied", [[1, 2, 3]])
    write(three, "copied")
    three.wait_until(lambda: three.offsets("copied")[3].high_watermark == RECORDS)
    assert asyncio.run(read(three, "copied", RECORDS, node=3)) == list(range(RECORDS))


def test_offsets_are_listed_by_leaders_and_times(three: EmbeddedCluster) -> None:
    three.create_topic("listed", [[1, 2, 3], [2, 3, 1]])
    producer = Producer({"bootstrap.servers": three.bootstrap_servers})
    for time_ms in (1_000, 2_000, 3_000):
        producer.produce("listed", b"x", partition=1, timestamp=time_ms)
        assert producer.flush(20) == 0
    empty, full = TopicPartition("listed", 0), TopicPartition("listed", 1)

    async def ask() -> None:
        async with Client(three.bootstrap_servers, QUICK) as client:
            assert await list_offsets(client, {empty: LATEST, full: LATEST}) == {empty: 0, full: 3}
            assert await list_offsets(client, {full: EARLIEST}) == {full: 0}
            times = {empty: 5, full: 1_500}
            assert await list_offsets(client, times) == {empty: NOT_FOUND, full: 1}
            with pytest.raises(Refused, match="there is no topic nowhere"):
                await list_offsets(client, {TopicPartition("nowhere", 0): LATEST}, patience=SHORT)

    asyncio.run(ask())


def test_an_open_transaction_bounds_what_is_committed(three: EmbeddedCluster) -> None:
    three.create_topic("held", [[1, 2, 3]])
    write(three, "held", 2)
    writer = Producer({"bootstrap.servers": three.bootstrap_servers, "transactional.id": "held"})
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce("held", b"open", partition=0)
    assert writer.flush(20) == 0
    held = TopicPartition("held", 0)

    async def ask() -> None:
        async with Client(three.bootstrap_servers, QUICK) as client:
            for isolation, end in ((Isolation.READ_UNCOMMITTED, 3), (Isolation.READ_COMMITTED, 2)):
                assert await list_offsets(client, {held: LATEST}, isolation) == {held: end}
            assert await list_groups(client) == []

    asyncio.run(ask())
    writer.abort_transaction(20)


def test_a_quota_slows_a_read_down(three: EmbeddedCluster) -> None:
    three.create_topic("slow", [[1, 2, 3]])
    write(three, "slow", 30, size=1_000)

    async def timed(rate: float) -> float:
        config = ClientConfig(max_bytes_per_s=rate)
        async with Client(three.bootstrap_servers, config) as client:
            reader = PartitionReader(client, TopicPartition("slow", 0))
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            size = 0
            async for chunk in reader.read(0, 30, chunk_bytes=2_000):
                size += len(chunk.data)
            assert size > 30_000
            return loop.time() - began_s

    # One second's worth comes at once, and nobody waits after the last chunk of 4 KB: 6 KB of 30
    # are left, which take 0.3 s.
    assert asyncio.run(timed(20_000)) >= 0.29
