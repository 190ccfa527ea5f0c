"""What a survey does when things go wrong on the way: nothing half-read is ever called whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sexton.client.retrying import Patience
from sexton.survey import tasks
from sexton.survey.plan import Wanted
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import run_survey
from sexton.survey.tasks import FoldTask, Result
from sexton.testing.embedded import EmbeddedCluster

TOPIC = "orders"


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as started:
        started.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1]], {"cleanup.policy": "compact"})
        producer = Producer({"bootstrap.servers": started.bootstrap_servers})
        for number in range(500):
            producer.produce(TOPIC, f"value {number}", f"key {number}", partition=number % 2)
        assert producer.flush(30) == 0
        yield started


class Counting:
    """A runner that does something before a task, and remembers which ran."""

    slots = 1

    def __init__(self, stop_after: int | None = None) -> None:
        self.ran: list[FoldTask] = []
        self._stop_after = stop_after

    def run(self, wanted: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]:
        for number, task in enumerate(wanted):
            if len(self.ran) == self._stop_after:
                raise KeyboardInterrupt
            self.ran.append(task)
            ((_zero, result),) = LocalRunner(1).run([task])
            yield number, result


def wanted(cluster: EmbeddedCluster) -> Wanted:
    return Wanted(cluster.bootstrap_servers, topics=(TOPIC,))


def test_replicas_that_were_read_are_not_read_again(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    interrupted = Counting(stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        run_survey(wanted(cluster), interrupted, journal=journal)
    rest = Counting()
    survey = run_survey(wanted(cluster), rest, journal=journal)
    assert len(interrupted.ran) == 4 and len(rest.ran) == 2
    assert not list(survey.findings) and not list(survey.unread)
    assert sum(len(each.facts) for each in survey.partitions) == 6
    assert not journal.exists()


def test_a_broker_that_dies_while_it_is_read_is_named(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "PATIENCE", Patience(timeout_ms=300))

    class Killing(Counting):
        def run(self, wanted: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]:
            if not self.ran:
                cluster.kill(3)
            yield from super().run(wanted)

    survey = run_survey(wanted(cluster), Killing())
    unread = [(str(partition), node) for partition, node, _why in survey.unread]
    assert unread == [("orders-0", 3), ("orders-1", 3)]
    assert not list(survey.findings)


def test_more_keys_than_memory_has_room_for(cluster: EmbeddedCluster) -> None:
    """The log is read several times, for some of the keys each time, with the same digests."""
    roomy = run_survey(wanted(cluster), LocalRunner())
    tight = run_survey(
        Wanted(cluster.bootstrap_servers, topics=(TOPIC,), most_keys=40), LocalRunner()
    )
    assert not list(tight.findings)
    for one, other in zip(roomy.partitions, tight.partitions, strict=True):
        assert [facts.keys for facts in one.facts.values()] == [250] * 3
        assert [facts.keys for facts in other.facts.values()] == [250] * 3


def test_only_what_is_recent_is_compared(cluster: EmbeddedCluster) -> None:
    far = Wanted(cluster.bootstrap_servers, topics=(TOPIC,), since_ms=1 << 42)
    survey = run_survey(far, LocalRunner())
    assert [each.plan.groups[0].scope.start for each in survey.partitions] == [250, 250]
    assert all(facts.keys == 0 for each in survey.partitions for facts in each.facts.values())


def test_a_share_of_the_partitions(cluster: EmbeddedCluster) -> None:
    half = Wanted(cluster.bootstrap_servers, topics=(TOPIC,), sample_partitions=0.5)
    survey = run_survey(half, LocalRunner())
    assert len(survey.partitions) == 1 and survey.left_out == 1
