"""Is a healthy cluster called healthy, beside writes, deletes, transactions, elections, cleaning?

Every replica cleans on its own here, as Apache Kafka's do, with timers of a second; since all of
them are up the whole time, none misses anything, and every finding would be a false alarm. That the
same audit does find things is in `tests/cluster/test_divergences`.
"""

from __future__ import annotations

import pytest

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


def audit_beside_load(audits: int, keys: int) -> None:
    with EmbeddedCluster(compaction="independent", options=OPTIONS) as cluster:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1]], TOPIC_OPTIONS)
        with LiveLoad(cluster.bootstrap_servers, TOPIC, keys) as load:
            cluster.wait_until(lambda: load.written["aborted"] > 3, "some transactions")
            wanted = Wanted(cluster.bootstrap_servers, topics=(TOPIC,))
            for number in range(audits):
                before = load.written.total()
                survey = run_survey(wanted, LocalRunner())
                assert list(survey.findings) == []
                assert not list(survey.unread)
                assert load.written.total() > before  # it was beside live writes
                cluster.elect(TOPIC, number % 2, number % 3 + 1)
        replicas = cluster.offsets(TOPIC, 0)
        records = sum(facts.records for each in survey.partitions for facts in each.facts.values())
        assert len(replicas) == 3
        # Without cleaning every write would still be there, on each of three replicas.
        assert records < 3 * load.written.total() * 0.9


def test_a_healthy_topic_under_load_gives_no_findings() -> None:
    audit_beside_load(audits=6, keys=2_000)


@pytest.mark.soak
def test_twenty_audits_of_a_million_keys() -> None:
    audit_beside_load(audits=20, keys=1_000_000)
