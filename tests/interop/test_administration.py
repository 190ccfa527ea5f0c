"""Does our broker tell clients and administrators what Apache Kafka's does?

Both are asked the same, good requests and bad ones, one after the other: each cluster is one broker
with id 1. What they answer must be the same once ids, addresses and the words of error messages are
left out. Where we mean to differ, the step is not here and docs/reference/compatibility says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import pytest

from sexton.protocol import registry
from sexton.protocol.messages import alter_configs as plain
from sexton.protocol.messages import create_topics as topics
from sexton.protocol.messages import describe_configs as configs
from sexton.protocol.messages import incremental_alter_configs as incremental
from sexton.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from sexton.protocol.messages.api_versions import ApiVersionsRequest
from sexton.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from sexton.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from sexton.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from sexton.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sexton.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from sexton.protocol.messages.describe_acls import DescribeAclsRequest
from sexton.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from sexton.protocol.messages.describe_cluster import DescribeClusterRequest
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
from sexton.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from sexton.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from sexton.protocol.messages.list_config_resources import ListConfigResourcesRequest
from sexton.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from sexton.protocol.messages.list_transactions import ListTransactionsRequest
from sexton.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sexton.protocol.wire import ZERO_UUID, Request
from sexton.testing.apache_kafka import ApacheKafka
from sexton.testing.waiting import TimedOut, until
from tests.kafka_connection import Connection
from tests.unit.node.small_cluster import SmallCluster

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
T = "administered"  # the topic that most steps are about
UNKNOWN_ID = bytes(15) + b"\x2a"

Ids = dict[str, bytes]  # of topics, by name: each cluster chooses its own
Step = tuple[str, Request[Any], int]
Ask = Callable[[Request[Any], int], Any]


def creation(name: str, partitions: int = 1, replicas: int = 1, **options: str | None) -> Any:
    chosen = [topics.CreatableTopicConfig(k.replace("_", "."), v) for k, v in options.items()]
    return topics.CreatableTopic(name, partitions, replicas, [], chosen)


def assigned(name: str, *replicas: tuple[int, list[int]], partitions: int = -1) -> Any:
    chosen = [topics.CreatableReplicaAssignment(*each) for each in replicas]
    return topics.CreatableTopic(name, partitions, -1, chosen)


def create(*wanted: Any, only: bool = False) -> Request[Any]:
    return topics.CreateTopicsRequest(list(wanted), 30_000, only)


def metadata(*names: str) -> Request[Any]:
    wanted = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(wanted, allow_auto_topic_creation=False)


def described(kind: int, name: str, *options: str) -> Request[Any]:
    resource = configs.DescribeConfigsResource(kind, name, list(options) or None)
    return configs.DescribeConfigsRequest([resource], include_synonyms=True)


def altered(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Request[Any]:
    chosen = [incremental.AlterableConfig(*change) for change in changes]
    resource = incremental.AlterConfigsResource(kind, name, chosen)
    return incremental.IncrementalAlterConfigsRequest([resource])


def replaced(kind: int, name: str, only: bool = False, **options: str | None) -> Request[Any]:
    chosen = [plain.AlterableConfig(k.replace("_", "."), v) for k, v in options.items()]
    return plain.AlterConfigsRequest([plain.AlterConfigsResource(kind, name, chosen)], only)


def grown(name: str, count: int, *replicas: list[int], only: bool = False) -> Request[Any]:
    chosen = [CreatePartitionsAssignment(nodes) for nodes in replicas] or None
    topic = CreatePartitionsTopic(name, count, chosen)
    return CreatePartitionsRequest([topic], 30_000, only)


def moved(name: str, number: int, replicas: list[int] | None) -> Request[Any]:
    topic = ReassignableTopic(name, [ReassignablePartition(number, replicas)])
    return AlterPartitionReassignmentsRequest(topics=[topic])


def emptied(name: str, number: int, offset: int) -> Request[Any]:
    topic = DeleteRecordsTopic(name, [DeleteRecordsPartition(number, offset)])
    return DeleteRecordsRequest([topic], 30_000)


def steps(ids: Ids) -> Iterator[Step]:
    """Each with what it is about. `ids` fill while the steps are taken."""
    yield from creating()
    yield from looking(ids)
    yield from asking_for_options()
    yield from changing_options()
    yield from growing_and_moving()
    yield from emptying()
    yield from asking_for_the_rest()
    yield from deleting(ids)


def creating() -> Iterator[Step]:
    yield "create", create(creation(T, 2)), 7
    yield "create it again", create(creation(T)), 7
    yield "create with defaults", create(creation("defaults", -1, -1)), 7
    yield "create with options", create(creation("options", cleanup_policy="compact")), 7
    yield "validate", create(creation("planned", 3), only=True), 5
    yield "no partitions", create(creation("bad", 0)), 7
    yield "negative partitions", create(creation("bad", -2)), 7
    yield "no replicas", create(creation("bad", 1, 0)), 7
    yield "negative replicas", create(creation("bad", 1, -2)), 7
    yield "too many replicas", create(creation("bad", 1, 2)), 7
    yield "no name", create(creation("")), 7
    yield "a dot", create(creation(".")), 7
    yield "a space", create(creation("a b")), 7
    yield "a long name", create(creation("x" * 250)), 7
    yield "a name as long as can be", create(creation("x" * 249)), 7
    yield "a dotted name", create(creation("dot.ted")), 7
    yield "one that collides with it", create(creation("dot_ted")), 7
    yield "the controller's own", create(creation("__cluster_metadata")), 7
    yield "an unknown option", create(creation("bad", no_such="1")), 7
    yield "a bad value", create(creation("bad", cleanup_policy="burn")), 7
    yield "a word for a number", create(creation("bad", retention_ms="soon")), 7
    yield "a number too low", create(creation("bad", retention_ms="-2")), 7
    yield "no value", create(creation("bad", retention_ms=None)), 7
    yield "a bad option and no partitions", create(creation("bad", 0, no_such="1")), 7
    yield "an existing topic and a bad option", create(creation(T, no_such="1")), 7
    yield "tiered storage", create(creation("bad", remote_storage_enable="true")), 7
    yield (
        "lags that contradict",
        create(creation("bad", min_compaction_lag_ms="5", max_compaction_lag_ms="4")),
        7,
    )
    yield "twice in one request", create(creation("bad"), creation("bad"), creation("good")), 7
    yield "an assignment", create(assigned("assigned", (0, [1]), (1, [1]))), 7
    yield "an assignment and a number", create(assigned("bad", (0, [1]), partitions=1)), 7
    yield "an assignment with a gap", create(assigned("bad", (1, [1]))), 7
    yield "an assignment to nobody", create(assigned("bad", (0, []))), 7
    yield "an assignment twice", create(assigned("bad", (0, [1]), (0, [1]))), 7
    yield "one broker twice", create(assigned("bad", (0, [1, 1]))), 7
    yield "an unknown broker", create(assigned("bad", (0, [9]))), 7
    yield "uneven replicas", create(assigned("bad", (0, [1]), (1, [1, 9]))), 7
    yield "an old version", create(creation("old", 1)), 2


def looking(ids: Ids) -> Iterator[Step]:
    for version in range(14):
        of_old = MetadataRequest([MetadataRequestTopic(name=T)])
        yield f"metadata v{version}", metadata(T) if version >= 4 else of_old, version
    yield "metadata of many", metadata(T, "none", "a b", "", "x" * 250), 12
    yield "metadata by id", MetadataRequest([MetadataRequestTopic(ids[T], None)]), 13
    yield "metadata by a wrong id", MetadataRequest([MetadataRequestTopic(UNKNOWN_ID, None)]), 12
    yield "metadata of none", MetadataRequest([]), 12
    yield "metadata of all", MetadataRequest(None), 12
    yield "metadata of all, of old", MetadataRequest([]), 0
    yield (
        "allowed operations",
        MetadataRequest(
            [MetadataRequestTopic(name=T)],
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        9,
    )
    paged = DescribeTopicPartitionsRequest
    yield "page 1", paged([], 3), 0
    yield "page 2", paged([PagedTopic(T)], 1, RequestCursor(T, 1)), 0
    yield "pages of unknown topics", paged([PagedTopic("none"), PagedTopic("a b")]), 0
    yield "a page from nowhere", paged([PagedTopic(T)], 1, RequestCursor("zzz", 0)), 0
    yield "a page from below", paged([PagedTopic(T)], 1, RequestCursor(T, -1)), 0

    for version in range(3):
        yield f"cluster v{version}", DescribeClusterRequest(True), version
    yield "the controllers' endpoints", DescribeClusterRequest(endpoint_type=2), 1
    yield "other endpoints", DescribeClusterRequest(endpoint_type=9), 1
    yield "a nameless client", ApiVersionsRequest("", ""), 3


def asking_for_options() -> Iterator[Step]:
    yield "options of a topic", described(TOPIC, T), 4
    all_by_none = [configs.DescribeConfigsResource(TOPIC, T, [])]
    yield "options by no names", configs.DescribeConfigsRequest(all_by_none), 1
    yield "options that were set", described(TOPIC, "options", "cleanup.policy", "no.such"), 4
    yield "options of none", described(TOPIC, "none"), 4
    yield "options of a bad name", described(TOPIC, "a b"), 4
    yield "options of another broker", described(BROKER, "7"), 4
    yield "options of a broker in words", described(BROKER, "x"), 4
    yield "options of all brokers", described(BROKER, "", "log.retention.ms"), 4
    yield "options of a broker", described(BROKER, "1", "log.segment.bytes", "num.partitions"), 4
    yield "options of nothing", described(3, "x"), 4


def changing_options() -> Iterator[Step]:
    yield "set", altered(TOPIC, T, ("retention.ms", SET, "1000"), ("segment.ms", SET, "5")), 1
    yield "as it is then", described(TOPIC, T, "retention.ms", "segment.ms"), 4
    yield "delete", altered(TOPIC, T, ("retention.ms", DELETE, None)), 1
    yield "delete what is not set", altered(TOPIC, T, ("flush.ms", DELETE, None)), 1
    yield "append", altered(TOPIC, T, ("cleanup.policy", APPEND, "compact")), 1
    yield "append what is there", altered(TOPIC, T, ("cleanup.policy", APPEND, "compact")), 1
    yield "as it is now", described(TOPIC, T, "retention.ms", "segment.ms", "cleanup.policy"), 4
    yield "subtract", altered(TOPIC, T, ("cleanup.policy", SUBTRACT, "compact")), 1
    yield "append to a number", altered(TOPIC, T, ("retention.ms", APPEND, "1")), 1
    yield "an unknown option", altered(TOPIC, T, ("no.such", SET, "1")), 1
    yield "delete an unknown option", altered(TOPIC, T, ("no.such", DELETE, None)), 1
    yield "a bad value", altered(TOPIC, T, ("retention.ms", SET, "x")), 1
    yield "no value", altered(TOPIC, T, ("retention.ms", SET, None)), 1
    yield "one option twice", altered(TOPIC, T, ("flush.ms", SET, "1"), ("flush.ms", SET, "2")), 1
    yield "of an unknown topic", altered(TOPIC, "none", ("retention.ms", SET, "1")), 1
    yield "of an unknown kind", altered(3, "x", ("retention.ms", SET, "1")), 1
    yield "of a broker in words", altered(BROKER, "x", ("log.retention.ms", SET, "1")), 1
    yield "a fixed option", altered(BROKER, "1", ("node.id", SET, "9")), 1
    yield "of all brokers", altered(BROKER, "", ("log.segment.delete.delay.ms", SET, "7")), 1
    yield "as topics see it", described(TOPIC, "defaults", "file.delete.delay.ms"), 4
    yield "as before", altered(BROKER, "", ("log.segment.delete.delay.ms", DELETE, None)), 1
    yield "replace", replaced(TOPIC, T, flush_ms="77"), 2
    yield "as it was replaced", described(TOPIC, T, "flush.ms", "segment.ms", "cleanup.policy"), 4
    yield "replace on trial", replaced(TOPIC, T, only=True, flush_ms="78"), 2
    yield "replace badly", replaced(TOPIC, T, no_such="1"), 2
    yield "replace by nothing", replaced(TOPIC, T, flush_ms=None), 2
    yield "replace of none", replaced(TOPIC, "none", flush_ms="1"), 2
    yield "still so", described(TOPIC, T, "flush.ms"), 4


def growing_and_moving() -> Iterator[Step]:
    yield "grow", grown(T, 3), 3
    yield "grow on trial", grown(T, 5, only=True), 3
    yield "not grow", grown(T, 3), 3
    yield "shrink", grown(T, 1), 3
    yield "grow none", grown("none", 3), 3
    yield "grow by assignment", grown(T, 4, [1]), 3
    yield "grow by a wrong assignment", grown(T, 5, [9]), 3
    yield "grow by too long an assignment", grown(T, 5, [1], [1]), 3
    yield "as it has grown", metadata(T), 12

    yield "elect", ElectLeadersRequest(0, [TopicPartitions(T, [0, 99])]), 2
    yield "elect of none", ElectLeadersRequest(1, [TopicPartitions("none", [0])]), 2
    yield "elect all", ElectLeadersRequest(0, None), 2
    yield "reassign to itself", moved(T, 0, [1]), 1
    yield "reassign to nobody", moved(T, 0, []), 1
    yield "reassign to an unknown broker", moved(T, 0, [9]), 1
    yield "reassign twice to one", moved(T, 0, [1, 1]), 1
    yield "reassign none", moved("none", 0, [1]), 1
    yield "reassign an unknown partition", moved(T, 99, [1]), 1
    yield "cancel nothing", moved(T, 0, None), 1
    yield "list reassignments", ListPartitionReassignmentsRequest(), 0
    yield (
        "list some",
        ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics(T, [0, 99])]),
        0,
    )


def emptying() -> Iterator[Step]:
    yield "delete records", emptied(T, 0, 0), 2
    yield "delete to the end", emptied(T, 0, -1), 2
    yield "delete beyond", emptied(T, 0, 1), 2
    yield "delete below", emptied(T, 0, -2), 2
    yield "delete of none", emptied("none", 0, 0), 2
    yield "delete of a compacted topic", emptied("options", 0, 0), 2


def asking_for_the_rest() -> Iterator[Step]:
    logs = DescribeLogDirsRequest(
        [DescribableLogDirTopic(T, [0]), DescribableLogDirTopic("no", [0])]
    )
    yield "logs", logs, 5
    yield "logs, of old", logs, 1
    producers = [TopicRequest(T, [0, 99]), TopicRequest("no", [0]), TopicRequest("a b", [0])]
    yield "producers", DescribeProducersRequest(producers), 0
    yield "unknown states", ListTransactionsRequest(["Odd", "Ongoing"]), 0
    yield "a bad pattern", ListTransactionsRequest(transactional_id_pattern="("), 2
    yield "acls", DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3
    yield "new acls", CreateAclsRequest([AclCreation(2, "x", 3, "User:x", "*", 3, 3)]), 3
    yield "no acls", DeleteAclsRequest([DeleteAclsFilter(2, "x", 3, None, None, 3, 3)]), 3
    yield "quotas", DescribeClientQuotasRequest(), 1
    users = [UserName("somebody")]
    yield "users", DescribeUserScramCredentialsRequest(None), 0
    yield "a user", DescribeUserScramCredentialsRequest(users), 0
    yield "metrics", ListConfigResourcesRequest(), 0
    yield "whose options", ListConfigResourcesRequest([TOPIC, BROKER]), 1
    yield "whose odd options", ListConfigResourcesRequest([99]), 1


def deleting(ids: Ids) -> Iterator[Step]:
    delete = DeleteTopicsRequest
    yield "delete twice", delete([DeleteTopicState(T), DeleteTopicState(T)], [], 30_000), 6
    yield "delete nothing", delete([DeleteTopicState(None)], [], 30_000), 6
    both = DeleteTopicState(T, ids[T])
    yield "delete by name and id", delete([both], [], 30_000), 6
    yield "delete by id", delete([DeleteTopicState(None, ids[T])], [], 30_000), 6
    yield "delete by a wrong id", delete([DeleteTopicState(None, UNKNOWN_ID)], [], 30_000), 6
    yield "delete by name", delete([DeleteTopicState("options")], [], 30_000), 6
    yield "delete what is not there", delete([DeleteTopicState("none")], [], 30_000), 6
    yield "delete as of old", delete([], ["good", "none"], 30_000), 4
    yield "what is left", MetadataRequest(None), 12


# ── what is compared ──

IGNORED = {
    "throttle_time_ms", "error_message", "host", "port", "rack", "cluster_id", "log_dir",
    "total_bytes", "usable_bytes", "controller_id", "documentation",
}  # fmt: skip
OURS = {"compaction.policy"}
# With eligible leader replicas (KIP-966) Kafka sets this one for all brokers by itself.
OTHERWISE_SET = {"min.insync.replicas"}


def plainly(value: Any) -> Any:
    """An answer without what is each cluster's own, and without the order of lists."""
    if is_dataclass(value) and not isinstance(value, type):
        shown: dict[str, Any] = {}
        for each in fields(value):
            found = getattr(value, each.name)
            if each.name == "topic_id":
                shown[each.name] = "none" if found == ZERO_UUID else "some"
            elif each.name not in IGNORED:
                shown[each.name] = plainly(found)
        return shown
    if isinstance(value, list):
        entries = [plainly(each) for each in value if not _own(each)]
        return sorted(entries, key=repr) if value and is_dataclass(value[0]) else entries
    return value


def _own(value: Any) -> bool:
    return getattr(value, "name", None) in OURS | OTHERWISE_SET


@dataclass(slots=True)
class Asked:
    """One cluster, asked step by step."""

    ask: Ask
    foreign: list[str | None] = field(default_factory=list)  # what other tests have left there
    ids: Ids = field(default_factory=dict)

    def take(self, request: Request[Any], version: int) -> Any:
        answer = self.ask(request, version)
        for topic in getattr(answer, "topics", []):
            if isinstance(topic, topics.CreatableTopicResult) and not topic.error_code:
                self.ids[topic.name] = topic.topic_id
        return _without(plainly(answer), self.foreign)


def test_both_give_the_same_answers(kafka4: ApacheKafka) -> None:
    cluster = SmallCluster(1, auto_create_topics_enable=False)
    with Connection(kafka4.bootstrap) as connection:

        def ask_kafka(request: Request[Any], version: int) -> Any:
            api = registry.find(request.API_KEY)
            assert api is not None
            return connection.send(request, version, api.response)

        foreign = [topic.name for topic in ask_kafka(MetadataRequest(None), 12).topics]
        theirs, ours = Asked(ask_kafka, foreign), Asked(cluster.ask)
        pairs = zip(steps(theirs.ids), steps(ours.ids), strict=True)
        differences = [
            f"{about}: Kafka {expected}\n    ours {found}"
            for (about, request, version), (_, same, _) in pairs
            for expected, found in [compare(theirs, request, ours.take(same, version), version)]
            if expected != found
        ]
        assert not differences, "\n".join(differences)


def compare(theirs: Asked, request: Request[Any], found: Any, version: int) -> tuple[Any, Any]:
    """What Kafka answers, and what we have. Kafka's brokers may have to hear of it first."""
    expected = theirs.take(request, version)
    if expected != found and _only_looks(request):
        with suppress(TimedOut):
            until(lambda: theirs.take(request, version) == found, "Kafka's brokers", timeout_s=3)
        expected = theirs.take(request, version)
    return expected, found


def test_a_difference_would_be_seen() -> None:
    """The control: an answer that is wrong in one number is not the same."""
    cluster = SmallCluster(1)

    def ask_wrongly(request: Request[Any], version: int) -> Any:
        answer: Any = cluster.ask(request, version)
        answer.topics[0].partitions[0].leader_epoch += 1
        return answer

    wrong, right = Asked(ask_wrongly), Asked(cluster.ask)
    right.take(create(creation(T)), 7)
    found = right.take(metadata(T), 12)
    assert found == right.take(metadata(T), 12) != wrong.take(metadata(T), 12)


def _only_looks(request: Request[Any]) -> bool:
    return type(request).__name__.startswith(("Describe", "List", "Metadata"))


def _without(answer: Any, foreign: list[str | None]) -> Any:
    if isinstance(answer, dict) and "topics" in answer:
        kept = [topic for topic in answer["topics"] if topic.get("name") not in foreign]
        return answer | {"topics": kept}
    if isinstance(answer, dict) and "config_resources" in answer:
        listed = answer["config_resources"]
        kept = [resource for resource in listed if resource["resource_name"] not in foreign]
        return answer | {"config_resources": kept}
    return answer
