"""Two clusters of the same shape, each in processes of its own: `sexton up`, and Apache Kafka.

Clients see an address; we also see what the processes behind it have cost. Both keep their logs in
the same temporary directory's file system. Kafka runs as operators run it (both compilers, the heap
of kafka-server-start.sh), or with the flags with which our tests start it fast.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.installed import sexton
from benchmarks.measure import usual_environment
from sexton.base.errors import PeerError
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.java import STEADY
from sexton.testing.kafka_admin import KafkaAdmin

OURS = "ours"
KAFKA = "Apache Kafka"
FAST_KAFKA = "Apache Kafka, fast start"
STOP_TIMEOUT_S = 60.0

# As kafka-server-start.sh does it; and as quick as the harness can make it (FAST_START, 256 MiB of
# heap, classes from an archive), which nobody's production has.
_STEADY = KafkaConfig(jvm=STEADY, heap="1g", class_archive=False)
_FAST = KafkaConfig()
# As many partitions for transactions as Kafka has here, so that a coordinator loads as much.
_SAME = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


@dataclass(frozen=True, slots=True)
class Contestant:
    """A cluster that runs."""

    name: str
    bootstrap: str
    brokers: int
    processes: Sequence[int]  # their ids
    admin: KafkaAdmin = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "admin", KafkaAdmin(lambda: self.bootstrap))

    def create_topic(self, topic: str, partitions: int) -> None:
        """Every broker has a replica, and leaderships go round."""
        nodes = [1 + number for number in range(self.brokers)]
        turns = [number % self.brokers for number in range(partitions)]
        replicas = [nodes[turn:] + nodes[:turn] for turn in turns]
        self.admin.create_topic(topic, replicas, {"file.delete.delay.ms": 1000})

    @property
    def cpu_s(self) -> float:
        """Of all its processes since they started."""
        return sum(_cpu_s(process) for process in self.processes)

    @property
    def memory(self) -> int:
        """Bytes in use now; what several of its processes share counts once.

        Several are added up by PSS, which leaves out a little that they share with clients. One has
        all of its RSS counted: other Pythons that happen to run must not make ours look smaller.
        """
        counted = "Rss:" if len(self.processes) == 1 else "Pss:"
        return sum(_mapped(process, counted) for process in self.processes)


@contextmanager
def sexton_up(brokers: int, options: Mapping[str, object] = _SAME) -> Iterator[Contestant]:
    """From the shell; yields when it has said that it is ready."""
    with tempfile.TemporaryDirectory(prefix="sexton-bench-", ignore_cleanup_errors=True) as data:
        settings = [f"--set={name}={value}" for name, value in options.items()]
        shape = ["--brokers", str(brokers), "--port", "0", "--data", data]
        command = sexton("up", "--format", "json", "--log-level", "error", *shape, *settings)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=usual_environment()
        ) as process:
            try:
                assert process.stdout is not None
                said = json.loads(process.stdout.readline() or "{}")
                if not said.get("ok"):
                    raise PeerError("sexton up", f"said {said}")
                yield Contestant(OURS, said["summary"]["bootstrap_servers"], brokers, [process.pid])
            finally:
                process.terminate()
                process.wait(STOP_TIMEOUT_S)


def kafka_config(name: str, brokers: int, *, keep: bool) -> KafkaConfig:
    base = {KAFKA: _STEADY, FAST_KAFKA: _FAST}[name]
    return KafkaConfig(
        nodes=brokers, jvm=base.jvm, heap=base.heap, class_archive=base.class_archive, keep=keep
    )


@contextmanager
def apache_kafka(brokers: int, *, keep: bool = False) -> Iterator[Contestant]:
    with ApacheKafka(kafka_config(KAFKA, brokers, keep=keep)) as kafka:
        yield contestant(KAFKA, kafka)


def contestant(name: str, kafka: ApacheKafka) -> Contestant:
    running = [node.process for node in kafka.nodes.values()]
    ids = [process.pid for process in running if process is not None]
    return Contestant(name, kafka.bootstrap, len(ids), ids)


def _cpu_s(process: int) -> float:
    """User and system; the name before these fields may hold spaces."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _mapped(process: int, counted: str) -> int:
    for line in Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8").split("\n"):
        if line.startswith(counted):
            return int(line.split()[1]) * 1024
    raise PeerError(f"process {process}", "has no memory any more: it is gone")
