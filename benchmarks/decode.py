"""Record batches to columns, CRC checked: ours beside kafka-python, aiokafka and Kafka's own Java.

All read the same segment from its first batch on, from memory, in one thread. We read all of it in
chunks of 8 MiB, as everything in sexton does; the peers read as much of it as takes them a second
or so. Python's readers make an object for each record and have their key and value looked at:
there is no other way to get at them. Java's is warm, and only asked for sizes, not for the bytes.

Then the same from the file, and what a second thread adds: the kernels run without Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.java_programs import program
from benchmarks.measure import Answering, By, Measure, race, timed
from benchmarks.registry import Setting
from benchmarks.result import RecordsPerSecond, Result, TimesAsFast
from benchmarks.segments import MIB
from sexton.records import Decoder, scan
from sexton.records.tables import Array

CHUNK_BYTES = 8 * MIB
KAFKA_PYTHON_BYTES = 16 * MIB
AIOKAFKA_BYTES = 128 * MIB
JAVA_BYTES = 256 * MIB
WARM_ROUNDS = 8  # the JVM's last compiler is done after three or four

GOAL_RATE = RecordsPerSecond(50e6)
GOALS = {
    "kafka-python": TimesAsFast(200),
    "aiokafka (C)": TimesAsFast(15),
    "Kafka's Java iterator, warm": TimesAsFast(2),
}


def run(setting: Setting) -> Iterator[Result]:
    for codec in ("none", "lz4"):
        yield from _from_memory(setting, codec)
    for codec in ("none", "lz4"):
        yield _from_file(setting, codec)
    yield _two_threads(setting)


# ── from memory ──


def _from_memory(setting: Setting, codec: str) -> Iterator[Result]:
    path = setting.segments(codec).log
    data = np.fromfile(path, np.uint8)
    heads = {
        name: _whole_batches(data, size)
        for name, size in zip(GOALS, (KAFKA_PYTHON_BYTES, AIOKAFKA_BYTES, JAVA_BYTES), strict=True)
    }
    kafka_python, aiokafka, java = (heads[name] for name in GOALS)
    decoder = Decoder()
    command = program("Iterate", ["memory", str(path), str(len(java)), str(WARM_ROUNDS)])
    with Answering(command, len(java)) as jvm:
        best = race(
            {
                "ours": lambda: timed(lambda: decode_all(decoder, data), len(data)),
                "kafka-python": _reader(read_by_kafka_python, kafka_python),
                "aiokafka (C)": _reader(read_by_aiokafka, aiokafka),
                "Kafka's Java iterator, warm": jvm.round,
            },
            By.CPU,
            setting.repeat,
        )
    for name, head in heads.items():
        assert best[name].records == decode_all(decoder, head), f"{name} has read something else"
    assert set(jvm.sums) == {checksum(decoder, java)}, "Java has read something else"
    case = f"{_spoken(codec)}, from memory, CRC"
    if codec == "none":
        yield Result("decode", case, By.CPU, best["ours"], goal=GOAL_RATE)
    for name, goal in GOALS.items():
        result = Result("decode", case, By.CPU, best["ours"], name, best[name], goal)
        yield result if codec == "none" else replace(result, goal=None)


def _reader(read: Callable[[bytes], int], head: Array) -> Callable[[], Measure]:
    data = head.tobytes()
    return lambda: timed(lambda: read(data), len(data))


def _spoken(codec: str) -> str:
    return "uncompressed" if codec == "none" else codec


def _whole_batches(data: Array, size: int) -> Array:
    """The whole batches within the first `size` bytes."""
    return data[: scan(data[:size]).end]


def decode_all(decoder: Decoder, data: Array) -> int:
    """Chunk after chunk to columns; how many rows they had."""
    rows = place = 0
    while place < len(data):
        batches = scan(data[place : place + CHUNK_BYTES])
        for columns, bad in decoder.parts(batches):
            assert not bad
            rows += len(columns)
        assert batches.end, "a batch is larger than a chunk"
        place += batches.end
    return rows


def checksum(decoder: Decoder, data: Array) -> int:
    """What Iterate.java sums up: offsets, timestamps, key and value sizes, in 64 bits."""
    total = 0
    for columns, _ in decoder.parts(scan(data)):
        seen = (columns.offset, columns.timestamp, columns.key.length, columns.value.length)
        total += sum(int(column.sum(dtype=np.int64)) for column in seen)
    return (total + (1 << 63)) % (1 << 64) - (1 << 63)


def read_by_kafka_python(data: bytes) -> int:
    from kafka.record.memory_records import MemoryRecords

    rows = 0
    for batch in MemoryRecords(data):
        assert batch.validate_crc()
        for record in batch:
            _ = record.offset, record.timestamp, record.key, record.value
            rows += 1
    return rows


def read_by_aiokafka(data: bytes) -> int:
    from aiokafka.record.memory_records import MemoryRecords

    rows = 0
    records = MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        for record in batch:
            _ = record.offset, record.timestamp, record.key, record.value
            rows += 1
    return rows


# ── from the file ──


def _from_file(setting: Setting, codec: str) -> Result:
    path = setting.segments(codec).log
    size = path.stat().st_size
    decoder = Decoder()
    buffer = np.empty(CHUNK_BYTES, np.uint8)
    java_size = len(_whole_batches(np.fromfile(path, np.uint8, JAVA_BYTES), JAVA_BYTES))
    command = program("Iterate", ["file", str(path), str(java_size), str(WARM_ROUNDS // 2)])
    with Answering(command, java_size) as jvm:
        best = race(
            {
                "ours": lambda: timed(lambda: decode_file(decoder, path, buffer), size),
                "java": jvm.round,
            },
            By.CPU,
            setting.repeat,
        )
    case = f"{_spoken(codec)}, file to columns, reading included"
    peer_name = "Kafka's FileRecords, warm"
    return Result("decode", case, By.CPU, best["ours"], peer_name, best["java"])


def decode_file(decoder: Decoder, path: Path, buffer: Array) -> int:
    """Into the same buffer again and again; what it ends with of a batch moves to its front."""
    rows = kept = 0
    with path.open("rb", buffering=0) as file:
        while got := file.readinto(buffer.data[kept:]):
            batches = scan(buffer[: kept + got])
            for columns, bad in decoder.parts(batches):
                assert not bad
                rows += len(columns)
            kept = kept + got - batches.end
            buffer[:kept] = buffer[batches.end : batches.end + kept].copy()
    assert kept == 0
    return rows


# ── with two threads ──


def _two_threads(setting: Setting) -> Result:
    """The peer is ourselves with one thread."""
    data = np.fromfile(setting.segments("none").log, np.uint8)
    middle = len(_whole_batches(data, len(data) // 2))
    halves = (data[:middle], data[middle:])
    decoders = (Decoder(), Decoder())
    with ThreadPoolExecutor(2) as pool:

        def both() -> int:
            return sum(pool.map(decode_all, decoders, halves))

        best = race(
            {
                "two": lambda: timed(both, len(data)),
                "one": lambda: timed(lambda: decode_all(decoders[0], data), len(data)),
            },
            By.WALL,
            setting.repeat,
        )
    case = "uncompressed, from memory, two threads"
    return Result("decode", case, By.WALL, best["two"], "one thread", best["one"])
