"""`sexton log verify` beside kafka-dump-log: two programs that read every record of a segment.

Whole processes, from the shell's point of view: start-up is included, output goes nowhere, the
file is in the page cache for both. Our kernels were compiled before, as `sexton warmup` does once
after an installation, and Python has its bytecode. kafka-dump-log has the JVM and the heap that
its script gives it.

verify does more than deep iteration (indexes, epochs, sequences, transactions); kafka-dump-log
with --print-data-log prints all records, which verify does not. Both rows are shown.

Then the memory: verify must need as much for a file as for one of a tenth its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.installed import sexton, warm_up
from benchmarks.java_programs import tool
from benchmarks.measure import By, Measure, race, timed_process
from benchmarks.registry import Setting
from benchmarks.result import Result, TimesAsFast, TimesTheMemory
from sexton.records import scan
from sexton.records.tables import field
from sexton.testing.apache_kafka import dump_log_class
from sexton.testing.kafka_jars import KAFKA_4

SMALLER = 10  # how many times smaller the file is that memory is compared with
DUMPS = {
    "kafka-dump-log --deep-iteration": ["--deep-iteration"],
    "kafka-dump-log --print-data-log": ["--print-data-log"],
}
GOALS = {
    "kafka-dump-log --deep-iteration": TimesAsFast(10),
    "kafka-dump-log --print-data-log": None,
}
FLAT = TimesTheMemory(1.25)  # a busy machine moves it by a tenth: threads are ahead or behind


def run(setting: Setting) -> Iterator[Result]:
    _prepare(setting)
    for codec in ("none", "lz4"):
        yield from _beside_dump(setting, codec)
    yield _memory(setting)


def _beside_dump(setting: Setting, codec: str) -> Iterator[Result]:
    path = setting.segments(codec).log
    records = count_records(path)
    size = path.stat().st_size
    dumps = DUMPS if codec == "none" else dict(list(DUMPS.items())[:1])
    best = race(
        {
            "ours": partial(verify, path, records),
            **{
                name: partial(timed_process, _dump(options, path), records, size)
                for name, options in dumps.items()
            },
        },
        By.WALL,
        setting.repeat,
    )
    case = f"{'uncompressed' if codec == 'none' else codec}, {size >> 20} MiB, whole process"
    for name in dumps:
        goal = GOALS[name] if codec == "none" else None
        yield Result("verify", case, By.WALL, best["ours"], name, best[name], goal)


def _dump(options: list[str], path: Path) -> list[str]:
    return tool(dump_log_class(KAFKA_4), [*options, "--files", str(path)])


def _memory(setting: Setting) -> Result:
    large = setting.segments("none").log
    small = setting.segments("none", setting.size // SMALLER).log
    best = race(
        {"large": partial(verify, large, 0), "small": partial(verify, small, 0)},
        By.MEMORY,
        min(setting.repeat, 3),
    )
    case = f"peak memory, {large.stat().st_size >> 20} MiB file"
    peer = f"the same, {small.stat().st_size >> 20} MiB file"
    return Result("verify", case, By.MEMORY, best["large"], peer, best["small"], FLAT)


def verify(path: Path, records: int) -> Measure:
    """One run of the command, on a log that is sound."""
    return timed_process(sexton("log", "verify", str(path)), records, path.stat().st_size)


def _prepare(setting: Setting) -> None:
    warm_up(sexton("log", "verify", str(setting.segments("none", setting.size // SMALLER).log)))


def count_records(path: Path) -> int:
    """By the headers of its batches."""
    return int(field(scan(np.fromfile(path, np.uint8)).headers, "records_count").sum())
