"""The parts of a store by themselves: serdes, disks, the overlay, partitions, progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.base.errors import ConfigError, CorruptLog
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.topology import Topic, Topology
from sexton.client.transacting import IMPLIED, Transaction
from sexton.machines.stores_events import Checkpoint, Lineage
from sexton.stores import Output, repeats
from sexton.stores.batches import BatchMaker, Outputs
from sexton.stores.disks import Disk, MemoryDisk, RocksDisk
from sexton.stores.layout import decode_checkpoint, encode_checkpoint
from sexton.stores.numbers import Progress
from sexton.stores.partitioner import Partitioner
from sexton.stores.producing import NotWritten, TaskProducer
from sexton.stores.repeats import Repeats
from sexton.stores.serdes import SERDES, serde_of
from sexton.stores.task import AppConfig, Task
from sexton.stores.view import Store, after_prefix
from sexton.stores.watching import Watch

KEYS = "abcd"


@pytest.fixture(params=["memory", "rocksdb"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    made: Disk = MemoryDisk() if request.param == "memory" else RocksDisk(tmp_path / "t-0")
    yield made
    made.close()


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=2))
def test_integers_sort_as_their_bytes_do(values: list[int]) -> None:
    serde = SERDES["int"]
    encoded = sorted(serde.encode(value) for value in values)
    assert [serde.decode(each) for each in encoded] == sorted(values)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bytes", b"\x00\xff"),
        ("str", "grüße"),
        ("int", -5),
        ("int64", -5),
        ("json", {"a": [1, None, "x"]}),
    ],
)
def test_what_goes_in_comes_out(name: str, value: Any) -> None:
    serde = serde_of(name)
    assert serde.decode(serde.encode(value)) == value


def test_int64_is_what_kafkas_long_serializer_writes() -> None:
    assert SERDES["int64"].encode(-2) == b"\xff" * 7 + b"\xfe"
    assert SERDES["int64"].encode(258) == b"\x00" * 6 + b"\x01\x02"


def test_unknown_serdes_are_refused() -> None:
    with pytest.raises(ConfigError, match="there is no 'avro'"):
        Task("t", "in", lambda *_: None, input_serdes=("str", "avro"))
    with pytest.raises(CorruptLog):
        SERDES["int"].decode(b"123")


def test_what_is_not_bytes_is_not_made_into_zeros() -> None:
    """bytes(12) would be twelve of them."""
    encode = SERDES["bytes"].encode
    assert [encode(each) for each in (b"a", bytearray(b"a"), memoryview(b"a"))] == [b"a"] * 3
    for value in (12, True, "a", [1, 2]):
        with pytest.raises(TypeError, match=f"this is {type(value).__name__}.*output_serdes="):
            encode(value)


def store_on(disk: Disk) -> Store:
    return Store(disk, SERDES["str"], SERDES["int"], "in", 0)


def test_an_overlay_is_seen_and_not_written(disk: Disk) -> None:
    disk.write({b"\x01a": SERDES["int"].encode(1), b"\x01b": SERDES["int"].encode(2)})
    store = store_on(disk)
    store.put("a", 10)
    store.delete("b")
    store.put("c", 3)
    assert (store.get("a"), store.get("b"), store.get("c"), store.get("d", 0)) == (10, None, 3, 0)
    assert "b" not in store
    assert list(store.scan()) == [("a", 10), ("c", 3)]
    assert list(store.scan(backwards=True)) == [("c", 3), ("a", 10)]
    assert list(store.scan("b", "c")) == []
    assert list(store.prefix("c")) == [("c", 3)]
    assert disk.get(b"\x01a") == SERDES["int"].encode(1)
    assert list(store_on(disk).scan()) == [("a", 1), ("b", 2)]  # who drops it makes another
    with pytest.raises(ValueError, match="no null"):
        store.put("a", None)


@given(
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=8),
    st.dictionaries(st.text(max_size=3), st.none() | st.integers(0, 9), max_size=8),
    st.text(max_size=3),
    st.text(max_size=3),
)
def test_scans_are_those_of_a_sorted_dictionary(
    below: dict[str, int], above: dict[str, int | None], start: str, end: str
) -> None:
    disk = MemoryDisk()
    disk.write({b"\x01" + k.encode(): SERDES["int"].encode(v) for k, v in below.items()})
    store = store_on(disk)
    for key, value in above.items():
        if value is None:
            store.delete(key)
        else:
            store.put(key, value)
    model = {k: v for k, v in {**below, **above}.items() if v is not None}
    ordered = sorted(model.items(), key=lambda pair: pair[0].encode())
    assert list(store.scan()) == ordered
    first, last = start.encode(), end.encode()
    assert list(store.scan(start, end)) == [
        pair for pair in ordered if first <= pair[0].encode() < last
    ]
    assert list(store.prefix(start)) == [p for p in ordered if p[0].encode().startswith(first)]


@pytest.mark.parametrize("committed", ["".join(c) for n in range(5) for c in combinations(KEYS, n)])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_scan_sees_what_is_changed_on_its_way(committed: str, backwards: bool) -> None:
    """Whichever of the keys were committed before: `process` cannot know that, nor should it."""
    disk = MemoryDisk()
    disk.write({b"\x01" + key.encode(): SERDES["int"].encode(1) for key in committed})
    store = store_on(disk)
    for key in sorted(set(KEYS) - set(committed)):
        store.put(key, 1)
    first, second, third, last = sorted(KEYS, reverse=backwards)
    found = []
    for key, value in store.scan(backwards=backwards):
        found.append((key, value))
        if key == first:
            store.put(second, 2)
            store.delete(third)
    assert found == [(first, 1), (second, 2), (last, 1)]


def test_a_picture_stays_as_it_was(disk: Disk) -> None:
    disk.write({b"\x01a": b"1", b"\x01b": b"2"})
    picture = disk.look()
    disk.write({b"\x01a": b"9", b"\x01b": None, b"\x01c": b"3"})
    assert list(picture.scan(b"\x01", b"\x02")) == [(b"\x01a", b"1"), (b"\x01b", b"2")]
    assert (picture.get(b"\x01b"), picture.get(b"\x01c")) == (b"2", None)
    disk.wipe()
    assert list(disk.scan(b"", b"\x02")) == []


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    disk = RocksDisk(tmp_path / "t-0")
    with pytest.raises(ConfigError, match="in use"):
        RocksDisk(tmp_path / "t-0")
    RocksDisk(tmp_path / "t-0", read_only=True).close()  # to look is allowed
    disk.close()


def test_checkpoints_are_read_as_they_were_written() -> None:
    checkpoint = Checkpoint(Lineage("c", bytes(range(16))), 7, 3, 99)
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint
    for damaged in (b"", b"[]", b"{}", b'{"format":2}', b"\xff"):
        with pytest.raises(CorruptLog):
            decode_checkpoint(damaged)


@pytest.mark.parametrize(
    ("key", "hashed"),
    # From Kafka's own UtilsTest.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_go_where_javas_client_sends_them(key: bytes, hashed: int) -> None:
    assert Partitioner(7).of(key) == (hashed & 0x7FFFFFFF) % 7


@pytest.mark.parametrize("made", ["ab", ("a", "b", "elsewhere"), 7, {"a": "b"}])
def test_what_is_no_output_is_not_taken_for_one(made: Any) -> None:
    """Who returns ("ab", "cd") and not [("ab", "cd")] would write a and b, c and d."""
    text = serde_of("str")
    outputs = Outputs("sums", text, text, {"sums": Partitioner(1)})
    with pytest.raises(TypeError, match=r"a list of \(key, value\)"):
        outputs.add(made, 0)
    outputs.add(("a", "b"), 0)
    outputs.add(Output("a", "b", "sums", 0), 0)
    [found] = outputs.by_partition.values()
    assert found.keys == [b"a", b"a"]


def test_records_without_a_key_take_turns() -> None:
    partitioner = Partitioner(3)
    assert sorted(partitioner.of(None) for _ in range(3)) == [0, 1, 2]


def test_a_transaction_whose_partition_is_cut_under_it_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last records would be there, and the first not; a topic made again has no sequences."""
    at, told = TopicPartition("t", 0), iter([7, 8])
    batches = [BatchMaker("none").batches([b"k"], [b"v"], [0])[0] for _ in range(3)]
    producer = TaskProducer(cast("Client", None), "x", "g", 60_000)
    producer._transaction = Transaction("x", 7, 0, IMPLIED)

    async def taken(_: TaskProducer, now: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: next(told) for each in now}

    monkeypatch.setattr(TaskProducer, "_until_taken", taken)
    assert asyncio.run(producer.send({at: batches[:2]})) == {at: range(7, 9)}
    told = iter([9, 0])
    with pytest.raises(NotWritten, match="t-0: was cut below 10"):
        asyncio.run(producer.send({at: batches[1:]}))


def test_after_a_prefix() -> None:
    assert after_prefix(b"\x01a\xff\xff") == b"\x01b"
    assert after_prefix(b"\x01") == b"\x02"


def test_progress_knows_what_is_left() -> None:
    progress = Progress(100, 300)
    assert (progress.done, progress.seconds_left) == (0.0, None)
    progress.add(50_000_000, 10, 200)
    assert progress.done == 0.5
    left = progress.seconds_left
    assert left is not None
    assert left == pytest.approx(progress.seconds, rel=0.5, abs=0.1)
    assert str(progress).startswith("50%, 50.0 MB at ")


def test_names_and_numbers_are_checked() -> None:
    with pytest.raises(ConfigError, match="no name"):
        AppConfig("word counts", "localhost:9092")
    with pytest.raises(ConfigError, match="cannot be kept"):
        AppConfig("counts", "localhost:9092", standbys=-1)
    with pytest.raises(ConfigError, match="not less"):
        AppConfig("counts", "localhost:9092", commit_interval_ms=60_000)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"store": "memmory"}, "store: is 'memmory', and not one of rocksdb, memory"),
        ({"store": None}, "store: is None, and not one of rocksdb, memory"),
        ({"compression": "lz5"}, "compression: is 'lz5', and not one of none, lz4"),
        ({"commit_interval_ms": -5}, "commit_interval_ms: is -5, and not at least 0"),
        ({"fetch_bytes": 0}, "fetch_bytes: is 0, and not at least 1"),
    ],
)
def test_a_choice_that_is_none_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        AppConfig("counts", "localhost:9092", **options)


def test_the_same_trouble_is_said_every_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    trouble = Repeats()
    assert [trouble.is_news(why) for why in ("a", "a", "b", "b", "a")] == [1, 0, 1, 0, 1]
    now_s += repeats.AGAIN_S
    assert trouble.is_news("a")


class Answers:
    """A client whose brokers say these ids of every topic, one after the other."""

    def __init__(self, *ids: bytes) -> None:
        self._ids = iter(ids)

    async def topology(self, topics: Iterable[str]) -> Topology:
        topic_id = next(self._ids)
        return Topology("c", 1, {}, {name: Topic(name, topic_id, False, {}) for name in topics})


def looks(begins: bytes, *later: bytes) -> None:
    async def look() -> None:
        watch = Watch(cast("Client", Answers(*later)), {})
        watch.input(Topic("in", begins, False, {}))
        for _ in later:
            await watch.look()

    asyncio.run(look())


NO_ID, SOME_ID, OTHER_ID = bytes(16), b"1" * 16, b"2" * 16


def test_a_broker_that_has_no_topic_ids_says_nothing_about_them() -> None:
    """Brokers before 2.8 have none; while a cluster is upgraded, some say them and some do not."""
    looks(NO_ID, SOME_ID, NO_ID, SOME_ID)
    looks(SOME_ID, NO_ID, SOME_ID)


@pytest.mark.parametrize("said", [(SOME_ID, OTHER_ID), (NO_ID, SOME_ID, NO_ID, OTHER_ID)])
def test_two_ids_are_two_topics(said: tuple[bytes, ...]) -> None:
    with pytest.raises(ConfigError, match="in: was deleted and made again"):
        looks(*said)
