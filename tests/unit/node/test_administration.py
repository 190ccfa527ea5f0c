"""What administrators ask of a cluster: options, elections, reassignments, records that go."""

from __future__ import annotations

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.config import LogConfig
from sexton.protocol.messages import alter_configs as plain
from sexton.protocol.messages import incremental_alter_configs as incremental
from sexton.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from sexton.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from sexton.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sexton.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sexton.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sexton.protocol.messages.describe_acls import DescribeAclsRequest
from sexton.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from sexton.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from sexton.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from sexton.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from sexton.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
)
from sexton.protocol.messages.describe_topic_partitions import TopicRequest as PagedTopic
from sexton.protocol.messages.describe_transactions import DescribeTransactionsRequest
from sexton.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.list_config_resources import ListConfigResourcesRequest
from sexton.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from sexton.protocol.messages.list_transactions import ListTransactionsRequest
from sexton.protocol.messages.unregister_broker import UnregisterBrokerRequest
from sexton.protocol.own_messages import AskedTopic, DescribeReplicasRequest
from sexton.sim.clients import Sequence, batch_of, produce_request, produced
from tests.unit.node.small_cluster import SmallCluster

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def cluster() -> SmallCluster:
    return SmallCluster()


def create(cluster: SmallCluster, name: str, *replicas: list[int], **configs: str) -> None:
    assignments = [CreatableReplicaAssignment(n, nodes) for n, nodes in enumerate(replicas)]
    chosen = [CreatableTopicConfig(k.replace("_", "."), v) for k, v in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(name, -1, -1, assignments, chosen)])
    assert [result.error_code for result in cluster.ask(request, 7).topics] == [0]
    cluster.wait(2_000)


def write(cluster: SmallCluster, topic: str, records: int, number: int = 0) -> None:
    partition = TopicPartition(topic, number)
    for _ in range(records):
        batch = batch_of([(b"k", b"v")], Sequence(), cluster.world.now_ms)
        leader = cluster.image.partitions[partition].leader
        answer = cluster.ask(produce_request(partition, batch), 11, leader)
        assert produced(answer).error_code == 0
    cluster.wait(2_000)


# ── options ──


def alter(
    cluster: SmallCluster, kind: int, name: str, *changes: tuple[str, int, str | None]
) -> tuple[KafkaError, str]:
    configs = [incremental.AlterableConfig(*change) for change in changes]
    resource = incremental.AlterConfigsResource(kind, name, configs)
    request = incremental.IncrementalAlterConfigsRequest([resource])
    answer = cluster.ask(request, 1).responses[0]
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return KafkaError(answer.error_code), answer.error_message or ""


def describe(
    cluster: SmallCluster, kind: int, name: str, node: int = 1, *options: str
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(kind, name, list(options) or None)
    request = DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True)
    return cluster.ask(request, 4, node).results[0]


def option(cluster: SmallCluster, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (found,) = describe(cluster, kind, name, 1, key).configs
    return found


def test_an_option_is_set_and_goes_back_to_its_default(cluster: SmallCluster) -> None:
    create(cluster, "t", [1, 2, 3])
    assert alter(cluster, TOPIC, "t", ("retention.ms", SET, "1000"))[0] is KafkaError.NONE
    found = option(cluster, TOPIC, "t", "retention.ms")
    assert (found.value, found.config_source, found.config_type) == ("1000", 1, 5)
    assert [(s.name, s.value, s.source) for s in found.synonyms] == [
        ("retention.ms", "1000", 1),
    ]
    cluster.wait(1_000)
    for node in (1, 2, 3):
        replica = cluster.broker(node).replicas.get(TopicPartition("t", 0))
        assert replica.log.config.retention_ms == 1000
    assert alter(cluster, TOPIC, "t", ("retention.ms", DELETE, None))[0] is KafkaError.NONE
    found = option(cluster, TOPIC, "t", "retention.ms")
    assert (found.value, found.config_source) == ("604800000", 5)


def test_a_list_grows_and_shrinks_from_its_default(cluster: SmallCluster) -> None:
    create(cluster, "t", [1])
    assert alter(cluster, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))[0] is KafkaError.NONE
    assert option(cluster, TOPIC, "t", "cleanup.policy").value == "delete,compact"
    assert alter(cluster, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))[0] is KafkaError.NONE
    assert option(cluster, TOPIC, "t", "cleanup.policy").value == "compact"
    error, why = alter(cluster, TOPIC, "t", ("retention.ms", APPEND, "1"))
    assert error is KafkaError.INVALID_CONFIG and "retention.ms" in why


@pytest.mark.parametrize(
    ("kind", "name", "change", "error"),
    [
        (TOPIC, "t", ("retension.ms", SET, "1"), KafkaError.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, "-2"), KafkaError.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, None), KafkaError.INVALID_REQUEST),
        (TOPIC, "t", ("retention.ms", 9, "1"), KafkaError.INVALID_REQUEST),
        (TOPIC, "t", ("remote.storage.enable", SET, "true"), KafkaError.INVALID_CONFIG),
        (TOPIC, "t", ("compaction.policy", SET, "none"), KafkaError.INVALID_CONFIG),
        (TOPIC, "none", ("retention.ms", SET, "1"), KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "x", ("log.retention.ms", SET, "1"), KafkaError.INVALID_REQUEST),
        (BROKER, "1", ("node.id", SET, "7"), KafkaError.INVALID_REQUEST),
        (3, "", ("x", SET, "1"), KafkaError.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    cluster: SmallCluster,
    kind: int,
    name: str,
    change: tuple[str, int, str | None],
    error: KafkaError,
) -> None:
    create(cluster, "t", [1])
    found, why = alter(cluster, kind, name, change, ("segment.ms", SET, "5"))
    assert found is error and why
    assert cluster.image.configs == {}


def test_an_unknown_option_is_named(cluster: SmallCluster) -> None:
    create(cluster, "t", [1])
    assert "retension.ms" in alter(cluster, TOPIC, "t", ("retension.ms", SET, "1"))[1]


def test_the_older_call_replaces_all_options(cluster: SmallCluster) -> None:
    create(cluster, "t", [1], retention_ms="1000", cleanup_policy="compact")

    def replace(validate_only: bool) -> int:
        configs = [plain.AlterableConfig("segment.ms", "5")]
        resource = plain.AlterConfigsResource(TOPIC, "t", configs)
        request = plain.AlterConfigsRequest([resource], validate_only)
        return cluster.ask(request, 2).responses[0].error_code

    assert replace(validate_only=True) == 0
    assert cluster.image.options_of("topic", "t")["retention.ms"] == "1000"
    assert replace(validate_only=False) == 0
    assert cluster.image.options_of("topic", "t") == {"segment.ms": "5"}


def test_a_broker_gives_topics_their_defaults(cluster: SmallCluster) -> None:
    create(cluster, "t", [1, 2, 3])
    create(cluster, "own", [1, 2, 3], segment_bytes="3000")
    alter(cluster, BROKER, "", ("log.segment.bytes", SET, "1000"))
    alter(cluster, BROKER, "2", ("log.segment.bytes", SET, "2000"))
    cluster.wait(2_000)
    for topic, sizes in (("t", [1000, 2000, 1000]), ("own", [3000, 3000, 3000])):
        at = TopicPartition(topic, 0)
        logs = [cluster.broker(node).replicas.get(at).log for node in (1, 2, 3)]
        assert [log.config.segment_bytes for log in logs] == sizes
    found = describe(cluster, BROKER, "2", 2, "log.segment.bytes").configs[0]
    assert [(s.value, s.source) for s in found.synonyms] == [
        ("2000", 2),
        ("1000", 3),
        ("1073741824", 5),
    ]
    (for_all,) = describe(cluster, BROKER, "").configs
    assert (for_all.name, for_all.value, for_all.config_source) == ("log.segment.bytes", "1000", 3)


def test_a_broker_tells_its_own_options_only() -> None:
    cluster = SmallCluster(2, LogConfig(compaction_policy="independent"), num_partitions=4)
    found = {config.name: config for config in describe(cluster, BROKER, "1").configs}
    assert found["num.partitions"].value == "4" and found["num.partitions"].config_source == 4
    assert found["node.id"].value == "1" and found["node.id"].read_only
    policy = found["log.compaction.policy"]
    assert (policy.value, policy.config_source) == ("independent", 4)
    assert policy.documentation
    assert describe(cluster, BROKER, "2").error_code == KafkaError.INVALID_REQUEST
    assert describe(cluster, TOPIC, "no").error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(cluster, 77, "no").error_code == KafkaError.INVALID_REQUEST
    create(cluster, "t", [1])
    every = option(cluster, TOPIC, "t", "compaction.policy")
    assert (every.value, every.config_source) == ("independent", 4)


def test_a_throttle_is_kept_though_nothing_is_throttled(cluster: SmallCluster) -> None:
    """Kafka's tool sets one before it moves replicas, and takes it away afterwards."""
    rate = "leader.replication.throttled.rate"
    assert alter(cluster, BROKER, "1", (rate, SET, "1000"))[0] is KafkaError.NONE
    assert option(cluster, BROKER, "1", rate).value == "1000"
    assert alter(cluster, BROKER, "1", (rate, SET, "-1"))[0] is KafkaError.INVALID_CONFIG
    assert alter(cluster, BROKER, "1", (rate, DELETE, None))[0] is KafkaError.NONE
    assert cluster.image.configs == {}


def test_a_topic_changes_its_policy_and_replicas_go_on(cluster: SmallCluster) -> None:
    """Leader and followers change together: who has restarted since is let in all the same."""
    create(cluster, "t", [1, 2], compaction_policy="independent")
    at = TopicPartition("t", 0)
    for policy in ("coordinated", "independent", "coordinated"):
        write(cluster, "t", 2)
        change = ("compaction.policy", SET, policy)
        assert alter(cluster, TOPIC, "t", change)[0] is KafkaError.NONE
        cluster.wait(2_000)
        write(cluster, "t", 2)
        cluster.kill(2)
        write(cluster, "t", 2)
        cluster.world.start(2)
        cluster.wait(60_000)
        assert cluster.image.partitions[at].isr == (1, 2)
        for node in (1, 2):
            replica = cluster.broker(node).replicas.get(at)
            assert replica.coordinated == (policy == "coordinated")
            replica.check()
    assert cluster.broker(2).replicas.get(at).log.end_offset == 18


def test_brokers_cannot_differ_in_their_policy(cluster: SmallCluster) -> None:
    for name in ("", "1"):
        change = ("log.compaction.policy", SET, "independent")
        assert alter(cluster, BROKER, name, change)[0] is KafkaError.INVALID_REQUEST
    assert option(cluster, BROKER, "1", "log.compaction.policy").read_only


def test_resources_are_listed(cluster: SmallCluster) -> None:
    create(cluster, "t", [1])
    found = cluster.ask(ListConfigResourcesRequest([TOPIC, BROKER]), 1).config_resources
    assert [(r.resource_type, r.resource_name) for r in found] == [
        (TOPIC, "t"), (BROKER, "1"), (BROKER, "2"), (BROKER, "3"),
    ]  # fmt: skip
    assert cluster.ask(ListConfigResourcesRequest(), 0).config_resources == []


def test_no_more_replicas_must_be_in_sync_than_there_are(cluster: SmallCluster) -> None:
    create(cluster, "alone", [1], min_insync_replicas="2")
    write(cluster, "alone", 1)
    create(cluster, "pair", [1, 2], min_insync_replicas="2")
    write(cluster, "pair", 1)
    cluster.kill(2)
    batch = batch_of([(b"k", b"v")], Sequence(), cluster.world.now_ms)
    refused = cluster.ask(produce_request(TopicPartition("pair", 0), batch), 11)
    assert produced(refused).error_code == KafkaError.NOT_ENOUGH_REPLICAS


def test_each_partition_counts_its_own_replicas(cluster: SmallCluster) -> None:
    create(cluster, "t", [1, 2], [1, 2], min_insync_replicas="2")
    topic = ReassignableTopic("t", [ReassignablePartition(0, [1])])
    moved = cluster.ask(AlterPartitionReassignmentsRequest(5_000, True, [topic]), 1)
    assert moved.responses[0].partitions[0].error_code == 0
    cluster.kill(2)
    batch = batch_of([(b"k", b"v")], Sequence(), cluster.world.now_ms)
    answers = [
        produced(cluster.ask(produce_request(TopicPartition("t", number), batch), 11)).error_code
        for number in (0, 1)
    ]
    assert answers == [KafkaError.NONE, KafkaError.NOT_ENOUGH_REPLICAS]


# ── partitions ──


def test_a_topic_grows(cluster: SmallCluster) -> None:
    create(cluster, "t", [1, 2])

    def grow(count: int, *replicas: list[int], validate_only: bool = False) -> KafkaError:
        chosen = [CreatePartitionsAssignment(nodes) for nodes in replicas] or None
        topic = CreatePartitionsTopic("t", count, chosen)
        request = CreatePartitionsRequest([topic], 5_000, validate_only)
        return KafkaError(cluster.ask(request, 3).results[0].error_code)

    assert grow(3, validate_only=True) is KafkaError.NONE
    assert len(cluster.image.partitions_of("t")) == 1
    assert grow(2) is KafkaError.NONE
    assert len(cluster.broker(1).site.image.partitions_of("t")) == 2
    assert grow(3, [3, 1]) is KafkaError.NONE
    assert cluster.image.partitions_of("t")[2].replicas == (3, 1)
    assert grow(3) is KafkaError.INVALID_PARTITIONS
    assert grow(4, [1, 2], [2, 3]) is KafkaError.INVALID_REPLICA_ASSIGNMENT
    assert grow(4, [1, 9]) is KafkaError.INVALID_REPLICA_ASSIGNMENT
    request = CreatePartitionsRequest([CreatePartitionsTopic("no", 2, None)], 5_000)
    assert cluster.ask(request, 0).results[0].error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_coordinators_go_by_does_not_grow(cluster: SmallCluster) -> None:
    """Who coordinates a group would be another broker then, which knows nothing of its offsets."""

    def grow() -> list[KafkaError]:
        names = "__consumer_offsets", "__transaction_state", "t"
        topics = [CreatePartitionsTopic(name, 60, None) for name in names]
        results = cluster.ask(CreatePartitionsRequest(topics, 5_000), 3).results
        by_name = {result.name: KafkaError(result.error_code) for result in results}
        return [by_name[name] for name in names]

    create(cluster, "t", [1])
    assert grow() == [KafkaError.UNKNOWN_TOPIC_OR_PARTITION] * 2 + [KafkaError.NONE]
    for kind in (0, 1):
        cluster.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"]), 4)
    cluster.wait(2_000)
    assert grow() == [KafkaError.INVALID_PARTITIONS] * 3
    assert len(cluster.image.partitions_of("__consumer_offsets")) == 2


def test_replicas_are_spread_over_racks(cluster: SmallCluster) -> None:
    """Brokers 1 and 3 are in one rack, 2 in the other: no partition of two is in one rack."""
    request = CreateTopicsRequest([CreatableTopic("t", 12, 2)])
    assert cluster.ask(request, 7).topics[0].error_code == 0
    placements = [p.replicas for p in cluster.image.partitions_of("t").values()]
    assert all(2 in replicas for replicas in placements)
    leaders = [replicas[0] for replicas in placements]
    assert [leaders.count(node) for node in (1, 2, 3)] == [4, 4, 4]


def test_the_preferred_leader_leads_again(cluster: SmallCluster) -> None:
    create(cluster, "t", [3, 1])
    create(cluster, "u", [1, 2])
    cluster.kill(3)
    assert cluster.image.partitions[TopicPartition("t", 0)].leader == 1

    def elect(partitions: list[TopicPartitions] | None) -> dict[tuple[str, int], KafkaError]:
        answer = cluster.ask(ElectLeadersRequest(0, partitions), 2)
        return {
            (topic.topic, each.partition_id): KafkaError(each.error_code)
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }

    t = [TopicPartitions("t", [0]), TopicPartitions("u", [0, 7]), TopicPartitions("no", [0])]
    assert elect(t) == {
        ("t", 0): KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        ("u", 0): KafkaError.ELECTION_NOT_NEEDED,
        ("u", 7): KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        ("no", 0): KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    }
    cluster.world.start(3)
    cluster.wait(30_000)
    assert elect(None) == {("t", 0): KafkaError.NONE}
    assert cluster.broker(1).site.image.partitions[TopicPartition("t", 0)].leader == 3


def test_a_leader_that_may_lose_records_must_be_asked_for() -> None:
    cluster = SmallCluster()
    create(cluster, "t", [2, 3])
    cluster.kill(3)
    cluster.kill(2)
    cluster.world.start(3)
    cluster.wait(30_000)
    at = TopicPartition("t", 0)
    assert cluster.image.partitions[at].leader == -1
    request = ElectLeadersRequest(1, [TopicPartitions("t", [0])])
    assert cluster.ask(request, 2).replica_election_results[0].partition_result[0].error_code == 0
    assert cluster.image.partitions[at].leader == 3


def test_replicas_move(cluster: SmallCluster) -> None:
    create(cluster, "t", [1, 2])
    cluster.kill(3)

    def move(*nodes: int, cancel: bool = False, factor: bool = True, name: str = "t") -> KafkaError:
        partition = ReassignablePartition(0, None if cancel else list(nodes))
        request = AlterPartitionReassignmentsRequest(
            5_000, factor, [ReassignableTopic(name, [partition])]
        )
        answer = cluster.ask(request, 1)
        assert answer.error_code == 0
        return KafkaError(answer.responses[0].partitions[0].error_code)

    def under_way() -> list[tuple[list[int], list[int], list[int]]]:
        cluster.wait(1_000)
        answer = cluster.ask(ListPartitionReassignmentsRequest(), 0)
        return [
            (p.replicas, p.adding_replicas, p.removing_replicas)
            for topic in answer.topics
            for p in topic.partitions
        ]

    assert move(cancel=True) is KafkaError.NO_REASSIGNMENT_IN_PROGRESS
    assert move(9) is KafkaError.INVALID_REPLICA_ASSIGNMENT
    assert move(1, name="no") is KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    assert move(1, 2, 3, factor=False) is KafkaError.INVALID_REPLICATION_FACTOR
    assert under_way() == []
    assert move(1, 3) is KafkaError.NONE
    assert under_way() == [([1, 3, 2], [3], [2])]
    assert move(cancel=True) is KafkaError.NONE
    assert under_way() == []
    cluster.world.start(3)
    cluster.wait(30_000)
    assert move(1, 3, factor=False) is KafkaError.NONE
    cluster.wait(30_000)
    assert under_way() == []
    assert cluster.image.partitions[TopicPartition("t", 0)].replicas == (1, 3)


def test_topics_are_described_page_by_page(cluster: SmallCluster) -> None:
    create(cluster, "a", [1], [1], [1])
    create(cluster, "b", [2], [3])
    seen: list[tuple[str, int]] = []
    cursor: RequestCursor | None = None
    for _ in range(10):
        request = DescribeTopicPartitionsRequest([], 2, cursor)
        answer = cluster.ask(request, 0)
        page = [(t.name or "", p.partition_index) for t in answer.topics for p in t.partitions]
        assert len(page) <= 2
        seen += page
        if answer.next_cursor is None:
            break
        following = answer.next_cursor
        cursor = RequestCursor(following.topic_name, following.partition_index)
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    odd = DescribeTopicPartitionsRequest([PagedTopic("no"), PagedTopic("b"), PagedTopic("a b")])
    errors = [KafkaError(topic.error_code) for topic in cluster.ask(odd, 0).topics]
    assert errors == [
        KafkaError.INVALID_TOPIC_EXCEPTION,
        KafkaError.NONE,
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    ]


# ── records ──


def delete_records(
    cluster: SmallCluster, topic: str, offset: int, node: int = 1, timeout_ms: int = 10_000
) -> DeleteRecordsPartitionResult:
    asked = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
    request = DeleteRecordsRequest([asked], timeout_ms)
    return cluster.ask(request, 2, node).topics[0].partitions[0]


def test_records_go_on_all_replicas_before_it_is_said(cluster: SmallCluster) -> None:
    create(cluster, "t", [1, 2, 3])
    write(cluster, "t", 5)
    gone = delete_records(cluster, "t", 3)
    assert (gone.error_code, gone.low_watermark) == (0, 3)
    for node in (1, 2, 3):
        log = cluster.broker(node).replicas.get(TopicPartition("t", 0)).log
        assert log.log_start_offset == 3
    again = delete_records(cluster, "t", 2)
    assert (again.error_code, again.low_watermark) == (0, 3)
    assert delete_records(cluster, "t", -1).low_watermark == 5
    assert delete_records(cluster, "t", 6).error_code == KafkaError.OFFSET_OUT_OF_RANGE
    assert delete_records(cluster, "t", -2).error_code == KafkaError.OFFSET_OUT_OF_RANGE
    elsewhere = delete_records(cluster, "t", 4, node=2)
    assert elsewhere.error_code == KafkaError.NOT_LEADER_OR_FOLLOWER
    assert delete_records(cluster, "no", 4).error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION


def test_a_replica_that_does_not_hear_of_it_is_waited_for(cluster: SmallCluster) -> None:
    """The control of the test above: without the wait this would be answered at once."""
    create(cluster, "t", [1, 2])
    write(cluster, "t", 3)
    cluster.world.pause(2)
    late = delete_records(cluster, "t", 2, timeout_ms=1_000)
    assert late.error_code == KafkaError.REQUEST_TIMED_OUT
    cluster.world.resume(2)
    cluster.wait(10_000)
    assert delete_records(cluster, "t", 2).low_watermark == 2


def test_records_of_a_compacted_topic_are_not_deleted(cluster: SmallCluster) -> None:
    create(cluster, "t", [1], cleanup_policy="compact")
    write(cluster, "t", 2)
    assert delete_records(cluster, "t", 1).error_code == KafkaError.POLICY_VIOLATION


def test_logs_are_measured(cluster: SmallCluster) -> None:
    create(cluster, "t", [1, 2])
    write(cluster, "t", 2)
    (directory,) = cluster.ask(DescribeLogDirsRequest(None), 4, 2).results
    (topic,) = directory.topics
    size = cluster.broker(2).replicas.get(TopicPartition("t", 0)).log.size
    assert (topic.name, topic.partitions[0].partition_size) == ("t", size) and size > 0
    asked = DescribeLogDirsRequest([DescribableLogDirTopic("t", [0])])
    assert cluster.ask(asked, 1, 3).results[0].topics == []


# ── producers and transactions ──


def test_producers_and_transactions_are_reported(cluster: SmallCluster) -> None:
    create(cluster, "t", [1, 2])
    found = cluster.ask(FindCoordinatorRequest("me", 1), 3)
    cluster.wait(5_000)
    coordinator = found.node_id
    started = cluster.ask(InitProducerIdRequest("me", 60_000), 5, coordinator)
    assert started.error_code == 0
    who = Sequence(started.producer_id, started.producer_epoch)
    at = TopicPartition("t", 0)
    batch = batch_of([(b"k", b"v")], who, cluster.world.now_ms, transactional=True)
    answer = cluster.ask(produce_request(at, batch, "me"), 12)
    assert produced(answer).error_code == 0
    asked = DescribeProducersRequest([TopicRequest("t", [0, 1])])
    here, nowhere = cluster.ask(asked, 0).topics[0].partitions
    (producer,) = here.active_producers
    assert (producer.producer_id, producer.last_sequence) == (started.producer_id, 0)
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (0, -1)
    assert nowhere.error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION
    cluster.wait(2_000)
    (followed,) = cluster.ask(asked, 0, 2).topics[0].partitions[0].active_producers
    assert followed == producer
    elsewhere = cluster.ask(asked, 0, 3).topics[0].partitions[0]
    assert elsewhere.error_code == KafkaError.NOT_LEADER_OR_FOLLOWER

    request = DescribeTransactionsRequest(["me"])
    (state,) = cluster.ask(request, 0, coordinator).transaction_states
    assert (state.error_code, state.transaction_state) == (0, "Ongoing")
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("t", [0])]
    others = [node for node in (1, 2, 3) if node != coordinator]
    (wrong,) = cluster.ask(request, 0, others[0]).transaction_states
    assert wrong.error_code == KafkaError.NOT_COORDINATOR

    def listed(**filters: list[str] | list[int] | int | str) -> list[str]:
        asked = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
        states = cluster.ask(asked, 2, coordinator).transaction_states
        return [each.transactional_id for each in states]

    assert listed() == ["me"] and listed(state_filters=["Ongoing"]) == ["me"]
    assert listed(state_filters=["Empty"]) == [] and listed(producer_id_filters=[99]) == []
    assert listed(duration_filter=10**9) == []
    assert listed(transactional_id_pattern="m.") == ["me"]
    assert listed(transactional_id_pattern="m") == []
    odd = cluster.ask(ListTransactionsRequest(["Odd"]), 0, coordinator)
    assert odd.unknown_state_filters == ["Odd"]
    for bad in ("(", "(m)\\1", "m{99999999999999999999}", "(" * 4_000 + ")" * 4_000):
        refused = ListTransactionsRequest(transactional_id_pattern=bad)
        error = cluster.ask(refused, 2, coordinator).error_code
        assert error == KafkaError.INVALID_REGULAR_EXPRESSION


def test_a_pattern_of_transactional_ids_does_not_hold_up_a_broker(cluster: SmallCluster) -> None:
    """To try one way after the other would take 2^99 steps."""
    transactional_id = "a" * 100
    coordinator = cluster.ask(FindCoordinatorRequest(transactional_id, 1), 3).node_id
    cluster.wait(5_000)
    asked = InitProducerIdRequest(transactional_id, 60_000)
    assert cluster.ask(asked, 4, coordinator).error_code == KafkaError.NONE
    for pattern, count in (("(a+)+b", 0), ("(a+)+", 1)):
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        assert len(cluster.ask(request, 2, coordinator).transaction_states) == count


# ── replicas, brokers, and what is not there ──


def test_every_replica_tells_its_offsets(cluster: SmallCluster) -> None:
    create(cluster, "t", [1, 2], cleanup_policy="compact")
    write(cluster, "t", 3)
    roles = []
    for node in (1, 2):
        answer = cluster.ask(DescribeReplicasRequest(), 0, node)
        assert answer.broker_id == node
        (replica,) = answer.topics[0].partitions
        roles.append(replica.role)
        assert (replica.log_start, replica.log_end) == (0, 3)
        assert (replica.high_watermark, replica.last_stable) == (3, 3)
        assert (replica.mcco, replica.mtro, replica.mxfo, replica.mxro) == (0, 0, 0, 0)
        assert (replica.leader_id, replica.leader_epoch) == (1, 0)
        assert replica.policy == "coordinated"
    assert roles == ["leader", "follower"]
    asked = DescribeReplicasRequest([AskedTopic("t", [0]), AskedTopic("u", [])])
    (topic,) = cluster.ask(asked, 0, 3).topics
    assert topic.partitions[0].error_code == KafkaError.NOT_LEADER_OR_FOLLOWER


def test_a_broker_is_forgotten_when_nothing_depends_on_it(cluster: SmallCluster) -> None:
    create(cluster, "t", [1, 3])

    def unregister(node: int) -> KafkaError:
        return KafkaError(cluster.ask(UnregisterBrokerRequest(node), 0).error_code)

    assert unregister(9) is KafkaError.BROKER_ID_NOT_REGISTERED
    assert unregister(2) is KafkaError.INVALID_REQUEST  # alive
    cluster.kill(3)
    assert unregister(3) is KafkaError.INVALID_REQUEST  # holds a replica
    cluster.kill(2)
    assert unregister(2) is KafkaError.NONE
    assert sorted(cluster.image.brokers) == [1, 3]
    cluster.controller.check()
    cluster.world.start(2)
    cluster.wait(15_000)
    assert cluster.image.active(2)


def test_security_and_quotas_are_said_not_to_be_there(cluster: SmallCluster) -> None:
    error = KafkaError.SECURITY_DISABLED
    assert cluster.ask(DescribeAclsRequest(), 3).error_code == error
    assert cluster.ask(CreateAclsRequest([AclCreation()]), 3).results[0].error_code == error
    assert cluster.ask(DescribeClientQuotasRequest(), 1).entries == []
