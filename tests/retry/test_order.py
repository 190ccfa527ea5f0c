"""Order per key, whatever the handler is and however it fails, on the embedded cluster."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sexton.retry import Message, OrderedRetry
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import (
    AT_ONCE,
    OUT,
    PATIENCE_S,
    SOON,
    Flaky,
    committed,
    disorder,
    live_records,
    parse,
    send,
    until_drained,
)


@pytest.fixture
def servers(kafka: EmbeddedCluster) -> str:
    kafka.create_topic("orders", 3)
    kafka.create_topic(OUT, 3)
    return kafka.bootstrap_servers


def _one_by_one(flaky: Flaky) -> Callable[[Message], None]:
    return flaky


def _awaited(flaky: Flaky) -> Callable[[Message], Any]:
    async def handle(message: Message) -> None:
        await asyncio.sleep(0)
        flaky(message)

    return handle


def _in_batches(flaky: Flaky) -> Callable[[list[Message]], None]:
    def handle(messages: list[Message]) -> None:
        assert len({message.key for message in messages}) == len(messages)
        for message in messages:
            try:
                flaky(message)
            except ValueError as error:
                message.fail(error)

    return handle


def _awaited_batches(flaky: Flaky) -> Callable[[list[Message]], Any]:
    handle = _in_batches(flaky)

    async def wait(messages: list[Message]) -> None:
        await asyncio.sleep(0)
        handle(messages)

    return wait


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (_one_by_one, {}),
        (_one_by_one, {"workers": 4}),
        (_awaited, {}),
        (_awaited, {"workers": 8}),
        (_in_batches, {"batch": True}),
        (_awaited_batches, {"batch": True}),
        (_one_by_one, {"mode": "compensating"}),
        (_one_by_one, {"settings": {"group.protocol": "consumer"}}),
        (_one_by_one, {"settings": {"partition.assignment.strategy": "range"}}),
    ],
    ids=[
        "one by one", "four workers", "awaited", "eight awaited", "batches", "awaited batches",
        "compensating", "KIP-848", "eager",
    ],
)  # fmt: skip
def test_every_key_is_handled_in_order_and_once(
    servers: str, kind: Callable[[Flaky], Any], options: dict[str, Any]
) -> None:
    flaky = Flaky(frozenset({0, 3, 4}), times=2)
    count = send(servers, "orders", keys=40, numbers=range(8))
    with OrderedRetry(
        kind(flaky), topic="orders", group="g", bootstrap_servers=servers, backoff=SOON, **options
    ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
        found = outputs.until(count)
        until_drained(retry)
        outputs.poll(0.2)
    assert disorder(message.value() for message in found) == []
    assert len(found) == count
    assert flaky.overlaps == 0


def test_the_judgement_finds_what_it_is_there_for() -> None:
    assert disorder([b"1:0", b"2:0", b"1:1", b"2:1"]) == []
    assert disorder([b"1:0", b"1:2", b"1:1"]) == ["key 1: 1 after 2"]
    assert disorder([b"1:0", b"2:0", b"1:0"]) == ["key 1: [0] more than once"]


def test_a_failed_message_is_not_overtaken_by_its_key(servers: str) -> None:
    """A snapshot of kafka-resilience gave `1:fail 1:fail 2:ok 3:ok 1:ok` here."""
    flaky = Flaky(frozenset({1}), times=2)
    send(servers, "orders", keys=1, numbers=[1, 2, 3])
    with OrderedRetry(
        flaky, topic="orders", group="g", bootstrap_servers=servers, backoff=AT_ONCE
    ), committed(servers, OUT) as outputs:  # fmt: skip
        outputs.until(3)
    told = [f"{number}:{'ok' if works else 'fail'}" for _, number, works in flaky.story]
    assert told == ["1:fail", "1:fail", "1:ok", "2:ok", "3:ok"]


def test_a_retry_that_goes_behind_the_others_is_found_out(servers: str) -> None:
    """The negative control: the usual retry topic, which puts a failed message at its end."""
    values = [b"1:%d" % number for number in (1, 2, 3)]
    handled, waiting, runs = list[bytes](), values, Counter[bytes]()
    while waiting:
        value, *waiting = waiting
        runs[value] += 1
        if value == b"1:1" and runs[value] <= 2:
            waiting = [*waiting, value]
        else:
            handled.append(value)
    assert disorder(handled) == ["key 1: 1 after 3"]


def test_other_keys_do_not_wait(servers: str) -> None:
    """Key 0 fails for as long as the test runs."""

    def handle(message: Message) -> None:
        key, _ = parse(message.value)
        if key == 0:
            raise ValueError("never")
        message.send(OUT, message.value, message.key)

    send(servers, "orders", keys=10, numbers=range(20))
    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers, max_attempts=1000
    ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
        found = outputs.until(9 * 20)
        until(lambda: sum(s.depth for s in retry.standings) == 20, "key 0 waits", PATIENCE_S)
        assert sum(s.locked_keys for s in retry.standings) == 1
    assert disorder(message.value() for message in found) == []
    for topic in ("orders.g.locks", "orders.g.retry"):
        assert len(live_records(servers, topic)) == 20


def test_messages_without_a_key_hold_nobody_up(servers: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    for number in range(20):
        producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    failing = b"0"

    def handle(message: Message) -> None:
        if message.value == failing:
            raise ValueError("never")
        message.send(OUT, message.value)

    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers, max_attempts=1000
    ), committed(servers, OUT) as outputs:  # fmt: skip
        found = {message.value() for message in outputs.until(19)}
    assert found == {b"%d" % number for number in range(1, 20)}


def test_a_complete_drain_leaves_no_lock_behind(kafka: EmbeddedCluster, servers: str) -> None:
    """The same snapshot came back with 7,879 stale locks after a complete drain."""
    flaky = Flaky(frozenset(range(5)))
    count = send(servers, "orders", keys=200, numbers=range(5))
    named: dict[str, Any] = {"topic": "orders", "group": "g", "bootstrap_servers": servers}
    with OrderedRetry(flaky, backoff=AT_ONCE, **named) as retry, committed(servers, OUT) as outputs:
        outputs.until(count)
        until_drained(retry)
        assert retry.count("redirected") == count  # all of them were locked at some time
    with OrderedRetry(flaky, backoff=AT_ONCE, **named) as again:
        again.wait_until_ready(PATIENCE_S)
        assert [each.depth for each in again.standings] == [0, 0, 0]
        assert again.count("reaped") == 0
    assert sum(flaky.runs.values()) == 2 * count  # nothing ran again
    for topic in ("orders.g.locks", "orders.g.retry"):
        assert live_records(servers, topic) == {}


def test_a_key_of_ones_own_choice(servers: str) -> None:
    """Order by what stands before the colon, not by Kafka's key."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    for number in range(10):
        producer.produce("orders", b"7:%d" % number, b"other-%d" % number, partition=1)
    assert producer.flush(PATIENCE_S) == 0
    flaky = Flaky(frozenset({0}), times=1)
    with OrderedRetry(
        flaky, topic="orders", group="g", bootstrap_servers=servers, backoff=SOON,
        key=lambda message: message.value().partition(b":")[0],
    ), committed(servers, OUT) as outputs:  # fmt: skip
        outputs.until(10)
    assert [number for _, number, works in flaky.story if works] == list(range(10))
    assert flaky.story[:2] == [(7, 0, False), (7, 0, True)]


def test_the_largest_token_of_each_key_turns_nobody_away_who_is_in_time(servers: str) -> None:
    """That of a whole partition would: a retry has a smaller one than what was done meanwhile."""
    tokens: dict[tuple[int, bytes], list[tuple[int, int]]] = {}
    flaky = Flaky(frozenset({0, 3}), times=2)

    def handle(message: Message) -> None:
        for key in (message.key, b"any"):
            tokens.setdefault((message.partition, key), []).append(message.token)
        flaky(message)

    count = send(servers, "orders", keys=20, numbers=range(6))
    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers, backoff=SOON
    ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
        outputs.until(count)
        until_drained(retry)
    in_order = {at: given == sorted(given) for at, given in tokens.items()}
    assert all(good for (_, key), good in in_order.items() if key != b"any")
    assert not all(good for (_, key), good in in_order.items() if key == b"any")


def test_too_many_that_wait_pause_the_topic(servers: str) -> None:
    """Memory is bounded: beyond `max_pending` a partition is not read until there are fewer."""
    works = threading.Event()

    def handle(message: Message) -> None:
        if not works.is_set():
            raise ConnectionError("everything is down")
        message.send(OUT, message.value, message.key)

    count = send(servers, "orders", keys=200, numbers=range(2))
    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers, backoff=SOON, max_batch=20,
        max_pending=30, max_attempts=1_000_000,
    ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
        until(lambda: [s.paused for s in retry.standings] == [True] * 3, "paused", PATIENCE_S)
        assert max(each.depth for each in retry.standings) < 30 + 2 * 20
        works.set()
        found = outputs.until(count)
        until_drained(retry)
        assert not any(each.paused for each in retry.standings)
    assert disorder(message.value() for message in found) == []
