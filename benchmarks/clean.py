"""A cleaning pass beside Apache Kafka's own LogCleaner, on the same files, to the same bytes.

By CPU time of the one thread that cleans: ours in this process, warm; Kafka's as `log_cleaner`
says. Both read files that are in the page cache, check every checksum, keep the last record of each
key, write new segments with their indexes, sync them and put them in place. That the space of the
old segment is given back is on nobody's bill: Kafka leaves it to another thread, a minute later.
The files that are left are compared byte by byte.

Then the whole process `sexton log clean`, start-up included, beside the same pass of Kafka's. And
how time and memory grow, up to twenty million keys: there Kafka is given a buffer that holds them
all (its default would have it read the log several times), and we are not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.installed import sexton, warm_up
from benchmarks.log_cleaner import LogCleaner, put_cleanable
from benchmarks.many_keys import many_keys
from benchmarks.measure import By, Measure, race, timed, timed_process
from benchmarks.registry import Setting
from benchmarks.result import Result, TimesAsFast
from benchmarks.segments import GIB, MIB, Segments
from sexton.log.cleaner import CleanerOptions, begin
from sexton.log.cleaner_bounds import Bounds
from sexton.log.config import LogConfig
from sexton.log.real_disk import RealDisk
from sexton.log.recovery import open_log
from sexton.log.walking import walk
from sexton.log.workshop import Workshop
from sexton.records.tables import field as column
from sexton.records.tables import last_offsets
from sexton.testing.kafka_jars import cache_directory

PEER = "Kafka's LogCleaner, warm"
GOALS = {"none": TimesAsFast(12), "lz4": TimesAsFast(8)}
PROCESS_GOAL = TimesAsFast(4)
SMALLER = 10  # how many times smaller the log is that Kafka warms up with
KAFKA_ROUNDS = 2  # ten seconds each, and a copy of the log each
NOW_MS = 10**13
COMPARED = (".log", ".index", ".timeindex")
MANY_KEYS = 20_000_000
MANY_BUFFER = 640 * MIB  # Kafka takes 24 bytes a key, at a load of 90 %
MANY_HEAP = "2g"


def run(setting: Setting) -> Iterator[Result]:
    warm_up()
    for codec in ("none", "lz4"):
        yield from _beside_kafka(setting, codec)
    yield from _growth(setting)


@dataclass(slots=True)
class Log:
    """A partition to be cleaned again and again, on a fresh copy each time."""

    directory: Path
    scratch: Path
    records: int
    size: int
    end_offset: int
    segment_bytes: int
    shop: Workshop = field(default_factory=Workshop)
    readings: int = 0  # of the last pass
    left: dict[str, str] = field(default_factory=dict)  # by the last pass

    @classmethod
    def of(cls, source: Segments, scratch: Path, segment_bytes: int = (1 << 31) - 1) -> Log:
        records = size = end = 0
        for path in sorted(source.directory.glob("*.log")):
            file = RealDisk(source.directory).open(path.name)
            size += file.size
            for walked in walk(file, file.size, path.name):
                records += int(column(walked.headers, "records_count").sum())
                end = int(last_offsets(walked.headers[-1:])[0]) + 1
        return cls(source.directory, scratch, records, size, end, segment_bytes)

    def copy(self) -> Path:
        """A directory to clean. Its logs are links to one copy, which a pass leaves as they are.

        To make and free a gigabyte of page cache for each round would cost more than to clean it,
        on a machine whose memory is borrowed from another even in the rounds themselves.
        """
        original, target = self.scratch / "original", self.scratch / "bench-0"
        if not original.exists():
            put_cleanable(self.directory, original, self.end_offset)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for path in original.iterdir():
            shared = path.suffix == ".log" and int(path.stem) != self.end_offset
            (os.link if shared else shutil.copyfile)(path, target / path.name)
        return target

    def clean(self) -> Measure:
        """One pass in this thread."""
        target = self.copy()
        config = LogConfig(segment_bytes=self.segment_bytes)
        log = open_log(
            RealDisk(self.scratch),
            target.name,
            config,
            now_ms=0,
            clean=True,
            high_watermark=1 << 62,
        ).log
        bounds = Bounds.independent(NOW_MS, log.active.base_offset)

        def work() -> int:
            prepared = begin(log, bounds, CleanerOptions(seed=1), self.shop).prepare()
            swapped = prepared is not None and prepared.swap(NOW_MS)
            assert prepared is not None and swapped
            self.readings = prepared.cleaned.tally.readings
            return prepared.cleaned.tally.records_read

        measure = timed(work, self.size)
        assert measure.records == self.records
        log.close(NOW_MS)
        self.left = left_in(target, self.end_offset)
        return measure

    def clean_process(self) -> Measure:
        """The command, from its start to its end."""
        return timed_process(sexton("log", "clean", str(self.copy())), self.records, self.size)


def left_in(directory: Path, end_offset: int) -> dict[str, str]:
    """Digests of the cleaned segments in a partition's directory: all but the last, empty one."""
    digests = {}
    for path in sorted(directory.iterdir()):
        if path.suffix in COMPARED and int(path.stem) != end_offset:
            with path.open("rb") as file:
                digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """On the same disk as the segments."""
    return tempfile.TemporaryDirectory(dir=cache_directory() / "benchmarks", prefix="clean.")


def _beside_kafka(setting: Setting, codec: str) -> Iterator[Result]:
    with _scratch() as scratch:
        log = Log.of(setting.segments(codec), Path(scratch))
        small = Log.of(setting.segments(codec, setting.size // SMALLER), Path(scratch))
        rounds = min(setting.repeat, KAFKA_ROUNDS)
        warm = (small.directory, small.end_offset)
        with LogCleaner(log.directory, log.end_offset, rounds, warm, keep=setting.keep) as peer:
            best = race(
                {
                    "ours": log.clean,
                    "process": log.clean_process,
                    PEER: partial(peer.round, log.records, log.size),
                },
                By.CPU,
                rounds,
            )
            for directory in peer.done:
                assert left_in(directory, log.end_offset) == log.left, "Kafka has left other bytes"
            more = race({"ours": log.clean, "process": log.clean_process}, By.CPU, setting.repeat)
    ours, process = (min(best[n], more[n], key=lambda m: m.cpu_s) for n in ("ours", "process"))
    spoken = "uncompressed" if codec == "none" else codec
    case = f"{spoken}, {log.size >> 20} MiB, a million keys"
    yield Result("clean", case, By.CPU, ours, PEER, best[PEER], GOALS[codec])
    yield Result("clean", f"{case}, whole process", By.CPU, process, PEER, best[PEER], PROCESS_GOAL)


def _growth(setting: Setting) -> Iterator[Result]:
    """Up to twenty million keys, two records each, and the last of these logs beside Kafka too."""
    for share in (1 / 16, 1 / 4, 1):
        keys = int(MANY_KEYS * share * setting.size / GIB)
        with _scratch() as scratch:
            log = Log.of(many_keys(keys, 2 * keys), Path(scratch), GIB)
            best = race({"ours": log.clean, "process": log.clean_process}, By.CPU, KAFKA_ROUNDS)
            times = f"read {log.readings} times" if log.readings > 1 else "read once"
            case = f"{2 * keys / 1e6:g} M records, {keys / 1e6:g} M keys, {times}"
            yield Result("clean", case, By.CPU, best["ours"])
            yield Result("clean", f"{case}, whole process", By.MEMORY, best["process"])
            if share == 1:
                yield _many_beside_kafka(setting, log, case, best["ours"])


def _many_beside_kafka(setting: Setting, log: Log, case: str, ours: Measure) -> Result:
    small = many_keys(*(int(MANY_KEYS * part * setting.size / GIB) for part in (1 / 16, 1 / 8)))
    warm = Log.of(small, log.scratch)
    peer = LogCleaner(
        log.directory, log.end_offset, 1, (warm.directory, warm.end_offset),
        buffer_bytes=MANY_BUFFER, heap=MANY_HEAP, segment_bytes=GIB, keep=setting.keep,
    )  # fmt: skip
    with peer:
        theirs = peer.round(log.records, log.size)
        assert left_in(peer.done[0], log.end_offset) == log.left, "Kafka has left other bytes"
    return Result("clean", case, By.CPU, ours, f"{PEER}, all keys at once", theirs)
