"""What clients are told of brokers, topics and versions, and how topics come and go."""

from __future__ import annotations

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node import apis
from sexton.node.api_versions import unsupported
from sexton.protocol.messages.api_versions import ApiVersionsRequest
from sexton.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from sexton.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from sexton.protocol.messages.describe_cluster import DescribeClusterRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from sexton.protocol.messages.produce import ProduceRequest
from sexton.protocol.registry import find
from sexton.protocol.wire import Request
from tests.unit.node.small_cluster import CLUSTER_ID, SmallCluster


@pytest.fixture(scope="module")
def cluster() -> SmallCluster:
    return SmallCluster()


def created(cluster: SmallCluster, *topics: CreatableTopic) -> list[CreatableTopicResult]:
    return cluster.ask(CreateTopicsRequest(topics=list(topics)), 7).topics


def described(cluster: SmallCluster, name: str, node: int = 1) -> MetadataResponseTopic:
    request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return cluster.ask(request, 12, node).topics[0]


# ── versions ──


def test_what_is_offered_is_what_is_handled(cluster: SmallCluster) -> None:
    """What our nodes only say to each other needs no bytes, and is no API."""
    handled = {kind for kind in cluster.broker(1)._handlers if issubclass(kind, Request)}
    assert {each.request for each in apis.OFFERED} == handled


def test_no_version_is_offered_that_kafka_does_not_have_or_may_still_change() -> None:
    for offered in apis.OFFERED:
        api = find(offered.key)
        assert api is not None
        assert offered.first == api.stable[0] and offered.last in api.stable, offered.name


def test_a_client_is_told_every_version_and_both_features(cluster: SmallCluster) -> None:
    request = ApiVersionsRequest("librdkafka", "2.5.0")
    answer = cluster.ask(request, 4)
    told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert told[3] == (0, 13) and told[0] == (0, 13) and told[18] == (0, 4)
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert finalized["transaction.version"] == 2
    assert answer.finalized_features_epoch >= 0
    assert cluster.ask(request, 3).supported_features == []
    assert cluster.ask(request, 0).api_keys == answer.api_keys


def test_a_nameless_client_is_refused_and_an_unknown_version_is_told_which_there_are(
    cluster: SmallCluster,
) -> None:
    answer = cluster.ask(ApiVersionsRequest("", "1"), 3)
    assert answer.error_code == KafkaError.INVALID_REQUEST
    told = unsupported()
    assert told.error_code == KafkaError.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in told.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("offered", apis.OFFERED, ids=lambda offered: offered.name)
def test_every_api_answers_in_every_version(cluster: SmallCluster, offered: apis.Offered) -> None:
    """An empty request; the answer has a place in its version for everything it says."""
    for version in range(offered.first, offered.last + 1):
        if isinstance(request := offered.request(), ProduceRequest):
            request.acks = 1
        cluster.ask(request, version)


# ── brokers and topics ──


def test_every_broker_names_all_brokers(cluster: SmallCluster) -> None:
    for node in (1, 2, 3):
        answer = cluster.ask(MetadataRequest([]), 12, node)
        hosts = [(b.node_id, b.host, b.port, b.rack) for b in answer.brokers]
        assert hosts == [
            (1, "localhost", 9092, "rack-1"),
            (2, "localhost", 9093, "rack-0"),
            (3, "localhost", 9094, "rack-1"),
        ]
        assert answer.cluster_id == CLUSTER_ID and answer.controller_id == node
        assert answer.topics == []


@pytest.mark.parametrize("version", range(14))
def test_a_topic_that_somebody_asks_for_is_there_in_every_version(
    cluster: SmallCluster, version: int
) -> None:
    name = f"auto-{version}"
    answer = cluster.ask(MetadataRequest([MetadataRequestTopic(name=name)]), version)
    topic = answer.topics[0]
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, name, 1)
    assert topic.partitions[0].leader_id in (1, 2, 3)
    assert name in cluster.image.topics


def test_a_topic_is_not_made_where_nobody_wants_it(cluster: SmallCluster) -> None:
    assert described(cluster, "unwanted").error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert described(cluster, "a b").error_code == KafkaError.INVALID_TOPIC_EXCEPTION
    assert "unwanted" not in cluster.image.topics
    asked = MetadataRequest([MetadataRequestTopic(name="a b")])
    assert cluster.ask(asked, 12).topics[0].error_code == KafkaError.INVALID_TOPIC_EXCEPTION


def test_a_cluster_can_be_told_not_to_make_topics() -> None:
    cluster = SmallCluster(1, auto_create_topics_enable=False)
    asked = MetadataRequest([MetadataRequestTopic(name="x")])
    assert cluster.ask(asked, 12).topics[0].error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_is_found_by_its_id(cluster: SmallCluster) -> None:
    made = created(cluster, CreatableTopic("by-id", 1, 3))[0]
    asked = MetadataRequest([MetadataRequestTopic(made.topic_id, None)])
    found = cluster.ask(asked, 12).topics[0]
    assert (found.error_code, found.name, found.topic_id) == (0, "by-id", made.topic_id)
    unknown = MetadataRequest([MetadataRequestTopic(bytes(15) + b"\x07", None)])
    assert cluster.ask(unknown, 12).topics[0].error_code == KafkaError.UNKNOWN_TOPIC_ID


def test_all_topics_or_none(cluster: SmallCluster) -> None:
    created(cluster, CreatableTopic("one-of-all", 1, 1))
    for version, request in ((0, MetadataRequest([])), (1, MetadataRequest(None))):
        names = [topic.name for topic in cluster.ask(request, version).topics]
        assert "one-of-all" in names and names == sorted(cluster.image.topics)
    assert cluster.ask(MetadataRequest([]), 1).topics == []


def test_a_dead_broker_is_not_named_and_what_it_held_is_offline() -> None:
    cluster = SmallCluster(auto_create_topics_enable=False)
    created(cluster, CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [3, 1])]))
    created(cluster, CreatableTopic("only", -1, -1, [CreatableReplicaAssignment(0, [3])]))
    cluster.wait(1_000)
    assert described(cluster, "t").partitions[0].leader_id == 3
    cluster.kill(3)
    partition = described(cluster, "t").partitions[0]
    assert (partition.error_code, partition.leader_id) == (0, 1)
    assert (partition.replica_nodes, partition.isr_nodes) == ([3, 1], [1])
    assert partition.offline_replicas == [3]
    old = MetadataRequest([MetadataRequestTopic(name="t")])
    lonely = cluster.ask(old, 0).topics[0].partitions[0]
    assert lonely.error_code == KafkaError.REPLICA_NOT_AVAILABLE and lonely.replica_nodes == [1]
    gone = described(cluster, "only").partitions[0]
    assert (gone.error_code, gone.leader_id) == (KafkaError.LEADER_NOT_AVAILABLE, -1)
    assert [b.node_id for b in cluster.ask(MetadataRequest([]), 12).brokers] == [1, 2]
    all_brokers = cluster.ask(DescribeClusterRequest(include_fenced_brokers=True), 2).brokers
    assert [(b.broker_id, b.is_fenced) for b in all_brokers] == [(1, False), (2, False), (3, True)]
    assert len(cluster.ask(DescribeClusterRequest(), 2).brokers) == 2


def test_allowed_operations_are_told_to_who_asks(cluster: SmallCluster) -> None:
    created(cluster, CreatableTopic("operated", 1, 1))
    asked = MetadataRequest(
        [MetadataRequestTopic(name="operated")],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    answer = cluster.ask(asked, 9)
    assert answer.cluster_authorized_operations == 0b1_1111_1010_0000
    assert answer.topics[0].topic_authorized_operations == 0b1101_1111_1000
    silent = cluster.ask(MetadataRequest([MetadataRequestTopic(name="operated")]), 9)
    assert silent.topics[0].topic_authorized_operations == -(1 << 31)


def test_the_cluster_is_described(cluster: SmallCluster) -> None:
    answer = cluster.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, CLUSTER_ID, 1)
    assert answer.cluster_authorized_operations == 0b1_1111_1010_0000
    assert [broker.port for broker in answer.brokers] == [9092, 9093, 9094]
    other = cluster.ask(DescribeClusterRequest(endpoint_type=2), 1)
    assert other.error_code == KafkaError.MISMATCHED_ENDPOINT_TYPE


# ── coming and going ──


def test_a_new_topic_is_known_where_it_was_made(cluster: SmallCluster) -> None:
    made = created(cluster, CreatableTopic("made", 4, 3))[0]
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 4, 3)
    image = cluster.broker(1).site.image
    assert bytes.fromhex(image.topics["made"].topic_id) == made.topic_id
    options = {config.name: (config.value, config.config_source) for config in made.configs or ()}
    assert options["cleanup.policy"] == ("delete", 5)


def test_a_topic_starts_with_its_options(cluster: SmallCluster) -> None:
    configs = [
        CreatableTopicConfig("cleanup.policy", "compact"),
        CreatableTopicConfig("compaction.policy", "independent"),
        CreatableTopicConfig("compression.type", "zstd"),
    ]
    made = created(cluster, CreatableTopic("compacted", 1, 1, [], configs))[0]
    options = {config.name: (config.value, config.config_source) for config in made.configs or ()}
    assert options["cleanup.policy"] == ("compact", 1)
    cluster.wait(1_000)
    config = cluster.broker(2).site.log_config("compacted")
    assert config.compacts and config.compaction_policy == "independent"


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (CreatableTopic("taken", 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (CreatableTopic("none", 0, 1), KafkaError.INVALID_PARTITIONS),
        (CreatableTopic("none", -2, 1), KafkaError.INVALID_PARTITIONS),
        (CreatableTopic("none", 1, 0), KafkaError.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("none", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR),
        (CreatableTopic("", 1, 1), KafkaError.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("..", 1, 1), KafkaError.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("a/b", 1, 1), KafkaError.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("x" * 250, 1, 1), KafkaError.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic("__cluster_metadata", 1, 1), KafkaError.INVALID_REQUEST),
        (
            CreatableTopic("none", 1, 1, [CreatableReplicaAssignment(0, [1])]),
            KafkaError.INVALID_REQUEST,
        ),
        (
            CreatableTopic("none", -1, -1, [CreatableReplicaAssignment(1, [1])]),
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            CreatableTopic("none", -1, -1, [CreatableReplicaAssignment(0, [1, 1])]),
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            CreatableTopic("none", -1, -1, [CreatableReplicaAssignment(0, [9])]),
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            CreatableTopic("none", 1, 1, [], [CreatableTopicConfig("no.such", "1")]),
            KafkaError.INVALID_CONFIG,
        ),
        (
            CreatableTopic("none", 1, 1, [], [CreatableTopicConfig("cleanup.policy", "burn")]),
            KafkaError.INVALID_CONFIG,
        ),
        (
            CreatableTopic("none", 1, 1, [], [CreatableTopicConfig("retention.ms", "soon")]),
            KafkaError.INVALID_CONFIG,
        ),
        (
            CreatableTopic("none", 1, 1, [], [CreatableTopicConfig("cleanup.policy", None)]),
            KafkaError.INVALID_CONFIG,
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_the_reason(
    cluster: SmallCluster, topic: CreatableTopic, error: KafkaError
) -> None:
    created(cluster, CreatableTopic("taken", 1, 1))
    result = created(cluster, topic)[0]
    assert KafkaError(result.error_code) is error and result.error_message
    assert "none" not in cluster.image.topics


def test_an_unknown_option_is_named(cluster: SmallCluster) -> None:
    topic = CreatableTopic("odd", 1, 1, [], [CreatableTopicConfig("retension.ms", "1")])
    assert "retension.ms" in (created(cluster, topic)[0].error_message or "")


def test_one_bad_topic_does_not_stop_the_others(cluster: SmallCluster) -> None:
    results = created(
        cluster,
        CreatableTopic("twice", 1, 1),
        CreatableTopic("good", 1, 1),
        CreatableTopic("twice", 1, 1),
        CreatableTopic("bad", 0, 1),
    )
    told = {result.name: KafkaError(result.error_code) for result in results}
    assert len(results) == 3
    assert told["good"] is KafkaError.NONE and told["twice"] is KafkaError.INVALID_REQUEST
    assert told["bad"] is KafkaError.INVALID_PARTITIONS
    assert "good" in cluster.image.topics and "twice" not in cluster.image.topics


def test_what_is_only_validated_is_not_made(cluster: SmallCluster) -> None:
    request = CreateTopicsRequest([CreatableTopic("planned", 2, 2)], validate_only=True)
    result = cluster.ask(request, 7).topics[0]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 2)
    assert "planned" not in cluster.image.topics


def test_topics_go_by_name_and_by_id(cluster: SmallCluster) -> None:
    made = created(cluster, CreatableTopic("gone-1", 1, 3), CreatableTopic("gone-2", 1, 3))

    def delete(*topics: DeleteTopicState) -> list[DeletableTopicResult]:
        return cluster.ask(DeleteTopicsRequest(list(topics), timeout_ms=5_000), 6, 2).responses

    by_name, by_id = delete(DeleteTopicState("gone-1"), DeleteTopicState(None, made[1].topic_id))
    assert (by_name.error_code, by_name.name, by_name.topic_id) == (0, "gone-1", made[0].topic_id)
    assert (by_id.error_code, by_id.name) == (0, "gone-2")
    assert described(cluster, "gone-1", 2).error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    errors = [result.error_code for result in delete(
        DeleteTopicState("gone-1"),
        DeleteTopicState(None, made[1].topic_id),
        DeleteTopicState(None),
        DeleteTopicState("x", made[1].topic_id),
    )]  # fmt: skip
    assert errors == [
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INVALID_REQUEST,
        KafkaError.INVALID_REQUEST,
    ]
    old = cluster.ask(DeleteTopicsRequest(topic_names=["no"], timeout_ms=5_000), 5).responses[0]
    assert (old.name, old.error_code) == ("no", KafkaError.UNKNOWN_TOPIC_OR_PARTITION)


def test_deleting_can_be_forbidden() -> None:
    cluster = SmallCluster(1, delete_topic_enable=False)
    created(cluster, CreatableTopic("kept", 1, 1))
    for version, error in (
        (5, KafkaError.TOPIC_DELETION_DISABLED),
        (1, KafkaError.INVALID_REQUEST),
    ):
        request = DeleteTopicsRequest(topic_names=["kept"], timeout_ms=5_000)
        assert cluster.ask(request, version).responses[0].error_code == error
    assert "kept" in cluster.image.topics


def test_a_controller_that_is_away_costs_time_and_no_more() -> None:
    cluster = SmallCluster(1)
    cluster.world.kill(-1)
    request = CreateTopicsRequest([CreatableTopic("late", 1, 1)], timeout_ms=3_000)
    assert cluster.ask(request, 7).topics[0].error_code == KafkaError.REQUEST_TIMED_OUT


# ── internal topics ──


def test_a_broker_that_is_away_gets_its_replicas_all_the_same() -> None:
    """Else an internal topic that is made meanwhile would have too few for ever."""
    cluster = SmallCluster()
    cluster.kill(2)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["me"])
    assert cluster.ask(request, 6).coordinators[0].error_code == 0
    made = cluster.image.partitions_of("__consumer_offsets")
    assert all(sorted(record.replicas) == [1, 2, 3] for record in made.values())
    assert all(record.leader in (1, 3) and 2 not in record.isr for record in made.values())
    cluster.world.start(2)
    cluster.wait(60_000)
    made = cluster.image.partitions_of("__consumer_offsets")
    assert all(sorted(record.isr) == [1, 2, 3] for record in made.values())


@pytest.mark.parametrize(
    ("kind", "topic", "brokers", "replicas"),
    [
        (0, "__consumer_offsets", 3, 3),
        (1, "__transaction_state", 3, 3),
        (1, "__transaction_state", 1, 1),
    ],
)
def test_the_first_who_looks_for_a_coordinator_finds_one(
    kind: int, topic: str, brokers: int, replicas: int
) -> None:
    cluster = SmallCluster(brokers)
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["me"])
    found = cluster.ask(request, 6).coordinators[0]
    assert found.error_code == 0 and found.node_id in range(1, brokers + 1)
    partitions = cluster.image.partitions_of(topic)
    assert len(partitions) == 2 and len(partitions[0].replicas) == replicas
    config = cluster.broker(1).site.log_config(topic)
    assert config.compacts and config.segment_bytes == 100 << 20
    least = min(2, replicas) if kind == 1 else 1
    assert cluster.broker(1).site.min_insync_replicas(TopicPartition(topic, 0)) == least
    assert described(cluster, topic).is_internal


def test_an_id_counts_more_than_a_name(cluster: SmallCluster) -> None:
    """Java's consumers, subscribed by a pattern, ask for ids and leave the names empty."""
    new = CreatableTopic("id-and-name", num_partitions=1, replication_factor=3)
    assert created(cluster, new)[0].error_code == KafkaError.NONE
    cluster.wait(1000)
    topic_id = described(cluster, "id-and-name").topic_id
    asked = MetadataRequest([MetadataRequestTopic(topic_id, "")], allow_auto_topic_creation=True)
    (found,) = cluster.ask(asked, 13).topics
    assert (found.error_code, found.name) == (KafkaError.NONE, "id-and-name")
