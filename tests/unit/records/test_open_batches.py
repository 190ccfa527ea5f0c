"""Do new rows come out in whole batches of the right partitions, however they come in?"""

from __future__ import annotations

import mmap
import random
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from sexton.records import open_batches
from sexton.records.columns import Record
from sexton.records.decoder import decode
from sexton.records.key_hash import murmur2, partition_of
from sexton.records.layout import BatchHeader
from sexton.records.open_batches import Full, NewRows, NoPartition, OpenBatches, Strings
from sexton.records.tables import Array

NOW = 1_700_000_000_000
MANY = (1 << 31) - 1  # so many partitions that the hash itself shows


def strings(items: Sequence[bytes | None], first: int = 0) -> Strings:
    """With `first` rows before the first, as in a slice of an Arrow column."""
    ends = np.cumsum([0, *(len(item or b"") for item in items)], dtype=np.int32)
    data = np.frombuffer(b"".join(item or b"" for item in items) or b"\0", np.uint8)
    told = [False] * first + [item is not None for item in items]
    valid = np.packbits(np.array(told), bitorder="little")
    return Strings(data, ends, None if all(told) else valid, first)


def rows(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None] | None = None,
    partition: Sequence[int] | None = None,
    topic: Sequence[int] | None = None,
) -> NewRows:
    given = None if partition is None else np.array(partition, np.int32)
    topics = None if topic is None else np.array(topic, np.int32)
    return NewRows(
        strings(keys), strings(values or [b"v"] * len(keys)), NOW, partition=given, topic=topics
    )


def everything(batches: OpenBatches, some: Iterable[NewRows]) -> list[tuple[int, int, bytes]]:
    taken = [(f.topic, f.partition, bytes(f.batch)) for new in some for f in batches.append(new)]
    return taken + [(full.topic, full.partition, bytes(full.batch)) for full in batches.rest()]


def partitions_of(new: NewRows, partitions: int, **options: int) -> list[int]:
    """Of rows whose values are their numbers."""
    batches = OpenBatches()
    batches.add_topic(partitions, 10_000, **options)
    found = {
        int(record.value or b""): partition
        for _topic, partition, batch in everything(batches, [new])
        for record in decode(batch).records()
    }
    return [found[number] for number in range(len(new))]


def numbered(count: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(count)]


# ── which partition ──


@pytest.mark.parametrize(
    ("key", "hashed"),
    [  # of Kafka's own tests
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
@pytest.mark.parametrize("partitions", [2, 3, 12, 1000])
def test_keys_go_where_java_would_send_them(key: bytes, hashed: int, partitions: int) -> None:
    expected = (hashed & 0x7FFFFFFF) % partitions
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert partitions_of(rows([key], numbered(1)), partitions) == [expected]


def test_keys_of_every_length_are_hashed() -> None:
    chance = random.Random(5)
    keys = [chance.randbytes(chance.randrange(40)) for _ in range(500)]
    expected = [partition_of(key, 12) for key in keys]
    assert partitions_of(rows(keys, numbered(500)), 12) == expected
    assert len(set(expected)) == 12


def test_rows_without_a_key_stay_together_and_then_go_on() -> None:
    """Each has 91 bytes, 8 in between and a byte for no headers: 100."""
    values: list[bytes | None] = [b"%091d" % number for number in range(8)]
    new = rows([None] * 8, values)
    assert partitions_of(new, 3, turn=2, per_turn=250) == [2, 2, 2, 0, 0, 1, 1, 1]
    mixed = partitions_of(rows([None, b"21", None], numbered(3)), 3, turn=1)
    assert mixed == [1, (-973932308 & 0x7FFFFFFF) % 3, 1]


def test_a_partition_that_is_named_goes_before_the_key() -> None:
    new = rows([b"21", b"21", None], numbered(3), partition=[2, -1, 0])
    assert partitions_of(new, 5) == [2, (-973932308 & 0x7FFFFFFF) % 5, 0]
    for wrong in (5, -2):
        with pytest.raises(NoPartition, match=f"asks for partition {wrong} of 5"):
            partitions_of(rows([b"k"], numbered(1), partition=[wrong]), 5)


# ── which batch ──


def test_rows_in_pieces_of_any_size_give_the_same_batches() -> None:
    chance = random.Random(1)
    keys = [
        None if chance.random() < 0.3 else chance.randbytes(chance.randrange(9)) for _ in range(900)
    ]
    values = [
        None if chance.random() < 0.1 else chance.randbytes(chance.randrange(99)) for _ in keys
    ]

    def run(step: int) -> list[tuple[int, int, bytes]]:
        batches = OpenBatches()
        batches.add_topic(4, 2_000)
        pieces = [rows(keys[at : at + step], values[at : at + step]) for at in range(0, 900, step)]
        return everything(batches, pieces)

    whole = run(900)
    assert run(1) == run(7) == whole
    assert all(len(batch) <= 2_000 for _topic, _partition, batch in whole)
    records = [record for _t, _p, batch in whole for record in decode(batch).records()]
    assert sorted((r.key or b"-", r.value or b"-") for r in records) == sorted(
        (key or b"-", value or b"-") for key, value in zip(keys, values, strict=True)
    )


def test_a_batch_is_as_kafka_wants_it() -> None:
    times = np.array([NOW + 5, NOW, NOW + 9], np.int64)
    new = NewRows(strings([b"a", None, b""]), strings([None, b"", b"v"]), NOW, timestamp=times)
    batches = OpenBatches()
    batches.add_topic(1, 1_000)
    ((_topic, _partition, batch),) = everything(batches, [new])
    header = BatchHeader.unpack(batch)
    assert (header.base_offset, header.records_count, header.last_offset_delta) == (0, 3, 2)
    assert (header.base_timestamp, header.max_timestamp) == (NOW + 5, NOW + 9)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert list(decode(batch).records()) == [
        Record(0, NOW + 5, b"a", None, ()),
        Record(1, NOW, None, b"", ()),
        Record(2, NOW + 9, b"", b"v", ()),
    ]


def test_a_row_larger_than_a_batch_has_one_of_its_own() -> None:
    values: list[bytes | None] = [b"a", b"x" * 5_000, b"b", b"c"]
    batches = OpenBatches()
    batches.add_topic(1, 400)
    found = [decode(batch) for _t, _p, batch in everything(batches, [rows([None] * 4, values)])]
    assert [[r.value for r in columns.records()] for columns in found] == [
        [b"a"], [b"x" * 5_000], [b"b", b"c"],
    ]  # fmt: skip


def test_topics_have_partitions_and_limits_of_their_own() -> None:
    batches = OpenBatches()
    one, other = batches.add_topic(1, 10_000), batches.add_topic(2, 200)
    new = rows([None] * 40, numbered(40), partition=[0, 1] * 20, topic=[one, other] * 20)
    found = everything(batches, [new])
    assert {(topic, partition) for topic, partition, _batch in found} == {(one, 0), (other, 1)}
    assert len([1 for topic, _partition, _batch in found if topic == one]) == 1
    sizes = [len(batch) for topic, _partition, batch in found if topic == other]
    assert len(sizes) > 1 and max(sizes) <= 200


def test_many_partitions_do_not_take_memory_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_batches, "HELD_BYTES", 1 << 20)
    batches = OpenBatches()
    batches.add_topic(1000, 512 << 10)
    keys: list[bytes | None] = [b"%d" % number for number in range(20_000)]
    values: list[bytes | None] = [b"v" * 100] * len(keys)
    first = list(batches.append(rows(keys[:1000], values[:1000])))
    assert first, "so many partitions at 16 KiB each are more than may be held"
    held = sum(len(memory) for memory in batches._memory if memory is not None)
    assert held <= 1 << 20 | 1 << 16
    del first


# ── headers ──


def with_headers(told: list[list[tuple[bytes, bytes | None]]]) -> NewRows:
    flat = [pair for pairs in told for pair in pairs]
    first = np.cumsum([0, *(len(pairs) for pairs in told)], dtype=np.int32)
    return NewRows(
        strings([None] * len(told)), strings(numbered(len(told))), NOW, header_first=first,
        header_key=strings([key for key, _value in flat]),
        header_value=strings([value for _key, value in flat]),
    )  # fmt: skip


def test_headers_are_written_with_their_rows() -> None:
    chance = random.Random(2)
    told: list[list[tuple[bytes, bytes | None]]] = [
        [
            (b"h%d" % number, None if chance.random() < 0.2 else chance.randbytes(number * 40))
            for number in range(chance.randrange(4))
        ]
        for _ in range(200)
    ]
    batches = OpenBatches()
    batches.add_topic(1, 1_000)
    found = everything(batches, [with_headers(told)])
    records = [record for _t, _p, batch in found for record in decode(batch).records()]
    assert [record.headers for record in records] == [
        tuple((key.decode(), value) for key, value in pairs) for pairs in told
    ]
    assert max(len(batch) for _t, _p, batch in found) <= 1_000


# ── what is not there is not read ──


def at_the_end_of_a_page(items: bytes) -> tuple[mmap.mmap, Array]:
    """Bytes after which there is nothing that may be read."""
    size = mmap.PAGESIZE
    pages = mmap.mmap(-1, 2 * size)
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    array = np.frombuffer(pages, np.uint8)
    end = array.ctypes.data + size
    assert libc.mprotect(ctypes.c_void_p(end), size, 0) == 0
    array[size - len(items) : size] = np.frombuffer(items, np.uint8)
    return pages, array[size - len(items) : size]


def test_no_byte_after_a_column_is_read() -> None:
    for size in range(1, 70):
        pages, data = at_the_end_of_a_page(bytes(range(size)))
        column = Strings(data, np.array([0, size // 2, size], np.int32))
        batches = OpenBatches()
        batches.add_topic(3, 10_000)
        found = everything(batches, [NewRows(column, column, NOW)])
        values = {r.value for _t, _p, batch in found for r in decode(batch).records()}
        assert values == {bytes(range(size // 2)), bytes(range(size // 2, size))}
        del data, column, pages


@pytest.mark.parametrize("ends", [[0, 4], [-1, 2], [3, 2]])
def test_offsets_that_lead_outside_are_refused(ends: list[int]) -> None:
    good = strings([b"abc"])
    bad = Strings(good.data, np.array(ends, np.int32))
    first = np.array([0, 1], np.int32)
    for new in (
        NewRows(bad, good, NOW),
        NewRows(good, bad, NOW),
        NewRows(good, good, NOW, header_first=first, header_key=bad, header_value=good),
        NewRows(good, good, NOW, header_first=first, header_key=good, header_value=bad),
    ):
        batches = OpenBatches()
        batches.add_topic(1, 1_000)
        with pytest.raises(ValueError, match="row 0"):
            list(batches.append(new))
    control = OpenBatches()
    control.add_topic(1, 1_000)
    assert [type(full) for full in control.append(NewRows(good, good, NOW))] == []
    assert [type(full) for full in control.rest()] == [Full]


def test_a_slice_of_a_column_has_its_nulls_where_they_are() -> None:
    for first in range(9):
        keys: list[bytes | None] = [None, b"a", None, b"b"]
        new = NewRows(strings(keys, first), strings(numbered(4)), NOW)
        batches = OpenBatches()
        batches.add_topic(1, 1_000)
        ((_t, _p, batch),) = everything(batches, [new])
        assert [record.key for record in decode(batch).records()] == keys
