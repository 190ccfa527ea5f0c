"""A real Apache Kafka for a test, gone afterwards.

    with ApacheKafka(KafkaConfig(nodes=3)) as kafka:
        kafka.admin.create_topic("orders", [[1, 2, 3]], {"cleanup.policy": "compact"})
        kafka.kill(2)

N nodes on loopback, plain java processes run from the jars that Maven fetched. Entering formats
their storage, starts them and waits until every broker sees every other unfenced; a node that dies
on the way is reported at once, with the end of its log. Leaving kills them and removes every file.
Whatever happens to this process, the same is done by another one (see `reaper`).
"""

from __future__ import annotations

import atexit
import base64
import socket
import subprocess
import sys
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.testing.class_archive import archive_flags, ensure_archive
from sexton.testing.cluster import PartitionState
from sexton.testing.java import FAST_START, Java, find_java
from sexton.testing.kafka_admin import KafkaAdmin
from sexton.testing.kafka_jars import KAFKA_4, KafkaJars, kafka_jars
from sexton.testing.kafka_node import KafkaNode
from sexton.testing.ports import LOOPBACK
from sexton.testing.reaper import Reaper
from sexton.testing.waiting import until

_THROTTLE = "follower.replication.throttled.rate"
THROTTLED_BYTES_PER_S = 20
READY_TIMEOUT_S = 120.0  # three nodes take 10 s on two free cores; a busy CI machine takes more


@dataclass(frozen=True, slots=True)
class KafkaConfig:
    """What the cluster is to be; `options` are Kafka's own, spelled as Kafka spells them."""

    version: str = KAFKA_4
    nodes: int = 1  # each is broker and controller
    options: Mapping[str, object] = field(default_factory=dict)
    heap: str = "256m"  # of each node
    jvm: Sequence[str] = FAST_START  # flags; by default those that start fast
    format_arguments: Sequence[str] = ()  # more for Kafka's StorageTool, such as --feature
    class_archive: bool = True  # start from an archive of classes, made at the first use
    unlocked: bool = False  # accept a version whose jars have no lock
    keep: bool = False  # leave the directory behind and say where it is


class ApacheKafka:
    """A cluster of Apache Kafka nodes, numbered from 1."""

    def __init__(self, config: KafkaConfig | None = None) -> None:
        self.config = config or KafkaConfig()
        assert self.config.nodes >= 1
        self._java: Java = find_java()
        self.jars: KafkaJars = kafka_jars(self.config.version, unlocked=self.config.unlocked)
        if self.config.class_archive:
            ensure_archive(self.jars, self._java, self._train)
        self.directory = Path(tempfile.mkdtemp(prefix="sexton-kafka-"))
        self._reaper = Reaper(None if self.config.keep else self.directory)
        self._closed = False
        self.nodes: dict[int, KafkaNode] = {}
        for node_id in range(1, self.config.nodes + 1):
            directory = self.directory / f"node-{node_id}"
            directory.mkdir()
            self.nodes[node_id] = KafkaNode(node_id, directory)
        self.admin = KafkaAdmin(lambda: self.bootstrap)
        _LIVE.add(self)

    # -- the whole cluster ---------------------------------------------------------------------

    def __enter__(self) -> ApacheKafka:
        try:
            self.format()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _train(self, flags: list[str]) -> None:
        """Run a node as small as can be through its whole life, for the archive of its classes."""
        jvm = (*self.config.jvm, *flags)
        config = KafkaConfig(version=self.config.version, jvm=jvm, class_archive=False)
        with ApacheKafka(replace(config, unlocked=self.config.unlocked)) as kafka:
            kafka.admin.create_topic("warm")
            kafka.stop(1)

    def format(self) -> None:
        """Make every node's storage, as `kafka-storage.sh format` does."""
        cluster_id = _new_id()
        running = []
        for node in self.nodes.values():
            node.write_properties(self._properties(node))
            arguments = ["format", "-t", cluster_id, "-c", str(node.properties_file)]
            arguments += self.config.format_arguments
            command = tool_command(self.jars, "kafka.tools.StorageTool", arguments)
            running.append(self._popen(command))
        for node, process in zip(self.nodes.values(), running, strict=True):
            said, _ = process.communicate()
            if process.returncode != 0:
                raise PeerError(f"format of node {node.node_id}", said.decode(errors="replace"))

    def start(self, *node_ids: int) -> None:
        """Start these nodes, or all, and wait until the cluster is ready."""
        for node_id in node_ids or self.nodes:
            self.launch(node_id)
        self.await_ready()

    def await_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until each node that was started sees all of them unfenced."""
        started = {node_id for node_id, node in self.nodes.items() if node.process is not None}
        self.await_brokers(started, started, timeout_s)

    def await_brokers(
        self, unfenced: Set[int], observers: Set[int], timeout_s: float = READY_TIMEOUT_S
    ) -> None:
        """Wait until each of the observers sees exactly these brokers up and unfenced."""

        def seen() -> bool:
            for node in self.nodes.values():
                node.check_alive()
            return all(self._view_of(node_id) == unfenced for node_id in sorted(observers))

        def explain() -> str:
            return "\n".join(self.nodes[node_id].log_tail() for node_id in sorted(observers))

        until(seen, f"Kafka brokers {sorted(unfenced)} unfenced", timeout_s, explain)

    def _view_of(self, node_id: int) -> set[int]:
        node = self.nodes[node_id]
        return KafkaAdmin(lambda: node.address).brokers() if _listens(node) else set()

    def close(self) -> None:
        """Kill what still runs and remove the directory; harmless a second time."""
        if self._closed:
            return
        self._closed = True
        _LIVE.discard(self)
        for node in self.nodes.values():
            node.kill()
            node.release()
        self._reaper.close()
        if self.config.keep:
            sys.stderr.write(f"sexton: Apache Kafka's files are kept in {self.directory}\n")

    @property
    def bootstrap(self) -> str:
        """The brokers that run; all, when none does."""
        running = [node.address for node in self.nodes.values() if node.running]
        return ",".join(running or [node.address for node in self.nodes.values()])

    # -- one node ------------------------------------------------------------------------------

    def launch(self, node_id: int) -> None:
        """Start one node and do not wait for it."""
        node = self.nodes[node_id]
        flags = [f"-Xmx{self.config.heap}", *self.config.jvm, *_logging("info")]
        if self.config.class_archive:
            flags += archive_flags(self.jars, self._java)
        arguments = [str(node.properties_file)]
        command = self._java.command(self.jars.classpath, "kafka.Kafka", arguments, flags)
        node.start(command, self._reaper.group)

    def stop(self, node_id: int) -> None:
        """SIGTERM: leaderships are handed over, files are trimmed and flushed."""
        self.nodes[node_id].stop()

    def kill(self, node_id: int) -> None:
        """SIGKILL: nothing is."""
        self.nodes[node_id].kill()

    def restart(self, node_id: int) -> None:
        """Stop it cleanly if it runs, start it again, wait until it is back."""
        self.stop(node_id)
        self.start(node_id)

    def pause(self, node_id: int) -> None:
        self.nodes[node_id].pause()

    def resume(self, node_id: int) -> None:
        self.nodes[node_id].resume()

    def data_directory(self, node_id: int = 1) -> Path:
        """Kafka's log directory of this node: one directory for each partition."""
        return self.nodes[node_id].data_directory

    # -- as any cluster (see `cluster.Cluster`) ------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        return self.bootstrap

    @property
    def node_ids(self) -> list[int]:
        return sorted(self.nodes)

    def create_topic(
        self,
        topic: str,
        assignment: Sequence[Sequence[int]] | int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        self.admin.create_topic(topic, assignment, configs)

    def alter_topic(self, topic: str, configs: Mapping[str, object | None]) -> None:
        self.admin.alter_topic(topic, configs)

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        return self.admin.partition(TopicPartition(topic, partition))

    def wait_for(
        self,
        topic: str,
        partition: int,
        good: Callable[[PartitionState], bool],
        timeout_s: float = 60.0,
    ) -> PartitionState:
        return self.admin.await_partition(TopicPartition(topic, partition), good, timeout_s)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        return self.wait_for(topic, partition, lambda state: state.leader >= 0).leader

    def elect(self, topic: str, partition: int, node: int) -> None:
        self.admin.lead(TopicPartition(topic, partition), node)

    def begin_reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        self.admin.begin_reassign(TopicPartition(topic, partition), replicas)

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        self.admin.reassign(TopicPartition(topic, partition), replicas)

    def slow_down(self, node: int) -> None:
        """Kafka's throttle, for topics with `follower.replication.throttled.replicas`.

        A fetch that is allowed is answered whole: brokers want a small `replica.fetch.max.bytes`.
        """
        self.admin.alter_broker(node, {_THROTTLE: THROTTLED_BYTES_PER_S})

    def speed_up(self, node: int) -> None:
        self.admin.alter_broker(node, {_THROTTLE: None})

    def hold_back(self, node: int) -> None:
        """It stands still altogether. What a leader had sent it before, it reads when let go."""
        self.pause(node)

    def let_go(self, node: int) -> None:
        self.resume(node)

    def let_time_pass(self, ms: int) -> None:
        """Nobody can move Kafka's clock: it takes as long as it says."""
        time.sleep(ms / 1000)

    # -- Kafka's own programs ------------------------------------------------------------------

    def run_tool(self, main: str, *arguments: str, timeout_s: float = 300.0) -> str:
        """Run a class of Kafka's jars, such as `org.apache.kafka.tools.GetOffsetShell`."""
        return run_tool(self.jars, main, *arguments, timeout_s=timeout_s)

    def _popen(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=self._reaper.group,
        )

    def _properties(self, node: KafkaNode) -> dict[str, object]:
        everyone = self.nodes.values()
        count = len(self.nodes)
        listeners = f"PLAINTEXT://{node.address}"
        controller = f"CONTROLLER://{LOOPBACK}:{node.controller_port.number}"
        voters = (f"{n.node_id}@{LOOPBACK}:{n.controller_port.number}" for n in everyone)
        return {
            "process.roles": "broker,controller",
            "node.id": node.node_id,
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"{listeners},{controller}",
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": node.data_directory,
            # Kafka's internal topics, as small as they can be: less to create, less on disk.
            "offsets.topic.replication.factor": count,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": count,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": count,
            "share.coordinator.state.topic.num.partitions": 1,
            # The defaults reserve 128 MB of every heap for the cleaner's offset map.
            "log.cleaner.dedupe.buffer.size": 4 << 20,
            "log.cleaner.io.buffer.size": 512 << 10,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": False,
            **self.config.options,
        }


def run_tool(
    jars: KafkaJars,
    main: str,
    *arguments: str,
    directory: Path | None = None,
    timeout_s: float = 300.0,
) -> str:
    """What a class of Kafka's jars prints; PeerError with what it said when it fails."""
    answer = subprocess.run(
        tool_command(jars, main, arguments),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        cwd=directory,
        timeout=timeout_s,
        check=False,
    )
    if answer.returncode != 0:
        # A complaint opens what a tool says on stderr, and ends what it says on stdout.
        said = (answer.stderr[:2000] + answer.stdout[-2000:]).decode(errors="replace")
        raise PeerError(main, f"ended with {answer.returncode}\n{said}")
    return answer.stdout.decode(errors="replace")


def tool_command(jars: KafkaJars, main: str, arguments: Sequence[str]) -> list[str]:
    """The command that runs a class of Kafka's jars, or a Java source file that uses them."""
    java = find_java()
    flags = ["-Xmx512m", "-Dfile.encoding=UTF-8", *FAST_START, *_logging("error")]
    return java.command(jars.classpath, main, arguments, [*flags, *archive_flags(jars, java)])


def dump_log_class(version: str) -> str:
    """DumpLogSegments moved from Kafka's core to its tools in 4.0."""
    return ("kafka" if version.startswith("3.") else "org.apache.kafka") + ".tools.DumpLogSegments"


def _logging(level: str) -> list[str]:
    prefix = "-Dorg.slf4j.simpleLogger."
    return [
        f"{prefix}defaultLogLevel={level}",
        f"{prefix}showDateTime=true",
        f"{prefix}dateTimeFormat=HH:mm:ss.SSS",
    ]


def _listens(node: KafkaNode) -> bool:
    try:
        socket.create_connection((LOOPBACK, node.broker_port.number), 1.0).close()
    except OSError:
        return False
    return True


def _new_id() -> str:
    """A cluster id as Kafka writes them: a UUID in 22 characters of URL-safe base64."""
    text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return "A" + text[1:]  # an id that starts with a dash would look like an option


_LIVE: weakref.WeakSet[ApacheKafka] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for cluster in list(_LIVE):
        cluster.close()
