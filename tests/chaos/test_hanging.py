"""Whose fault a hanging call is: a broker's is found, and the client's own breaks nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sexton.node.group_offsets import GroupOffsets
from sexton.testing.embedded import EmbeddedCluster
from tests.chaos import hanging
from tests.chaos.checker import check_log
from tests.chaos.copying import copy_the_rest
from tests.chaos.hanging import LeftBehind, Pulse, Sample, patiently
from tests.chaos.history import History
from tests.chaos.workloads import (
    COPY,
    LEDGER,
    PARTITIONS,
    PATIENCE_S,
    Workshop,
    begin_again,
    everything,
)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedCluster]:
    """One broker, with a record to copy."""
    monkeypatch.setattr(hanging, "CALL_S", 1.0)
    monkeypatch.setattr(hanging, "GIVE_UP_S", 2.0)
    with EmbeddedCluster(1) as cluster:
        for topic in (LEDGER, COPY):
            cluster.create_topic(topic, PARTITIONS)
        producer = Workshop.to_look_around(cluster.bootstrap_servers).producer()
        producer.produce(LEDGER, b"a", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        yield cluster


def test_what_is_left_is_copied(cluster: EmbeddedCluster) -> None:
    history = History()
    assert not list(copy_the_rest(cluster.bootstrap_servers, history))
    assert [seen.value for seen in everything(cluster.bootstrap_servers, COPY)] == [b"a"]
    assert not history.unanswered and not history.left_behind


def test_a_broker_that_does_not_answer_is_found(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_what: object) -> None:
        pass

    monkeypatch.setattr(GroupOffsets, "commit_in_transaction", never)
    cluster.restart(1)
    history = History()
    found = [*copy_the_rest(cluster.bootstrap_servers, history), *check_log(history, COPY, [])]
    assert {violation.kind for violation in found} == {"cannot-copy", "unanswered"}
    assert not history.left_behind


def test_a_client_that_asks_nobody_is_left_behind(cluster: EmbeddedCluster) -> None:
    shop, pulse, over = (
        Workshop.to_look_around(cluster.bootstrap_servers),
        Pulse(),
        threading.Event(),
    )
    producer = begin_again(shop, "idle", **pulse.settings)
    assert producer is not None

    def hang(_seconds: float) -> None:
        over.wait()

    with pytest.raises(LeftBehind):
        patiently(hang, producer, pulse, shop.history, "idle")
    over.set()
    assert len(shop.history.left_behind) == 1 and not shop.history.unanswered
    assert not list(check_log(shop.history, LEDGER, []))


@pytest.mark.parametrize(
    ("samples", "nobody"),
    [
        ([(5, 0), (5, 1), (5, 0)], True),  # only news of the cluster are asked for
        ([(5, 1), (5, 1), (5, 2)], False),  # an answer is missing
        ([(5, 0), (6, 0), (8, 0)], False),  # it asks again and again
        ([], False),
    ],
)
def test_statistics_tell_whether_a_client_asks(
    samples: list[tuple[int, int]], nobody: bool
) -> None:
    pulse = Pulse()
    pulse.samples.extend(Sample(*sample) for sample in samples)
    assert pulse.asks_nobody is nobody
