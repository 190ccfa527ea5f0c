"""librdkafka's AdminClient: topics, options, offsets, records, groups, elections."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs forget them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.clients.librdkafka import (
    PATIENCE_S,
    consuming,
    everything,
    make_producer,
    settings,
    take,
    transactional,
    values,
)

YEAR_2001_MS = 978_307_200_000
AT: Any = OffsetSpec  # which has no types


@pytest.fixture(scope="module")
def admin(cluster: EmbeddedCluster) -> AdminClient:
    return AdminClient(settings(cluster))


def only(futures: dict[Any, Future[Any]]) -> Any:
    """The answer to a call about one thing."""
    (future,) = futures.values()
    return future.result(PATIENCE_S)


def refused(futures: dict[Any, Future[Any]]) -> int:
    """The error code with which it was refused."""
    with pytest.raises(KafkaException) as raised:
        only(futures)
    code = raised.value.args[0].code()
    assert isinstance(code, int)
    return code


def test_a_topic_is_created_grown_described_and_deleted(admin: AdminClient) -> None:
    new = NewTopic("life", 2, 3, config={"retention.ms": "1000"})
    only(admin.create_topics([new], operation_timeout=10))
    assert refused(admin.create_topics([new])) == KafkaError.TOPIC_ALREADY_EXISTS
    only(admin.create_partitions([NewPartitions("life", 4)], operation_timeout=10))
    assert refused(admin.create_partitions([NewPartitions("life", 3)])) == (
        KafkaError.INVALID_PARTITIONS
    )
    described = only(admin.describe_topics(TopicCollection(["life"])))
    assert described.name == "life"
    assert not described.is_internal
    assert [p.id for p in described.partitions] == [0, 1, 2, 3]
    for partition in described.partitions:
        assert sorted(node.id for node in partition.replicas) == [1, 2, 3]
        assert sorted(node.id for node in partition.isr) == [1, 2, 3]
        assert partition.leader.id == partition.replicas[0].id
    only(admin.delete_topics(["life"], operation_timeout=10))
    assert refused(admin.delete_topics(["life"])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert "life" not in admin.list_topics(timeout=PATIENCE_S).topics


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("bad/name", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("four-replicas", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("no-partitions", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("bad-option", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("odd-option", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
        (
            NewTopic("unknown-broker", 1, replica_assignment=[[9]]),
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
    ids=lambda value: getattr(value, "topic", None),
)
def test_a_topic_that_cannot_be_is_refused(admin: AdminClient, new: NewTopic, code: int) -> None:
    assert refused(admin.create_topics([new])) == code
    assert new.topic not in admin.list_topics(timeout=PATIENCE_S).topics


def test_a_topic_can_be_tried_first(admin: AdminClient) -> None:
    only(admin.create_topics([NewTopic("tried", 1, 3)], validate_only=True))
    assert "tried" not in admin.list_topics(timeout=PATIENCE_S).topics


def test_replicas_can_be_placed(admin: AdminClient) -> None:
    assignment = [[3, 1], [2, 3]]
    only(admin.create_topics([NewTopic("placed", 2, replica_assignment=assignment)]))
    described = only(admin.describe_topics(TopicCollection(["placed"])))
    assert [[n.id for n in p.replicas] for p in described.partitions] == assignment


def test_the_cluster_is_described(admin: AdminClient, cluster: EmbeddedCluster) -> None:
    described = admin.describe_cluster().result(PATIENCE_S)
    assert sorted(node.id for node in described.nodes) == [1, 2, 3]
    assert {f"{node.host}:{node.port}" for node in described.nodes} == set(
        cluster.bootstrap_servers.split(",")
    )
    assert len(described.cluster_id) == 22


def test_options_change_one_by_one(admin: AdminClient, topic: str) -> None:
    def change(**changes: tuple[AlterConfigOpType, str | None]) -> None:
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=how)
            for name, (how, value) in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        only(admin.incremental_alter_configs([resource]))

    def shown() -> dict[str, Any]:
        found = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        assert isinstance(found, dict)
        return found

    change(retention_ms=(AlterConfigOpType.SET, "1234"))
    change(cleanup_policy=(AlterConfigOpType.APPEND, "compact"))
    options = shown()
    assert options["retention.ms"].value == "1234"
    assert not options["retention.ms"].is_default
    assert sorted(options["cleanup.policy"].value.split(",")) == ["compact", "delete"]
    assert options["segment.bytes"].is_default
    change(
        cleanup_policy=(AlterConfigOpType.SUBTRACT, "delete"),
        retention_ms=(AlterConfigOpType.DELETE, None),
    )
    options = shown()
    assert options["cleanup.policy"].value == "compact"
    assert options["retention.ms"].value == str(7 * 24 * 3600 * 1000)
    assert options["retention.ms"].is_default
    with pytest.raises(KafkaException) as raised:
        change(retention_ms=(AlterConfigOpType.SET, "soon"))
    assert raised.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_a_brokers_options_are_shown_and_changed(admin: AdminClient) -> None:
    broker = ConfigResource(ResourceType.BROKER, "2")
    options = only(admin.describe_configs([broker]))
    assert options["broker.id"].value == "2"
    assert options["broker.id"].is_read_only

    def shown() -> Any:
        return only(admin.describe_configs([broker]))["log.retention.ms"].value

    def change(how: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry("log.retention.ms", value, incremental_operation=how)
        changed = ConfigResource(ResourceType.BROKER, "2", incremental_configs=[entry])
        only(admin.incremental_alter_configs([changed]))

    before = shown()
    change(AlterConfigOpType.SET, "5000")
    until(lambda: shown() == "5000", "the new value")
    change(AlterConfigOpType.DELETE, None)
    until(lambda: shown() == before, "the old value")


def test_offsets_are_found_by_time_and_place(
    admin: AdminClient, cluster: EmbeddedCluster, topic: str
) -> None:
    producer = make_producer(cluster)
    for at in (10, 30, 20):
        producer.produce(topic, b"v", partition=0, timestamp=YEAR_2001_MS + at)
    assert producer.flush(PATIENCE_S) == 0
    open_one = transactional(cluster, topic)
    open_one.begin_transaction()
    open_one.produce(topic, b"open", partition=0, timestamp=YEAR_2001_MS + 1)
    assert open_one.flush(PATIENCE_S) == 0

    def found(spec: Any, level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> Any:
        at = TopicPartition(topic, 0)
        answer = only(admin.list_offsets({at: spec}, isolation_level=level))
        return answer.offset, answer.timestamp

    assert found(AT.earliest()) == (0, -1)
    assert found(AT.latest()) == (4, -1)
    assert found(AT.latest(), IsolationLevel.READ_COMMITTED) == (3, -1)
    assert found(AT.max_timestamp()) == (1, YEAR_2001_MS + 30)
    assert found(AT.for_timestamp(YEAR_2001_MS + 11)) == (1, YEAR_2001_MS + 30)
    assert found(AT.for_timestamp(YEAR_2001_MS + 31)) == (-1, -1)
    open_one.abort_transaction(PATIENCE_S)


def test_records_are_deleted_from_the_start(
    admin: AdminClient, cluster: EmbeddedCluster, topic: str
) -> None:
    producer = make_producer(cluster)
    for number in range(5):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    assert only(admin.delete_records([TopicPartition(topic, 0, 3)])).low_watermark == 3
    assert values(everything(cluster, topic)) == ["3", "4"]
    assert refused(admin.delete_records([TopicPartition(topic, 0, 6)])) == (
        KafkaError.OFFSET_OUT_OF_RANGE
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_looked_after(
    admin: AdminClient, cluster: EmbeddedCluster, topic: str, protocol: str
) -> None:
    group = f"looked-after-{protocol}"
    producer = make_producer(cluster)
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    place = TopicPartition(topic, 0)
    with consuming(
        cluster, topic, group, group_protocol=protocol, client_id="the reader"
    ) as consumer:
        take(consumer, 1)
        consumer.commit(asynchronous=False)
        listed = {g.group_id: g for g in admin.list_consumer_groups().result(PATIENCE_S).valid}
        assert listed[group].state == ConsumerGroupState.STABLE
        assert listed[group].type == ConsumerGroupType[protocol.upper()]
        described = only(admin.describe_consumer_groups([group]))
        assert described.state == ConsumerGroupState.STABLE
        (member,) = described.members
        assert (member.client_id, member.host) == ("the reader", "/127.0.0.1")
        assert sorted(p.partition for p in member.assignment.topic_partitions) == [0, 1]
        assert refused(admin.delete_consumer_groups([group])) == KafkaError.NON_EMPTY_GROUP

    (found,) = only(
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [place])])
    ).topic_partitions
    assert found.offset == 1
    only(
        admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0)])]
        )
    )
    (found,) = only(
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    ).topic_partitions
    assert (found.partition, found.offset) == (0, 0)
    only(admin.delete_consumer_groups([group]))
    assert group not in {g.group_id for g in admin.list_consumer_groups().result(PATIENCE_S).valid}
    assert refused(admin.delete_consumer_groups([group])) == KafkaError.GROUP_ID_NOT_FOUND


def test_a_leader_is_elected(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("elected", [[1, 2, 3]])
    at = TopicPartition("elected", 0)

    def elect() -> Any:
        # A new client each time: one that believes a dead broker to be the controller waits for it
        # until it reads metadata again, for whatever reason, minutes later.
        admin = AdminClient(settings(cluster))
        answer = admin.elect_leaders(ElectionType.PREFERRED, [at]).result(PATIENCE_S)
        return answer[at] and answer[at].code()

    assert elect() == KafkaError.ELECTION_NOT_NEEDED
    cluster.kill(1)
    cluster.wait_for("elected", 0, lambda state: state.leader != 1)
    assert elect() == KafkaError.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.restart(1)
    cluster.wait_until_in_sync("elected")
    assert elect() is None
    assert cluster.leader_of("elected") == 1
