"""Small parts of ordered retry that need no broker."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Any, cast

import pytest

from sexton.base.errors import ConfigError, PeerError
from sexton.cli.retry_explain import story
from sexton.cli.retry_reach import LOCKS, lock_row
from sexton.machines.retry_pending import Held, Pending
from sexton.machines.retry_records import TaskName
from sexton.machines.retry_rounds import Outcome
from sexton.machines.retry_settings import Settings
from sexton.machines.retry_task import Task
from sexton.retry import Dead, Drop, Message, OrderedRetry, Retry, ordered_retry
from sexton.retry.config import RetryConfig
from sexton.retry.handlers import LOOKS_EACH, Calm, Handling, NeverRan, Plan, RoundOfTask
from sexton.retry.looking import Lock
from sexton.retry.membership import membership
from sexton.retry.messages import Payload, Place
from sexton.retry.outcomes import check_errors, failure_of, outcome_of
from sexton.retry.owned import Owned
from sexton.retry.pacing import MOST_S, STEP_S, Pacing
from sexton.retry.payloads import OVERHEAD_BYTES, PayloadCache
from sexton.retry.pool import Pool
from sexton.retry.refusals import Refusal, Refusals
from sexton.retry.topics import Names

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
        check_errors({ValueError: ValueError})


@pytest.mark.parametrize("kind", ["ValueError", int, ValueError("one")])
def test_errors_are_told_by_their_types(kind: Any) -> None:
    """What is none of these would never be met, and its messages be tried again."""
    with pytest.raises(ConfigError, match="is no type of exceptions"):
        check_errors({kind: Dead})


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


def test_an_error_that_cannot_say_what_it_is_has_a_reason_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            return self.message  # type: ignore[attr-defined, no-any-return]  # it has none

    found = failure_of(Mute())
    assert found.reason.endswith("Mute: (its own text cannot be had: AttributeError)")
    assert found.exception.endswith("Mute")


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


def test_the_decorator_takes_what_the_class_takes() -> None:
    """For mypy as well: it would not let pass what is ignored here if it were no mistake."""

    @ordered_retry(topic="orders", group="g", bootstrap_servers="nowhere:1", workers=3)
    def handle(message: Message) -> None:
        del message

    assert isinstance(handle, OrderedRetry)
    with pytest.raises(TypeError, match="worker"):
        ordered_retry(topic="orders", group="g", worker=3)(print)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="topic"):
        ordered_retry(group="g")(print)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ordered_retry(topic="orders", group="g", workers="3")(print)  # type: ignore[arg-type]


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


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no text as a topic": ({"topic": 5}, "the name of a topic is text, not int"),
    "no topic": ({"topic": None}, "the name of a topic is text, not NoneType"),
    "an empty topic": ({"topic": ""}, "'' cannot be the name of a topic"),
    "a topic with a zero byte": ({"topic": "a\0b"}, "cannot be the name of a topic"),
    "a topic that is no text": ({"topic": "\ud800"}, "cannot be the name of a topic"),
    "a topic as long as a page": ({"topic": "x" * 600}, "cannot be the name of a topic"),
    "a number": ({"value": 5}, "bytes, text or None can be sent, not int"),
    "a number as key": ({"key": 5}, "bytes, text or None can be sent, not int"),
    "a number as a header": ({"headers": [("n", 3)]}, "bytes, text or None can be sent, not int"),
    "a header without a name": ({"headers": [(None, b"")]}, "the name of a header is text"),
    "a header of bytes": ({"headers": [(b"n", b"")]}, "the name of a header is text, not bytes"),
    "a header's name with a zero byte": ({"headers": [("a\0b", b"")]}, "cannot be the name of a h"),
    "a header's name that is no text": ({"headers": [("\ud800", b"")]}, "surrogates"),
    "a header's value that is no text": ({"headers": [("n", "\ud800")]}, "surrogates"),
    "a header of three": ({"headers": [("n", b"", b"")]}, "pairs of a name and a value"),
    "headers that are none": ({"headers": 5}, "not iterable"),
    "headers as a dictionary": ({"headers": {"name": b""}}, "pairs of a name and a value"),
    "text as a partition": ({"partition": "0"}, "a partition is a number, not str"),
    "no partition": ({"partition": None}, "a partition is a number, not NoneType"),
    "a partition below none": ({"partition": -2}, "there is no partition -2"),
    "a partition beyond all": ({"partition": 1 << 31}, "there is no partition 2147483648"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_sent_is_the_handlers_mistake(what: str) -> None:
    """Found out later it would be that of all messages of a round; some would end the process."""
    given, said = BAD[what]
    message = Message(PLACE, 5, b"k", b"v", None)
    with pytest.raises((TypeError, ValueError), match=said):
        message.send(**({"topic": "out", "value": b"v"} | given))
    assert message.outputs is None


class Topic(StrEnum):
    OUT = "out"


def test_what_can_be_sent_may_have_other_types_than_bytes() -> None:
    message = Message(PLACE, 5, b"k", b"v", None)
    given: dict[str, Any] = {"value": bytearray(b"v"), "key": memoryview(b"k")}
    message.send(Topic.OUT, **given, headers=cast("Any", [["a", "1"]]), partition=True)
    message.send("out", b"v", headers=iter([("a", None)]))
    assert message.outputs == [
        ("out", b"v", b"k", 1, (("a", b"1"),), 5),
        ("out", b"v", None, -1, (("a", None),), 5),
    ]


def test_calm_ends_at_the_first_failure() -> None:
    def handle(message: Message) -> None:
        if message.value == b"2":
            raise ValueError("two")
        message.send("out", message.value)

    calm = Calm(PLACE, [Polled(n, b"k", b"%d" % n) for n in range(5)])
    Handling(handle, {}).run_calm(calm, Plan())
    assert calm.done == 2 and str(calm.failed) == "two" and not calm.poison
    assert [output[1] for output in calm.outputs] == [b"0", b"1"]
    poisoned = Calm(PLACE, [Polled(n, b"k", b"%d" % n) for n in range(5)])
    Handling(handle, {}, value_deserializer=_not_one).run_calm(poisoned, Plan())
    assert poisoned.done == 1 and poisoned.poison
    cut = Calm(PLACE, [Polled(0, b"k", b"0")])
    plan = Plan(calm=[cut])
    plan.cut = True
    Handling(handle, {}).run_calm(cut, plan)
    assert cut.done == 0 and cut.failed is None


def test_a_calm_round_without_time_left_is_not_one_without_progress() -> None:
    calm = Calm(PLACE, [Polled(n, b"k", b"0") for n in range(3 * LOOKS_EACH)], until_s=0.0)
    Handling(lambda _message: None, {}).run_calm(calm, Plan())
    assert calm.done == LOOKS_EACH and calm.failed is None


def test_a_key_function_that_is_cancelled_makes_its_message_poison() -> None:
    def key(_message: object) -> bytes:
        raise asyncio.CancelledError

    keys, unknown = Handling(print, {}, key_of=key).keys_of([Polled(0, b"k", b"v")], PLACE)
    assert keys == [None] and isinstance(unknown[0], asyncio.CancelledError)


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


# ── messages whose lock was lost ──

NOW_MS = 1_700_000_000_000
LOST = Held(b"a", 1, 0, 0, dead=False, retry_offset=3)  # as a start adopts it


@pytest.mark.parametrize(("since_ms", "oldest_s"), [(0, 0.0), (NOW_MS - 5_000, 5.0)])
def test_a_time_that_nobody_knows_is_not_the_oldest(since_ms: int, oldest_s: float) -> None:
    """`sexton_retry_oldest_lock_seconds` is there to wake people: it would say 54 years."""
    name = TaskName("orders", 0)
    owned = Owned(name)
    pending = Pending.of({3: LOST, 4: replace(LOST, since_ms=since_ms)})
    owned.ready(Task(name, Settings(), Random(1), 5, 1, pending))
    standing = owned.standing(NOW_MS)
    assert (standing.depth, standing.oldest_s) == (2, oldest_s)


def test_nor_is_it_shown() -> None:
    lost = Lock(TaskName("orders", 0), 3, LOST, None, "")
    shown = dict(zip([column.name for column in LOCKS], lock_row(lost), strict=True))
    assert (shown["id"], shown["locked_since"]) == ("orders-0-3", None)
    assert "1970" not in " ".join(story("a", [lost], ""))


# ── where a group begins ──


def _config(reset: str | None) -> RetryConfig:
    given = {} if reset is None else {"auto.offset.reset": reset}
    return RetryConfig(Names.of("orders", "g"), "g", {"bootstrap.servers": "nowhere:1", **given})


@pytest.mark.parametrize("name", ["topic", "group"])
def test_a_service_without_a_name_is_none(name: str) -> None:
    given: dict[str, Any] = {"topic": "orders", "group": "g", name: ""}
    with pytest.raises(ConfigError, match=f"{name}: is empty"):
        OrderedRetry(print, **given, bootstrap_servers="nowhere:1")


@pytest.mark.parametrize("reset", ["latest", "largest", "end", "End"])
def test_a_new_group_begins_at_the_end_in_all_of_librdkafkas_words(reset: str) -> None:
    assert _config(reset).begins_at_end


@pytest.mark.parametrize("reset", [None, "earliest", "smallest", "beginning", "Earliest"])
def test_and_at_the_beginning(reset: str | None) -> None:
    assert not _config(reset).begins_at_end


@pytest.mark.parametrize("reset", ["error", "none", "by_duration:PT1H", ""])
def test_a_group_that_may_begin_nowhere_is_refused(reset: str) -> None:
    """It would begin at the beginning, whoever asked for an error."""
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset") as caught:
        _config(reset)
    assert caught.value.hint is not None and "earliest" in caught.value.hint


# ── errors that look like nothing ──


class Problems(Exception):
    """As validators raise them: a list of problems, which may be empty."""

    def __len__(self) -> int:
        return 0


def _fails_one(messages: list[Message]) -> None:
    for message in messages:
        if message.offset == 1:
            message.fail(Problems())


def test_an_error_that_is_empty_is_a_failure_in_a_list() -> None:
    of = _round([Polled(n, b"%d" % n, b"v") for n in range(3)])
    Handling(_fails_one, {}, batch=True).run_batch([(of, item) for item in of.round.work])
    outcomes = [item.outcome for item in of.round.work]
    assert outcomes == [Outcome.DONE, Outcome.RETRY, Outcome.DONE]


def test_and_while_nothing_is_pending_and_outputs_are_refused() -> None:
    refusals = Refusals()
    refusals.note([Refusal(0, 99, "elsewhere", "the topic", "there is none")])
    calm = Calm(PLACE, [Polled(n, b"k", b"v") for n in range(3)])
    Handling(lambda message: _fails_one([message]), {}, refusals=refusals).run_calm(calm, Plan())
    assert calm.done == 1 and isinstance(calm.failed, Problems)


# ── handlers that a call does not run ──


async def _later(message: object) -> None:
    raise AssertionError("nobody awaits it")


def _one_by_one(message: Message) -> Iterator[None]:
    message.send("out", b"never")
    yield


async def _awaited_one_by_one(message: Message) -> AsyncIterator[None]:
    message.send("out", b"never")
    yield


async def _forgets_to_await(message: Message) -> Any:
    return _later(message)


NOT_RUN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a lambda": (lambda message: _later(message), "async def"),
    "a generator": (_one_by_one, "generator"),
    "an async generator": (_awaited_one_by_one, "generator"),
    "awaited, and one that is not": (_forgets_to_await, "await"),
}
WAYS = {"calm": (1, False), "one worker": (1, False), "two": (2, False), "lists": (1, True)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", NOT_RUN)
def test_a_handler_that_a_call_does_not_run_is_no_handler(what: str, way: str) -> None:
    """Its messages would count as done; nothing would ever have happened to them."""
    handler, said = NOT_RUN[what]
    messages = [Polled(n, b"%d" % n, b"v") for n in range(4)]
    of, calm = _round(messages), Calm(PLACE, messages)
    workers, batch = WAYS[way]
    handling = Handling(handler, {}, batch=batch)
    pool = Pool(handling, workers, 10, "test handler")
    if way == "calm" and not pool.in_order:
        way = "one worker"
    plan = Plan(calm=[calm]) if way == "calm" else Plan([of])
    with pytest.raises(NeverRan) as caught:
        pool.run(plan).wait(10.0)
    pool.close(10.0)
    assert handler.__qualname__ in caught.value.subject
    assert said in f"{caught.value.why}: {caught.value.hint}"
    assert calm.done == 0
    assert Outcome.DONE not in [item.outcome for item in of.round.work]
    assert not of.outputs and not calm.outputs


def test_what_a_handler_returns_otherwise_is_nobodys_business() -> None:
    calm = Calm(PLACE, [Polled(n, b"k", b"v") for n in range(3)])
    Handling(lambda message: message.value, {}).run_calm(calm, Plan())
    assert calm.done == 3


# ── handlers that await what was cancelled ──


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("itself", [False, True])
def test_what_somebody_has_cancelled_is_a_failure_of_its_message(batch: bool, itself: bool) -> None:
    async def handle(given: Any) -> None:
        messages: list[Message] = given if batch else [given]
        if messages[0].offset != 0:
            return
        task = asyncio.current_task()
        assert task is not None
        if itself:
            task.cancel()
        else:
            shared = asyncio.ensure_future(asyncio.sleep(60))
            shared.cancel()
            await shared
        await asyncio.sleep(60)

    of = _round([Polled(n, b"%d" % n, b"v") for n in range(4)])
    pool = Pool(Handling(handle, {}, batch=batch), 1, 1, "test handler")
    assert pool.run(Plan([of])).wait(10.0)
    pool.close(10.0)
    outcomes = [item.outcome for item in of.round.work]
    assert outcomes == [Outcome.RETRY, *[Outcome.DONE] * 3]
    failure = of.round.work[0].failure
    assert failure is not None and failure.reason == "CancelledError"
    assert of.round.work[0].attempts == 1


def test_so_it_is_where_nothing_is_awaited() -> None:
    def handle(message: Message) -> None:
        raise asyncio.CancelledError

    of, calm = _round([Polled(0, b"k", b"v")]), Calm(PLACE, [Polled(0, b"k", b"v")])
    assert not Handling(handle, {}).run(of, of.round.work[0])
    Handling(handle, {}).run_calm(calm, Plan())
    assert isinstance(calm.failed, asyncio.CancelledError)


# ── keys that cannot be told ──


def _odd(message: Any) -> Any:
    """Of 1 it cannot be told, of 3 it is none."""
    if message.offset() == 1:
        raise KeyError("customer")
    return 3 if message.offset() == 3 else "k"


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("batch", [False, True])
def test_a_message_whose_key_cannot_be_told_is_poison(workers: int, batch: bool) -> None:
    ran: list[int] = []

    def handle(given: Any) -> None:
        ran.extend(message.offset for message in (given if batch else [given]))

    handling = Handling(handle, {}, batch=batch, key_of=_odd)
    messages = [Polled(n, b"x", b"v") for n in range(5)]
    keys, unknown = handling.keys_of(messages, PLACE)
    assert keys == [b"k", None, b"k", None, b"k"] and list(unknown) == [1, 3]
    task = Task(TaskName("orders", 0), Settings(), Random(1), 0, 1, Pending())
    of = RoundOfTask(task.begin(0, range(5), keys), PLACE, messages, {})
    handling.note_unknown(of, unknown)
    pool = Pool(handling, workers, 10, "test handler")
    assert pool.run(Plan([of])).wait(10.0)
    pool.close(10.0)
    assert sorted(ran) == [0, 2, 4]
    commit = task.finish(of.round, 0)
    assert [(item.id, item.failure and item.failure.reason) for item in commit.dead] == [
        (1, "its key cannot be told: KeyError: 'customer'"),
        (3, "its key cannot be told: TypeError: bytes, text or None can be a key, not int"),
    ]
    assert not commit.redirected


def test_it_ends_the_calm_as_well() -> None:
    calm = Calm(PLACE, [Polled(n, b"x", b"v") for n in range(5)])
    Handling(lambda message: message.value, {}, key_of=_odd).run_calm(calm, Plan())
    assert calm.done == 1 and isinstance(calm.failed, KeyError)
    assert calm.poison == "its key cannot be told"


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
