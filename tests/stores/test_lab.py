"""Two ways to go on from an old place, as they were and fixed; and what Kafka Streams does."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from sexton.lab.eos_story import validated
from sexton.lab.stores_eos import STORIES
from sexton.lab.streams_eos import AS_IT_WAS, FIXED
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.jar_lock import parse_lock
from tests.stores.counting import app
from tests.stores.harness import (
    make_topics,
    regressions,
    sums,
    wait_until_done,
    write,
)

EARLY = "lab.markers.acknowledged.before.offsets.ms"


@pytest.mark.parametrize("fixed", [False, True], ids=["as it was", "fixed"])
@pytest.mark.parametrize("name", [name for name, each in STORIES.items() if not each.needs_java])
def test_a_story_ends_as_it_says(name: str, fixed: bool) -> None:
    story, told = STORIES[name], list[str]()
    options = {} if fixed else story.as_it_was
    with EmbeddedCluster(1, options=options) as cluster:
        verdict = story.play(cluster, fixed, told.append)
    assert bool(verdict.words) is not fixed
    assert len(told) == 5


STREAMS = STORIES["eos-streams"]


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.parametrize("fixed", [False, True], ids=["3.5.1", "3.7.2"])
def test_an_old_kafka_streams_counts_110_then_105(fixed: bool) -> None:
    """About a minute each: two instances of Kafka Streams, and a coordinator that stands still."""
    with EmbeddedCluster(STREAMS.brokers, options=STREAMS.options) as cluster:
        verdict = STREAMS.play(cluster, fixed, lambda _: None)
    assert [value for _, value in verdict.sums[-2:]] == [110, 111 if fixed else 105]
    assert bool(verdict.words) is not fixed


@pytest.mark.soak
@pytest.mark.kafka
def test_it_does_so_on_apache_kafka_as_well() -> None:
    config = KafkaConfig(nodes=STREAMS.brokers, options=STREAMS.options)
    with ApacheKafka(config) as kafka:
        verdict = STREAMS.play(kafka, False, lambda _: None)
    assert [value for _, value in verdict.sums[-2:]] == [110, 105]


@pytest.mark.parametrize("version", [AS_IT_WAS, FIXED])
def test_the_jars_of_an_old_kafka_streams_are_locked(version: str) -> None:
    lock = resources.files("sexton.lab") / f"streams-{version}.lock"
    jars = parse_lock(lock.read_text(encoding="utf-8"), lock.name)
    assert {"kafka-streams", "kafka-clients"} == {
        jar.artifact for jar in jars if jar.version == version
    }
    assert "rocksdbjni" in {jar.artifact for jar in jars}


def test_the_words_are_those_of_the_report() -> None:
    said = validated([("key_17", 109), ("key_17", 110), ("key_17", 105), ("key_17", 106)], 17)
    assert len(said) == 1
    assert said[0].endswith("Partition: 17, Key: key_17, LastValue: 110, NewValue: 105")
    assert "INCONSISTENT DUPLICATE (Read Committed)" in said[0]


def test_a_task_does_not_need_the_groups_offset(tmp_path: Path) -> None:
    """On the broker of eos-offsets an owner that is told an old offset goes on where it was."""
    with EmbeddedCluster(1, options={EARLY: 3_600_000}) as kafka:
        make_topics(kafka, 1)
        servers = kafka.bootstrap_servers
        for number in range(3):
            write(servers, [(0, "a")] * 5)
            with app(servers, tmp_path / str(number)) as one:
                wait_until_done(one, 5 * (number + 1))
        found = sums(servers, 0)
    assert regressions(found) == []
    assert len(found) == 15
