"""Kafka Streams counts words exactly once while brokers die under it.

Every word's counts are written one by one, so a reader of what was committed must see 1, 2, 3, ...
for each word: a record that was lost, or counted twice, would leave a gap or a repetition.
"""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random

import pytest

from sexton.testing.apache_kafka import tool_command
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.clients.java import SOURCES
from tests.clients.librdkafka import PATIENCE_S, everything, make_producer, transactional
from tests.clients.streams_jars import streams_jars

WORDS = [f"word-{number}" for number in range(40)]
LINES_A_ROUND = 300
TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"


@contextmanager
def word_count(cluster: EmbeddedCluster, directory: Path) -> Iterator[subprocess.Popen[str]]:
    arguments = [cluster.bootstrap_servers, str(directory)]
    with subprocess.Popen(
        tool_command(streams_jars(), str(SOURCES / "WordCount.java"), arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "running\n"
            yield process
            process.stdin.close()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def counts(cluster: EmbeddedCluster, topic: str = "counts") -> dict[str, list[int]]:
    """What a reader of committed records sees of each word, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for message in everything(cluster, topic):
        found[(message.key() or b"").decode()].append(int(message.value() or b""))
    return found


def assert_counted_once(
    cluster: EmbeddedCluster, written: Counter[str], topic: str = "counts"
) -> None:
    expected = {word: list(range(1, count + 1)) for word, count in written.items()}
    assert counts(cluster, topic) == expected


@pytest.mark.kafka
def test_words_are_counted_exactly_once_over_failovers(tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("lines", 2)
        cluster.create_topic("counts", 2)
        random, written = Random(7), Counter[str]()
        producer = make_producer(cluster, enable_idempotence=True)

        def write() -> None:
            for _ in range(LINES_A_ROUND):
                line = random.choices(WORDS, k=5)
                written.update(line)
                producer.produce("lines", " ".join(line))
                producer.poll(0)

        def fail(topic: str) -> None:
            """Whoever leads it dies in the middle of what it does, and comes back."""
            leader = cluster.leader_of(topic)
            before = sum(map(len, counts(cluster).values()))
            write()
            until(lambda: sum(map(len, counts(cluster).values())) > before, "counts come in")
            cluster.kill(leader)
            write()
            assert producer.flush(PATIENCE_S) == 0
            cluster.wait_for(topic, 0, lambda state: state.leader not in (leader, -1))
            cluster.restart(leader)
            for partition in range(2):
                cluster.wait_until_in_sync("counts", partition)

        write()
        with word_count(cluster, tmp_path):
            fail(TRANSACTIONS)
            fail("counts")
            fail(OFFSETS)
            assert producer.flush(PATIENCE_S) == 0
            until(
                lambda: sum(map(len, counts(cluster).values())) >= written.total(),
                "all words are counted",
                60,
            )
        assert_counted_once(cluster, written)


@pytest.mark.parametrize(
    ("found", "seen"),
    [
        ("a1 b1 a2", False),
        ("a1 b1", True),  # a record was lost
        ("a1 a2", True),  # a word was lost
        ("a2 b1", True),  # a count was lost
        ("a1 b1 a2 a3", True),  # a record was counted twice
        ("a1 b1 a2 a2", True),  # a count was written twice
        ("a1 b1 a1 a2", True),  # what was counted was forgotten, and counted again
        ("a2 b1 a1", True),
    ],
)
def test_what_is_lost_or_counted_twice_would_be_seen(
    cluster: EmbeddedCluster, topic: str, found: str, seen: bool
) -> None:
    """The word count proves something only if this check can fail: a client wrote it so.

    Of what it aborts nothing is seen, so that a count which is tried again is no error.
    """
    producer = transactional(cluster, topic)

    def write(words: str) -> None:
        producer.begin_transaction()
        for each in words.split():
            producer.produce(topic, each[1:], key=each[0])
        producer.flush(PATIENCE_S)

    write("a1 b1 a2")
    producer.abort_transaction(PATIENCE_S)
    write(found)
    producer.commit_transaction(PATIENCE_S)
    with pytest.raises(AssertionError) if seen else nullcontext():
        assert_counted_once(cluster, Counter("aab"), topic)
