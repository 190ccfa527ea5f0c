"""The topics beside the main one: made as they have to be, refused if they are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sexton.base.errors import ConfigError, Refused
from sexton.client.admin import create_topic
from sexton.client.client import Client
from sexton.client.retrying import Patience
from sexton.machines.retry_settings import HEADROOM_BYTES
from sexton.retry import Message, OrderedRetry
from sexton.retry.topics import Names, check, prepare
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import AT_ONCE, PATIENCE_S, send

COMPACTED = {"cleanup.policy": "compact"}
NAMES = Names.of("orders", "g")
FOR_A_MINUTE = Patience(unknown_topic_ms=60_000)


def _nothing(message: Message) -> None:
    del message


def _start(kafka: EmbeddedCluster, **options: Any) -> OrderedRetry:
    return OrderedRetry(
        _nothing, topic="orders", group="g", bootstrap_servers=kafka.bootstrap_servers, **options
    )


def _refused(kafka: EmbeddedCluster, **options: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught, _start(kafka, **options) as retry:
        retry.wait_until_ready(PATIENCE_S)
    return caught.value


def _configs(kafka: EmbeddedCluster, topic: str) -> dict[str, str]:
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(30)
    return {name: entry.value for name, entry in found.items()}


def test_topics_are_made_as_they_have_to_be(kafka_cluster: EmbeddedCluster) -> None:
    kafka_cluster.create_topic("orders", [[1, 2, 3], [2, 3, 1]], {"max.message.bytes": 2_000_000})
    with _start(kafka_cluster) as retry:
        retry.wait_until_ready(PATIENCE_S)
    for topic in ("orders.g.retry", "orders.g.locks"):
        found = _configs(kafka_cluster, topic)
        assert found["cleanup.policy"] == "compact"
        assert found["segment.ms"] == "600000" and found["delete.retention.ms"] == "3600000"
        assert found["min.insync.replicas"] == "2"
        assert int(found["max.message.bytes"]) > 2_000_000
    assert _configs(kafka_cluster, "orders.g.dead")["cleanup.policy"] == "delete"
    for topic in ("orders.g.retry", "orders.g.locks", "orders.g.dead"):
        for partition in (0, 1):
            state = kafka_cluster.partition(topic, partition)
            assert state is not None and len(state.replicas) == 3


def test_a_main_topic_without_a_limit_is_no_trouble(kafka: EmbeddedCluster) -> None:
    """No topic can have a higher one, and librdkafka not even as high a one."""
    kafka.create_topic("orders", 1, {"max.message.bytes": 2**31 - 1})
    with _start(kafka) as retry:
        retry.wait_until_ready(PATIENCE_S)
    assert _configs(kafka, "orders.g.retry")["max.message.bytes"] == str(2**31 - 1)
    with _start(kafka) as retry:  # what we have made is good enough for us
        retry.wait_until_ready(PATIENCE_S)


@pytest.mark.parametrize(("key", "value"), [(1, 99_900), (99_900, 1)])
def test_a_message_as_large_as_the_main_topic_takes_can_wait_and_die(
    kafka: EmbeddedCluster, key: int, value: int
) -> None:
    def fail(message: Message) -> None:
        raise ValueError("x" * 100_000)

    kafka.create_topic("orders", 1, {"max.message.bytes": 100_000})
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("orders", Random(1).randbytes(value), Random(2).randbytes(key))
    assert producer.flush(PATIENCE_S) == 0
    with OrderedRetry(
        fail, topic="orders", group="g", bootstrap_servers=kafka.bootstrap_servers,
        backoff=AT_ONCE, max_attempts=2,
    ) as retry:  # fmt: skip
        until(lambda: retry.count("dead") == 1, "a dead letter", PATIENCE_S)
        assert retry.count("commits", ended="aborted") == 0


@pytest.mark.parametrize(
    ("prepare", "subject", "said"),
    [
        (lambda _: None, "orders", "no such topic"),
        (
            lambda kafka: (
                kafka.create_topic("orders", 2),
                kafka.create_topic("orders.g.locks", 2),
            ),
            "orders.g.locks",
            "cleanup.policy=delete",
        ),
        (
            lambda kafka: (
                kafka.create_topic("orders", 2),
                kafka.create_topic("orders.g.retry", 2, {"cleanup.policy": "compact,delete"}),
            ),
            "orders.g.retry",
            "deleted by age",
        ),
        (
            lambda kafka: (
                kafka.create_topic("orders", 3),
                kafka.create_topic("orders.g.locks", 2, COMPACTED),
            ),
            "partitions",
            "main has 3",
        ),
        (
            lambda kafka: (
                kafka.create_topic("orders", 1),
                kafka.create_topic("orders.g.dead", 1, COMPACTED),
            ),
            "orders.g.dead",
            "none that has no key",
        ),
        (
            lambda kafka: (
                kafka.create_topic("orders", 1, {"max.message.bytes": 5_000_000}),
                kafka.create_topic("orders.g.retry", 1, COMPACTED),
            ),
            "orders.g.retry",
            f"max.message.bytes=1048588, and messages of up to {5_000_000 + HEADROOM_BYTES} bytes",
        ),
        (
            lambda kafka: (
                kafka.create_topic("orders", 1),
                kafka.create_topic("orders.g.dead", 1),  # as large as main: no room for headers
            ),
            "orders.g.dead",
            f"max.message.bytes=1048588, and messages of up to {1_048_588 + HEADROOM_BYTES} bytes",
        ),
    ],
    ids=[
        "no main topic", "locks not compacted", "retries deleted by age", "main has grown",
        "dead letters compacted", "retries too small", "dead letters too small",
    ],
)  # fmt: skip
def test_topics_that_would_lose_messages_are_refused(
    kafka: EmbeddedCluster, prepare: Callable[[EmbeddedCluster], Any], subject: str, said: str
) -> None:
    prepare(kafka)
    error = _refused(kafka)
    assert error.subject == subject
    assert said in error.why
    assert error.hint


def test_too_few_replicas_are_refused_unless_accepted(kafka_cluster: EmbeddedCluster) -> None:
    kafka_cluster.create_topic("orders", [[1, 2, 3]])
    kafka_cluster.create_topic("orders.g.locks", [[1]], COMPACTED)
    error = _refused(kafka_cluster)
    assert error.subject == "orders.g.locks" and "has 1 replicas and needs 3" in error.why
    with _start(kafka_cluster, replication=1) as retry:
        retry.wait_until_ready(PATIENCE_S)


def test_replicas_are_counted_when_an_instance_begins_and_not_again(
    kafka_cluster: EmbeddedCluster,
) -> None:
    """While replicas of the main topic are moved, it has more than it is going to have."""
    kafka_cluster.create_topic("orders", [[1, 2, 3]])
    for topic in ("orders.g.retry", "orders.g.locks"):
        kafka_cluster.create_topic(topic, [[1]], COMPACTED)
    kafka_cluster.create_topic("orders.g.dead", [[1]])

    async def look() -> None:
        async with Client(kafka_cluster.bootstrap_servers) as client:
            assert (await check(client, NAMES)).partitions == 1
            with pytest.raises(ConfigError, match="has 1 replicas and needs 3"):
                await prepare(client, NAMES)

    asyncio.run(look())


def test_a_topic_that_was_just_made_is_waited_for(kafka: EmbeddedCluster) -> None:
    """A broker may be the last to hear of it. One that does not come is told of, in the end."""
    kafka.create_topic("orders", 1)
    kafka.create_topic("orders.g.retry", 1, COMPACTED)
    kafka.create_topic("orders.g.dead", 1)

    async def look() -> None:
        async with Client(kafka.bootstrap_servers) as client:
            with pytest.raises(Refused, match=r"no topic orders\.g\.locks"):
                await check(client, NAMES, Patience(unknown_topic_ms=1))
            checking = asyncio.ensure_future(check(client, NAMES, FOR_A_MINUTE))
            await create_topic(client, "orders.g.locks", 1, 1, COMPACTED)
            assert (await checking).partitions == 1

    asyncio.run(look())


@pytest.mark.parametrize("begin", [prepare, check])
def test_of_a_main_topic_more_than_one_broker_is_asked(
    kafka_cluster: EmbeddedCluster, begin: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is the last to hear of it would end an instance, however long it has run."""
    kafka_cluster.create_topic("orders", 1)
    whole = Client.topology

    async def look() -> None:
        async with Client(kafka_cluster.bootstrap_servers) as client:
            await prepare(client, NAMES)
            late = (await client.any_broker()).peer

            async def old_news(self: Client, topics: Any = None) -> Any:
                names = set(topics or ())
                if (await self.any_broker()).peer == late:
                    names -= {"orders"}
                return await whole(self, names)

            monkeypatch.setattr(Client, "topology", old_news)
            assert (await begin(client, NAMES)).partitions == 1

    asyncio.run(look())


def test_topics_are_not_made_against_ones_will(kafka: EmbeddedCluster) -> None:
    kafka.create_topic("orders", 1)
    error = _refused(kafka, create_topics=False)
    assert error.subject == "orders.g.retry, orders.g.locks, orders.g.dead"


QUICK = {"topic.metadata.refresh.interval.ms": "200", "metadata.max.age.ms": "500"}


def _grow(kafka: EmbeddedCluster, *topics: str) -> None:
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for topic in topics:
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)


@pytest.mark.parametrize(
    "options",
    [{"settings": QUICK, "commands_every_s": 3_600.0}, {"commands_every_s": 0.1}],
    ids=["by the group", "by a look of its own"],
)
def test_a_main_topic_that_grows_stops_its_instances(
    kafka: EmbeddedCluster, options: dict[str, Any]
) -> None:
    """Keys move with the number of partitions: what waits on the old one would be overtaken.

    librdkafka looks every five minutes; in the meantime a key may have moved between two partitions
    that there were before, and nobody would notice.
    """
    kafka.create_topic("orders", 2)
    retry = _start(kafka, **options).start()
    retry.wait_until_ready(PATIENCE_S)
    _grow(kafka, "orders")
    until(lambda: retry._failed is not None, "it notices", PATIENCE_S)
    with pytest.raises(ConfigError) as caught:
        retry.close()
    assert "main has 3, retry 2 and locks 2" in caught.value.why
    assert "settle" in (caught.value.hint or "")


def test_so_do_all_topics_together(kafka: EmbeddedCluster) -> None:
    """One after the other, the main topic last."""
    kafka.create_topic("orders", 2)
    retry = _start(kafka, commands_every_s=0.1).start()
    retry.wait_until_ready(PATIENCE_S)
    _grow(kafka, "orders.g.dead", "orders.g.locks", "orders.g.retry", "orders")
    until(lambda: retry._failed is not None, "it notices", PATIENCE_S)
    with pytest.raises(ConfigError, match="had 2 partitions and has 3"):
        retry.close()


@pytest.mark.parametrize("topic", ["orders", "orders.g.locks"])
def test_a_topic_that_is_another_one_now_stops_them_too(kafka: EmbeddedCluster, topic: str) -> None:
    """Or what the new one has below the position in the old one would never be handled."""
    kafka.create_topic("orders", 1)
    retry = _start(kafka, commands_every_s=0.1).start()
    send(kafka.bootstrap_servers, "orders", 1, range(3))
    until(lambda: [each.position for each in retry.standings] == [3], "three are done", PATIENCE_S)
    kafka.delete_topic(topic)
    kafka.create_topic(topic, 1, {"cleanup.policy": "compact"})
    until(lambda: retry._failed is not None, "it notices", PATIENCE_S)
    with pytest.raises(ConfigError, match=f"{topic}: was deleted and created again"):
        retry.close()


def _made_again(kafka: EmbeddedCluster, *, offsets_stay: bool) -> None:
    """With more messages than the old one had. Kafka forgets offsets in a topic that is deleted,
    but whoever brings back what a group had committed may bring back these as well."""
    group = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g"}
    consumer = Consumer(group)
    before = consumer.committed([TopicPartition("orders", 0)], PATIENCE_S)
    assert before[0].offset == 3
    kafka.delete_topic("orders")
    kafka.create_topic("orders", 1)
    send(kafka.bootstrap_servers, "orders", 1, range(100, 105))
    [after] = consumer.committed([TopicPartition("orders", 0)], PATIENCE_S)
    assert after.offset < 0
    if offsets_stay:
        consumer.commit(offsets=before, asynchronous=False)
    consumer.close()


def _retrying(
    kafka: EmbeddedCluster, handle: Callable[[Message], None]
) -> Callable[[], OrderedRetry]:
    servers = kafka.bootstrap_servers
    return lambda: OrderedRetry(handle, topic="orders", group="g", bootstrap_servers=servers)


def _all_taken(run: Callable[[], OrderedRetry], end: int) -> None:
    with run() as retry:
        until(lambda: [s.position for s in retry.standings] == [end], "all taken", PATIENCE_S)


@pytest.mark.parametrize("offsets_stay", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_a_main_topic_that_was_made_again_while_nobody_ran(
    kafka: EmbeddedCluster, waits: bool, offsets_stay: bool
) -> None:
    """Only where nothing of the old one is left is there nothing to mistake."""
    handled: list[bytes] = []

    def handle(message: Message) -> None:
        if waits and message.value == b"0:2":
            raise ValueError
        handled.append(message.value)

    run = _retrying(kafka, handle)
    kafka.create_topic("orders", 1)
    send(kafka.bootstrap_servers, "orders", 1, range(3))
    _all_taken(run, 3)
    _made_again(kafka, offsets_stay=offsets_stay)
    handled.clear()
    if waits or offsets_stay:
        retry = run().start()
        until(lambda: retry._failed is not None, "it notices", PATIENCE_S)
        with pytest.raises(ConfigError, match=r"orders-0: .* of a topic orders that was deleted"):
            retry.close()
        assert not handled
        return
    for _ in range(2):  # it is the topic that everything is of from now on
        _all_taken(run, 5)
    assert handled == [b"0:%d" % number for number in range(100, 105)]


def test_one_that_was_moved_with_its_offsets_is_gone_on_with_when_somebody_says_so(
    kafka: EmbeddedCluster,
) -> None:
    """A mirror may keep offsets; ids it cannot. Only a person knows that it is the same topic."""
    handled: list[bytes] = []
    run = _retrying(kafka, lambda message: handled.append(message.value))
    kafka.create_topic("orders", 1)
    send(kafka.bootstrap_servers, "orders", 1, range(3))
    _all_taken(run, 3)
    _made_again(kafka, offsets_stay=True)
    handled.clear()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("orders.g.locks", key=b"main:id", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    for _ in range(2):
        _all_taken(run, 5)
    assert handled == [b"0:103", b"0:104"]


def test_names_can_be_chosen() -> None:
    names = Names.of("orders", "g", retry="a", locks="b")
    assert names.beside == ("a", "b", "orders.g.dead")
    with pytest.raises(ConfigError, match="four different"):
        Names.of("orders", "g", retry="orders")
    with pytest.raises(ConfigError, match="cannot be the name"):
        Names.of("orders", "a group")


def test_settings_that_are_ours_are_refused() -> None:
    for name in ("enable.auto.commit", "isolation.level", "transactional.id"):
        with pytest.raises(ConfigError, match=name):
            OrderedRetry(
                _nothing, topic="t", group="g", bootstrap_servers="x:1", settings={name: "true"}
            )
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        OrderedRetry(_nothing, topic="t", group="g")
    with pytest.raises(ConfigError, match="workers"):
        OrderedRetry(_nothing, topic="t", group="g", bootstrap_servers="x:1", workers=0)


def test_topics_that_grew_together_while_something_waited(kafka: EmbeddedCluster) -> None:
    """All three have three partitions now, and a key may have moved while it was locked."""

    def fail(message: Message) -> None:
        raise ValueError(message.id)

    kafka.create_topic("orders", 2)
    send(kafka.bootstrap_servers, "orders", keys=4, numbers=range(2))
    named: dict[str, Any] = {
        "topic": "orders", "group": "g", "bootstrap_servers": kafka.bootstrap_servers,
    }  # fmt: skip
    with OrderedRetry(fail, **named) as retry:
        until(lambda: sum(s.depth for s in retry.standings) == 8, "all wait", PATIENCE_S)
    _grow(kafka, "orders", "orders.g.retry", "orders.g.locks", "orders.g.dead")
    error = _refused(kafka)
    assert "there were 2 and are 3" in error.why and error.hint
    with _start(kafka, accept_growth=True) as retry:
        until(lambda: retry.count("attempts", outcome="done") == 8, "accepted", PATIENCE_S)
