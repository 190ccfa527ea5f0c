"""librdkafka writes and reads whatever a record can be, in groups of both protocols."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from sexton.testing.embedded import EmbeddedCluster
from tests.clients.librdkafka import (
    PATIENCE_S,
    consuming,
    everything,
    make_consumer,
    make_producer,
    next_error,
    poll_until,
    take,
    values,
)

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
YEAR_2001_MS = 978_307_200_000


# ── records ──


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_record_comes_back_as_it_was_sent(
    cluster: EmbeddedCluster, topic: str, codec: str, acks: str
) -> None:
    producer = make_producer(cluster, compression_type=codec, acks=acks, linger_ms=20)
    headers = [("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""), ("none", None)]
    sent: list[tuple[bytes | None, bytes | None, Any]] = [
        (b"key", b"value", None),
        (None, b"no key", None),
        (b"tombstone", None, None),
        (None, None, None),
        (b"", b"", None),
        (b"with headers", b"v", headers),
        (b"compressible", b"a" * 50_000, None),
    ]
    for at, (key, value, extra) in enumerate(sent):
        producer.produce(topic, value, key, partition=1, headers=extra, timestamp=YEAR_2001_MS + at)
    assert producer.flush(PATIENCE_S) == 0

    with_consumer = make_consumer(cluster, "-")
    with_consumer.assign([TopicPartition(topic, 1, 0)])
    found = take(with_consumer, len(sent))
    with_consumer.close()
    assert [(m.key(), m.value(), m.headers()) for m in found] == sent
    assert [m.offset() for m in found] == list(range(len(sent)))
    assert [m.timestamp() for m in found] == [
        (TIMESTAMP_CREATE_TIME, YEAR_2001_MS + at) for at in range(len(sent))
    ]


def test_a_topic_may_want_the_brokers_time(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("append-time", 1, {"message.timestamp.type": "LogAppendTime"})
    before = cluster.now_ms()
    producer = make_producer(cluster)
    producer.produce("append-time", b"v", timestamp=YEAR_2001_MS)
    assert producer.flush(PATIENCE_S) == 0
    (message,) = everything(cluster, "append-time")
    kind, at = message.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before <= at <= cluster.now_ms()


def test_a_record_may_be_as_large_as_the_topic_says_and_no_larger(
    cluster: EmbeddedCluster,
) -> None:
    limit = 100_000
    cluster.create_topic("large", 1, {"max.message.bytes": limit})
    producer = make_producer(cluster, message_max_bytes=10_000_000)
    ends: list[KafkaError | None] = []
    # A batch of one record: 61 bytes of batch, and around the value 6 to 10 of record.
    for size in (limit - 75, limit - 60):
        producer.produce("large", bytes(size), on_delivery=lambda error, _: ends.append(error))
        assert producer.flush(PATIENCE_S) == 0
    assert ends[0] is None
    assert ends[1] is not None
    assert ends[1].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert [len(m.value() or b"") for m in everything(cluster, "large")] == [limit - 75]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_compacted_topic_takes_no_record_without_a_key(
    cluster: EmbeddedCluster, codec: str
) -> None:
    name = f"compacted-{codec}"
    cluster.create_topic(name, 1, {"cleanup.policy": "compact"})
    producer = make_producer(cluster, compression_codec=codec)
    ends: list[KafkaError | None] = []
    for key in (b"k" * 200, b"", None):  # an empty one is a key
        producer.produce(name, b"paid", key, on_delivery=lambda error, _: ends.append(error))
        assert producer.flush(PATIENCE_S) == 0
    assert ends[:2] == [None, None]
    assert ends[2] is not None
    assert ends[2].code() == KafkaError.INVALID_RECORD
    assert [m.key() for m in everything(cluster, name)] == [b"k" * 200, b""]


def test_a_record_larger_than_a_fetch_is_read_all_the_same(
    cluster: EmbeddedCluster, topic: str
) -> None:
    producer = make_producer(cluster)
    for size in (900_000, 10, 800_000):
        producer.produce(topic, bytes(size), partition=0)
        assert producer.flush(PATIENCE_S) == 0
    with consuming(
        cluster, topic, "small-fetches", fetch_message_max_bytes=1000, fetch_max_bytes=1_000_000
    ) as consumer:
        assert [len(m.value() or b"") for m in take(consumer, 3)] == [900_000, 10, 800_000]


def test_an_unknown_topic_is_no_topic(cluster: EmbeddedCluster) -> None:
    consumer = make_consumer(cluster, "nobody", allow_auto_create_topics=False)
    consumer.subscribe(["not-there"])
    assert next_error(consumer) == KafkaError.UNKNOWN_TOPIC_OR_PART
    consumer.close()


# ── groups ──


def assigned(consumer: Consumer) -> list[int]:
    return sorted(at.partition for at in consumer.assignment())


GROUPS: list[dict[str, Any]] = [
    {"partition_assignment_strategy": "range"},
    {"partition_assignment_strategy": "cooperative-sticky"},
    {"group_protocol": "consumer"},
]


def group_id(how: dict[str, Any], what: str) -> str:
    return "-".join([what, *how.values()])


@pytest.mark.parametrize("how", GROUPS, ids=lambda how: str(*how.values()))
def test_two_members_share_and_one_takes_over(
    cluster: EmbeddedCluster, topic: str, how: dict[str, Any]
) -> None:
    group = group_id(how, "shared")
    producer = make_producer(cluster)
    for number in range(10):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0

    with consuming(cluster, topic, group, **how) as first:
        poll_until(lambda: assigned(first) == [0, 1], "one member has all", first)
        with consuming(cluster, topic, group, **how) as second:
            poll_until(
                lambda: (
                    sorted(assigned(first) + assigned(second)) == [0, 1]
                    and len(assigned(first)) == len(assigned(second)) == 1
                ),
                "each member has one",
                first,
                second,
            )
        poll_until(lambda: assigned(first) == [0, 1], "one member has all again", first)


@pytest.mark.parametrize("how", GROUPS, ids=lambda how: str(*how.values()))
def test_a_group_goes_on_where_it_committed(
    cluster: EmbeddedCluster, topic: str, how: dict[str, Any]
) -> None:
    group = group_id(how, "committed")
    producer = make_producer(cluster)
    for number in range(6):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(PATIENCE_S) == 0

    with consuming(cluster, topic, group, **how) as consumer:
        take(consumer, 3)
        after = TopicPartition(topic, 0, 3, metadata="so far")
        consumer.commit(offsets=[after], asynchronous=False)
        (committed,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)
        assert (committed.offset, committed.metadata) == (3, "so far")
        (nothing,) = consumer.committed([TopicPartition(topic, 1)], PATIENCE_S)
        assert nothing.offset == -1001  # OFFSET_INVALID: nobody has committed any
    with consuming(cluster, topic, group, **how) as consumer:
        assert values(take(consumer, 3)) == ["3", "4", "5"]


@pytest.mark.parametrize("how", GROUPS, ids=lambda how: str(*how.values()))
def test_a_static_member_comes_back_to_its_partitions(
    cluster: EmbeddedCluster, topic: str, how: dict[str, Any]
) -> None:
    group = group_id(how, "static")
    seen: list[str] = []

    def join(name: str) -> Consumer:
        consumer = make_consumer(cluster, group, group_instance_id=name, **how)
        consumer.subscribe([topic], on_assign=lambda *_: seen.append(name))
        return consumer

    one, two = join("one"), join("two")
    poll_until(
        lambda: len(assigned(one)) == len(assigned(two)) == 1, "each member has one", one, two
    )
    before = assigned(one), assigned(two)
    seen.clear()
    two.close()  # a static member that closes does not leave
    two = join("two")
    poll_until(lambda: len(assigned(two)) == 1, "it is back", one, two)
    assert (assigned(one), assigned(two)) == before
    assert "one" not in seen, "nobody else was bothered"

    one.close()
    two.close()


def test_of_two_members_with_one_name_the_first_is_fenced(
    cluster: EmbeddedCluster, topic: str
) -> None:
    with consuming(cluster, topic, "fenced", group_instance_id="same") as first:
        poll_until(lambda: assigned(first) == [0, 1], "the first has all", first)
        with consuming(cluster, topic, "fenced", group_instance_id="same") as second:
            poll_until(lambda: assigned(second) == [0, 1], "the second has all", second)
            assert next_error(first) in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)


def test_a_member_that_is_silent_loses_its_partitions(cluster: EmbeddedCluster, topic: str) -> None:
    """It does not poll for longer than max.poll.interval.ms, and so leaves."""
    quick = {"session_timeout_ms": 1000, "max_poll_interval_ms": 1000}
    with (
        consuming(cluster, topic, "silent", **quick) as silent,
        consuming(cluster, topic, "silent") as other,
    ):
        poll_until(
            lambda: len(assigned(silent)) == len(assigned(other)) == 1, "shared", silent, other
        )
        poll_until(lambda: assigned(other) == [0, 1], "the other has all", other)


def test_an_old_member_cannot_commit(cluster: EmbeddedCluster, topic: str) -> None:
    member = make_consumer(cluster, "outsider")
    with consuming(cluster, topic, "outsider") as insider:
        poll_until(lambda: assigned(insider) == [0, 1], "one member has all", insider)
        with pytest.raises(KafkaException) as raised:
            member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        assert raised.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    member.close()


def test_positions_by_time(cluster: EmbeddedCluster, topic: str) -> None:
    producer = make_producer(cluster)
    for at in (1000, 3000, 2000):
        producer.produce(topic, b"v", partition=0, timestamp=YEAR_2001_MS + at)
    assert producer.flush(PATIENCE_S) == 0
    consumer = make_consumer(cluster, "-")

    def first_from(at: int) -> int:
        wanted = [TopicPartition(topic, 0, YEAR_2001_MS + at)]
        return int(consumer.offsets_for_times(wanted, PATIENCE_S)[0].offset)

    assert [first_from(at) for at in (0, 1000, 1001, 2500, 3000)] == [0, 0, 1, 1, 1]
    assert first_from(3001) == -1  # the end: no record is as new
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S) == (0, 3)
    consumer.close()


def test_messages_keep_their_order_through_retries(cluster: EmbeddedCluster, topic: str) -> None:
    delivered: list[Message] = []
    producer = make_producer(cluster, enable_idempotence=True, linger_ms=1)
    for number in range(2000):
        producer.produce(
            topic, str(number), partition=0, on_delivery=lambda _, m: delivered.append(m)
        )
        if number % 100 == 0:
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert [m.offset() for m in delivered] == list(range(2000))
    assert values(everything(cluster, topic)) == [str(number) for number in range(2000)]
