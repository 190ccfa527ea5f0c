"""`sexton validate` as a user runs it: each kind of fault on a broker, and the topic without it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as OffsetPartition
from confluent_kafka.admin import AdminClient

from sexton.cli.main import main
from sexton.client.retrying import Patience
from sexton.survey import validating_plan
from sexton.testing.embedded import EmbeddedCluster
from tests.validate.topics import Record, Run, add, filled, found, transactional

COUNTS: list[Record] = [("key_17", str(count)) for count in (108, 109, 110)]
STALE: list[Record] = [("key_17", str(count)) for count in (105, 106)]


@pytest.fixture(scope="module")
def regressed(broker: EmbeddedCluster) -> str:
    """As a checkpoint that lies shows itself: 110 committed, then 105 under a fresh epoch."""
    topic = filled(broker, [], partitions=18)
    for records in (COUNTS, STALE):
        producer = transactional(broker, "counter")
        producer.begin_transaction()
        add(producer, topic, records, partition=lambda _number: 17)
        producer.commit_transaction(60)
    return topic


def test_110_to_105_is_told_in_the_words_of_its_report(regressed: str, validate: Run) -> None:
    code, said, _asides = validate(regressed, "--value", "int", "--show-keys")
    assert code == 1
    assert "Partition: 17, Key: key_17, LastValue: 110, NewValue: 105" in said
    assert "(read_committed)" in said
    assert "another epoch of it" in said
    assert f"{regressed} is not what was promised: 1 state-regression." in said


def test_a_program_gets_both_offsets_and_epochs(regressed: str, validate: Run) -> None:
    code, said, _asides = validate(regressed, "--value", "int", "--format", "json")
    told = json.loads(said)
    assert code == told["exit_code"] == 1
    (finding,) = told["findings"]
    evidence = finding["evidence"]
    assert finding["code"] == "state-regression" and evidence["partition"] == 17
    assert (evidence["last_value"], evidence["new_value"]) == ("110", "105")
    assert (evidence["last_offset"], evidence["new_offset"]) == (2, 4)  # 3 is the marker
    assert evidence["last_producer_epoch"] < evidence["new_producer_epoch"]
    assert "key_17" not in said  # a key is somebody's data
    assert told["promises"] == [
        {"promise": "per key, never goes back", "of": "int", "kept": False, "findings": 1}
    ]
    assert len(told["partitions"]) == 18
    assert told["summary"]["records"] == 5


def test_a_healthy_counter_is_what_was_promised(broker: EmbeddedCluster, validate: Run) -> None:
    topic = filled(broker, [*COUNTS, ("key_17", "111")])
    code, said, _asides = validate(topic, "--value", "int", "--rising", "--sequence", "int")
    assert code == 0 and f"{topic} is what was promised." in said


def test_one_partition_can_be_meant(regressed: str, validate: Run) -> None:
    assert validate(f"{regressed}:17", "--value", "int")[0] == 1
    assert validate(f"{regressed}:16", "--value", "int")[0] == 3  # there is nothing in it


def test_a_finding_can_be_acknowledged(regressed: str, validate: Run, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    assert validate(regressed, "--value", "int", "--write-baseline", str(known))[0] == 1
    code, said, _asides = validate(regressed, "--value", "int", "--baseline", str(known))
    assert code == 0 and "apart from 1 acknowledged finding" in said


def test_files_are_written(regressed: str, validate: Run, tmp_path: Path) -> None:
    page, rows = tmp_path / "page.html", tmp_path / "rows.parquet"
    validate(regressed, "--value", "int", "--html", str(page), "--parquet", str(rows))
    text = page.read_text(encoding="utf-8")
    assert "LastValue: 110, NewValue: 105" in text and "<script" not in text
    import pyarrow.parquet as pq

    (row,) = pq.read_table(rows).to_pylist()
    assert row["code"] == "state-regression" and row["last_offset"] == 2


# ── ids ──


def test_ids_are_compared_across_partitions(broker: EmbeddedCluster, validate: Run) -> None:
    """The same id in two partitions, once the same and once not; and once twice in one."""
    records: list[Record] = [(None, {"id": number, "v": 1}) for number in range(500)]
    records += [(None, {"id": 7, "v": 1}), (None, {"id": 8, "v": 2})]
    spread = lambda number: number % 3 if number < 500 else 2  # noqa: E731
    topic = filled(broker, [*records, (None, {"id": 2, "v": 1})], partitions=3, partition=spread)
    code, said, _asides = validate(topic, "--id", "json:id", "--format", "json", "--show-keys")
    assert code == 1
    assert {(each["code"], each["evidence"]["id"]) for each in found(said)} == {
        ("duplicate-record", "7"),
        ("inconsistent-duplicate", "8"),
        ("duplicate-record", "2"),
    }
    places = {each["evidence"]["id"]: each["evidence"] for each in found(said)}
    assert places["7"]["last_partition"] == 1 and places["7"]["partition"] == 2
    assert "last_partition" not in places["2"]  # both in one


def test_ids_that_come_once_are_well(broker: EmbeddedCluster, validate: Run) -> None:
    records: list[Record] = [(str(number), {"id": number}) for number in range(500)]
    topic = filled(broker, records, partitions=3, partition=lambda number: number % 3)
    assert validate(topic, "--id", "json:id")[0] == 0


def test_numbers_that_are_left_out_are_named(broker: EmbeddedCluster, validate: Run) -> None:
    topic = filled(broker, [("k", "1"), ("k", "2"), ("k", "5")])
    code, said, _asides = validate(topic, "--sequence", "int", "--show-keys")
    assert code == 1 and "Numbers are missing between 2 and 5." in said


def test_a_finding_counts_for_the_promise_that_it_breaks(
    broker: EmbeddedCluster, validate: Run, tmp_path: Path
) -> None:
    """Of k1 a sequence number comes again, of k2 one is left out and the value falls."""
    records: list[Record] = [
        ("k1", {"n": 1, "v": 10}), ("k1", {"n": 1, "v": 11}),
        ("k2", {"n": 1, "v": 10}), ("k2", {"n": 3, "v": 9}),
    ]  # fmt: skip
    topic, known = filled(broker, records), tmp_path / "known.json"
    asked = ("--value", "json:v", "--sequence", "json:n", "--format", "json")
    code, said, _asides = validate(topic, *asked, "--show-keys")
    told = json.loads(said)
    assert code == 1
    assert [(each["of"], each["findings"]) for each in told["promises"]] == [
        ("json:v", 1),
        ("json:n", 2),
    ]
    messages = [each["message"] for each in told["findings"] if each["code"] == "state-regression"]
    assert [each.partition(" (")[0] for each in messages] == [
        "a number of the sequence came again",
        "a value went back",
    ]
    stepped = json.loads(validate(topic, *asked, "--checkpoint", str(tmp_path / "kept"))[1])
    assert stepped["promises"] == told["promises"]
    validate(topic, *asked, "--write-baseline", str(known))
    code, said, _asides = validate(topic, *asked, "--baseline", str(known))
    assert code == 0
    assert [each["kept"] for each in json.loads(said)["promises"]] == [True, True]


def test_a_compacted_topic_has_gaps_by_its_nature(broker: EmbeddedCluster, validate: Run) -> None:
    topic = filled(broker, [("k", "1"), ("k", "5")])
    assert "note:" not in validate(topic, "--sequence", "int")[1]
    broker.alter_topic(topic, {"cleanup.policy": "compact"})
    code, said, _asides = validate(topic, "--sequence", "int")
    assert code == 1 and f"note: {topic} is compacted: numbers that are missing" in said


# ── order ──


def test_another_order_than_the_source_is_found(broker: EmbeddedCluster, validate: Run) -> None:
    ids = [f"order-{number}" for number in range(40)]
    source = filled(broker, [(f"k{n % 4}", {"id": each}) for n, each in enumerate(ids)])
    keyed: list[Record] = [(f"k{n % 4}", {"id": each}) for n, each in enumerate(ids)]
    swapped = [*keyed[:10], keyed[14], *keyed[10:14], *keyed[15:]]  # k2: 14 before 10
    for records, expected in ((keyed, 0), (swapped, 1)):
        topic = filled(broker, records)
        asked = ("--id", "json:id", "--source", source, "--format", "json", "--show-keys")
        code, said, _asides = validate(topic, *asked)
        assert code == expected
        if expected:
            (finding,) = found(said)
            assert finding["code"] == "order-violation"
            assert finding["evidence"]["key"] == "k2"
            assert finding["evidence"]["last_value"] == f"{source}-0 offset 14"
            assert finding["evidence"]["new_value"] == f"{source}-0 offset 10"


def test_a_source_with_other_partitions_is_searched(broker: EmbeddedCluster, validate: Run) -> None:
    """And what was processed twice is a duplicate, not another order."""
    keyed: list[Record] = [(f"k{number % 5}", {"id": number}) for number in range(50)]
    source = filled(broker, keyed, partitions=5, partition=lambda number: number % 5)
    topic = filled(broker, [*keyed, *keyed[45:]], partitions=2, partition=lambda n: n % 5 % 2)
    asked = ("--id", "json:id", "--source", source, "--format", "json")
    code, said, _asides = validate(topic, *asked)
    assert code == 1
    assert {each["code"] for each in found(said)} == {"duplicate-record"}
    assert "not judged" not in json.loads(said)["summary"]["limits"]


def test_another_order_keeps_the_names_of_topics_as_they_are(
    broker: EmbeddedCluster, validate: Run
) -> None:
    keyed: list[Record] = [("k", {"id": number}) for number in range(3)]
    source = filled(broker, keyed)
    topic = filled(broker, [keyed[0], keyed[2], keyed[1]])
    _code, said, _asides = validate(topic, "--id", "json:id", "--source", source)
    told = " ".join(said.split())
    assert (
        f"The record from {source}-0 offset 1 was processed after the one from {source}-0 offset 2."
    ) in told


# ── losses ──


def test_what_the_source_has_and_the_output_lacks_is_lost(
    broker: EmbeddedCluster, validate: Run, tmp_path: Path
) -> None:
    """All of one key, and the last two records; the control: nothing of it."""
    keyed: list[Record] = [(f"k{number % 4}", {"id": number}) for number in range(40)]
    source = filled(broker, keyed, partitions=4, partition=lambda number: number % 4)
    part = [each for each in keyed[:38] if each[0] != "k1"]
    page, rows = tmp_path / "page.html", tmp_path / "rows.parquet"
    files = ("--html", str(page), "--parquet", str(rows))
    for records, expected in ((keyed, 0), (part, 1)):
        topic = filled(broker, records, partitions=3, partition=lambda number: number % 3)
        asked = ("--id", "json:id", "--source", source, "--show-keys", *files)
        assert validate(topic, *asked)[0] == 0  # nobody has asked for all of it
        code, said, _asides = validate(topic, *asked, "--complete", "--format", "json")
        told = json.loads(said)
        assert code == expected
        assert told["promises"][-1] == {
            "promise": f"has all of {source}",
            "of": "json:id",
            "kept": not expected,
            "findings": 12 if expected else 0,
        }
    assert {each["code"] for each in found(said)} == {"lost-record"}
    evidence = {each["evidence"]["id"]: each["evidence"] for each in found(said)}
    assert sorted(map(int, evidence)) == [*range(1, 38, 4), 38, 39]
    last = evidence["38"]
    assert (last["source"], last["partition"], last["source_offset"]) == (source, 2, 9)
    assert last["key"] == "k2"
    assert f"which the source has in {source}-2 at offset 9" in page.read_text(encoding="utf-8")
    import pyarrow.parquet as pq

    assert {row["code"] for row in pq.read_table(rows).to_pylist()} == {"lost-record"}


def test_the_ids_of_a_source_may_be_elsewhere_in_its_records(
    broker: EmbeddedCluster, validate: Run
) -> None:
    source = filled(broker, [("k", {"n": 1}), ("k", {"n": 2}), ("k", {"other": 3})])
    topic = filled(broker, [("k", {"id": 1})])
    asked = ("--id", "json:id", "--source", source, "--source-id", "json:n", "--complete")
    code, _said, asides = validate(topic, *asked)
    assert code == 2 and f"{source}-0, offset 2: the value has no member n" in asides
    code, said, _asides = validate(topic, *asked, "--skip-unreadable", "--show-keys")
    assert code == 1 and "The output lacks the id 2, which the source has" in said
    assert f"1 records of {source} have no id, and were not looked for." in said


def test_what_was_deleted_since_looks_lost_and_the_report_says_so(
    broker: EmbeddedCluster, validate: Run
) -> None:
    records: list[Record] = [("k", {"id": number}) for number in range(3)]
    source, topic = filled(broker, records), filled(broker, records)
    asked = ("--id", "json:id", "--source", source, "--complete")
    code, said, _asides = validate(topic, *asked)
    assert code == 0 and "note:" not in said
    at = OffsetPartition(topic, 0, 1)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_records([at])[at].result(60)
    broker.alter_topic(topic, {"cleanup.policy": "compact"})
    code, said, _asides = validate(topic, *asked)
    assert code == 1 and "1 lost-record" in said
    assert f"note: {topic}-0 begins at offset 1: what has been deleted before it" in said
    assert f"note: {topic} is compacted: records that are missing may" in said


def test_what_is_too_young_is_counted_and_not_called_lost(
    broker: EmbeddedCluster, validate: Run
) -> None:
    """An hour ago 1 and 2 were written, 3 and 4 just now; the output has 1 and 4."""
    hour_ago = int((time.time() - 3600) * 1000)
    source = filled(broker, [])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, time_ms in ((1, hour_ago), (2, hour_ago), (3, 0), (4, 0)):
        producer.produce(source, b'{"id": %d}' % number, b"k", 0, timestamp=time_ms)
    assert producer.flush(60) == 0
    topic = filled(broker, [("k", {"id": 1}), ("k", {"id": 4})])
    asked = ("--id", "json:id", "--source", source, "--complete", "--show-keys")
    for settle, lost, unsettled in (((), ["2", "3"], 0), (("--settle", "5m"), ["2"], 1)):
        code, said, _asides = validate(topic, *asked, *settle, "--format", "json")
        assert code == 1 and [each["evidence"]["id"] for each in found(said)] == lost
        assert json.loads(said)["summary"]["unsettled"] == unsettled
    code, said, _asides = validate(topic, *asked, "--settle", "1d")
    assert code == 0 and f"note: 2 records of {source} since " in said
    assert "are not there yet, and were not called lost." in said
    none_of_it = filled(broker, [("k", {"id": 5})])
    code, _said, asides = validate(none_of_it, *asked, "--settle", "1d")
    assert code == 3 and "nothing was judged" in asides


def test_an_output_with_nothing_in_it_has_lost_everything(
    broker: EmbeddedCluster, validate: Run
) -> None:
    source, topic = filled(broker, [("k", {"id": 1})]), filled(broker, [])
    asked = ("--id", "json:id", "--source", source, "--complete", "--format", "json")
    code, said, _asides = validate(topic, *asked)
    assert code == 1 and [each["code"] for each in found(said)] == ["lost-record"]


# ── isolation ──


def test_what_only_uncommitted_readers_see_is_found(broker: EmbeddedCluster, validate: Run) -> None:
    topic = filled(broker, [("a", "1"), ("b", "1")])
    producer = transactional(broker, f"{topic}-writer")
    producer.begin_transaction()
    add(producer, topic, [("a", "2")])
    producer.flush(60)
    producer.abort_transaction(60)
    code, said, _asides = validate(topic, "--compare-isolation", "--show-keys")
    assert code == 1 and "Key: a" in said and "Key: b" not in said
    assert "2 records" in said.splitlines()[-1]
    producer.begin_transaction()
    add(producer, topic, [("b", "2")])  # still open: nobody has committed it
    producer.flush(60)
    _code, said, _asides = validate(topic, "--compare-isolation", "--format", "json")
    assert {each["evidence"]["new_offset"] for each in found(said)} == {2, 4}
    producer.commit_transaction(60)
    _code, said, _asides = validate(topic, "--compare-isolation", "--format", "json")
    assert {each["evidence"]["new_offset"] for each in found(said)} == {2}


def test_an_aborted_fall_is_seen_by_uncommitted_readers_only(
    broker: EmbeddedCluster, validate: Run
) -> None:
    topic = filled(broker, [("a", "110")])
    producer = transactional(broker, f"{topic}-writer")
    producer.begin_transaction()
    add(producer, topic, [("a", "105")])
    producer.flush(60)
    producer.abort_transaction(60)
    assert validate(topic, "--value", "int")[0] == 0
    code, said, _asides = validate(topic, "--value", "int", "--isolation-level", "read_uncommitted")
    assert code == 1 and "(read_uncommitted)" in said


# ── what cannot be done ──


def test_a_value_that_is_no_number_is_named_with_its_offset(
    broker: EmbeddedCluster, validate: Run
) -> None:
    topic = filled(broker, [("k", "1"), ("k", "many"), ("k", "0")])
    code, _said, asides = validate(topic, "--value", "int")
    assert code == 2
    assert f"{topic}-0, offset 1: the value is 'many', which is not a whole number" in asides
    assert "--skip-unreadable" in asides
    code, said, _asides = validate(topic, "--value", "int", "--skip-unreadable")
    assert code == 1 and "1 record in which an expression found nothing was left out" in said


def test_a_fraction_is_told_how_it_is_read(broker: EmbeddedCluster, validate: Run) -> None:
    topic = filled(broker, [("k", {"amount": 13.5}), ("k", {"amount": 14})])
    code, _said, asides = validate(topic, "--value", "json:amount")
    assert code == 2 and "hint: read it as a fraction: 'json:amount float'" in asides
    assert validate(topic, "--value", "json:amount float")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["t"], "is not told what must hold"),
        (["t", "--value", "jsn:x"], "is not understood"),
        (["t", "--rising", "--id", "key"], "--rising"),
        (["t", "--value", "int", "--source", "s"], "needs --id"),
        (["t", "--id", "key", "--complete"], "--complete: needs --source"),
        (["t:0", "--id", "key", "--source", "s", "--complete"], "one partition alone"),
        (["t", "--id", "key", "--source", "s", "--complete", "--since", "1h"], "with --since"),
        (["t", "--id", "key", "--source", "s", "--settle", "5m"], "needs --complete"),
        (["t", "--id", "key", "--source", "s", "--complete", "--settle", "5"], "a time span"),
        (["t", "--value", "int", "--follow"], "needs --checkpoint"),
        (["t", "--table", "/nowhere"], "no such table"),
        (["t", "--id", "key", "--table", ".", "--table-value", "v"], "needs --value"),
        (["t", "--value", "int", "--table-value", "v"], "needs a table"),
        (["t", "--table", "s3a://lake/users"], "s3a://lake/users: is not a path on this machine"),
        (["t", "--table", ".", "--checkpoint", "x"], "needs the whole topic at once"),
        (["t", "--table", ".", "--key", "key, int"], "of several parts"),
        (["t", "--id", "key", "--html", "/nowhere/x.html"], "its directory does not exist"),
        (["t:x", "--id", "key"], "TOPIC:PARTITION"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "-b", "localhost:1", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_a_topic_that_is_not_there_is_named(validate: Run) -> None:
    code, _said, asides = validate("no-such-topic", "--value", "int")
    assert code == 2 and "there is no such topic" in asides


def test_an_empty_topic_is_not_called_clean(broker: EmbeddedCluster, validate: Run) -> None:
    code, said, _asides = validate(filled(broker, []), "--value", "int", "--format", "json")
    told = json.loads(said)
    assert code == 3 and told["summary"]["standing"] == "unread" and not told["ok"]
    assert [each["kept"] for each in told["promises"]] == [None]


@pytest.mark.parametrize(
    "asked",
    [
        ("--id", "json:nope", "--skip-unreadable"),
        ("--value", "json:n"),  # per key, and there is none
        ("--id", "json:n", "--source", "itself", "--source-id", "json:name"),
        ("--compare-isolation",),
    ],
)
def test_what_could_not_be_judged_is_not_called_kept(
    broker: EmbeddedCluster, validate: Run, asked: tuple[str, ...]
) -> None:
    """Records were read, and none of them had what was asked for."""
    topic = filled(broker, [(None, {"n": 1, "name": "a"}), (None, {"n": 2, "name": "b"})])
    asked = tuple(topic if each == "itself" else each for each in asked)
    code, said, _asides = validate(topic, *asked, "--format", "json")
    told = json.loads(said)
    assert code == 3 and not told["ok"] and told["summary"]["standing"] == "unread"
    assert told["promises"][-1]["kept"] is None
    assert "nothing could be judged" in told["summary"]["verdict"]


def test_records_left_out_as_asked_leave_the_others_judged(
    broker: EmbeddedCluster, validate: Run
) -> None:
    topic = filled(broker, [("k", {"n": 1}), ("k", {"other": 2}), ("k", {"n": 3})])
    code, said, _asides = validate(topic, "--value", "json:n", "--skip-unreadable")
    assert code == 0 and "1 record in which an expression found nothing was left out" in said


# ── what could not be looked at ──


def test_a_partition_that_cannot_be_read_is_named_and_a_finding_weighs_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 3: nobody may take it for all of the topic. The control: with both brokers, 0."""
    monkeypatch.setattr(validating_plan, "_ELECTION", Patience(timeout_ms=500))
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("halved", [[1], [2]])
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        rising: list[Record] = [(f"k{number % 2}", str(number)) for number in range(10)]
        add(producer, "halved", rising, partition=lambda number: number % 2)
        assert producer.flush(60) == 0
        asked = ["validate", "halved", "-b", cluster.bootstrap_servers, "--engine", "local"]
        asked += ["--value", "int", "--show-keys"]
        assert main(asked) == 0
        assert "halved is what was promised." in capsys.readouterr().out
        cluster.kill(2)
        cluster.wait_for("halved", 1, lambda state: state.leader < 0)
        assert main([*asked, "--format", "json"]) == 3
        told = json.loads(capsys.readouterr().out)
        assert told["exit_code"] == 3 and told["summary"]["records"] == 5
        assert told["incomplete"] == [{"subject": "halved-1", "why": "nobody leads it"}]
        for step_by_step in ([], ["--checkpoint", str(tmp_path / "kept")]):
            assert main([*asked, *step_by_step]) == 3
            assert "halved is what was promised." not in capsys.readouterr().out
        add(producer, "halved", [("k0", "3")])
        assert producer.flush(60) == 0
        assert main(asked) == 1  # what is known to be wrong is said, whatever was not read
        said = capsys.readouterr()
        assert "LastValue: 8, NewValue: 3" in said.out and "halved-1" in said.out + said.err
