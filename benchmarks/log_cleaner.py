"""Apache Kafka's own LogCleaner, at work on files that we give it.

A broker with a topic for each round, all of them held back by `min.compaction.lag.ms`. It is
stopped, the files are put into its directories, and it is started again; then one topic after the
other is released. What counts is the CPU time of the cleaner's one thread, as the kernel has
counted it: compiling and collecting garbage are done by other threads and cost Kafka nothing here.
The JVM has both its compilers and has cleaned a smaller topic before.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks.measure import Measure
from benchmarks.segments import MIB
from sexton.log.names import LOG, METADATA, OFFSET_INDEX, TIME_INDEX, segment_file
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.java import STEADY
from sexton.testing.waiting import until

THREAD = "kafka-log-cleaner-thread-0"
BUFFER_BYTES = 128 * MIB  # log.cleaner.dedupe.buffer.size, its default
HEAP = "1g"  # what kafka-server-start.sh gives a broker
TIMEOUT_S = 1200.0
_FROZEN = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": 2**62,
    "min.cleanable.dirty.ratio": 0,
    "segment.bytes": (1 << 31) - 1,
    "segment.ms": 2**40,
}


def put_cleanable(source: Path, target: Path, end_offset: int) -> None:
    """Copies a partition and adds an empty last segment, so that all the others may be cleaned.

    The copies are synced, as old segments are: what a pass writes must not wait behind them.
    """
    target.mkdir(parents=True, exist_ok=True)
    for path in target.iterdir():
        if path.name != METADATA:
            path.unlink()
    for path in source.iterdir():
        if path.name != METADATA or not (target / METADATA).exists():
            shutil.copyfile(path, target / path.name)
            with (target / path.name).open("rb") as copied:
                os.fsync(copied.fileno())
    for suffix in (LOG, OFFSET_INDEX, TIME_INDEX):
        (target / segment_file(end_offset, suffix)).touch()


@dataclass(slots=True)
class LogCleaner:
    """Cleans copies of one partition, a round each; `warm` is cleaned before the first."""

    source: Path
    end_offset: int
    rounds: int
    warm: tuple[Path, int]  # a smaller partition and its end
    buffer_bytes: int = BUFFER_BYTES
    heap: str = HEAP
    segment_bytes: int = (1 << 31) - 1
    keep: bool = False
    done: list[Path] = field(default_factory=list)  # the directories that it has cleaned
    _kafka: ApacheKafka | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> LogCleaner:
        options = {
            "log.cleaner.dedupe.buffer.size": self.buffer_bytes,
            "log.cleaner.backoff.ms": 200,
            "log.initial.task.delay.ms": 0,
        }
        config = KafkaConfig(jvm=STEADY, heap=self.heap, options=options, keep=self.keep)
        self._kafka = kafka = self._stack.enter_context(ApacheKafka(config))
        topics = {"warm": self.warm} | {
            f"round-{number}": (self.source, self.end_offset) for number in range(self.rounds)
        }
        for topic in topics:
            kafka.admin.create_topic(topic, 1, {**_FROZEN, "segment.bytes": self.segment_bytes})
        kafka.stop(1)  # cleanly: what is found at the next start is not read through
        for topic, (source, end) in topics.items():
            put_cleanable(source, self._directory(topic), end)
        kafka.start(1)
        self._clean("warm", self.warm[1])
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def round(self, records: int, size: int) -> Measure:
        """The next topic is cleaned; Kafka needs as many passes as its buffer makes necessary."""
        topic = f"round-{len(self.done)}"
        cpu, wall = self._clean(topic, self.end_offset)
        self.done.append(self._directory(topic))
        return Measure(records, cpu, wall, size)

    def _clean(self, topic: str, end: int) -> tuple[float, float]:
        assert self._kafka is not None
        kafka, node = self._kafka, self._kafka.nodes[1]
        checkpoint = kafka.data_directory() / "cleaner-offset-checkpoint"

        def reached() -> bool:
            node.check_alive()
            return checkpoint.exists() and f"{topic} 0 {end}" in checkpoint.read_text().split("\n")

        cpu, wall = node.thread_cpu_s(THREAD), perf_counter()
        kafka.admin.alter_topic(topic, {"min.compaction.lag.ms": 0})
        until(reached, f"{topic} cleaned up to {end}", TIMEOUT_S, node.log_tail)
        return node.thread_cpu_s(THREAD) - cpu, perf_counter() - wall

    def _directory(self, topic: str) -> Path:
        assert self._kafka is not None
        return self._kafka.data_directory() / f"{topic}-0"
