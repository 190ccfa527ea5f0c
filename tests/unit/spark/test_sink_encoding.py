"""Are rows in the batches of their partitions, in order, none too large, and read back the same?"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.client.retrying import PATIENT
from sexton.records.columns import Record
from sexton.records.decoder import decode
from sexton.records.layout import BatchHeader, Codec
from sexton.spark.sink_encoding import Encoding, encoded
from sexton.spark.sink_protocol import Blob
from sexton.spark.sink_topics import TopicLimits

NOW = 1_700_000_000_000


def encoding(**changed: Any) -> Encoding:
    told: dict[str, Any] = {
        "kafka": {}, "topic": "t", "topics": {"t": TopicLimits(3, 1000), "u": TopicLimits(1, 500)},
        "codec": Codec.NONE, "batch_bytes": 400, "now_ms": NOW, "batch": 0, "patience": PATIENT,
    }  # fmt: skip
    return Encoding(**{**told, **changed})


def arrow(**columns: Any) -> Any:
    kinds = {"key": pa.binary(), "value": pa.binary(), "partition": pa.int32()}
    arrays = [pa.array(items, kinds.get(name)) for name, items in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def by_partition(blobs: Iterable[Blob]) -> dict[TopicPartition, list[Record]]:
    found: dict[TopicPartition, list[Record]] = {}
    for at, blob in blobs:
        assert BatchHeader.unpack(blob).base_offset == 0
        found.setdefault(at, []).extend(decode(blob).records())
    return found


@pytest.mark.parametrize("codec", list(Codec))
def test_every_row_is_in_its_partition_in_order(codec: Codec) -> None:
    values = [str(number).encode() for number in range(300)]
    keys = [b"k%d" % (number % 11) for number in range(300)]
    chunks = [arrow(key=keys[at : at + 60], value=values[at : at + 60]) for at in range(0, 300, 60)]
    blobs = list(encoded(encoding(codec=codec), 0, chunks))
    found = by_partition(blobs)
    assert len(found) == 3 < len(blobs)
    assert all(BatchHeader.unpack(blob).codec == codec for _at, blob in blobs)
    for records in found.values():
        numbers = [int(record.value or b"") for record in records]
        assert numbers == sorted(numbers)
    assert sorted(int(r.value or b"") for some in found.values() for r in some) == [*range(300)]
    homes = {(r.key, at) for at, records in found.items() for r in records}
    assert len(homes) == 11  # a key has one


def test_the_same_rows_give_the_same_bytes() -> None:
    chunk = arrow(key=[None, b"a", None], value=[b"1", None, b"3"])
    assert list(encoded(encoding(), 5, [chunk])) == list(encoded(encoding(), 5, [chunk]))


def test_no_batch_is_larger_than_its_topic_takes() -> None:
    noise = random.Random(3).randbytes
    values = [noise(90) for _ in range(60)]
    for codec in Codec:
        tight = encoding(codec=codec, batch_bytes=1 << 20)
        blobs = list(encoded(tight, 0, [arrow(key=values, value=values)]))
        assert max(len(blob) for _at, blob in blobs) <= 1000
        assert sum(len(some) for some in by_partition(blobs).values()) == 60


def test_a_row_that_no_batch_can_hold_is_refused() -> None:
    large = arrow(key=[b"k"], value=[b"x" * 2000])
    with pytest.raises(ConfigError, match=r"takes 20\d\d bytes, and max.message.bytes .* 1000"):
        list(encoded(encoding(), 0, [large]))
    assert len(list(encoded(encoding(codec=Codec.LZ4), 0, [large]))) == 1  # it compresses well


def test_columns_decide_where_a_row_goes() -> None:
    chunk = arrow(
        key=[b"21"] * 4, value=[b"a", b"b", b"c", b"d"], partition=[None, 2, 0, None],
        topic=["t", "t", "u", "u"],
    )  # fmt: skip
    found = by_partition(encoded(encoding(topic=None), 0, [chunk]))
    of_21 = TopicPartition("t", (-973932308 & 0x7FFFFFFF) % 3)
    assert {at: [r.value for r in records] for at, records in found.items()} == {
        TopicPartition("u", 0): [b"c", b"d"],
        **(
            {TopicPartition("t", 2): [b"a", b"b"]}
            if of_21.partition == 2
            else {of_21: [b"a"], TopicPartition("t", 2): [b"b"]}
        ),
    }


def test_headers_timestamps_and_nulls_are_kept() -> None:
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    told = [[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], [], None]
    chunk = pa.RecordBatch.from_arrays(
        [
            pa.array([None, b"", b"k"], pa.binary()),
            pa.array([b"", None, b"v"], pa.binary()),
            pa.array(told, pa.list_(pair)),
            pa.array([1_500, None, 2_000_000], pa.timestamp("us", "UTC")),
            pa.array([0, 0, 0], pa.int32()),
        ],
        names=["key", "value", "headers", "timestamp", "partition"],
    )
    (records,) = by_partition(encoded(encoding(), 0, [chunk.slice(0, 2), chunk.slice(2)])).values()
    assert [tuple(r)[1:] for r in records] == [
        (1, None, b"", (("h", b"1"), ("n", None))),
        (NOW, b"", None, ()),
        (2000, b"k", b"v", ()),
    ]


def test_a_record_without_a_timestamp_is_copied_without_one() -> None:
    """Kafka says so with -1, and a source shows that as a moment before 1970."""
    none = pa.array([-1_000], pa.timestamp("us", "UTC"))
    (records,) = by_partition(
        encoded(encoding(), 0, [arrow(value=[b"v"], timestamp=none)])
    ).values()
    assert [r.timestamp for r in records] == [-1]


@pytest.mark.parametrize(
    ("column", "items", "why"),
    [
        ("partition", [3], "a row asks for 3; the topic t has 3"),
        ("partition", [-2], "a row asks for -2"),
        ("partition", [-1], "a row asks for -1"),
        ("timestamp", pa.array([-1_000_000], pa.timestamp("us")), "before 1970"),
        ("headers", [[{"key": None, "value": b""}]], "a header has no key"),
        ("topic", pa.array([None], pa.string()), "a row has none"),
    ],
)
def test_rows_that_cannot_be_records_are_refused(column: str, items: Any, why: str) -> None:
    chunk = arrow(value=[b"v"], **{column: items})
    with pytest.raises(ConfigError, match=why) as caught:
        list(encoded(encoding(topic=None if column == "topic" else "t"), 0, [chunk]))
    assert caught.value.hint


def test_a_column_that_is_not_there_is_null() -> None:
    found = by_partition(encoded(encoding(batch=1), 1, [arrow(value=[b"a", b"b"])]))
    assert list(found) == [TopicPartition("t", 2)]  # (source 1 + batch 1) of three
    assert [r.key for r in found[TopicPartition("t", 2)]] == [None, None]
