"""A leader dies with records that nobody has copied. Does it cut them off when it is back?

Whoever leads then tells it where its term ended. That is known to who led next; a broker that has
copied the log from it since goes by the first batch that is left of the next term, and cleaning may
have removed the real first ones. Asked by the former leader, such a broker names too late an end:

    offset      1     2     3     4      ...     20
    broker 3    a     x     y     z                        led, and died; y and z are its own
    broker 2    a     x    (f)   (f)    (f)      f         led next, from 3 on; cleaned: f is at 20
    broker 1    a     x                          f         copied that: the next term began at 20

Broker 3 keeps y and z then, is in sync, and shows them when it leads. So it goes on Apache Kafka,
and on ours while each cleans for itself. Where cleaning is coordinated, a copy comes with what its
leader knows of where terms began.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest
from confluent_kafka import Producer

from sexton.lab.divergences import APACHE_KAFKA_OPTIONS, EMBEDDED_OPTIONS, TOPIC_OPTIONS
from sexton.lab.looking import ReplicaLog, replica_logs
from sexton.lab.stage import gone
from sexton.survey.plan import Wanted
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import run_survey
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4
from sexton.testing.waiting import until

TOPIC = "orders"
COPIES, SECOND, FIRST = 1, 2, 3
ITS_OWN = (3, 4)  # offsets; the one before may be on its way to the other replica already
# Who is held back must not be taken for dead.
PATIENT = {"broker.session.timeout.ms": 6_000, "replica.lag.time.max.ms": 6_000}
DIFFERS = {("tombstone-divergence", (FIRST,))}
OURS = {**EMBEDDED_OPTIONS, "replica.lag.time.max.ms": 60_000}


def producer(cluster: Cluster, acks: str) -> Producer:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "acks": acks, "log_level": 0}
    return Producer(settings)


def write(sender: Producer, key: str, value: str) -> None:
    told: list[object] = []
    sender.produce(TOPIC, value, key, partition=0, on_delivery=lambda error, _: told.append(error))
    assert sender.flush(60) == 0
    assert told == [None]


def logs_after_its_return(
    cluster: Cluster, hold_back: Callable[[], None], let_go: Callable[[], None]
) -> dict[int, ReplicaLog]:
    """What each broker holds when all are in sync; the second leader is held back for a moment."""
    cluster.create_topic(TOPIC, [[FIRST, SECOND]], TOPIC_OPTIONS)
    cluster.wait_for(TOPIC, 0, lambda state: (state.leader, len(state.isr)) == (FIRST, 2))
    kept, lost = producer(cluster, "all"), producer(cluster, "1")
    write(lost, "a", "0")  # it is connected by then
    write(kept, "a", "1")
    hold_back()
    for key in "xyz":
        write(lost, key, "never committed")
    cluster.kill(FIRST)
    let_go()
    cluster.wait_for(TOPIC, 0, lambda state: state.leader == SECOND)
    for number in range(8):
        write(kept, "f", str(number))
    clean(cluster, kept)
    cluster.begin_reassign(TOPIC, 0, [COPIES, SECOND, FIRST])
    cluster.wait_for(TOPIC, 0, lambda state: COPIES in state.isr)
    cluster.elect(TOPIC, 0, COPIES)
    cluster.restart(FIRST)
    cluster.wait_for(TOPIC, 0, lambda state: len(state.isr) == 3)

    def all_know_the_end() -> dict[int, ReplicaLog] | None:
        logs = replica_logs(cluster.bootstrap_servers, TOPIC)
        ends = {
            each
            for log in logs.values()
            for each in (log.offsets.high_watermark, log.offsets.log_end)
        }
        return logs if len(logs) == 3 and len(ends) == 1 else None

    return until(all_know_the_end, "every replica has all, and knows that all have it")


def clean(cluster: Cluster, kept: Producer) -> None:
    def cleaned() -> bool:
        cluster.let_time_pass(1_100)
        write(kept, "f", "later")
        log = replica_logs(cluster.bootstrap_servers, TOPIC)[SECOND]
        return all(gone(log, offset) for offset in ITS_OWN)

    until(cleaned, "the records where its own were are cleaned")


def who_shows_it(logs: dict[int, ReplicaLog]) -> list[int]:
    return [node for node, log in logs.items() if "z" in log.latest]


def findings_about(cluster: Cluster) -> set[tuple[str, tuple[int, ...]]]:
    """Each with the replicas that are wrong."""
    survey = run_survey(Wanted(cluster.bootstrap_servers, topics=(TOPIC,)), LocalRunner())
    assert not list(survey.unread)
    assert all(FIRST not in (each.verdict.right or ()) for each in survey.findings)
    return {(each.code, each.replicas) for each in survey.findings}


@pytest.mark.kafka
@pytest.mark.parametrize("version", [KAFKA_4, pytest.param(KAFKA_3_9, marks=pytest.mark.soak)])
def test_apache_kafka_keeps_what_was_never_committed_and_the_audit_says_so(version: str) -> None:
    options = {**APACHE_KAFKA_OPTIONS, **PATIENT}
    with ApacheKafka(KafkaConfig(version, nodes=3, options=options)) as kafka:
        pause, resume = partial(kafka.pause, SECOND), partial(kafka.resume, SECOND)
        assert who_shows_it(logs_after_its_return(kafka, pause, resume)) == [FIRST]
        assert findings_about(kafka) == DIFFERS


@pytest.mark.parametrize(
    ("compaction", "shown_by", "findings"),
    [("independent", [FIRST], DIFFERS), ("coordinated", [], set())],
)
def test_ours_cut_it_off_if_cleaning_is_coordinated(
    compaction: Literal["independent", "coordinated"], shown_by: list[int], findings: set[Any]
) -> None:
    with EmbeddedCluster(compaction=compaction, options=OURS, frozen_clock=True) as cluster:
        cut, mend = partial(cluster.cut, SECOND, FIRST), partial(cluster.mend, SECOND, FIRST)
        assert who_shows_it(logs_after_its_return(cluster, cut, mend)) == shown_by
        assert findings_about(cluster) == findings
