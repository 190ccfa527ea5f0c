"""Is a healthy cluster called healthy, beside writes, deletes, transactions, elections, cleaning?

Every replica cleans on its own here, as Apache Kafka's do, with timers of a second; since all of
them are up the whole time, none misses anything, and every finding would be a false alarm. That the
same audit does find things is in `tests/cluster/test_divergences`.
"""

from __future__ import annotations

from functools import partial

from confluent_kafka import Producer

from sexton.survey.plan import Wanted
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import run_survey
from sexton.testing.embedded import EmbeddedCluster
from tests.audit.live_load import LiveLoad

TOPIC = "orders"
TOPIC_OPTIONS = {
    "cleanup.policy": "compact",
    "segment.ms": 500,
    "segment.bytes": 64 << 10,
    "delete.retention.ms": 1_000,
    "min.cleanable.dirty.ratio": 0.01,
}
OPTIONS = {"log.cleaner.backoff.ms": 100, "producer.id.expiration.ms": 3_000}


def preload(bootstrap_servers: str, keys: int) -> None:
    settings = {"bootstrap.servers": bootstrap_servers, "linger.ms": 20, "log_level": 0}
    producer = Producer({**settings, "queue.buffering.max.messages": keys})
    for number in range(keys):
        producer.produce(TOPIC, b"v" * 24, f"key-{number}".encode(), partition=number % 2)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def audit_beside_load(audits: int, keys: int, **topic_options: int) -> int:
    """How many keys the last of so many audits has met; none of them may find anything.

    An audit counts if something was written while it ran: a short one may fall into the moment
    in which clients look for a new leader.
    """
    with EmbeddedCluster(compaction="independent", options=OPTIONS) as cluster:
        options = {**TOPIC_OPTIONS, **{k.replace("_", "."): v for k, v in topic_options.items()}}
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1]], options)
        preload(cluster.bootstrap_servers, keys)
        with LiveLoad(cluster.bootstrap_servers, TOPIC, keys) as load:
            cluster.wait_until(lambda: load.written["aborted"] > 3, "some transactions")
            wanted = Wanted(cluster.bootstrap_servers, topics=(TOPIC,))
            beside_writes = 0
            while beside_writes < audits:
                before = load.written.total()
                survey = run_survey(wanted, LocalRunner())
                assert list(survey.findings) == []
                assert not list(survey.unread)
                if not load.has_written_more_than(before):
                    cluster.wait_until(partial(load.has_written_more_than, before), "another write")
                    continue
                cluster.elect(TOPIC, beside_writes % 2, beside_writes % 3 + 1)
                beside_writes += 1
        read = [facts for each in survey.partitions for facts in each.facts.values()]
        assert len(read) == 6
        # Without cleaning every write would still be there, on each of three replicas.
        assert sum(facts.records for facts in read) < 3 * (keys + load.written.total())
        return sum(facts.keys for facts in read) // 3


def test_a_healthy_topic_under_load_gives_no_findings() -> None:
    audit_beside_load(audits=6, keys=2_000)


def test_nor_does_one_behind_a_transaction_that_is_open_all_the_time() -> None:
    """Nobody is stable past it, so that others which end are looked at by their markers."""
    with EmbeddedCluster(compaction="independent", options=OPTIONS) as cluster:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1]], TOPIC_OPTIONS)
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        named = {"transactional.id": "older", "transaction.timeout.ms": 600_000}
        older = Producer({**settings, **named})
        older.init_transactions(30)
        older.begin_transaction()
        older.produce(TOPIC, "1", "k", partition=0)
        assert older.flush(30) == 0
        wanted = Wanted(cluster.bootstrap_servers, topics=(TOPIC,))
        with LiveLoad(cluster.bootstrap_servers, TOPIC, 2_000) as load:
            cluster.wait_until(lambda: load.written["aborted"] > 3, "some transactions")
            for number in range(6):
                survey = run_survey(wanted, LocalRunner())
                assert list(survey.findings) == []
                assert [each.not_judged for each in survey.partitions] == [0, 0]
                cluster.elect(TOPIC, 0, number % 3 + 1)
        older.abort_transaction(30)


def test_twenty_audits_of_a_million_keys() -> None:
    met = audit_beside_load(audits=20, keys=1_000_000, segment_ms=5_000, segment_bytes=16 << 20)
    assert met > 900_000
