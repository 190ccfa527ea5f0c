"""Locks that nobody will release: found at each start by proof, never by a timer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sexton.machines.retry_records import LockRecord, RetryRecord, TaskName, Watermark
from sexton.retry import Message, OrderedRetry, starting
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.conftest import RunSexton
from tests.retry.harness import OUT, PATIENCE_S, committed, send, until_drained

NAME = TaskName("orders", 0)


@pytest.fixture
def servers(kafka: EmbeddedCluster) -> str:
    """Ten messages of key 0 are handled already."""
    kafka.create_topic("orders", 1)
    kafka.create_topic(OUT, 1)
    send(kafka.bootstrap_servers, "orders", keys=1, numbers=range(10))
    with _start(kafka.bootstrap_servers), committed(kafka.bootstrap_servers, OUT) as outputs:
        outputs.until(10)
    return kafka.bootstrap_servers


def _start(servers: str, **more: Any) -> OrderedRetry:
    def handle(message: Message) -> None:
        message.send(OUT, message.value, message.key)

    return OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers, commands_every_s=0.05, **more
    )


def _plant(
    servers: str,
    message: int,
    *,
    with_record: bool,
    with_lock: bool = True,
    key: bytes = b"0",
    timestamp_ms: int = 1,
) -> None:
    """As if a tombstone had been lost, on a Kafka whose replicas clean as they like."""
    producer = Producer({"bootstrap.servers": servers})
    lock = LockRecord(dead=False, attempts=1, not_before_ms=0, since_ms=1, key=key)
    if with_lock:
        producer.produce("orders.g.locks", lock.encode(), NAME.id_of(message), 0)
    if with_record:
        value, headers = RetryRecord(key, key, b"0:%d" % message, (), timestamp_ms).encode()
        told: Any = headers
        producer.produce("orders.g.retry", value, NAME.id_of(message), 0, headers=told)
    assert producer.flush(PATIENCE_S) == 0


def _sent_ms(servers: str, message: int) -> int:
    """When it was written to main."""
    with committed(servers, "orders") as main:
        ms: int = main.until(message + 1)[message].timestamp()[1]
    return ms


@pytest.mark.parametrize("with_record", [True, False])
def test_a_revived_lock_below_w_is_released(servers: str, with_record: bool) -> None:
    """All below W is settled, whatever the lock topic says now: message 3 does not run again."""
    _plant(servers, 3, with_record=with_record)
    with _start(servers) as retry, committed(servers, OUT) as outputs:
        until(lambda: retry.count("reaped") == 1, "it is released", PATIENCE_S)
        send(servers, "orders", keys=1, numbers=range(10, 12))
        found = [message.value() for message in outputs.until(12)]
        until_drained(retry)
        assert retry.count("redirected") == 0  # its key was free
    assert found == [b"0:%d" % number for number in range(12)]


def test_a_lock_without_its_message_is_released(servers: str) -> None:
    """Above W only the retry topic can tell, and it has no such message."""
    _plant(servers, 10, with_record=False)
    with _start(servers) as retry:
        until(lambda: retry.count("reaped") == 1, "it is released", PATIENCE_S)
        until_drained(retry)


def test_a_lock_that_may_be_true_is_kept(servers: str) -> None:
    """The negative control: above W and with its message, it is not stale but waits."""
    send(servers, "orders", keys=1, numbers=range(10, 12))
    _plant(servers, 10, with_record=True, timestamp_ms=_sent_ms(servers, 10))
    with _start(servers) as retry, committed(servers, OUT) as outputs:
        found = [message.value() for message in outputs.until(12)]
        until_drained(retry)
        assert retry.count("reaped") == 0
        assert retry.count("redirected") == 1  # 11 waited for it
    assert found == [b"0:%d" % number for number in range(12)]


def test_an_operator_has_a_running_instance_look_again(servers: str, run_sexton: RunSexton) -> None:
    about = ("-b", servers, "--topic", "orders", "--group", "g", "--format", "json")
    with _start(servers) as retry:
        retry.wait_until_ready(PATIENCE_S)
        _plant(servers, 3, with_record=True)
        assert run_sexton("retry", "status", *about).json["summary"]["stale"] == 1
        looked = run_sexton("retry", "reap", "--dry-run", *about)
        assert [row["id"] for row in looked.json["locks"]] == ["orders-0-3"]
        done = run_sexton("retry", "reap", "--wait", "60s", *about)
        assert done.code == 0 and done.json["summary"]["done"] == 1, done.stdout
        until(lambda: retry.count("reaped") == 1, "it is released", PATIENCE_S)
        until(
            lambda: run_sexton("retry", "status", *about).json["summary"]["stale"] == 0,
            "nothing is stale",
            PATIENCE_S,
        )


@pytest.mark.parametrize("command", ["status", "reap"])
@pytest.mark.parametrize("seen_before", ["orders.g.locks", "orders.g.retry"])
def test_what_is_settled_between_looks_at_two_topics_was_never_stale(
    servers: str,
    run_sexton: RunSexton,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    seen_before: str,
) -> None:
    """An instance commits while somebody looks: one topic is seen before that, the other after."""
    _plant(servers, 10, with_record=True)
    read, is_settled = starting._Asking._read, asyncio.Event()

    async def settled_meanwhile(asking: Any, at: Any, *more: Any) -> Any:
        if at.topic != seen_before:
            await is_settled.wait()
        found = await read(asking, at, *more)
        if not is_settled.is_set():
            _settle(servers, 10)
            is_settled.set()
        return found

    about = ["-b", servers, "--topic", "orders", "--group", "g", "--format", "json"]
    if command == "reap":
        about.append("--dry-run")
    with monkeypatch.context() as patch:
        patch.setattr(starting._Asking, "_read", settled_meanwhile)
        told = run_sexton("retry", command, *about).json["summary"]
    assert not told["stale"] and not told.get("orphans") and not told.get("depth"), told


def _settle(servers: str, message: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for topic in ("orders.g.locks", "orders.g.retry"):
        producer.produce(topic, None, NAME.id_of(message), 0)
    assert producer.flush(PATIENCE_S) == 0


def test_what_is_stale_or_an_orphan_at_each_look_is_shown(
    servers: str, run_sexton: RunSexton
) -> None:
    """The negative control."""
    _plant(servers, 10, with_record=False)
    _plant(servers, 11, with_record=True, with_lock=False)
    about = ("-b", servers, "--topic", "orders", "--group", "g", "--format", "json")
    told = run_sexton("retry", "status", *about).json["summary"]
    assert (told["stale"], told["orphans"]) == (1, 1)
    (lock,) = run_sexton("retry", "reap", "--dry-run", *about).json["locks"]
    assert (lock["id"], lock["why"]) == ("orders-0-10", "released: it has no retry record")


def _commit(servers: str, position: int, w: int) -> None:
    """What an instance would have committed if all from W on still waited."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    told = Watermark(w, 1).encode()
    consumer.commit(
        offsets=[TopicPartition("orders", 0, position, metadata=told)], asynchronous=False
    )
    consumer.close()


def test_without_transactions_a_message_whose_lock_is_gone_still_waits(servers: str) -> None:
    """A predecessor that was paused wakes up and writes retry records whose locks, which nobody
    could explain, its successor has released: they are pending, in order, under their keys."""
    _commit(servers, position=10, w=7)
    _plant(servers, 7, with_record=True, key=b"0")
    _plant(servers, 8, with_record=True, with_lock=False, key=b"0")
    _plant(servers, 9, with_record=True, with_lock=False, key=b"other")
    send(servers, "orders", keys=1, numbers=range(10, 12))
    sent_ms = _sent_ms(servers, 10)  # main is read again
    _plant(servers, 10, with_record=True, with_lock=False, key=b"0", timestamp_ms=sent_ms)
    with (
        _start(servers, mode="compensating") as retry,
        committed(servers, OUT) as outputs,
    ):
        retry.wait_until_ready(PATIENCE_S)
        found = [message.value() for message in outputs.until(10 + 5)]
        until_drained(retry)
        assert retry.count("reports", code="adopted") == 3
    again = [value for value in found[10:] if value != b"0:9"]  # of another key: any time
    assert again == [b"0:7", b"0:8", b"0:10", b"0:11"]


def test_commands_show_it_as_the_service_will_take_it(servers: str, run_sexton: RunSexton) -> None:
    """What a compensating instance adopts is no orphan, and a key may wait for it."""
    _commit(servers, position=10, w=7)
    _plant(servers, 8, with_record=True, with_lock=False, key=b"other")
    about = ("--topic", "orders", "--group", "g", "-b", servers, "--format", "json")
    shown = ("depth", "orphans", "oldest")

    def status(*more: str) -> list[Any]:
        told = run_sexton("retry", "status", *about, *more).json["summary"]
        return [told[name] for name in shown]

    assert status() == [0, 1, None]
    compensating = ("--mode", "compensating")
    assert status(*compensating) == [1, 0, None]
    (lock,) = run_sexton("retry", "locks", *about, *compensating).json["locks"]
    assert (lock["id"], lock["key"], lock["state"]) == ("orders-0-8", "other", "due")
    assert lock["locked_since"] is None
    told = run_sexton("retry", "explain", "other", *about[:-2], *compensating).stdout
    assert "since when is not known" in told
    for do in ("redrive", "skip"):
        key = ("--key", "other", "--dry-run", *about, *compensating)
        (order,) = run_sexton("retry", do, *key).json["orders"]
        assert order["id"] == "orders-0-8"


def test_with_transactions_it_is_left_to_an_operator(servers: str) -> None:
    """The negative control: it may have been settled, and its tombstone lost."""
    _commit(servers, position=10, w=8)
    _plant(servers, 8, with_record=True, with_lock=False)
    with _start(servers) as retry:
        until(lambda: retry.count("reports", code="orphan") == 1, "it is told of", PATIENCE_S)
        until_drained(retry)
        assert retry.count("attempts", outcome="done") == 0
