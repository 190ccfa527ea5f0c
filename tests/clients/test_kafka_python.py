"""kafka-python, written in Python from the protocol up: records, groups, transactions, and an
administrator's calls, of which it has more than most.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until

with warnings.catch_warnings():  # it reads its own files in a way that Python would rather not
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import (
        KafkaAdminClient,
        KafkaConsumer,
        KafkaProducer,
        OffsetAndMetadata,
        TopicPartition,
    )
    from kafka import errors as kafka_errors
    from kafka.admin import (
        ConfigResource,
        ConfigResourceType,
        NewPartitions,
        NewTopic,
        OffsetSpec,
        TransactionState,
    )
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # see `swept`
]

CODECS = [None, "gzip", "lz4", "zstd"]  # for snappy it wants a library that we do without
PREFERRED = 0
POLL_MS = 300  # long enough for a rebalance: one that outlasts a poll may lose its assignment
PATIENCE_S = 30.0
YEAR_2001_MS = 978_307_200_000


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """It leaves sockets to the garbage collector, which may as well come now."""
    yield
    gc.collect()


def make_producer(cluster: EmbeddedCluster, **more: Any) -> Any:
    return closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **more))


def make_consumer(cluster: EmbeddedCluster, *topics: str, **more: Any) -> Any:
    chosen = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **more}
    return KafkaConsumer(
        *topics,
        bootstrap_servers=cluster.bootstrap_servers,
        fetch_max_wait_ms=100,
        heartbeat_interval_ms=100,
        **chosen,
    )


@contextmanager
def consuming(cluster: EmbeddedCluster, *topics: str, **more: Any) -> Iterator[Any]:
    consumer = make_consumer(cluster, *topics, **more)
    try:
        yield consumer
    finally:
        consumer.close()


def poll_until(done: Callable[[], bool], what: str, *consumers: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"not seen in time: {what}"
        for consumer in consumers:
            consumer.poll(timeout_ms=POLL_MS)


def take(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} came"
        for batch in consumer.poll(timeout_ms=POLL_MS, max_records=count - len(found)).values():
            found += batch
    return found


def everything(cluster: EmbeddedCluster, topic: str, level: str = "read_committed") -> list[Any]:
    """All records of partition 0, up to where a reader may read."""
    place = TopicPartition(topic, 0)
    found: list[Any] = []
    with consuming(cluster, isolation_level=level) as consumer:
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        consumer.seek_to_beginning(place)
        deadline = time.monotonic() + PATIENCE_S
        while consumer.position(place) < end:
            assert time.monotonic() < deadline, f"no end of {topic}"
            for batch in consumer.poll(timeout_ms=100).values():
                found += batch
    return found


def values(cluster: EmbeddedCluster, topic: str, level: str = "read_committed") -> list[str]:
    return [record.value.decode() for record in everything(cluster, topic, level)]


def fill(cluster: EmbeddedCluster, topic: str, count: int) -> None:
    with make_producer(cluster) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode(), partition=0)


# ── records and groups ──


@pytest.mark.parametrize("codec", CODECS)
def test_every_kind_of_record_comes_back_as_it_was_sent(
    cluster: EmbeddedCluster, topic: str, codec: str | None
) -> None:
    sent: list[tuple[bytes | None, bytes | None, Any]] = [
        (b"key", b"value", []),
        (None, b"no key", []),
        (b"tombstone", None, []),
        (b"", b"", []),
        (b"headers", b"v", [("trace", b"\x00\xff"), ("trace", b"again")]),
        (b"compressible", b"a" * 50_000, []),
    ]
    with make_producer(cluster, compression_type=codec, linger_ms=20) as producer:
        waiting = [
            producer.send(
                topic,
                value,
                key,
                partition=0,
                timestamp_ms=YEAR_2001_MS + at,
                headers=headers,
            )
            for at, (key, value, headers) in enumerate(sent)
        ]
        assert [each.get(PATIENCE_S).offset for each in waiting] == list(range(len(sent)))
    found = everything(cluster, topic)
    assert [(r.key, r.value, list(r.headers)) for r in found] == sent
    assert [r.timestamp for r in found] == [YEAR_2001_MS + at for at in range(len(sent))]


def test_a_record_that_is_too_large_is_refused(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("python-large", 1, {"max.message.bytes": 100_000})
    with make_producer(cluster, max_request_size=10_000_000) as producer:
        producer.send("python-large", bytes(99_900)).get(PATIENCE_S)
        with pytest.raises(kafka_errors.MessageSizeTooLargeError):
            producer.send("python-large", bytes(99_950)).get(PATIENCE_S)
    assert len(everything(cluster, "python-large")) == 1


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, CooperativeStickyAssignor])
def test_two_members_share_and_one_takes_over(
    cluster: EmbeddedCluster, topic: str, assignor: type
) -> None:
    how: dict[str, Any] = {"group_id": topic, "partition_assignment_strategy": [assignor]}
    with consuming(cluster, topic, **how) as first:
        poll_until(lambda: len(first.assignment()) == 2, "one has all", first)
        with consuming(cluster, topic, **how) as second:
            poll_until(
                lambda: len(first.assignment()) == len(second.assignment()) == 1,
                "each has one",
                first,
                second,
            )
            assert first.assignment() != second.assignment()
        poll_until(lambda: len(first.assignment()) == 2, "one has all again", first)


def test_a_group_goes_on_where_it_committed(cluster: EmbeddedCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    fill(cluster, topic, 6)
    with consuming(cluster, topic, group_id=topic) as consumer:
        take(consumer, 3)
        consumer.commit({place: OffsetAndMetadata(3, "so far", -1)})
        assert consumer.committed(place, metadata=True)[:2] == (3, "so far")
        assert consumer.committed(TopicPartition(topic, 1)) is None
    with consuming(cluster, topic, group_id=topic) as consumer:
        assert [record.value for record in take(consumer, 3)] == [b"3", b"4", b"5"]


def test_a_static_member_comes_back_to_its_partitions(cluster: EmbeddedCluster, topic: str) -> None:
    def named(name: str) -> dict[str, Any]:
        return {"group_id": topic, "group_instance_id": name}

    with consuming(cluster, topic, **named("one")) as first:
        with consuming(cluster, topic, **named("two")) as second:
            poll_until(
                lambda: len(first.assignment()) == len(second.assignment()) == 1,
                "each has one",
                first,
                second,
            )
            had = first.assignment(), second.assignment()
        with consuming(cluster, topic, **named("two")) as second:
            poll_until(lambda: len(second.assignment()) == 1, "it is back", first, second)
            assert (first.assignment(), second.assignment()) == had


def test_positions_by_time(cluster: EmbeddedCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with make_producer(cluster) as producer:
        for at in (1000, 3000, 2000):
            producer.send(topic, b"v", partition=0, timestamp_ms=YEAR_2001_MS + at)
    with consuming(cluster) as consumer:
        found = consumer.offsets_for_times({place: YEAR_2001_MS + 1001})[place]
        assert (found.offset, found.timestamp) == (1, YEAR_2001_MS + 3000)
        assert consumer.offsets_for_times({place: YEAR_2001_MS + 3001})[place] is None
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: 3}


# ── transactions ──


@contextmanager
def transactional(cluster: EmbeddedCluster, name: str, **more: Any) -> Iterator[Any]:
    with make_producer(cluster, transactional_id=name, **more) as producer:
        producer.init_transactions()
        yield producer


def test_only_committed_records_are_read(cluster: EmbeddedCluster, topic: str) -> None:
    with transactional(cluster, topic) as producer:
        for value in (b"a", b"b", b"c"):
            producer.begin_transaction()
            producer.send(topic, value, partition=0).get(PATIENCE_S)
            if value == b"b":
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).get(PATIENCE_S)
        assert values(cluster, topic) == ["a", "c"]
        assert values(cluster, topic, "read_uncommitted") == ["a", "b", "c", "open"]
        producer.abort_transaction()


def test_a_second_producer_of_the_same_name_fences_the_first(
    cluster: EmbeddedCluster, topic: str
) -> None:
    with transactional(cluster, topic) as zombie:
        zombie.begin_transaction()
        zombie.send(topic, b"of the zombie", partition=0).get(PATIENCE_S)
        with transactional(cluster, topic) as heir:
            heir.begin_transaction()
            heir.send(topic, b"of the heir", partition=0).get(PATIENCE_S)
            with pytest.raises(kafka_errors.ProducerFencedError):
                zombie.commit_transaction()
            heir.commit_transaction()
    assert values(cluster, topic) == ["of the heir"]


def test_a_transaction_that_takes_too_long_is_aborted(cluster: EmbeddedCluster, topic: str) -> None:
    with transactional(cluster, topic, transaction_timeout_ms=1000) as producer:
        producer.begin_transaction()
        producer.send(topic, b"slow", partition=0).get(PATIENCE_S)
        fill(cluster, topic, 1)
        until(lambda: values(cluster, topic) == ["0"], "the coordinator aborts", PATIENCE_S)
        with pytest.raises(kafka_errors.KafkaError):
            producer.commit_transaction()


def test_consume_process_produce_does_each_record_once(
    cluster: EmbeddedCluster, topic: str
) -> None:
    into, place = f"{topic}-into", TopicPartition(topic, 0)
    cluster.create_topic(into, 1)
    fill(cluster, topic, 20)
    round_number = done = 0
    with transactional(cluster, topic) as producer:
        while done < 20:
            round_number += 1
            with consuming(
                cluster, topic, group_id=topic, isolation_level="read_committed"
            ) as consumer:
                batch = take(consumer, 5)
                producer.begin_transaction()
                for record in batch:
                    producer.send(into, record.value, partition=0)
                after = OffsetAndMetadata(batch[-1].offset + 1, "", -1)
                producer.send_offsets_to_transaction({place: after}, consumer.group_metadata())
                if round_number % 3 == 0:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
                    done += len(batch)
    assert values(cluster, into) == [str(number) for number in range(20)]
    assert round_number == 5
    with consuming(cluster, group_id=topic) as consumer:
        assert consumer.committed(place) == 20


# ── an administrator's calls ──


@pytest.fixture(scope="module")
def admin(cluster: EmbeddedCluster) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield admin
    admin.close()


def test_a_topic_is_created_grown_and_deleted(admin: Any) -> None:
    new = NewTopic("python-life", 2, 3)
    admin.create_topics([new])
    with pytest.raises(kafka_errors.TopicAlreadyExistsError):
        admin.create_topics([new])
    admin.create_partitions({"python-life": NewPartitions(3)})

    def partitions() -> int:
        (found,) = admin.describe_topics(["python-life"])
        return len(found["partitions"])

    until(lambda: partitions() == 3, "the third partition")
    with pytest.raises(kafka_errors.InvalidPartitionsError):
        admin.create_partitions({"python-life": NewPartitions(1)})
    found = admin.describe_topic_partitions(["python-life"])["topics"][0]
    assert [sorted(each["isr_nodes"]) for each in found["partitions"]] == [[1, 2, 3]] * 3
    admin.delete_topics(["python-life"])
    until(lambda: "python-life" not in admin.list_topics(), "it is gone")


def test_options_are_changed(admin: Any, topic: str) -> None:
    def shown() -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (found,) = admin.describe_configs([resource])["topic"].values()
        return {name: entry["value"] for name, entry in found.items()}

    change = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "1234"})
    admin.alter_configs([change])
    until(lambda: shown().get("retention.ms") == "1234", "the new value")
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    until(lambda: "retention.ms" not in shown(), "the default again")


def test_offsets_and_records(admin: Any, cluster: EmbeddedCluster, topic: str) -> None:
    place, now_ms = TopicPartition(topic, 0), cluster.now_ms()
    with make_producer(cluster, linger_ms=50) as producer:
        for at in (10, 30, 20):
            producer.send(topic, b"v", partition=0, timestamp_ms=now_ms + at)

    def offset(spec: Any) -> int:
        return int(admin.list_partition_offsets({place: spec})[place].offset)

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.LATEST) == 3
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 1
    assert admin.delete_records({place: 2})[place]["low_watermark"] == 2
    assert offset(OffsetSpec.EARLIEST) == 2


def test_a_group_is_looked_after(admin: Any, cluster: EmbeddedCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    fill(cluster, topic, 3)
    with consuming(cluster, topic, group_id=topic) as consumer:
        take(consumer, 3)
        consumer.commit({place: OffsetAndMetadata(1, "", -1)})
        listed = {each["group_id"]: each for each in admin.list_groups()}
        assert listed[topic]["group_state"] == "Stable"
        described = admin.describe_groups([topic])[topic]
        assert described["group_state"] == "Stable"
        assert len(described["members"]) == 1
        ((_, error),) = admin.delete_groups([topic]).items()
        assert "NonEmptyGroup" in str(error)
    assert admin.list_group_offsets({topic: None})[topic][place].offset == 1
    admin.alter_group_offsets(topic, {place: OffsetAndMetadata(2, "", -1)})
    assert admin.list_group_offsets({topic: None})[topic][place].offset == 2
    admin.delete_group_offsets(topic, [place])
    assert place not in admin.list_group_offsets({topic: None})[topic]
    admin.delete_groups([topic])
    assert topic not in {each["group_id"] for each in admin.list_groups()}


def test_transactions_are_looked_at(admin: Any, cluster: EmbeddedCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with transactional(cluster, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).get(PATIENCE_S)
        listed = [
            each
            for found in admin.list_transactions().values()
            for each in found
            if each.transactional_id == topic
        ]
        assert [each.state for each in listed] == [TransactionState.ONGOING]
        described = admin.describe_transactions([topic])[topic]
        assert described.producer_id == listed[0].producer_id
        assert set(described.topic_partitions) == {place}
        (active,) = admin.describe_producers([place])[place].active_producers
        assert active.producer_id == described.producer_id
        producer.commit_transaction()


def test_replicas_move_and_leaders_are_elected(admin: Any, cluster: EmbeddedCluster) -> None:
    cluster.create_topic("python-moving", [[1, 2]])
    place = TopicPartition("python-moving", 0)
    assert admin.alter_partition_reassignments({place: [3, 1]}) == {place: None}
    until(lambda: admin.list_partition_reassignments() == {}, "it has moved")
    cluster.wait_until_in_sync("python-moving", 0, 3, 1)
    admin.elect_leaders(PREFERRED, {place.topic: [0]}, raise_errors=False)
    until(lambda: cluster.leader_of("python-moving") == 3, "the preferred leader leads")


def test_brokers_and_their_logs_are_described(admin: Any, topic: str) -> None:
    described = admin.describe_cluster()
    assert sorted(each["broker_id"] for each in described["brokers"]) == [1, 2, 3]
    for broker in admin.describe_log_dirs():
        (directory,) = broker["log_dirs"]
        assert topic in {each["name"] for each in directory["topics"]}
    features = admin.describe_features()
    assert features["transaction.version"]["finalized"] == (2, 2)
