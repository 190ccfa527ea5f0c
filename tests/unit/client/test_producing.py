"""Are finished batches a producer's after a stamp, and all of them in the log, in order?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import Connection
from sexton.client.producing import HELD, REQUEST_BYTES, BatchSender, stamp
from sexton.client.replica import Isolation
from sexton.client.retrying import Patience
from sexton.client.transacting import end_transaction, init_producer_id, until_ready
from sexton.protocol.messages.produce import ProduceRequest
from sexton.records.columns import Columns, Spans
from sexton.records.decoder import decode
from sexton.records.encoder import encode, rows
from sexton.records.layout import TRANSACTIONAL, BatchHeader, Codec
from sexton.testing.embedded import EmbeddedCluster

KEYS = Spans.from_list([b"a", None, b"c" * 300])
VALUES = Spans.from_list([b"1", b"22" * 100, None])


def batch(codec: Codec) -> bytes:
    return encode(rows(np.array([5, 4, 9]), KEYS, VALUES, codec=codec))


def records(data: bytes) -> list[tuple[object, ...]]:
    columns: Columns = decode(data)
    return [tuple(record) for record in columns.records()]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_stamp_sets_the_producer_and_the_checksum_only(codec: Codec) -> None:
    before = batch(codec)
    after = bytearray(before)
    assert stamp(after, 1 << 40, 7, (1 << 31) - 2) == 3
    told, was = BatchHeader.unpack(after), BatchHeader.unpack(before)
    assert (told.producer_id, told.producer_epoch, told.base_sequence) == (1 << 40, 7, 2147483646)
    assert told.attributes == was.attributes | TRANSACTIONAL
    assert told.crc != was.crc
    same = {"producer_id", "producer_epoch", "base_sequence", "attributes", "crc"}
    assert [v for n, v in told._asdict().items() if n not in same] == [
        v for n, v in was._asdict().items() if n not in same
    ]
    assert records(bytes(after)) == records(before)  # the decoder checks the CRC


def test_a_wrong_checksum_would_be_noticed() -> None:
    """The control of the test above."""
    broken = bytearray(batch(Codec.NONE))
    stamp(broken, 1, 0, 0)
    broken[43] ^= 1
    with pytest.raises(CorruptLog, match="checksum"):
        records(bytes(broken))


async def _refusals(*errors: KafkaError) -> int:
    left = list(errors)
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        if left:
            raise Refused(left.pop(0), "not now")

    await until_ready(ask, Patience(timeout_ms=2_000, backoff_ms=1, most_backoff_ms=1))
    return asked


def test_what_passes_is_waited_for_and_fencing_is_not() -> None:
    passing = (KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.NOT_COORDINATOR)
    assert asyncio.run(_refusals(*passing)) == 3
    with pytest.raises(Refused, match="PRODUCER_FENCED"):
        asyncio.run(_refusals(KafkaError.PRODUCER_FENCED))


def test_patience_ends_with_the_error_that_came() -> None:
    async def ask() -> None:
        raise Refused(KafkaError.CONCURRENT_TRANSACTIONS, "still")

    with pytest.raises(Refused, match="CONCURRENT_TRANSACTIONS"):
        asyncio.run(until_ready(ask, Patience(timeout_ms=1, backoff_ms=1, most_backoff_ms=1)))


# ── to a cluster ──

PARTITIONS, ROUNDS = 12, 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2) as running:
        yield running


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many partitions each Produce had."""
    seen: list[int] = []
    ask = Connection.ask

    async def watched(self: Connection, request: Any, *given: Any) -> Any:
        if isinstance(request, ProduceRequest):
            seen.append(sum(len(topic.partition_data) for topic in request.topic_data))
        return await ask(self, request, *given)

    monkeypatch.setattr(Connection, "ask", watched)
    return seen


def one_record(value: bytes) -> bytearray:
    column = Spans.from_list([value])
    return bytearray(encode(rows(np.array([5]), column, column)))


Values = list[list[bytes | None]]  # of each partition
IN_ORDER: Values = [[b"%d" % turn for turn in range(ROUNDS)]] * PARTITIONS


async def committed(client: Client, places: list[TopicPartition]) -> Values:
    """What a reader of committed records finds in each."""
    found: Values = []
    for at in places:
        replica = client.replica(at, (await client.place(at)).leader)
        chunks = [
            chunk async for chunk in replica.read(0, end=ROUNDS, isolation=Isolation.READ_COMMITTED)
        ]
        data = [batch for chunk in chunks for batch in chunk.batches()]
        taken = [b for b in data if not b.header.is_control]
        found.append([record.value for batch in taken for record in batch.records()])
    return found


async def sent(cluster: EmbeddedCluster, topic: str, request_bytes: int) -> Values:
    """Numbers to all partitions in turn."""
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    async with Client(cluster.bootstrap_servers) as client:
        transaction = await init_producer_id(client, topic, 60_000)
        sender = BatchSender(client, transaction, request_bytes=request_bytes)
        for turn in range(ROUNDS):
            for at in places:
                await sender.send(at, one_record(b"%d" % turn))
        await sender.flush()
        assert sender.records == PARTITIONS * ROUNDS
        await end_transaction(client, transaction, committed=True)
        return await committed(client, places)


def test_partitions_share_requests_and_each_keeps_its_order(
    cluster: EmbeddedCluster, requests: list[int]
) -> None:
    cluster.create_topic("shared", PARTITIONS)
    assert asyncio.run(sent(cluster, "shared", REQUEST_BYTES)) == IN_ORDER
    # A round for each batch of a partition, and a request in it for each of two leaders; some of
    # the first may have gone again, alone.
    together = [size for size in requests if size > 1]
    assert len(together) == 2 * ROUNDS and sum(together) == PARTITIONS * ROUNDS
    # The control: nothing waits for company, and there are as many requests as batches.
    requests.clear()
    cluster.create_topic("alone", PARTITIONS)
    assert asyncio.run(sent(cluster, "alone", 1)) == IN_ORDER
    assert set(requests) == {1} and len(requests) >= PARTITIONS * ROUNDS


def test_what_a_leader_never_takes_is_raised_as_it_is(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("small", 2, {"max.message.bytes": 500})

    async def run() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            transaction = await init_producer_id(client, "small", 60_000)
            sender = BatchSender(client, transaction)
            await sender.send(TopicPartition("small", 0), one_record(b"v"))
            await sender.send(TopicPartition("small", 1), one_record(b"v" * 1000))
            await sender.flush()

    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        asyncio.run(run())


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """No Produce is answered before this is set."""
    event = asyncio.Event()
    ask = Connection.ask

    async def slow(self: Connection, request: Any, *given: Any) -> Any:
        if isinstance(request, ProduceRequest):
            await event.wait()
        return await ask(self, request, *given)

    monkeypatch.setattr(Connection, "ask", slow)
    return event


def test_others_are_queued_while_first_ones_are_not_taken(
    cluster: EmbeddedCluster, held: asyncio.Event, requests: list[int]
) -> None:
    cluster.create_topic("held", PARTITIONS)
    places = [TopicPartition("held", number) for number in range(PARTITIONS)]
    size = len(one_record(b"0"))

    async def run() -> Values:
        async with Client(cluster.bootstrap_servers) as client:
            transaction = await init_producer_id(client, "held", 60_000)
            # Two batches are sent at once; six more are held, and who gives another has to wait.
            sender = BatchSender(client, transaction, request_bytes=size + 1)
            given = [(at, one_record(b"%d" % turn)) for turn in range(ROUNDS) for at in places]
            async with asyncio.timeout(60):
                for at, data in given[:HELD]:
                    await sender.send(at, data)
                waiting = asyncio.ensure_future(sender.send(*given[HELD]))
                done, _ = await asyncio.wait([waiting], timeout=0.1)
                assert not done
                assert sum(requests) == 2, "the first ones, and nothing before they are taken"
                held.set()
                await waiting
                for at, data in given[HELD + 1 :]:
                    await sender.send(at, data)
                await sender.flush()
            await end_transaction(client, transaction, committed=True)
            return await committed(client, places)

    assert asyncio.run(run()) == IN_ORDER


def test_who_led_and_coordinated_before_is_asked_first_and_others_then(
    cluster: EmbeddedCluster, requests: list[int]
) -> None:
    """What is remembered may be wrong; here it is, of everything."""
    cluster.create_topic("moved", PARTITIONS)
    places = [TopicPartition("moved", number) for number in range(PARTITIONS)]

    async def run(wrong: bool) -> Values:
        async with Client(cluster.bootstrap_servers) as client:
            topology = await client.topology(["moved"])
            brokers = list(topology.brokers)
            other = {a: next(b for b in brokers if b != a) for a in brokers}
            leaders = {at: topology.place(at).leader for at in places}
            transaction = await init_producer_id(client, "moved", 60_000)
            (found,) = client.coordinators.values()
            if wrong:
                leaders = {at: other[leader] for at, leader in leaders.items()}
                client.coordinators = dict.fromkeys(client.coordinators, other[found])
            sender = BatchSender(client, transaction, leaders=leaders)
            for turn in range(ROUNDS):
                for at in places:
                    await sender.send(at, one_record(b"%d" % turn))
            await sender.flush()
            await end_transaction(client, transaction, committed=True)
            assert list(client.coordinators.values()) == [found]
            return await committed(client, places)

    assert asyncio.run(run(wrong=True)) == IN_ORDER
    assert requests.count(1) >= PARTITIONS, "each first batch has gone again, alone"
