"""What becomes of a task when brokers, leaders and offsets change under it?

No Spark is needed to ask: a task is `read_range` on a range that was planned before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as AdminPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]
from pyspark.sql.streaming.datasource import ReadAllAvailable

from sexton.base.errors import PeerError, SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import WRONG_PROTOCOL
from sexton.client.topology import Topology
from sexton.spark import asking
from sexton.spark.loss import DataLoss
from sexton.spark.options import SourceOptions, Topics, parse
from sexton.spark.planning import partitions_of, plan_ranges, with_client
from sexton.spark.ranges import OffsetRange, split, with_shares
from sexton.spark.reading import read_range
from sexton.spark.streaming import Offsets, SextonStreamReader
from sexton.testing.embedded import EmbeddedCluster
from tests.certificates import make_certificates

RECORDS = 200


def options_for(cluster: EmbeddedCluster, topic: str, **more: str) -> SourceOptions:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.max.partition.fetch.bytes": "1000",  # many chunks
        "kafka.request.timeout.ms": "2000",
        "subscribe": topic,
        "columns": "offset",
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    return parse(given)


def planned(options: SourceOptions) -> list[OffsetRange]:
    return asyncio.run(with_client(options, lambda client: plan_ranges(client, options)))


def write(cluster: EmbeddedCluster, topic: str) -> None:
    cluster.create_topic(topic, [[1, 2, 3]])
    told = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "batch.size": 1_000}
    producer = Producer(told)
    for number in range(RECORDS):
        producer.produce(topic, str(number).rjust(100).encode(), partition=0)
    assert producer.flush(30) == 0
    cluster.wait_until_in_sync(topic)


def read_while(options: SourceOptions, change: Callable[[], None]) -> list[int]:
    """The offsets of a range, during which something happens after the first batch."""
    (wanted,) = planned(options)
    found: list[int] = []
    for number, batch in enumerate(read_range(options, wanted)):
        found += batch.column(0).to_pylist()
        if number == 0:
            change()
    return found


def delete_to(cluster: EmbeddedCluster, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for done in admin.delete_records([AdminPartition(topic, 0, offset)]).values():
        done.result(20)


def test_a_leader_dies_under_a_task(three: EmbeddedCluster) -> None:
    write(three, "task-dying")
    try:
        found = read_while(options_for(three, "task-dying"), lambda: three.kill(1))
        assert found == list(range(RECORDS))
    finally:
        three.restart(1)
    three.wait_until_in_sync("task-dying")


def test_a_replicas_broker_dies_under_a_task(three: EmbeddedCluster) -> None:
    write(three, "task-replica")
    three.wait_until(lambda: three.offsets("task-replica")[2].high_watermark == RECORDS)
    options = options_for(
        three, "task-replica", replica="2", kafka__default__api__timeout__ms="500"
    )
    try:
        with pytest.raises(PeerError, match="broker 2"):
            read_while(options, lambda: three.kill(2))
    finally:
        three.restart(2)
    three.wait_until_in_sync("task-replica")


def test_records_are_deleted_under_a_task(three: EmbeddedCluster) -> None:
    write(three, "task-deleted")
    with pytest.raises(DataLoss, match=r"task-deleted-0: offsets \[\d+, 150\) are gone"):
        read_while(
            options_for(three, "task-deleted"), lambda: delete_to(three, "task-deleted", 150)
        )
    kept = options_for(three, "task-deleted", failOnDataLoss="false")
    found = read_while(kept, lambda: delete_to(three, "task-deleted", 190))
    assert found[-10:] == list(range(190, RECORDS))
    assert found == sorted(set(found)) and found[0] == 150


@pytest.mark.parametrize("columns", ["offset", "offset,outcome"])
def test_what_was_deleted_does_not_come_with_the_rest_of_its_batch(
    three: EmbeddedCluster, columns: str
) -> None:
    """A broker sends whole batches, and the log may begin in the middle of one."""
    topic = f"task-middle-{len(columns)}"
    three.create_topic(topic, [[1]])
    producer = Producer({"bootstrap.servers": three.bootstrap_servers, "linger.ms": 1_000})
    for _ in range(10):
        producer.produce(topic, b"v", partition=0)
    assert producer.flush(30) == 0
    options = options_for(three, topic, columns=columns, failOnDataLoss="false")
    (wanted,) = planned(options)
    delete_to(three, topic, 6)
    found = [each for batch in read_range(options, wanted) for each in batch.column(0).to_pylist()]
    assert found == [6, 7, 8, 9]


def test_a_transaction_that_ends_under_a_task_is_read_once(three: EmbeddedCluster) -> None:
    """What was open when the task began comes with the last of what was decided then."""
    three.create_topic("task-ending", [[1]])
    servers = {"bootstrap.servers": three.bootstrap_servers}
    for number in range(30):
        producer = Producer(servers)
        producer.produce("task-ending", str(number).rjust(100).encode(), partition=0)
        assert producer.flush(30) == 0
    late = Producer({**servers, "transactional.id": "late"})
    late.init_transactions(30)
    late.begin_transaction()
    for number in range(5):
        late.produce("task-ending", str(number).encode(), partition=0)
        assert late.flush(30) == 0
    options = options_for(
        three, "task-ending", columns="offset,outcome", kafka__max__partition__fetch__bytes="1500"
    )
    found = read_while(options, lambda: late.commit_transaction(30))
    assert found == list(range(35))


def test_a_log_is_cut_before_a_task_reads_it(three: EmbeddedCluster) -> None:
    """By an unclean election, say. Spark comes with a stream's planned batch at each start."""
    write(three, "task-cut")
    at = TopicPartition("task-cut", 0)
    quick = {"kafka__default__api__timeout__ms": "500"}
    options = options_for(three, "task-cut", **quick)
    (whole,) = planned(options)
    wanted = replace(whole, end=RECORDS + 10)
    why = f"{at}: asked for up to offset {RECORDS + 10}, but its log end is {RECORDS}"
    with pytest.raises(DataLoss, match=why):
        list(read_range(options, wanted))
    kept = options_for(three, "task-cut", failOnDataLoss="false", **quick)
    found = [each for batch in read_range(kept, wanted) for each in batch.column(0).to_pylist()]
    assert found == list(range(RECORDS))
    assert list(read_range(kept, replace(wanted, start=RECORDS + 5))) == []


def test_a_topic_vanishes_under_a_task(three: EmbeddedCluster) -> None:
    write(three, "task-vanished")
    options = options_for(three, "task-vanished", kafka__default__api__timeout__ms="500")
    with pytest.raises(SextonError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        read_while(options, lambda: three.delete_topic("task-vanished"))


def test_whoever_stops_early_leaves_nothing_behind(three: EmbeddedCluster) -> None:
    write(three, "task-stopped")
    options = options_for(three, "task-stopped")
    (wanted,) = planned(options)
    before = set(threading.enumerate())  # a sink keeps its line for a while
    batches = read_range(options, wanted)
    assert next(batches).num_rows > 0
    (loop,) = (t for t in set(threading.enumerate()) - before if t.name == "sexton-loop")
    batches.close()  # type: ignore[attr-defined]
    assert not loop.is_alive()


def test_certificates_and_passwords_are_kafkas(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    secured = {
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "required",
    }
    known = {
        "kafka__security__protocol": "SSL",
        "kafka__ssl__truststore__location": str(certificates.authority),
        "kafka__ssl__truststore__type": "PEM",
    }
    ours = {"kafka__ssl__keystore__location": str(certificates.client)}
    with EmbeddedCluster(1, options=secured) as cluster:
        cluster.create_topic("secret", 1)
        assert planned(options_for(cluster, "secret", **known, **ours)) == []
        for wrong in (known, {}):
            with pytest.raises(PeerError, match=r"closed the connection|announces") as told:
                planned(options_for(cluster, "secret", **wrong))
            assert told.value.hint == WRONG_PROTOCOL


# ── planning ──


def only_by(cluster: EmbeddedCluster, node: int, **more: str) -> SourceOptions:
    """Of all topics that begin with `met`, by a single bootstrap host."""
    return parse(
        {
            "kafka.bootstrap.servers": cluster.address_of(node),
            "subscribePattern": "met.*",
            **{name.replace("__", "."): value for name, value in more.items()},
        },
        streaming=True,
    )


def test_a_bootstrap_host_that_restarts_does_not_end_a_stream(three: EmbeddedCluster) -> None:
    three.create_topic("met", [[1, 2]])
    reader = SextonStreamReader(only_by(three, 3, startingOffsets="earliest"))
    begun = reader.initialOffset()
    three.kill(3)
    with ThreadPoolExecutor() as beside:
        later = beside.submit(reader.latestOffset, begun, ReadAllAvailable())
        planned = beside.submit(reader.partitions, begun, begun)
        three.restart(3)
        assert later.result(60) == begun
        assert planned.result(60) == []


def test_a_bootstrap_host_that_restarts_in_the_middle_of_a_look_up_is_waited_for(
    three: EmbeddedCluster,
) -> None:
    three.create_topic("met-once", [[1, 2]])
    options = only_by(three, 3)

    async def work(client: Client) -> list[TopicPartition]:
        await asyncio.to_thread(three.kill, 3)
        looking = asyncio.create_task(partitions_of(client, options))
        await asyncio.to_thread(three.restart, 3)
        return (await looking)[1]

    assert TopicPartition("met-once", 0) in asyncio.run(with_client(options, work))


def test_a_partition_that_was_read_before_is_asked_for_again(three: EmbeddedCluster) -> None:
    """A broker that does not know it yet is no loss of data: another one may."""
    three.create_topic("met-early", [[1, 2]])
    options = only_by(three, 3)
    late = TopicPartition("met-late", 0)

    class Watched(Client):
        async def topology(self, topics: Iterable[str] | None = None) -> Topology:
            found = await super().topology(topics)
            if late.topic not in found.topics:
                await asyncio.to_thread(three.create_topic, late.topic, [[1, 2]])
            return found

    async def look() -> list[TopicPartition]:
        async with Watched(options.bootstrap_servers) as client:
            return (await partitions_of(client, options, [late]))[1]

    assert late in asyncio.run(look())


def test_a_partition_that_was_made_a_moment_ago_is_asked_for_again(three: EmbeddedCluster) -> None:
    three.create_topic("grown", [[1, 2]])
    options = options_for(three, "grown")
    second = TopicPartition("grown", 1)
    options = replace(options, topics=Topics(assigned=(second,)))

    class Watched(Client):
        async def topology(self, topics: Iterable[str] | None = None) -> Topology:
            found = await super().topology(topics)
            if len(found.topics["grown"].partitions) == 1:
                await asyncio.to_thread(grow, three, "grown", 2)
            return found

    async def look() -> list[TopicPartition]:
        async with Watched(options.bootstrap_servers) as client:
            return (await partitions_of(client, options))[1]

    assert asyncio.run(look()) == [second]


def grow(cluster: EmbeddedCluster, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for done in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        done.result(20)
    cluster.wait_until(lambda: cluster.partition(topic, partitions - 1) is not None)


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("is_remade", [False, True])
def test_a_batch_is_whole_though_a_broker_has_not_heard_how_its_topic_changed(
    three: EmbeddedCluster, is_remade: bool, fails: str
) -> None:
    name = f"changed-{is_remade}-{fails}".lower()
    options = options_for(three, name, failOnDataLoss=fails)
    three.create_topic(name, [[1, 2]])
    before = told_of(three, name)
    if is_remade:
        three.delete_topic(name)
        three.create_topic(name, [[1, 2], [2, 1]])
    else:
        grow(three, name, 2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    until = Offsets({first: 7, second: 9}, {name: told_of(three, name).topic(name).topic_id})
    ranges = ranges_of(options, Offsets({first: 5}, until.ids), until, [before])
    assert [(each.at, each.start, each.end) for each in ranges] == [(first, 5, 7), (second, 0, 9)]


def test_what_a_single_broker_knows_of_a_batch_is_read(
    three: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of it is gone; the last one to be asked lacks another one, which is there."""
    monkeypatch.setattr(asking, "NEWS_MS", 200)
    three.create_topic("known-to-one", [[1, 2]])
    before = told_of(three, "known-to-one")
    grow(three, "known-to-one", 2)
    now = told_of(three, "known-to-one")
    options = options_for(three, "known-to-one", failOnDataLoss="false")
    until = Offsets({TopicPartition("known-to-one", number): 9 for number in range(3)})
    begun = Offsets(dict.fromkeys(until.next, 4))
    ranges = ranges_of(options, begun, until, [now, *[before] * 100])
    assert [each.at.partition for each in ranges] == [0, 1]


def told_of(cluster: EmbeddedCluster, topic: str) -> Topology:
    async def look() -> Topology:
        async with Client(cluster.bootstrap_servers) as client:
            return await client.topology([topic])

    return asyncio.run(look())


def ranges_of(
    options: SourceOptions, begun: Offsets, until: Offsets, old_news: list[Topology]
) -> list[OffsetRange]:
    """Of a batch, planned by brokers of which the first ones tell what was true before."""

    class Behind(Client):
        async def topology(self, topics: Iterable[str] | None = None) -> Topology:
            return old_news.pop(0) if old_news else await super().topology(topics)

    async def plan() -> list[OffsetRange]:
        async with Behind(options.bootstrap_servers) as client:
            return await SextonStreamReader(options)._ranges(client, begun, until)

    return asyncio.run(plan())


# ── ranges ──


def test_ranges_are_split_without_gap_or_overlap() -> None:
    ranges = [
        OffsetRange(TopicPartition("orders", 0), 10, 110, b""),
        OffsetRange(TopicPartition("orders", 1), 0, 3, b""),
        OffsetRange(TopicPartition("orders", 2), 5, 5, b""),
    ]
    for least, most in ((None, None), (7, None), (None, 30), (50, 40), (1000, 1)):
        pieces = split(ranges, least, most)
        offsets = [(p.at.partition, n) for p in pieces for n in range(p.start, p.end)]
        assert offsets == [*((0, n) for n in range(10, 110)), (1, 0), (1, 1), (1, 2)]
        assert most is None or all(piece.size <= most for piece in pieces)
        assert least is None or len(pieces) >= min(least, 103)
    shares = with_shares(split(ranges, 4, None), {(r.at, None): 1 for r in ranges}, 100.0)
    assert sum(each.max_bytes_per_s or 0 for each in shares) == pytest.approx(100)
