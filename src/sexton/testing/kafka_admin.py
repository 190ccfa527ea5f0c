"""What an operator does to a cluster; nearly each call returns when it has taken effect.

Kafka's admin calls return when the controller has decided; brokers learn of it a moment later. A
test that goes on at once meets the old world. So a change here is awaited where a client would see
it. Two are not: an option that is taken back to its default, of which nobody here knows the value,
and one of the whole cluster, which no broker tells as its own. The clients are made anew for each
call: a client that remembers a dead broker waits for it.

confluent-kafka does everything but reassign partitions, which librdkafka does not know; for that
alone kafka-python's admin client is used (Kafka's own tool would cost a JVM start for each call).
"""

from __future__ import annotations

import asyncio
import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from sexton.base.errors import Missing, PeerError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import ClientConfig
from sexton.testing.cluster import PartitionState
from sexton.testing.waiting import until

REQUEST_TIMEOUT_S = 5.0
_QUICK = ClientConfig(socket_connection_setup_timeout_ms=2_000, request_timeout_ms=2_000)
SETTLE_TIMEOUT_S = 60.0  # a controller's fail-over takes a few seconds, on a busy machine many


@dataclass(frozen=True, slots=True)
class KafkaAdmin:
    """An operator at the cluster that `bootstrap` reaches; asked anew, for brokers come and go."""

    bootstrap: Callable[[], str]

    def brokers(self) -> set[int]:
        """The brokers that are up and unfenced, as the first reachable one sees it."""
        told = self._metadata()
        return set() if told is None else set(told.brokers)

    def topics(self) -> set[str]:
        return set(until(self._metadata, "the topics").topics)

    def partition(self, partition: TopicPartition) -> PartitionState | None:
        """Who leads and who follows, or None while nobody has heard of the partition."""
        told = self._metadata(partition.topic)
        if told is None:
            return None
        state = told.topics[partition.topic].partitions.get(partition.partition)
        if state is None:
            return None
        return PartitionState(state.leader, tuple(state.replicas), tuple(sorted(state.isrs)))

    def create_topic(
        self,
        topic: str,
        assignment: Sequence[Sequence[int]] | int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic; `assignment` is a number of partitions or the replicas of each.

        Without it there are as many partitions as the brokers' `num.partitions` says.
        """
        new_topic = _client_library("confluent_kafka.admin").NewTopic
        spelled = {name: str(value) for name, value in (configs or {}).items()}
        where: dict[str, Any]
        if assignment is None or isinstance(assignment, int):
            count = -1 if assignment is None else assignment
            where = {"replication_factor": 1}
        else:
            count, where = len(assignment), {"replica_assignment": [list(r) for r in assignment]}
        new = new_topic(topic, num_partitions=count, config=spelled, **where)
        self._ask(lambda client: client.create_topics([new]), done="TOPIC_ALREADY_EXISTS")
        self._await_leaders(topic, count)

    def _await_leaders(self, topic: str, count: int) -> None:
        """Of all partitions; -1: of as many as a broker tells of, which learns of all at once."""
        self.await_partition(TopicPartition(topic, 0), lambda state: state.leader >= 0)
        if count == -1:
            told = until(lambda: self._metadata(topic), f"the partitions of {topic}")
            count = len(told.topics[topic].partitions)
        for number in range(1, count):
            self.await_partition(TopicPartition(topic, number), lambda state: state.leader >= 0)

    def delete_topic(self, topic: str) -> None:
        self._ask(lambda client: client.delete_topics([topic]), done="UNKNOWN_TOPIC_OR_PART")
        until(lambda: topic not in self.topics(), f"topic {topic} gone")

    def alter_topic(self, topic: str, configs: Mapping[str, object | None]) -> None:
        """Set topic configs; None takes one back to its default, which is not awaited."""
        self._alter("TOPIC", topic, configs)

    def alter_broker(self, node_id: int | None, configs: Mapping[str, object | None]) -> None:
        """Set dynamic broker configs of one broker; or with None of all, which is not awaited."""
        self._alter("BROKER", "" if node_id is None else str(node_id), configs)

    def topic_configs(self, topic: str) -> dict[str, str]:
        return self._describe("TOPIC", topic)

    def broker_configs(self, node_id: int) -> dict[str, str]:
        return self._describe("BROKER", str(node_id))

    def elect_preferred(self, partition: TopicPartition) -> None:
        """Give the leadership to the first of the replicas."""
        self._elect("PREFERRED", partition)
        self.await_partition(partition, lambda state: state.leader == state.replicas[0])

    def lead(self, partition: TopicPartition, node_id: int) -> PartitionState:
        """Give the leadership to this broker: put it first among the replicas, then elect."""
        state = self.await_partition(partition, lambda state: node_id in state.isr)
        if state.replicas[0] != node_id:
            others = [replica for replica in state.replicas if replica != node_id]
            self.reassign(partition, [node_id, *others])
        if state.leader != node_id:
            self.elect_preferred(partition)
        # One that has not heard of it yet goes on as the leader, and serves who comes to it.
        until(lambda: self.leaders(partition) == {node_id}, f"all to follow {node_id}")
        return self.await_partition(partition, lambda state: state.leader == node_id)

    def leaders(self, partition: TopicPartition) -> set[int]:
        """Whom brokers take for the leader, each that answers."""
        return asyncio.run(_leaders(self.bootstrap().split(","), partition))

    def reassign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Move a partition to these replicas and wait until it is there and all are in sync."""
        self.begin_reassign(partition, replicas)
        self.await_partition(
            partition,
            lambda state: state.replicas == tuple(replicas) and set(state.isr) == set(replicas),
        )

    def begin_reassign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Start to move a partition; a throttled or lagging move may take as long as it likes."""
        library = _client_library("kafka")
        wanted = library.TopicPartition(partition.topic, partition.partition)
        servers = self.bootstrap().split(",")
        with closing(library.KafkaAdminClient(bootstrap_servers=servers)) as client:
            client.alter_partition_reassignments({wanted: list(replicas)})

    def await_partition(
        self,
        partition: TopicPartition,
        good: Callable[[PartitionState], bool],
        timeout_s: float = 60.0,
    ) -> PartitionState:
        """Wait until `good` says yes to the partition's state."""
        seen: PartitionState | None = None

        def ask() -> PartitionState | None:
            nonlocal seen
            seen = self.partition(partition)
            return seen if seen is not None and good(seen) else None

        return until(ask, f"state of {partition}", timeout_s, lambda: f"last seen: {seen}")

    def _client(self) -> Any:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap(),
            "log_level": 0,  # a broker that is down is often the point of the test
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
        }
        return _client_library("confluent_kafka.admin").AdminClient(settings)

    def _metadata(self, topic: str | None = None) -> Any:
        """What the first reachable broker tells of one topic or of all; None: none is, just now."""
        try:
            return self._client().list_topics(topic, timeout=REQUEST_TIMEOUT_S)
        except _kafka_exception():
            return None

    def _ask(self, question: Callable[[Any], Mapping[Any, Any]], done: str = "") -> Any:
        """The result of the only future in an answer of confluent-kafka.

        A cluster that has just lost a node may send us to it, or to a controller that is none any
        more; such errors are asked again, with a new client, until it has settled. A change whose
        answer was lost may have been made all the same: asked again, Kafka refuses it with `done`.
        """
        last = ""

        def attempt() -> tuple[Any] | None:
            nonlocal last
            client = self._client()  # must outlive the future: a dropped client answers nothing
            (future,) = question(client).values()
            try:
                return (future.result(REQUEST_TIMEOUT_S * 2),)
            except _kafka_exception() as error:
                if last and error.args[0].name() == done:
                    return (None,)
                last = str(error)
                if not _passes(error.args[0]):
                    raise PeerError("Kafka", last) from error
                return None

        return until(attempt, "an answer from Kafka", SETTLE_TIMEOUT_S, lambda: last)[0]

    def _alter(self, kind: str, name: str, configs: Mapping[str, object | None]) -> None:
        library = _client_library("confluent_kafka.admin")

        def entry(option: str, value: object | None) -> Any:
            operation = library.AlterConfigOpType["SET" if value is not None else "DELETE"]
            text = str(value) if value is not None else ""
            return library.ConfigEntry(option, text, incremental_operation=operation)

        entries = [entry(option, value) for option, value in configs.items()]
        kind_of = library.ResourceType[kind]
        resource = library.ConfigResource(kind_of, name, incremental_configs=entries)
        self._ask(lambda client: client.incremental_alter_configs([resource]))
        if name:
            wanted = {option: str(value) for option, value in configs.items() if value is not None}
            until(
                lambda: wanted.items() <= self._describe(kind, name).items(),
                f"{kind.lower()} {name} to have {wanted}",
            )

    def _describe(self, kind: str, name: str) -> dict[str, str]:
        library = _client_library("confluent_kafka.admin")
        resource = library.ConfigResource(library.ResourceType[kind], name)
        answer = self._ask(lambda client: client.describe_configs([resource]))
        return {option: entry.value for option, entry in answer.items()}

    def _elect(self, kind: str, partition: TopicPartition) -> None:
        library = _client_library("confluent_kafka")
        wanted = library.TopicPartition(partition.topic, partition.partition)
        kind_of = library.ElectionType[kind]
        answer = self._ask(lambda client: {wanted: client.elect_leaders(kind_of, [wanted])})
        error = answer[wanted]
        if error is not None and error.name() != "ELECTION_NOT_NEEDED":
            raise PeerError(f"{kind.lower()} election of {partition}", error.str())


async def _leaders(addresses: Sequence[str], partition: TopicPartition) -> set[int]:
    found = set()
    for address in addresses:
        async with Client(address, _QUICK) as client:
            with suppress(PeerError, Refused):
                found.add((await client.place(partition)).leader)
    return found


def _kafka_exception() -> type[Exception]:
    error: type[Exception] = _client_library("confluent_kafka").KafkaException
    return error


def _passes(error: Any) -> bool:
    """Is this an error that a cluster shows while it settles?

    librdkafka lets go of a broker that the latest metadata do not name, with what was asked of it.
    """
    settling = {"_TRANSPORT", "_TIMED_OUT", "_DESTROY_BROKER", "NOT_CONTROLLER"}
    return bool(error.retriable()) or error.name() in settling


def _client_library(module: str) -> Any:
    """A Kafka client's module, untyped: nobody needs one who only reads logs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of calls that are old: theirs to mend, not ours
            return importlib.import_module(module)
    except ImportError:
        package = "kafka-python" if module == "kafka" else "confluent-kafka"
        raise Missing(package, "is not installed", 'pip install "sexton[testing]"') from None
