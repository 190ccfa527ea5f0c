"""An unclean election of the input's leader: a position may be one among other records.

    broker 1    leads the input, and has everything; broker 2 is away
    A           has processed up to 8, of which 5 to 7 are on broker 1 alone
                ── broker 1 goes, broker 2 comes back and is made the leader ──
    input       other records come at 5, 6, 7 and 8
    A           must not go on at 8: three that were acknowledged would never be processed

While the input is shorter than the position there is nothing at it, and that is told by the broker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sexton.base.partitions import TopicPartition
from sexton.lab.looking import replica_logs
from sexton.stores.layout import INPUT_EPOCH, encode_epoch
from sexton.testing.embedded import EmbeddedCluster
from tests.stores.counting import INPUT, SINK, app
from tests.stores.harness import (
    CHANGELOG,
    committed,
    delete_before,
    make_topics,
    placed,
    state,
    sums,
    wait_until_done,
    write,
)
from tests.stores.unclean import changed_history, counts_to_8, fails, made_leader, slow

PARTED = "InputGone: numbers-0: .* up to 8, .* parts from that at 5"


@pytest.fixture
def three() -> Iterator[EmbeddedCluster]:
    with placed([1, 2], [3]) as cluster:
        yield cluster


@pytest.fixture
def slow_input(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    return slow(monkeypatch, INPUT)


def cut_and_written_on(three: EmbeddedCluster, records: int) -> None:
    changed_history(three, INPUT, SINK)
    write(three.bootstrap_servers, [(0, "new")] * records)


@pytest.mark.parametrize(("disk", "records"), [("kept", 4), ("lost", 4), ("kept", 3)])
def test_an_input_that_was_cut_and_has_grown_again_is_not_read_on(
    three: EmbeddedCluster, tmp_path: Path, disk: str, records: int
) -> None:
    """Nor taken for one of which there is no more, if it is just as long again."""
    counts_to_8(three, tmp_path / "a", INPUT, SINK).close()
    cut_and_written_on(three, records)
    again = app(three.bootstrap_servers, tmp_path / ("a" if disk == "kept" else "b"))
    again.start()
    fails(again, PARTED)
    assert "new" not in dict(sums(three.bootstrap_servers, 0))


def test_nor_by_an_owner_that_runs(
    three: EmbeddedCluster, tmp_path: Path, slow_input: threading.Event
) -> None:
    one = counts_to_8(three, tmp_path / "a", INPUT, SINK)
    slow_input.set()
    cut_and_written_on(three, 4)
    slow_input.clear()
    fails(one, PARTED)
    assert "new" not in dict(sums(three.bootstrap_servers, 0))


def test_nor_if_its_leader_had_led_before(
    three: EmbeddedCluster, tmp_path: Path, slow_input: threading.Event
) -> None:
    """What it has from then comes next, and is older; what it has below nobody would process."""
    servers = three.bootstrap_servers
    one = app(servers, tmp_path / "a")
    one.start()
    write(servers, [(0, "kept")] * 5)
    wait_until_done(one, 5)
    for topic in ("__consumer_offsets", "__transaction_state"):
        three.elect(topic, 0, 3)
    slow_input.set()
    three.kill(2)
    for topic in (INPUT, SINK):
        three.wait_for(topic, 0, lambda state: state.isr == (1,))
    write(servers, [(0, "hidden")] * 3)
    cut_and_written_on(three, 1)
    slow_input.clear()
    wait_until_done(one, 6)
    slow_input.set()
    three.kill(2)
    three.wait_for(INPUT, 0, lambda state: state.leader == -1)
    three.restart(1)
    made_leader(three, INPUT, SINK)
    write(servers, [(0, "later")])
    slow_input.clear()
    fails(one, "InputGone: numbers-0: .* up to 6, and what its leader has there is of epoch 0")
    assert "later" not in dict(sums(servers, 0))


def epochs_of(servers: str) -> list[bytes | None]:
    """What the changelog says of the input's leaders, one after the other."""
    found = committed(servers, CHANGELOG, 0)
    return [value for key, value in found if key.encode() == INPUT_EPOCH]


def test_a_new_leader_that_has_everything_is_read_on(
    three: EmbeddedCluster, tmp_path: Path
) -> None:
    """Under an owner that runs, and for the next one; the changelog says each epoch once."""
    servers = three.bootstrap_servers
    with app(servers, tmp_path / "a") as one:
        for inputs, leader in ((1, 2), (2, 1), (3, 2)):
            write(servers, [(0, "a")])
            wait_until_done(one, inputs)
            three.elect(INPUT, 0, leader)
    write(servers, [(0, "a")])
    with app(servers, tmp_path / "b") as next_one:
        wait_until_done(next_one, 4)
        write(servers, [(0, "a")])
        wait_until_done(next_one, 5)
        assert state(next_one, 0) == {"a": 5}
    assert epochs_of(servers) == [encode_epoch(each) for each in (0, 1, 2, 3)]


def cleaned(three: EmbeddedCluster) -> None:
    three.clean(force=True)
    assert list(replica_logs(three.bootstrap_servers, INPUT)[1].stored) == [2], "not even a batch"


def deleted(three: EmbeddedCluster) -> None:
    delete_before(three.bootstrap_servers, TopicPartition(INPUT, 0), 2)


@pytest.mark.parametrize("leader", [1, 3])
@pytest.mark.parametrize("forget", [cleaned, deleted])
def test_a_log_that_has_forgotten_an_epoch_does_not_seem_cut(
    three: EmbeddedCluster, tmp_path: Path, forget: Callable[[EmbeddedCluster], None], leader: int
) -> None:
    """Nothing of it is left. Broker 3 copies that, and has never seen any of it."""
    servers = three.bootstrap_servers
    three.alter_topic(INPUT, {"cleanup.policy": "compact,delete"})
    forgotten = Producer(
        {"bootstrap.servers": servers}
    )  # without an id, of which a batch would stay
    with app(servers, tmp_path / "a") as one:
        for inputs, leads_next in ((1, 2), (2, 1)):
            write(servers, [(0, "a")], forgotten)
            wait_until_done(one, inputs)
            three.elect(INPUT, 0, leads_next)
    write(servers, [(0, "a")], forgotten)
    forget(three)
    three.reassign(INPUT, 0, [leader])
    assert epochs_of(servers)[-1] == encode_epoch(1)
    with app(servers, tmp_path / "a") as again:
        wait_until_done(again, 3)
        assert state(again, 0) == {"a": 3}


def test_the_epochs_of_another_input_say_nothing_of_this_one(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    """Somebody has said that it is the same one, moved with its offsets; epochs do not move."""
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, "a")])
    with app(servers, tmp_path / "a") as one:
        wait_until_done(one, 1)
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(CHANGELOG, encode_epoch(7), key=INPUT_EPOCH, partition=0)
    producer.produce(CHANGELOG, key=b"\x00input", partition=0)
    assert producer.flush(60) == 0
    with app(servers, tmp_path / "a") as again:
        write(servers, [(0, "a")])
        wait_until_done(again, 2)
    assert epochs_of(servers)[-1] == encode_epoch(0)
