"""Does a DataFrame hold what the log holds: all of it, once, and nothing else?"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as AdminPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from sexton.spark.columns import arrow_schema
from sexton.testing.embedded import EmbeddedCluster
from tests.spark.conftest import Read

# Of Spark 4.3, KafkaRecordToRowConverter.
SPARKS_OWN = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
    "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
)


@pytest.fixture(scope="module")
def transactions(three: EmbeddedCluster) -> str:
    """a (plain), b COMMIT, c ABORT, then d without an end and e (plain)."""
    topic = "transactions"
    three.create_topic(topic, [[1, 2, 3]])
    servers = {"bootstrap.servers": three.bootstrap_servers, "log_level": 0}
    plain = Producer(servers)
    writer = Producer({**servers, "transactional.id": topic, "transaction.timeout.ms": 600_000})
    writer.init_transactions(30)

    def put(producer: Producer, value: bytes) -> None:
        producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0

    put(plain, b"a")
    for value, commit in ((b"b", True), (b"c", False)):
        writer.begin_transaction()
        put(writer, value)
        if commit:
            writer.commit_transaction(30)
        else:
            writer.abort_transaction(30)
    writer.begin_transaction()
    put(writer, b"d")
    put(plain, b"e")
    _OPEN.append(writer)  # a producer that is dropped aborts
    three.wait_until(lambda: all(o.high_watermark == 7 for o in three.offsets(topic).values()))
    return topic


_OPEN: list[Producer] = []


@pytest.fixture(scope="module")
def numbers(three: EmbeddedCluster) -> str:
    """1,000 records in each of three partitions; the values are the offsets."""
    three.create_topic("numbers", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    producer = Producer({"bootstrap.servers": three.bootstrap_servers, "batch.size": 2_000})
    for partition in range(3):
        for number in range(1_000):
            producer.produce("numbers", str(number), "k", partition, timestamp=10_000 + number)
    assert producer.flush(30) == 0
    return "numbers"


def test_records_come_as_they_were_written(three: EmbeddedCluster, read: Read) -> None:
    three.create_topic("written", 1)
    producer = Producer({"bootstrap.servers": three.bootstrap_servers, "compression.type": "lz4"})
    headers: list[tuple[str, str | bytes | None]] = [("h", b"\x00\xff"), ("h", None), ("é", b"")]
    producer.produce("written", b"\x00v", b"\xffk", timestamp=1_700_000_000_123, headers=headers)
    producer.produce("written", None, b"", timestamp=1)
    assert producer.flush(30) == 0
    found = read("written", includeHeaders="true")
    assert found.schema.simpleString() == SPARKS_OWN
    names = tuple(found.columns)
    assert arrow_schema(names).equals(to_arrow_schema(found.schema, timezone="UTC"))
    first, second = found.orderBy("offset").collect()
    assert (first.key, first.value, first.topic) == (b"\xffk", b"\x00v", "written")
    assert (first.partition, first.offset, first.timestampType) == (0, 0, 0)
    at = first.timestamp.astimezone(UTC)  # Spark's rows hold local time
    assert at == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert first.headers == [Row(key=k, value=v) for k, v in headers]
    assert (second.key, second.value, second.headers) == (b"", None, None)


def test_isolation_and_outcomes(transactions: str, read: Read) -> None:
    everything = read(transactions, includeTransactions="true").orderBy("offset").collect()
    told = [(row.offset, row.transactional, row.control, row.outcome) for row in everything]
    assert told == [
        (0, False, None, None),
        (1, True, None, "committed"),
        (2, True, "COMMIT", None),
        (3, True, None, "aborted"),
        (4, True, "ABORT", None),
        (5, True, None, "open"),
        (6, False, None, None),
    ]
    assert len({row.producer_id for row in everything if row.transactional}) == 1
    assert [row.value for row in read(transactions).orderBy("offset").collect()] == [
        b"a", b"b", b"c", b"d", b"e"
    ]  # fmt: skip
    settled = read(transactions, kafka__isolation__level="read_committed", columns="value")
    assert [row.value for row in settled.collect()] == [b"a", b"b"]


def test_each_replica_is_read(transactions: str, read: Read) -> None:
    found = read(transactions, replica="each", columns="replica,offset,value")
    rows = {(row.replica, row.offset, bytes(row.value)) for row in found.collect()}
    values = {0: b"a", 1: b"b", 3: b"c", 5: b"d", 6: b"e"}
    assert rows == {(node, o, v) for node in (1, 2, 3) for o, v in values.items()}
    with pytest.raises(AnalysisException, match="broker 9 has no replica"):
        read(transactions, replica="9").collect()


def test_files_are_read_without_a_broker(
    transactions: str, three: EmbeddedCluster, spark: SparkSession
) -> None:
    reader = spark.read.format("sexton").option("subscribe", transactions)
    reader = reader.option("columns", "topic,partition,offset,value,outcome,path")
    directory = str(three.data_directory(2))
    rows = reader.option("kafka.isolation.level", "read_committed").load(directory).collect()
    there = str(Path(directory) / f"{transactions}-0")
    # `e` comes after an open transaction: a consumer would wait, a file ends.
    assert [(r.offset, bytes(r.value), r.outcome, r.path) for r in rows] == [
        (0, b"a", None, there), (1, b"b", "committed", there), (6, b"e", None, there)
    ]  # fmt: skip


def test_damaged_files_are_an_error(
    numbers: str, three: EmbeddedCluster, spark: SparkSession, tmp_path: Path
) -> None:
    (source,) = (three.data_directory(1) / f"{numbers}-0").glob("*.log")
    content = bytearray(source.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "copy-0").mkdir()
    (tmp_path / "copy-0" / source.name).write_bytes(content)
    reader = spark.read.format("sexton").option("columns", "offset")
    with pytest.raises(PythonException, match="the checksum does not match"):
        reader.load(str(tmp_path)).collect()
    rest = reader.option("failOnDataLoss", "false").load(str(tmp_path)).count()
    assert 500 < rest < 1_000


def test_ranges_are_exact_and_can_be_split(numbers: str, read: Read) -> None:
    start, end = {"0": 10, "1": -2, "2": 999}, {"0": 15, "1": 3, "2": -1}
    found = read(
        numbers, startingOffsets=json.dumps({numbers: start}), minPartitions="7",
        endingOffsets=json.dumps({numbers: end}), columns="partition,offset,value",
    )  # fmt: skip
    assert found.rdd.getNumPartitions() >= 7
    rows = sorted((row.partition, row.offset) for row in found.collect())
    assert rows == [*((0, n) for n in range(10, 15)), (1, 0), (1, 1), (1, 2), (2, 999)]
    by_time = read(numbers, startingTimestamp="10990", endingTimestamp="10993", columns="offset")
    assert sorted(row.offset for row in by_time.collect()) == [990, 990, 990, 991] + [991] * 2 + [
        992, 992, 992
    ]  # fmt: skip


def test_offsets_that_are_gone_are_an_error(three: EmbeddedCluster, read: Read) -> None:
    three.create_topic("gone", 1)
    producer = Producer({"bootstrap.servers": three.bootstrap_servers})
    for number in range(10):
        producer.produce("gone", str(number))
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
    for done in admin.delete_records([AdminPartition("gone", 0, 4)]).values():
        done.result(20)
    wanted = {"startingOffsets": '{"gone": {"0": 2}}', "endingOffsets": '{"gone": {"0": 12}}'}
    with pytest.raises(PySparkException, match=r"gone-0: offsets \[2, 4\) are gone"):
        read("gone", startingOffsets=wanted["startingOffsets"]).collect()
    with pytest.raises(PySparkException, match="up to offset 12, but its high watermark is 10"):
        read("gone", endingOffsets=wanted["endingOffsets"]).collect()
    left = read("gone", failOnDataLoss="false", columns="offset", **wanted).collect()
    assert [row.offset for row in left] == list(range(4, 10))


def test_mistakes_are_named(read: Read) -> None:
    with pytest.raises(AnalysisException, match=r"did you mean startingOffsets\?"):
        read("written", startingOffset="earliest")
    with pytest.raises(PySparkException, match=r"there is no topic writen \(did you mean written"):
        read("writen").collect()
