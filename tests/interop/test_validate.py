"""The validator on Apache Kafka 4.3.1: the same findings as on ours, from the same writes."""

from __future__ import annotations

import json

import pytest

from sexton.cli.main import main
from sexton.testing.apache_kafka import ApacheKafka
from tests.validate.topics import Record, add, filled, found, transactional

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


def validate(
    kafka: ApacheKafka, capsys: pytest.CaptureFixture[str], topic: str, *arguments: str
) -> tuple[int, str]:
    where = ("-b", kafka.bootstrap_servers, "--engine", "local", "--format", "json")
    code = main(["validate", topic, *where, "--show-keys", *arguments])
    return code, capsys.readouterr().out


def test_110_to_105_under_a_fresh_epoch(
    kafka4: ApacheKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = filled(kafka4, [], partitions=18)
    for counts, commits in (((108, 109, 110), True), ((1, 2), False), ((105, 106), True)):
        producer = transactional(kafka4, f"{topic}-counter")
        producer.begin_transaction()
        records: list[Record] = [("key_17", str(count)) for count in counts]
        add(producer, topic, records, partition=lambda _number: 17)
        producer.flush(60)
        (producer.commit_transaction if commits else producer.abort_transaction)(60)
    code, said = validate(kafka4, capsys, topic, "--value", "int")
    assert code == 1
    (finding,) = found(said)
    words = "Partition: 17, Key: key_17, LastValue: 110, NewValue: 105"
    assert words in finding["message"]
    evidence = finding["evidence"]
    assert evidence["last_producer_epoch"] < evidence["new_producer_epoch"]
    (partition,) = [each for each in json.loads(said)["partitions"] if each["records"]]
    assert partition["aborted_records"] == 2
    uncommitted = ("--value", "int", "--isolation-level", "read_uncommitted")
    _code, said = validate(kafka4, capsys, topic, *uncommitted)
    assert [each["evidence"]["new_value"] for each in found(said)] == ["1"]
    code, said = validate(kafka4, capsys, topic, "--compare-isolation")
    assert code == 0  # the last record of the key is a committed one


def test_duplicates_order_and_isolation(
    kafka4: ApacheKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    records: list[Record] = [(f"k{n % 4}", {"id": n, "n": n // 4}) for n in range(400)]
    source = filled(kafka4, records, partitions=4, partition=lambda n: n % 4)
    good = filled(kafka4, records, partitions=2, partition=lambda n: n % 4 % 2)
    asked = ("--id", "json:id", "--sequence", "json:n", "--source", source)
    assert validate(kafka4, capsys, good, *asked)[0] == 0
    bad = [*records[:40], records[44], *records[40:44], *records[45:], records[7]]
    topic = filled(kafka4, bad, partitions=2, partition=lambda n: _of(bad[n]) % 2)
    code, said = validate(kafka4, capsys, topic, *asked)
    assert code == 1
    codes = sorted(each["code"] for each in found(said))
    assert codes == [
        "duplicate-record", "key-sequence-gap", "key-sequence-gap", "order-violation",
        "state-regression", "state-regression",
    ]  # fmt: skip


def _of(record: Record) -> int:
    return int((record[0] or "k0")[1:])


def test_a_checkpoint_goes_on(
    kafka4: ApacheKafka, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    topic = filled(kafka4, [("a", "110")])
    kept = ("--value", "int", "--checkpoint", f"{tmp_path}/kept")
    assert validate(kafka4, capsys, topic, *kept)[0] == 0
    producer = transactional(kafka4, f"{topic}-later")
    producer.begin_transaction()
    add(producer, topic, [("a", "105")])
    producer.commit_transaction(60)
    code, said = validate(kafka4, capsys, topic, *kept)
    assert code == 1 and found(said)[0]["evidence"]["last_value"] == "110"
