"""A topic that goes on being written: what is known is kept, and nothing is lost by a kill -9."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sexton.audit.validation import Rules
from sexton.base.errors import ConfigError, PeerError, SextonError
from sexton.client.client import Client
from sexton.client.topology import Topology
from sexton.survey import validating_stream
from sexton.survey.validating import validate as validate_once
from sexton.survey.validating_plan import Asked
from sexton.survey.validating_runner import LocalTasks
from sexton.survey.validating_state import COMMITTED, held
from sexton.survey.validating_stream import Following, LocalSteps, until_caught_up
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.validate import stepping
from tests.validate.topics import Record, Run, add, filled

PARTITIONS = 3
OLD_MS, NEW_MS = 1_600_000_000_000, 1_700_000_000_000


def records() -> list[Record]:
    """Keys rise over all of it; each falls once, long after; some ids come again, far apart."""
    made: list[Record] = []
    for number in range(900):
        key = number % 30
        count = number // 30 if number < 600 else number // 30 - 5
        again = number - 500 if number % 97 == 0 and number > 500 else number
        again -= again % PARTITIONS - number % PARTITIONS  # in the same partition
        made.append((f"k{key}", {"n": count, "id": again}))
    return made


@pytest.fixture(scope="module")
def topic(broker: EmbeddedCluster) -> str:
    made = records()
    return filled(broker, made, partitions=PARTITIONS, partition=lambda number: number % PARTITIONS)


@pytest.fixture(scope="module")
def expected(broker: EmbeddedCluster, topic: str) -> dict[str, Any]:
    """What one reading of the whole topic finds."""
    asked = Asked(broker.bootstrap_servers, topic, stepping.RULES)
    found = validate_once(asked, LocalTasks())
    assert found.counts["state-regression"] == 30 and found.counts["inconsistent-duplicate"] > 2
    return {
        "counts": dict(found.counts),
        "identities": sorted(each.identity for each in found.sightings),
        "records": 900,
        "keys": 30,
        "ids": sum(each.ids for each in found.partitions),
    }


def test_steps_find_what_one_reading_finds(
    broker: EmbeddedCluster, topic: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    assert stepping.follow(broker.bootstrap_servers, topic, tmp_path / "kept") == expected


def test_kill_9_at_any_step_changes_nothing(
    broker: EmbeddedCluster, topic: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    """Before each of the files of a step, before its commit, and in the steps after that."""
    where = [broker.bootstrap_servers, topic, str(tmp_path / "kept")]
    kills = ["1", "2", "3", "4", "5", "8", "9", "12", "4", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.validate.stepping", *where, *kills],
        capture_output=True, text=True, timeout=240, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(": True") >= 6, done.stderr  # they were killed indeed
    assert json.loads(done.stdout) == expected


def test_offsets_without_their_state_would_miss_what_is_wrong(
    broker: EmbeddedCluster, topic: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    """The negative control: what a checkpoint finds that knows how far, and not what was there."""
    kept = tmp_path / "kept"
    asked = Asked(broker.bootstrap_servers, topic, stepping.RULES)
    Following(asked, kept, LocalSteps(2), step_offsets=50).step()
    committed = kept / COMMITTED
    told = json.loads(committed.read_text(encoding="utf-8"))
    for partition in told["partitions"]:
        partition["files"] = []
    committed.write_text(json.dumps(told), encoding="utf-8")
    found = stepping.follow(broker.bootstrap_servers, topic, kept)
    assert found["records"] == expected["records"]
    assert set(found["identities"]) < set(expected["identities"])


def test_state_that_was_damaged_is_not_believed(
    broker: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    asked = Asked(broker.bootstrap_servers, topic, stepping.RULES)
    Following(asked, kept, LocalSteps(1), step_offsets=50).step()
    (file, *_others) = sorted(kept.glob("*/*.npz"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    validating_stream._REMEMBERED.clear()  # another process would have to read it
    following = Following(asked, kept, LocalSteps(1), step_offsets=50)
    following.step()
    (unread,) = following.validation().unread
    assert "cannot be read" in unread[1]


def test_another_question_needs_another_checkpoint(
    broker: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    where = broker.bootstrap_servers
    Following(Asked(where, topic, Rules(value="json:n")), tmp_path, LocalSteps(1)).step()
    with pytest.raises(ConfigError, match="another question"):
        Following(Asked(where, topic, Rules(value="json:id")), tmp_path, LocalSteps(1))


def test_it_goes_on_with_what_is_written_later(broker: EmbeddedCluster, tmp_path: Path) -> None:
    topic = filled(broker, [("a", "110"), ("b", "1")])
    asked = Asked(broker.bootstrap_servers, topic, Rules(value="int"))
    following = Following(asked, tmp_path, LocalSteps(1))
    until_caught_up(following, lambda _found: None)
    assert following.step() is None and not following.known
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    add(producer, topic, [("a", "105"), ("b", "2")])
    assert producer.flush(60) == 0
    again = Following(asked, tmp_path, LocalSteps(1))
    (sighting,) = again.step() or []
    assert (sighting.last_value, sighting.value, sighting.last_offset) == ("110", "105", 0)
    (kept,) = Following(asked, tmp_path, LocalSteps(1)).known
    assert kept == sighting


def test_a_topic_that_was_made_again_is_another(broker: EmbeddedCluster, tmp_path: Path) -> None:
    topic = filled(broker, [("a", "110")])
    asked = Asked(broker.bootstrap_servers, topic, Rules(value="int"))
    Following(asked, tmp_path, LocalSteps(1)).step()
    told = json.loads((tmp_path / COMMITTED).read_text(encoding="utf-8"))
    told["topic_id"] = "00" * 15 + "01"
    (tmp_path / COMMITTED).write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(ConfigError, match="deleted and made again"):
        Following(asked, tmp_path, LocalSteps(1)).step()


def test_since_holds_for_a_partition_that_had_nothing_new(
    broker: EmbeddedCluster, tmp_path: Path
) -> None:
    """Of the second all is old, and it falls there: nobody has asked for that."""
    topic = filled(broker, [], partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition, time_ms, value in ((0, NEW_MS, "1"), (1, OLD_MS, "110"), (1, OLD_MS, "105")):
        producer.produce(topic, value, "a", partition=partition, timestamp=time_ms)
    assert producer.flush(60) == 0
    asked = Asked(broker.bootstrap_servers, topic, Rules(value="int"), since_ms=NEW_MS - 1000)
    following = Following(asked, tmp_path, LocalSteps(1))
    until_caught_up(following, lambda _found: None)
    for partition, time_ms, value in ((0, OLD_MS, "0"), (1, NEW_MS, "104")):
        producer.produce(topic, value, "a", partition=partition, timestamp=time_ms)
    assert producer.flush(60) == 0
    until_caught_up(Following(asked, tmp_path, LocalSteps(1)), lambda _found: None)
    found = Following(asked, tmp_path, LocalSteps(1)).validation()
    # Where it has begun it goes on with all that comes.
    assert [(each.partition.partition, each.value) for each in found.sightings] == [(0, "0")]
    assert [each.records for each in found.partitions] == [2, 1]


def test_a_log_that_ends_before_what_was_judged_is_named(
    broker: EmbeddedCluster, validate: Run, tmp_path: Path
) -> None:
    """As after an unclean election; it is said again when the log has grown past that place."""
    topic = filled(broker, [("a", "110"), ("a", "111")])
    kept = ("--value", "int", "--checkpoint", str(tmp_path))
    assert validate(topic, *kept)[0] == 0
    told = json.loads((tmp_path / COMMITTED).read_text(encoding="utf-8"))
    told["partitions"][0]["next"] = 5
    (tmp_path / COMMITTED).write_text(json.dumps(told), encoding="utf-8")
    for _again in range(2):
        code, said, asides = validate(topic, *kept)
        assert code == 3
        assert f"{topic}-0: its log ends at offset 2, and it was judged to 5" in said + asides
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    add(producer, topic, [("a", str(number)) for number in range(112, 118)])
    assert producer.flush(60) == 0
    code, said, _asides = validate(topic, *kept)
    assert code == 0 and "is what was promised in all that was looked at" in said
    assert said.count(f"{topic}-0 had been judged to offset 5, and ended below it") == 1


def test_what_was_deleted_unread_is_said_once(broker: EmbeddedCluster, tmp_path: Path) -> None:
    topic = filled(broker, [("a", "1"), ("a", "2"), ("a", "3")])
    asked = Asked(broker.bootstrap_servers, topic, Rules(value="int"))
    Following(asked, tmp_path, LocalSteps(1), step_offsets=1).step()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    at = TopicPartition(topic, 0, 3)
    admin.delete_records([at])[at].result(60)
    following = Following(asked, tmp_path, LocalSteps(1))
    assert following.step() is None and following.step() is None
    assert following.validation().limits == (
        f"Offsets 1 to 2 of {topic}-0 were deleted before they could be read.",
    )


def test_a_cluster_that_is_away_for_a_moment_is_waited_for(
    broker: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By who has been there before: the first word about a wrong address comes at once."""
    topic = filled(broker, [("a", "1")])
    asked = Asked(broker.bootstrap_servers, topic, Rules(value="int"))
    following = Following(asked, tmp_path, LocalSteps(1))
    topology = Client.topology
    troubles: list[SextonError] = []

    async def away(client: Client, topics: Iterable[str] | None = None) -> Topology:
        if troubles:
            raise troubles.pop()
        return await topology(client, topics)

    monkeypatch.setattr(Client, "topology", away)
    troubles += [PeerError("localhost:1", "does not answer")]
    with pytest.raises(PeerError):
        following.step()
    assert following.step() == []
    troubles += [PeerError("localhost:1", "does not answer")] * 3
    assert following.step() is None and not troubles


def test_the_command_keeps_and_goes_on(
    broker: EmbeddedCluster, validate: Run, tmp_path: Path
) -> None:
    topic = filled(broker, [("a", "110"), ("a", "105")])
    kept = ("--value", "int", "--checkpoint", str(tmp_path / "kept"))
    code, said, _asides = validate(topic, *kept, "--show-keys")
    assert code == 1 and "Key: a, LastValue: 110, NewValue: 105" in said
    code, said, _asides = validate(topic, *kept)
    assert code == 1 and "where 1 finding is kept" in said
    assert "LastValue: 110" in said  # it is told again, though nothing is read again
    code, _said, asides = validate(topic, *kept, "--compare-isolation")
    assert code == 2 and "needs the whole topic at once" in asides


def test_two_at_once_do_not_sweep_each_others_files_away(
    broker: EmbeddedCluster, validate: Run, tmp_path: Path
) -> None:
    topic = filled(broker, [("a", "110")])
    asked = (topic, "--value", "int", "--checkpoint", str(tmp_path / "kept"))
    with held(tmp_path / "kept"):
        code, _said, asides = validate(*asked)
    assert code == 2 and "another validation is at work there" in asides
    assert validate(*asked)[0] == 0


def test_it_follows_until_ctrl_c(broker: EmbeddedCluster, tmp_path: Path) -> None:
    """Each finding is a line as it comes; Ctrl-C is how it ends, and the exit code tells."""
    topic = filled(broker, [("a", "110")])
    where = ["-b", broker.bootstrap_servers, "--engine", "local", "--checkpoint", str(tmp_path)]
    asked = ["--value", "int", "--follow", "--interval", "100ms", "--format", "jsonl"]
    with subprocess.Popen(
        [sys.executable, "-m", "sexton.cli.main", "validate", topic, *where, *asked],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as following:  # fmt: skip
        assert following.stdout is not None
        try:
            until((tmp_path / COMMITTED).exists, "the first step", 60)
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
            add(producer, topic, [("a", "105")])
            assert producer.flush(60) == 0
            line = json.loads(following.stdout.readline())
            assert line["type"] == "finding" and line["evidence"]["new_value"] == "105"
            following.send_signal(signal.SIGINT)
            rest = [json.loads(line) for line in following.stdout]
            assert following.wait(60) == 1
        finally:
            following.kill()
    assert rest[-1]["type"] == "end" and rest[-1]["error"] is None
    assert rest[-1]["summary"]["standing"] == "broken"
