"""`sexton.spark.validate`: of a topic, a DataFrame, a stream."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

import sexton.spark
from sexton.base.errors import ConfigError
from sexton.base.findings import Finding
from sexton.cli.main import main
from sexton.testing.embedded import EmbeddedCluster
from tests.validate.topics import Record, add, filled

COUNT = "cast(get_json_object(cast(value as string), '$.n') as bigint)"
IDENTITY = "get_json_object(cast(value as string), '$.id')"
GOOD: list[Record] = [(f"k{n % 7}", {"n": n, "id": n}) for n in range(200)]
BAD: list[Record] = [*GOOD, ("k3", {"n": 105, "id": 500}), ("k4", {"n": 400, "id": 60})]


def _partition(number: int) -> int:
    return {200: 3, 201: 4}.get(number, number % 7) % 2


@pytest.fixture(scope="module")
def good(three: EmbeddedCluster) -> str:
    return filled(three, GOOD, partitions=2, partition=_partition)


@pytest.fixture(scope="module")
def bad(three: EmbeddedCluster) -> str:
    """k3 falls from 199 to 105; the id 60 (of k4) comes again."""
    return filled(three, BAD, partitions=2, partition=_partition)


def test_a_topic_is_judged_in_tasks(
    spark: SparkSession, three: EmbeddedCluster, good: str, bad: str
) -> None:
    asked: dict[str, Any] = {"bootstrap_servers": three.bootstrap_servers, "show_keys": True}
    asked |= {"value": "json:n", "id": "json:id"}
    proof = sexton.spark.validate(spark, good, **asked)
    assert proof.kept and not proof.findings
    proof.check()
    broken = sexton.spark.validate(spark, bad, **asked)
    assert broken.counts == {"state-regression": 1, "inconsistent-duplicate": 1}
    (first, _second) = broken.findings
    assert "Key: k3, LastValue: 199, NewValue: 105" in first.message
    with pytest.raises(sexton.spark.PromiseBroken, match="LastValue: 199"):
        broken.check()


def test_what_was_lost_on_the_way_is_found_in_tasks(
    spark: SparkSession, three: EmbeddedCluster, good: str, bad: str
) -> None:
    """`bad` has one id that `good` lacks; the control: it has all of `good`."""
    asked: dict[str, Any] = {"bootstrap_servers": three.bootstrap_servers, "id": "json:id"}
    asked |= {"complete": True, "show_keys": True}
    proof = sexton.spark.validate(spark, good, source=bad, **asked)
    assert proof.counts == {"lost-record": 1}
    (finding,) = proof.findings
    assert finding.evidence["id"] == "500" and finding.evidence["source"] == bad
    young = sexton.spark.validate(spark, good, source=bad, settle_ms=3_600_000, **asked)
    assert (young.counts, young.unsettled) == ({}, 1)
    assert young.kept and "are not there yet, and were not called lost" in young.page.limits[-1]
    whole = sexton.spark.validate(spark, bad, source=good, **asked)
    assert "lost-record" not in whole.counts


def test_a_value_that_cannot_be_read_is_named_with_its_remedy(
    spark: SparkSession, three: EmbeddedCluster, good: str
) -> None:
    with pytest.raises(ConfigError, match=r"offset \d+: the value has no member x.*skip-unread"):
        sexton.spark.validate(
            spark, good, bootstrap_servers=three.bootstrap_servers, value="json:x"
        )


def test_a_dataframe_is_judged_by_sql(
    read: Callable[..., DataFrame], good: str, bad: str, tmp_path: Path
) -> None:
    """However Spark has cut the partitions: three ranges of one are one log again."""
    for topic, counts in ((good, {}), (bad, {"state-regression": 1, "inconsistent-duplicate": 1})):
        df = read(topic, minPartitions=5).repartition(3)
        proof = sexton.spark.validate(df, value=COUNT, id=IDENTITY, show_keys=True)
        assert proof.counts == counts
        assert sum(each.records for each in proof.validation.partitions) >= 200
    (first, _second) = proof.findings
    assert "Key: k3, LastValue: 199, NewValue: 105" in first.message
    assert first.evidence["new_offset"] == first.evidence["last_offset"] + 1
    # Nobody can tell from a DataFrame whether it was read with read_committed.
    assert "isolation" not in first.evidence and "read_committed" not in first.message
    proof.write_html(tmp_path / "page.html")
    assert "LastValue: 199" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_expression_may_be_a_fraction_or_a_time(
    read: Callable[..., DataFrame], good: str
) -> None:
    df = read(good)
    assert sexton.spark.validate(df, value=f"({COUNT}) / 4").kept
    assert not sexton.spark.validate(df, value=f"-({COUNT}) / 4").kept
    assert sexton.spark.validate(df, value="timestamp").kept
    assert sexton.spark.validate(df, value=df["offset"], rising=True).kept
    assert sexton.spark.validate(df, value="date_from_unix_date(cast(offset as int))").kept
    # As of a database: beyond 2^53 a fraction would not tell one number from the next.
    large = "cast(9007199254740993 - offset as decimal(38, 0))"
    assert not sexton.spark.validate(df, value=large).kept
    numbered = df.withColumn("key", df["partition"].cast("string").cast("binary"))
    assert sexton.spark.validate(numbered, sequence="cast(offset as decimal(20, 0))").kept


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({}, "is not told what must hold"),
        ({"value": "cast(value as string)"}, "is string"),
        ({"value": COUNT, "table": "x"}, "not with a DataFrame"),
        ({"value": COUNT, "isolation_level": "serializable"}, "read_committed or"),
        ({"compare_isolation": True}, "not with a DataFrame"),
        ({"value": COUNT, "since_ms": 5}, "not with a DataFrame"),
        ({"value": COUNT, "until_ms": 5}, "not with a DataFrame"),
        ({"value": COUNT, "checkpoint": "kept"}, "checkpoint: goes with a DataFrame that is a st"),
        ({"value": COUNT, "on_finding": print}, "on_finding: goes with a DataFrame that is a st"),
        ({"id": IDENTITY, "rising": True}, "needs value"),
        ({"sequence": f"({COUNT}) / 1"}, "sequence: is double, and a sequence counts in whole"),
    ],
)
def test_what_cannot_be_done_with_a_dataframe_is_said(
    read: Callable[..., DataFrame], good: str, asked: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        sexton.spark.validate(read(good), **asked)
    with pytest.raises(ConfigError, match="no such column"):
        sexton.spark.validate(read(good).drop("offset"), value=COUNT)


def test_a_null_is_an_error_or_left_out(read: Callable[..., DataFrame], good: str) -> None:
    nulls = f"nullif({COUNT}, 77)"
    with pytest.raises(Exception, match=r"offset \d+: value is null there"):
        sexton.spark.validate(read(good), value=nulls)
    proof = sexton.spark.validate(read(good), value=nulls, skip_unreadable=True)
    assert proof.kept and sum(each.unreadable for each in proof.validation.partitions) == 1


def test_a_topic_goes_on_from_its_checkpoint(
    spark: SparkSession, three: EmbeddedCluster, tmp_path: Path
) -> None:
    topic = filled(three, [("a", "110")])
    asked: dict[str, Any] = {"bootstrap_servers": three.bootstrap_servers, "value": "int"}
    asked |= {"checkpoint": tmp_path, "show_keys": True}
    assert sexton.spark.validate(spark, topic, **asked).kept
    producer = Producer({"bootstrap.servers": three.bootstrap_servers})
    add(producer, topic, [("a", "105")])
    assert producer.flush(60) == 0
    (finding,) = sexton.spark.validate(spark, topic, **asked).findings
    assert "LastValue: 110, NewValue: 105" in finding.message


SCHEMA = "topic string, partition int, offset bigint, key binary, value binary"


def written(directory: Path, records: list[Record], first: int) -> None:
    """Rows as Spark's Kafka source has them, in a file that a stream finds."""
    next_offsets = [0, 0]
    lines = []
    for number, (key, value) in enumerate(BAD):
        partition = _partition(number)
        row = {
            "topic": "t", "partition": partition, "offset": next_offsets[partition],
            "key": _base64(key or ""), "value": _base64(json.dumps(value)),
        }  # fmt: skip
        next_offsets[partition] += 1
        if first <= number < first + len(records):
            lines.append(json.dumps(row))
    (directory / f"{first:06}.json").write_text("\n".join(lines), encoding="utf-8")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_stream_is_judged_and_goes_on_after_its_end(spark: SparkSession, tmp_path: Path) -> None:
    """Also where Spark forgets that a batch was done and runs it again: nothing is found twice."""
    (tmp_path / "in").mkdir()
    told: list[Finding] = []

    def run() -> None:
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        query = sexton.spark.validate(
            stream.json(str(tmp_path / "in")), value=COUNT, id=IDENTITY, show_keys=True,
            checkpoint=tmp_path / "kept", trigger={"availableNow": True}, on_finding=told.extend,
        )  # fmt: skip
        assert query.awaitTermination(240), "it comes to its end"

    written(tmp_path / "in", BAD[:100], 0)
    run()
    assert not told and sexton.spark.stream_proof(tmp_path / "kept").kept
    shutil.rmtree(tmp_path / "kept" / "spark" / "commits")  # killed before it noted that, say
    written(tmp_path / "in", BAD[100:], 100)
    run()
    assert sorted(each.code for each in told) == ["inconsistent-duplicate", "state-regression"]
    proof = sexton.spark.stream_proof(tmp_path / "kept", show_keys=True)
    assert proof.counts == {"state-regression": 1, "inconsistent-duplicate": 1}
    assert sum(each.records for each in proof.validation.partitions) == len(BAD)
    assert "Key: k3, LastValue: 199, NewValue: 105" in proof.findings[0].message
    assert proof.validation.unread == ()  # a batch that is run again is nothing new
    shutil.copyfile(tmp_path / "in" / "000000.json", tmp_path / "in" / "made-again.json")
    run()
    proof = sexton.spark.stream_proof(tmp_path / "kept")
    (at, why), _other = proof.page.incomplete
    assert at == "t-0" and "came at offsets that an earlier batch has had" in why
    assert sum(each.passed_over for each in proof.validation.partitions) == 100
    assert sum(each.records for each in proof.validation.partitions) == len(BAD)


def test_an_empty_dataframe_proves_nothing(read: Callable[..., DataFrame], good: str) -> None:
    proof = sexton.spark.validate(read(good).where("offset < 0"), value=COUNT)
    assert not proof.kept and "Nothing was read" in str(proof)


def test_the_command_runs_on_spark(
    spark: SparkSession, three: EmbeddedCluster, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The session that is there is used, and left as it is."""
    where = ["-b", three.bootstrap_servers, "--engine", "spark", "--show-keys"]
    assert main(["validate", bad, *where, "--value", "json:n"]) == 1
    assert "Key: k3, LastValue: 199, NewValue: 105" in capsys.readouterr().out
    assert spark.range(3).count() == 3
