"""Records, the image they fold into, and their bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sexton.base.errors import CorruptLog
from sexton.base.partitions import TopicPartition
from sexton.machines.metadata import (
    BrokerRecord,
    ConfigRecord,
    CountersRecord,
    Image,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    Removed,
    TopicRecord,
    from_bytes,
    to_bytes,
)

T0 = TopicPartition("t", 0)
PARTITION = PartitionRecord("t", 0, (1, 2), (5, 6), (1, 2), 1)
RECORDS: list[Record] = [
    CountersRecord(7, 3, 1, 0),
    ProducerIdsRecord(1000),
    BrokerRecord(1, "a", 0, False, False, ("host1", "9092"), "rack"),
    BrokerRecord(2, "b", 2),
    TopicRecord("t", "id", True),
    PARTITION,
    ConfigRecord("topic", "t", (("cleanup.policy", "compact"), ("retention.ms", "-1"))),
    ConfigRecord("broker", "", (("unclean.leader.election.enable", "true"),)),
]


def test_a_snapshot_is_the_image_again() -> None:
    image = Image.of(RECORDS)
    image.check()
    assert list(image.records()) == [
        *RECORDS[:6],
        RECORDS[7],
        RECORDS[6],
    ]
    assert Image.of(image.records()) == image


def test_records_of_different_keys_may_come_in_any_order() -> None:
    assert Image.of(RECORDS[::-1]) == Image.of(RECORDS)


@pytest.mark.parametrize("record", [*RECORDS, Removed(("partition", "t", 0))])
def test_a_record_is_what_its_bytes_say(record: Record) -> None:
    key, value = to_bytes(record)
    assert from_bytes(key, value) == record
    assert (value is None) == isinstance(record, Removed)


def test_the_bytes_can_be_read_by_people() -> None:
    key, value = to_bytes(TopicRecord("t", "id"))
    assert key == b'["topic","t"]'
    assert value == b'{"name":"t","topic_id":"id","internal":false}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b"{}"),
        (b'["what"]', b"{}"),
        (b"[]", b"{}"),
        (b'["topic","t"]', b"{"),
        (b'["topic","t"]', b"[]"),
        (b'["topic","t"]', b'{"name":"t"}'),
        (b'["topic","t"]', b'{"name":"t","topic_id":"id","colour":"red"}'),
        (b"\xff", None),
        (b"7", None),
    ],
)
def test_bytes_that_no_controller_wrote_are_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(CorruptLog, match="metadata log"):
        from_bytes(key, value)


def test_nothing_else_can_be_removed() -> None:
    with pytest.raises(CorruptLog, match="counters"):
        Image().apply(Removed(("counters",)))


def test_what_is_removed_is_gone_and_may_be_removed_again() -> None:
    image = Image.of(RECORDS)
    for _ in range(2):
        for record in RECORDS[2:]:
            image.apply(Removed(record.key))
    assert image == Image.of(RECORDS[:2])
    assert image.topic_by_id("id") is None
    assert image.hosted_by(1) == []


def test_a_change_is_reported_once_and_offsets_are_no_change() -> None:
    image = Image()
    assert image.apply(PARTITION) == (T0,)
    assert image.apply(PARTITION) == ()
    heard = replace(PARTITION, high_watermark=5, mtro=3, mxro=2)
    assert image.apply(heard) == ()
    assert image.partition("t", 0) == heard
    assert image.apply(replace(heard, isr=(1,), partition_epoch=1)) == (T0,)
    assert image.apply(Removed(PARTITION.key)) == (T0,)
    assert image.apply(Removed(PARTITION.key)) == ()
    assert image.apply(TopicRecord("t", "id")) == ()


def test_a_snapshot_tells_the_same_changes() -> None:
    u0 = replace(PARTITION, topic="u", assignments=(7, 8))
    v0 = replace(PARTITION, topic="v", assignments=(9, 10))
    before = Image.of([PARTITION, u0, v0])
    after = Image.of(
        [
            replace(PARTITION, high_watermark=9),
            replace(u0, partition=1),
            replace(v0, isr=(1,), partition_epoch=1),
        ]
    )
    assert after.changed_since(before) == [("u", 0), ("u", 1), ("v", 0)]
    assert before.changed_since(before) == []


def test_who_hosts_what_follows_the_replicas() -> None:
    image = Image.of([PARTITION, replace(PARTITION, partition=1, assignments=(7, 8))])
    image.apply(replace(PARTITION, replicas=(1, 3), assignments=(5, 9), isr=(1,)))
    assert image.hosted_by(1) == [("t", 0), ("t", 1)]
    assert image.hosted_by(2) == [("t", 1)]
    assert image.hosted_by(3) == [("t", 0)]
    assert sorted(image.partitions_of("t")) == [0, 1]


def test_a_topic_is_found_by_its_latest_id() -> None:
    image = Image.of([TopicRecord("t", "old"), Removed(("topic", "t")), TopicRecord("t", "new")])
    assert image.topic_by_id("old") is None
    assert image.topic_by_id("new") == TopicRecord("t", "new")
    image.apply(TopicRecord("t", "newer"))
    assert image.topic_by_id("new") is None
