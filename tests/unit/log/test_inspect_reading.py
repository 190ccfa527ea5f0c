"""Reading in chunks gives the same batches, whatever the size of a chunk."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import numpy as np
import pytest

from sexton.log.inspect.distinct import DistinctKeys, hashes
from sexton.log.inspect.paths import SegmentFile, find
from sexton.log.inspect.reading import Done, SegmentReader, Tail, decoded, work_through
from sexton.records import Decoder, Spans
from tests.handmade import batch, record
from tests.kafka_data import data_directory, kafka_logs

SMALL = b"".join(batch(record(), record(1), base_offset=n * 2) for n in range(20))
LARGE = batch(record(value=b"v" * 5000), base_offset=40)


def read(data: bytes, chunk_bytes: int) -> tuple[list[tuple[int, int]], Tail]:
    """(file position, base offset) of every batch, and the tail."""
    reader = SegmentReader(io.BytesIO(data), len(data), chunk_bytes=chunk_bytes)
    found = [
        (int(position), int(offset))
        for chunk in reader.chunks()
        for position, offset in zip(
            chunk.file_position, chunk.batches.headers["base_offset"], strict=True
        )
    ]
    assert reader.tail is not None
    return found, reader.tail


@pytest.mark.parametrize("chunk_bytes", [61, 100, 150, 300, 1000, 1 << 20])
def test_a_batch_may_lie_across_chunks_or_be_larger_than_one(chunk_bytes: int) -> None:
    data = SMALL + LARGE + SMALL
    assert read(data, chunk_bytes) == read(data, 1 << 24)
    found, tail = read(data, chunk_bytes)
    assert len(found) == 41
    assert tail == Tail("end", len(data), 0)


@pytest.mark.parametrize("chunk_bytes", [61, 150, 1 << 20])
@pytest.mark.parametrize("cut", [1, 11, 40, 60, 61, 70])
def test_a_torn_end_is_found_where_the_last_whole_batch_ends(chunk_bytes: int, cut: int) -> None:
    data = SMALL + LARGE[:cut]
    found, tail = read(data, chunk_bytes)
    assert len(found) == 20
    assert (tail.kind, tail.position, tail.size) == ("torn", len(SMALL), cut)


@pytest.mark.parametrize("chunk_bytes", [61, 150, 1 << 20])
@pytest.mark.parametrize("zeros", [8, 60, 61, 5000])
def test_zeros_up_to_the_end_are_preallocation(chunk_bytes: int, zeros: int) -> None:
    _, tail = read(SMALL + bytes(zeros), chunk_bytes)
    assert (tail.kind, tail.position, tail.size) == ("preallocated", len(SMALL), zeros)


def test_zeros_in_the_middle_are_damage() -> None:
    _, tail = read(SMALL + bytes(200) + SMALL, 150)
    assert (tail.kind, tail.position) == ("damaged", len(SMALL))
    assert tail.size == 200 + len(SMALL)


def test_a_length_beyond_the_file_is_not_allocated() -> None:
    lie = bytearray(LARGE)
    lie[8:12] = (2**31 - 1).to_bytes(4, "big")
    _, tail = read(SMALL + bytes(lie), 1000)
    assert (tail.kind, tail.position) == ("torn", len(SMALL))
    assert "2147483659 bytes" in tail.why


def test_results_come_in_order_from_threads(tmp_path: Path) -> None:
    segments = []
    for n in range(5):
        path = tmp_path / f"{n:020d}.log"
        path.write_bytes(SMALL)
        segments.append(SegmentFile(path, n, len(SMALL)))
    threads = set()

    def work(segment: SegmentFile, chunk: object, decoder: Decoder) -> str:
        del chunk, decoder
        threads.add(threading.get_ident())
        return segment.path.name

    steps = list(work_through(segments, work, workers=3))
    order = [step.result if isinstance(step, Done) else step[0].path.name for step in steps]
    assert order == [s.path.name for s in segments for _ in range(2)]
    assert threading.get_ident() not in threads


def test_a_file_that_vanished_is_a_tail_that_cannot_be_read(tmp_path: Path) -> None:
    gone = SegmentFile(tmp_path / "00000000000000000000.log", 0, 100)
    ((segment, tail),) = work_through([gone], lambda *_: None)  # type: ignore[misc]
    assert segment is gone
    assert isinstance(tail, Tail)
    assert (tail.kind, tail.why) == ("unreadable", "no such file or directory")


def test_every_fixture_is_read_the_same_in_small_chunks() -> None:
    for log in kafka_logs(version="4.3.1"):
        for path in log.segments:
            data = path.read_bytes()
            assert read(data, 100) == read(data, 1 << 20)


def test_parts_know_which_batches_they_hold() -> None:
    data = b"".join(
        batch(record(value=b"v" * 100), base_offset=n, attributes=3 if n % 2 else 0)
        for n in range(10)
    )
    reader = SegmentReader(io.BytesIO(data), len(data))
    (chunk,) = reader.chunks()
    decoder = Decoder(part_bytes=300)
    parts = [(part.first, len(part.columns)) for part in decoded(chunk, decoder, "x")]
    assert [first for first, _ in parts] == list(np.cumsum([0] + [n for _, n in parts])[:-1])
    assert sum(n for _, n in parts) == 10


# ── what a path means ──


def test_a_data_directory_is_all_its_partitions() -> None:
    found = find([data_directory("4.3.1")])
    assert "__transaction_state-0" in {p.name for p in found.partitions}
    cleaned = next(p for p in found.partitions if p.name == "cleaned-lz4-0")
    assert cleaned.cleaned_to == 40
    assert not found.wrong
    assert not found.unreadable


def test_marked_directories_are_named_and_left_out(tmp_path: Path) -> None:
    for name in ("orders-0", f"orders-1.{'a' * 32}-delete", f"orders-2.{'0' * 32}-future"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(SMALL)
    found = find([tmp_path])
    assert [p.name for p in found.partitions] == ["orders-0"]
    assert [Path(path).name[:8] for path, _ in found.left_out] == ["orders-1", "orders-2"]
    named = find([tmp_path / f"orders-1.{'a' * 32}-delete"])
    assert [p.name for p in named.partitions] == ["orders-1"]  # whoever names it wants to see it


def test_wrong_paths_are_named_and_the_rest_is_found(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    (tmp_path / "empty").mkdir()
    (log, *_) = kafka_logs("segments", "4.3.1")
    found = find([tmp_path / "nope", other, tmp_path / "empty", log.directory])
    assert [error.why for error in found.wrong] == [
        "no such file or directory",
        "is not a file of a Kafka log",
        "there is no Kafka log in it",
    ]
    assert [p.name for p in found.partitions] == ["segments-0"]


def test_one_log_is_looked_at_once() -> None:
    (log, *_) = kafka_logs("segments", "4.3.1")
    (whole,) = find([log.segments[0], log.directory, log.directory]).partitions
    assert whole.whole
    (some,) = find([log.segments[1], log.segments[0]]).partitions
    assert [s.base_offset for s in some.segments] == [0, 6]
    assert [s.base_offset for s in some.later] == [12, 18]


# ── keys ──


def test_distinct_keys_are_counted_exactly_while_they_fit() -> None:
    keys = DistinctKeys()
    items = [b"%d" % (n % 5000) for n in range(20_000)] + [b"", b"\0", b"\0\0", b"12345678"]
    keys.add(hashes(Spans.from_list(items)))
    keys.add(hashes(Spans.from_list(items[:100])))
    assert keys.is_exact
    assert keys.count == len(set(items))


def test_more_keys_than_fit_are_estimated() -> None:
    keys = DistinctKeys(most=1 << 12)
    for start in range(0, 300_000, 50_000):
        keys.add(hashes(Spans.from_list([b"key-%d" % n for n in range(start, start + 50_000)])))
    assert not keys.is_exact
    assert abs(keys.count - 300_000) < 15_000
