"""Small parts of ordered retry that need no broker."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest

from sexton.base.errors import ConfigError, PeerError
from sexton.machines.retry_pending import Pending
from sexton.machines.retry_records import TaskName
from sexton.machines.retry_rounds import Outcome
from sexton.machines.retry_settings import Settings
from sexton.machines.retry_task import Task
from sexton.retry import Dead, Drop, Message, Retry
from sexton.retry.handlers import Calm, Handling, Plan, RoundOfTask
from sexton.retry.membership import membership
from sexton.retry.messages import Payload, Place
from sexton.retry.outcomes import check_errors, failure_of, outcome_of
from sexton.retry.pacing import MOST_S, STEP_S, Pacing
from sexton.retry.payloads import OVERHEAD_BYTES, PayloadCache

PLACE = Place("orders", 0, 7)


class Polled:
    """As confluent-kafka gives it."""

    def __init__(self, offset: int, key: bytes | None, value: bytes) -> None:
        self._all = (offset, key, value)

    def offset(self) -> int:
        return self._all[0]

    def key(self) -> bytes | None:
        return self._all[1]

    def value(self) -> bytes:
        return self._all[2]

    def headers(self) -> list[tuple[str, bytes]] | None:
        return [("h", b"1"), ("h", b"2")]

    def timestamp(self) -> tuple[int, int]:
        return 1, 1234


def _round(messages: list[Polled]) -> RoundOfTask:
    task = Task(TaskName("orders", 0), Settings(), Random(1), 0, 1, Pending())
    begun = task.begin(0, [m.offset() for m in messages], [m.key() for m in messages])
    return RoundOfTask(begun, PLACE, messages, {})


def test_the_nearest_exception_type_decides() -> None:
    errors = {Exception: Dead, KeyError: Drop, ConnectionError: Retry}
    assert outcome_of(KeyError(), errors) is Outcome.DROP
    assert outcome_of(LookupError(), errors) is Outcome.DEAD
    assert outcome_of(ConnectionResetError(), errors) is Outcome.RETRY
    assert outcome_of(Dead(), {Dead: Drop}) is Outcome.DEAD
    assert outcome_of(ValueError(), {}) is Outcome.RETRY
    with pytest.raises(ConfigError):
        check_errors({ValueError: ValueError})  # type: ignore[dict-item]


class NotNow(Retry):
    """Of somebody who does not call Retry's own __init__."""

    def __init__(self, service: str) -> None:
        self.service = service


def test_a_retry_of_ones_own_is_a_retry() -> None:
    def handle(message: Message) -> None:
        raise NotNow("billing")

    of = _round([Polled(0, b"a", b"0"), Polled(1, b"a", b"1")])
    assert not Handling(handle, {}).run(of, of.round.work[0])
    assert of.round.work[0].outcome is Outcome.RETRY
    assert of.round.work[0].after_ms is None
    assert Retry(after_s=1.5).after_ms == 1_500 and Retry().after_ms is None


def test_a_reason_is_one_line() -> None:
    assert failure_of(ValueError("a\n  b"), with_stack=False).reason == "ValueError: a b"
    assert failure_of(Dead("hopeless"), with_stack=False).reason == "hopeless"
    assert failure_of(KeyError(), with_stack=False).reason == "KeyError"
    long = failure_of(ValueError("x" * 10_000), with_stack=False).reason
    assert len(long) == 500 and long.endswith("…")


def test_a_member_without_a_name_or_a_generation_is_nobody() -> None:
    def told(generation: int, member: bytes) -> bytes:
        return b"CGMDv2:" + struct.pack("=i", generation) + b"g\0" + member + b"\0\x01"

    assert membership(told(3, b"m-1"))[:2] == (3, "m-1")
    assert membership(told(3, b"m-1")).counts
    assert not membership(told(-1, b"")).counts
    assert not membership(told(3, b"")).counts
    assert not membership(told(0, b"m-1")).counts  # has left, in a group of KIP-848
    assert not membership(None).counts
    with pytest.raises(PeerError):
        membership(b"CGMDv3:....")


def test_the_cache_forgets_the_oldest_when_it_is_full() -> None:
    cache = PayloadCache(most_bytes=3 * (OVERHEAD_BYTES + 10))
    for message in range(5):
        cache.put(message, Payload(b"k" * 5, b"v" * 5, (), 0))
    assert 0 in cache  # a round that runs may need it
    cache.shrink()
    assert [message for message in range(5) if message in cache] == [2, 3, 4]
    cache.forget([3])
    cache.put(4, Payload(None, None, (), 0))  # again, smaller
    cache.shrink()
    assert len(cache) == 2


def test_a_message_shows_what_was_polled() -> None:
    message = Message(PLACE, 5, "key", {"a": 1}, Polled(5, b"k", b"v"), attempts=2)
    assert (message.topic, message.partition, message.offset) == ("orders", 0, 5)
    assert (message.id, message.token) == ("orders-0-5", (7, 5))
    assert (message.raw_key, message.raw_value, message.timestamp_ms) == (b"k", b"v", 1234)
    assert message.header("h") == b"2" and message.header("other") is None
    message.send("out", "text", "key", headers=[("a", None)], partition=3)
    message.send("out", None)
    assert message.outputs == [
        ("out", b"text", b"key", 3, (("a", None),), 5),
        ("out", None, None, -1, (), 5),
    ]
    with pytest.raises(TypeError, match="bytes"):
        message.send("out", 5)  # type: ignore[arg-type]


def test_calm_ends_at_the_first_failure() -> None:
    def handle(message: Message) -> None:
        if message.value == b"2":
            raise ValueError("two")
        message.send("out", message.value)

    calm = Calm(PLACE, [Polled(n, b"k", b"%d" % n) for n in range(5)])
    Handling(handle, {}).run_calm(calm, Plan())
    assert calm.done == 2 and str(calm.failed) == "two" and not calm.is_poison
    assert [output[1] for output in calm.outputs] == [b"0", b"1"]
    poisoned = Calm(PLACE, [Polled(n, b"k", b"%d" % n) for n in range(5)])
    Handling(handle, {}, value_deserializer=_not_one).run_calm(poisoned, Plan())
    assert poisoned.done == 1 and poisoned.is_poison
    cut = Calm(PLACE, [Polled(0, b"k", b"0")])
    plan = Plan(calm=[cut])
    plan.cut = True
    Handling(handle, {}).run_calm(cut, plan)
    assert cut.done == 0 and cut.failed is None


def _not_one(data: bytes | None) -> Any:
    if data == b"1":
        raise ValueError("one")
    return data


def test_waves_never_hold_a_key_twice_and_stop_behind_a_failure() -> None:
    of = _round([Polled(n, b"%d" % (n % 3), b"%d" % n) for n in range(9)])
    waves: list[list[int]] = []

    def handle(messages: list[Message]) -> None:
        waves.append([message.offset for message in messages])
        for message in messages:
            if message.offset == 4:
                message.fail(ValueError("four"))

    for wave in Plan([of]).waves(2):
        Handling(handle, {}, batch=True).run_batch(wave)
    assert waves == [[0, 1], [2], [3, 4], [5], [6, 8]]


def test_one_worker_goes_by_the_log_and_skips_what_waits() -> None:
    of = _round([Polled(n, b"%d" % (n % 2), b"%d" % n) for n in range(6)])
    ran: list[int] = []

    def handle(message: Message) -> None:
        ran.append(message.offset)
        if message.offset == 1:
            raise ValueError("one")

    Handling(handle, {}).run_in_order(Plan([of]))
    assert ran == [0, 1, 2, 4]


def test_a_transaction_that_came_too_soon_makes_the_next_one_wait_a_moment() -> None:
    pacing = Pacing()
    pacing.learn(commit_s=0.004)
    assert pacing.wait_s() == 0.0
    pacing.learn(commit_s=0.021)
    assert 0 < pacing.wait_s() <= STEP_S
    for _ in range(100):
        pacing.learn(commit_s=0.021)
    assert pacing.pause_s == MOST_S  # brokers may simply be slow
    for _ in range(49):
        pacing.learn(commit_s=0.004)
    assert MOST_S - STEP_S < pacing.pause_s < MOST_S
    for _ in range(1_000):
        pacing.learn(commit_s=0.004)
    assert pacing.wait_s() == 0.0
