"""Every benchmark there is: its name, one line about it, and the module that runs it.

To add one, write a module with

    def run(setting: Setting) -> Iterator[Result]

and add its line here. Modules are imported when they run, so that a list of them costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module

from benchmarks.result import Result
from benchmarks.segments import GIB, Segments, segments


@dataclass(frozen=True, slots=True)
class Setting:
    """What the person at the keyboard asked for."""

    size: int = GIB  # of the segments, before compression
    repeat: int = 5  # rounds of which the best counts
    keep: bool = False  # leave behind what Apache Kafka wrote while it made the segments

    def segments(self, codec: str, size: int | None = None) -> Segments:
        return segments(codec, size or self.size, keep=self.keep)


@dataclass(frozen=True, slots=True)
class Benchmark:
    name: str
    summary: str

    @property
    def module(self) -> str:
        return f"benchmarks.{self.name.replace('-', '_')}"

    def run(self, setting: Setting) -> Iterator[Result]:
        results: Iterator[Result] = import_module(self.module).run(setting)
        yield from results


BENCHMARKS = (
    Benchmark("decode", "record batches to columns, beside three other readers of them"),
    Benchmark("encode", "columns to record batches, beside two other writers of them"),
    Benchmark("clean", "a cleaning pass beside Kafka's own LogCleaner, to the same bytes"),
    Benchmark("verify", "`sexton log verify` beside kafka-dump-log, from start to end"),
    Benchmark("audit", "the audit of three replicas beside Spark's own Kafka connector"),
    Benchmark("retry", "ordered retry: a storm of failures, none at all, a start, and its topics"),
    Benchmark("sink", "the exactly-once sink beside Spark's own Kafka sink: rows/s, latency"),
    Benchmark("source", "a topic to rows in Spark, beside Spark's own Kafka source"),
    Benchmark("stores", "a counting task beside quixstreams; a large store restored and promoted"),
    Benchmark("validate", "a topic against its promises, beside a Spark SQL window and states"),
    Benchmark("cluster", "the embedded cluster beside Apache Kafka: start, memory, throughput"),
)


def chosen(names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks of these names, or all; ValueError if there is no such name."""
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"no benchmark is called {unknown[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(BENCHMARKS)
