"""Topics that change under a running application end it: state cannot go where keys have gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.topology import Topology
from sexton.stores import App, TaskFailed, instance
from sexton.stores.changelog import bounds
from sexton.stores.local import Local
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import INPUT, SINK, app, counter
from tests.stores.harness import CHANGELOG, make_topics, state, sums, wait_until_done, write


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "_TOLD_S", 0.1)


def counts(kafka: EmbeddedCluster, tmp_path: Path) -> App:
    """One that runs, and has counted something."""
    make_topics(kafka, 2)
    write(kafka.bootstrap_servers, [(0, "a"), (1, "b")])
    one = app(kafka.bootstrap_servers, tmp_path / "a")
    one.start()
    wait_until_done(one, 2)
    return one


def ends(one: App, why: str) -> None:
    assert one._ended is not None
    until(one._ended.done, "it ends")
    with pytest.raises(ConfigError, match=why):
        one.close()


def fails(one: App, why: str) -> None:
    assert one._ended is not None
    until(one._ended.done, "it ends")
    with pytest.raises(TaskFailed, match=why):
        one.close()


def changelog_end(kafka: EmbeddedCluster, partition: int) -> int:
    async def ask() -> int:
        async with Client(kafka.bootstrap_servers) as client:
            return (await bounds(client, TopicPartition(CHANGELOG, partition))).log_end

    return asyncio.run(ask())


def test_an_input_that_grows_ends_the_application(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    one = counts(kafka, tmp_path)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(INPUT, 3)])[INPUT].result(30)
    ends(one, f"{INPUT}: had 2 partitions and has 3")


def test_so_does_another_changelog_with_the_same_name(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    one = counts(kafka, tmp_path)
    kafka.delete_topic(CHANGELOG)
    kafka.create_topic(CHANGELOG, 2, {"cleanup.policy": "compact"})
    ends(one, f"{CHANGELOG}: was deleted and made again")


def test_nothing_is_committed_to_it_before_that_is_seen(
    kafka: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its position and the group's offset would agree, and state that is lost pass for all."""
    monkeypatch.setattr(instance, "_TOLD_S", 3600)
    one = counts(kafka, tmp_path)
    kafka.delete_topic(CHANGELOG)
    kafka.create_topic(CHANGELOG, 2, {"cleanup.policy": "compact"})
    write(kafka.bootstrap_servers, [(0, "a")])
    fails(one, "was there up to .*: it has lost records")
    again = app(kafka.bootstrap_servers, tmp_path / "a")
    again.start()
    fails(again, "committed input up to 1, but the changelog knows of none")
    assert sums(kafka.bootstrap_servers, 0) == [("a", 1)]


def test_what_is_not_committed_when_it_is_seen_stays_so(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    """Whoever ends otherwise commits first."""
    counts(kafka, tmp_path).close()
    late = app(kafka.bootstrap_servers, tmp_path / "a", commit_interval_ms=50_000)
    late.start()
    write(kafka.bootstrap_servers, [(0, "a"), (1, "b")])
    until(lambda: late._running.numbers.processed == 2, "both are counted, and not committed")
    kafka.delete_topic(CHANGELOG)
    kafka.create_topic(CHANGELOG, 2, {"cleanup.policy": "compact"})
    ends(late, f"{CHANGELOG}: was deleted and made again")
    assert [changelog_end(kafka, each) for each in (0, 1)] == [0, 0]


@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_an_input_that_was_made_again_while_nobody_ran_is_not_read_on(
    kafka: EmbeddedCluster, tmp_path: Path, disk: str
) -> None:
    """It is longer than the position by now, so nothing else would tell."""
    counts(kafka, tmp_path).close()
    kafka.delete_topic(INPUT)
    kafka.create_topic(INPUT, 2)
    write(kafka.bootstrap_servers, [(0, "x"), (0, "y"), (0, "z"), (1, "u"), (1, "v"), (1, "w")])
    again = app(kafka.bootstrap_servers, tmp_path / ("a" if disk == "kept" else "b"))
    again.start()
    assert again._ended is not None
    until(again._ended.done, "it ends")
    with pytest.raises(TaskFailed, match=f"{INPUT} was deleted and made again.*{CHANGELOG}"):
        again.close()
    assert [sums(kafka.bootstrap_servers, each) for each in (0, 1)] == [[("a", 1)], [("b", 1)]]


def test_one_that_was_moved_with_its_offsets_is_read_on_when_somebody_says_so(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    """A mirror may keep offsets; ids it cannot. Only a person knows that it is the same topic."""
    counts(kafka, tmp_path).close()
    kafka.delete_topic(INPUT)
    kafka.create_topic(INPUT, 2)
    write(kafka.bootstrap_servers, [(0, "a"), (0, "a"), (1, "b"), (1, "c")])
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for partition in (0, 1):
        producer.produce(CHANGELOG, key=b"\x00input", partition=partition)
    assert producer.flush(60) == 0
    with app(kafka.bootstrap_servers, tmp_path / "a") as again:
        until(lambda: sums(kafka.bootstrap_servers, 1)[-1] == ("c", 1), "all is counted")
        until(lambda: sums(kafka.bootstrap_servers, 0)[-1] == ("a", 2), "here, too")
        assert state(again, 1) == {"b": 1, "c": 1}


def test_once_its_changelog_is_deleted_it_begins_anew(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    """As it is told; the disk says the old topic, and is thrown away with the rest."""
    counts(kafka, tmp_path).close()
    for topic in (INPUT, CHANGELOG):
        kafka.delete_topic(topic)
    kafka.create_topic(INPUT, 2)
    write(kafka.bootstrap_servers, [(0, "a"), (1, "b"), (1, "c")])
    with app(kafka.bootstrap_servers, tmp_path / "a") as again:
        until(lambda: sums(kafka.bootstrap_servers, 1)[-1] == ("c", 1), "all is counted")
        assert state(again, 1) == {"b": 1, "c": 1}


def test_a_changelog_that_does_not_say_which_input_it_was_is_read_on(
    kafka: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an older version; from then on it says so."""
    with monkeypatch.context() as older:
        older.setattr(Local, "_new_to_the_changelog", lambda _: {})
        counts(kafka, tmp_path).close()
    write(kafka.bootstrap_servers, [(0, "a"), (1, "b")])
    one = app(kafka.bootstrap_servers, tmp_path / "a")
    one.start()
    wait_until_done(one, 4)
    assert state(one, 0) == {"a": 2}
    one.close()
    kafka.delete_topic(INPUT)
    kafka.create_topic(INPUT, 2)
    write(kafka.bootstrap_servers, [(0, "a")] * 3)
    again = app(kafka.bootstrap_servers, tmp_path / "b")
    again.start()
    assert again._ended is not None
    until(again._ended.done, "it ends")
    with pytest.raises(TaskFailed, match="made again"):
        again.close()


def test_an_output_that_grows_has_all_its_partitions_written_to(
    kafka: EmbeddedCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As by every producer; who reads it hears of the new ones as well."""
    kafka.create_topic(INPUT, 2)
    kafka.create_topic(SINK, 1)
    write(kafka.bootstrap_servers, [(0, "a"), (1, "b")])
    task = replace(counter(), process=lambda key, *_: [(key, 1)])
    with App("grows", [task], bootstrap_servers=kafka.bootstrap_servers, state_dir=tmp_path) as one:
        wait_until_done(one, 2)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_partitions([NewPartitions(SINK, 3)])[SINK].result(30)
        until(lambda: "had 1 partitions and has 3" in caplog.text, "it is told")
        write(kafka.bootstrap_servers, [(0, f"key_{n}") for n in range(30)])
        wait_until_done(one, 32)
    found = [sums(kafka.bootstrap_servers, each) for each in range(3)]
    assert all(found) and sum(map(len, found)) == 32


@pytest.mark.parametrize("missing", [INPUT, SINK])
def test_that_a_topic_is_missing_is_not_believed_of_one_broker(
    kafka: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """It may be the last to hear of it."""
    make_topics(kafka, 1)
    whole, doubts = Client.topology, list[Client]()

    async def old_news(self: Client, topics: Iterable[str] | None = None) -> Topology:
        names = None if topics is None or doubts else set(topics) - {missing}
        return await whole(self, topics if names is None else names)

    monkeypatch.setattr(Client, "topology", old_news)
    monkeypatch.setattr(Client, "look_elsewhere", lambda self: doubts.append(self))
    with app(kafka.bootstrap_servers, tmp_path / "a") as one:
        write(kafka.bootstrap_servers, [(0, "a")])
        wait_until_done(one, 1)
    assert doubts


def test_one_that_nobody_knows_is_told_of(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    kafka.create_topic(INPUT, 1)
    one = app(kafka.bootstrap_servers, tmp_path / "a")
    with pytest.raises(ConfigError, match=f"{SINK}: there is no such topic"):
        one.start()
