"""What becomes of messages that cannot be handled: dead letters, held keys, operators' commands."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from sexton.base.errors import ConfigError
from sexton.cli.retry_order import TOO_LATE, Chosen, carried_out
from sexton.client.client import Client
from sexton.machines.retry_records import TaskName
from sexton.report.tables import Row
from sexton.retry import Backoff, Dead, Drop, Message, OrderedRetry, Retry
from sexton.retry.topics import Names
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.conftest import RunSexton
from tests.retry.harness import AT_ONCE, OUT, PATIENCE_S, committed, disorder, send, until_drained


@pytest.fixture
def servers(kafka: EmbeddedCluster) -> str:
    kafka.create_topic("orders", 2)
    kafka.create_topic(OUT, 2)
    return kafka.bootstrap_servers


class Broken:
    """Cannot handle number 1 of any key until it is mended."""

    def __init__(self) -> None:
        self.mended = False
        self.attempts: list[int] = []

    def __call__(self, message: Message) -> None:
        if message.value.endswith(b":1") and not self.mended:
            self.attempts.append(message.attempts)
            raise ValueError("it is\nbroken")
        message.send(OUT, message.value, message.key)


def _headers(message: Any) -> dict[str, bytes | None]:
    return dict(message.headers() or ())


LONG_AGO_MS = 1_000_000_000_000  # in 2001


def test_at_the_ceiling_a_message_is_a_dead_letter_and_its_key_is_free(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken()
    producer = Producer({"bootstrap.servers": servers})
    for number in range(4):
        headers: list[tuple[str, str | bytes | None]] = [
            ("trace", b"t%d" % number),
            ("empty", None),
        ]
        producer.produce(
            "orders", b"7:%d" % number, b"7", partition=1, headers=headers, timestamp=LONG_AGO_MS
        )
    assert producer.flush(PATIENCE_S) == 0
    with OrderedRetry(
        broken, topic="orders", group="g", bootstrap_servers=servers, backoff=AT_ONCE,
        max_attempts=3,
    ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
        found = [message.value() for message in outputs.until(3)]
        until_drained(retry)
        assert retry.count("dead") == 1
    assert found == [b"7:0", b"7:2", b"7:3"]
    assert broken.attempts == [0, 1, 2]
    assert [(r.levelname, r.message) for r in caplog.records if "broken" in r.message] == [
        ("WARNING", "orders-1-1 is put aside, attempt 1 of 3: ValueError: it is broken"),
        ("ERROR", "orders-1-1 is a dead letter, attempt 3 of 3: ValueError: it is broken"),
    ]
    with committed(servers, "orders.g.dead") as letters:
        (letter,) = letters.until(1)
    assert (letter.partition(), letter.key(), letter.value()) == (1, b"7", b"7:1")
    headers_found = _headers(letter)
    assert headers_found["trace"] == b"t1" and headers_found["empty"] is None
    assert letter.timestamp()[1] > LONG_AGO_MS  # or it would be deleted with the next retention
    assert headers_found["sexton.dead.timestamp"] == b"%d" % LONG_AGO_MS
    assert headers_found["sexton.dead.id"] == b"orders-1-1"
    assert headers_found["sexton.dead.attempts"] == b"3"
    assert headers_found["sexton.dead.reason"] == b"ValueError: it is broken"
    assert headers_found["sexton.dead.exception"] == b"ValueError"
    stack = headers_found["sexton.dead.stack"]
    assert stack is not None and b"in __call__" in stack and b"test_outcomes.py" in stack


def test_a_handler_says_dead_and_drop(servers: str) -> None:
    def handle(message: Message) -> None:
        _, _, number = message.value.partition(b":")
        if number == b"1":
            raise Dead("an order for nothing")
        if number == b"2":
            raise Drop
        if number == b"3":
            raise KeyError("nobody minds")
        if number == b"4":
            raise LookupError("everybody minds")
        message.send(OUT, message.value, message.key)

    send(servers, "orders", keys=3, numbers=range(6))
    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers,
        errors={KeyError: Drop, LookupError: Dead},
    ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
        found = [message.value() for message in outputs.until(6)]
        until_drained(retry)
        assert retry.count("attempts", outcome="drop") == 6
        assert retry.count("redirected") == 0  # nobody had to wait
    assert disorder(found) == []
    assert {value.partition(b":")[2] for value in found} == {b"0", b"5"}
    with committed(servers, "orders.g.dead") as letters:
        reasons = [_headers(letter)["sexton.dead.reason"] for letter in letters.until(6)]
    assert sorted(map(str, reasons)) == sorted(
        map(str, [b"an order for nothing"] * 3 + [b"LookupError: everybody minds"] * 3)
    )


def test_a_handler_says_how_long_to_wait(servers: str) -> None:
    """The backoff would be an hour; what the handler says counts, and it counts as an attempt."""
    runs: list[tuple[int, float]] = []

    def handle(message: Message) -> None:
        runs.append((message.attempts, time.monotonic()))
        if message.attempts < 2:
            raise Retry("ask again later", after_s=0.3 * message.attempts)
        message.send(OUT, message.value, message.key)

    send(servers, "orders", keys=1, numbers=range(1))
    hourly = Backoff(first_ms=3_600_000, jitter=0.0)
    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers, backoff=hourly
    ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
        outputs.until(1)
        until_drained(retry)
    assert [attempts for attempts, _ in runs] == [0, 1, 2]
    assert runs[2][1] - runs[1][1] > 0.29  # whole milliseconds are counted
    with pytest.raises(ValueError, match="after_s is -1"):
        Retry(after_s=-1)


def test_a_poison_pill_is_a_dead_letter_at_once(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in (b'{"n": 1}', b"{", b'{"n": 2}', None):
        producer.produce("orders", value, b"k", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    seen: list[Any] = []

    def handle(message: Message) -> None:
        seen.append((message.key, message.value))
        message.send(OUT, b"%d" % message.value["n"])

    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers,
        value_deserializer=lambda data: json.loads(data or b""),
        key_deserializer=lambda data: (data or b"").decode(),
    ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
        outputs.until(2)
        until(lambda: retry.count("dead") == 2, "two dead letters", PATIENCE_S)
        assert retry.count("redirected") == 0
    assert seen == [("k", {"n": 1}), ("k", {"n": 2})]
    with committed(servers, "orders.g.dead") as letters:
        letters.until(2)
        values = [letter.value() for letter in letters.messages]
        reasons = [_headers(letter)["sexton.dead.reason"] or b"" for letter in letters.messages]
    assert values == [b"{", None]
    assert all(reason.startswith(b"cannot be deserialised: JSONDecode") for reason in reasons)


def _customer(message: Any) -> Any:
    return json.loads(message.value())["customer"]


@pytest.mark.parametrize("failing", [False, True], ids=["calm", "while something waits"])
@pytest.mark.parametrize("options", [{}, {"workers": 3}, {"at_ceiling": "held"}], ids=str)
def test_a_message_whose_key_cannot_be_told_is_a_dead_letter_at_once(
    servers: str, options: dict[str, Any], failing: bool
) -> None:
    """Nobody knows whom it would hold up, so it holds up nobody, and no order is lost."""
    works = threading.Event()
    if not failing:
        works.set()

    def handle(message: Message) -> None:
        if not works.is_set():
            raise ConnectionError("not yet")
        # By key: between partitions there is no order.
        message.send(OUT, message.value, key=json.loads(message.value)["customer"].encode())

    good = [b'{"customer": "%d", "n": %d}' % (n % 2, n) for n in range(6)]
    producer = Producer({"bootstrap.servers": servers})
    for value in (*good[:2], b"{", *good[2:4], b'{"customer": 7}', *good[4:]):
        producer.produce("orders", value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers, key=_customer,
        backoff=Backoff(first_ms=20, most_ms=50), max_attempts=1_000_000, **options,
    ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
        until(lambda: retry.count("dead") == 2, "two dead letters", PATIENCE_S)
        works.set()
        found = [message.value() for message in outputs.until(6)]
        held = 2 if options.get("at_ceiling") == "held" else 0
        until(lambda: sum(s.depth for s in retry.standings) == held, "all done", PATIENCE_S)
    for customer in (0, 1):
        assert [each for each in found if each in good[customer::2]] == good[customer::2]
    with committed(servers, "orders.g.dead") as letters:
        letters.until(2)
        told = {each.value(): _headers(each)["sexton.dead.reason"] for each in letters.messages}
    assert (told[b"{"] or b"").startswith(b"its key cannot be told: JSONDecodeError")
    assert told[b'{"customer": 7}'] == (
        b"its key cannot be told: TypeError: bytes, text or None can be a key, not int"
    )


def test_a_handler_that_nobody_awaits_ends_the_instance(servers: str) -> None:
    async def handle(message: Message) -> None:
        message.send(OUT, message.value)

    def wrapped(message: Message) -> Any:
        return handle(message)

    send(servers, "orders", keys=3, numbers=range(2))
    named: dict[str, Any] = {"topic": "orders", "group": "g", "bootstrap_servers": servers}
    retry = OrderedRetry(wrapped, **named).start()
    until(lambda: retry._failed is not None, "it ends", PATIENCE_S)
    with pytest.raises(ConfigError, match="wrapped: returns something to be awaited") as caught:
        retry.close()
    assert str(caught.value).endswith("(declare it `async def`, and `await` what it calls)")
    assert retry.count("attempts", outcome="done") == 0
    with OrderedRetry(handle, **named), committed(servers, OUT) as outputs:
        outputs.until(6)  # nothing of it was lost


# ── held keys, and what an operator does about them ──


@pytest.fixture
def held(servers: str) -> Iterator[tuple[str, Broken, OrderedRetry]]:
    """Key 0 and key 1 are held by their messages number 1; two more of each wait behind."""
    broken = Broken()
    send(servers, "orders", keys=2, numbers=range(4))
    with OrderedRetry(
        broken, topic="orders", group="g", bootstrap_servers=servers, backoff=AT_ONCE,
        max_attempts=2, at_ceiling="held", commands_every_s=0.05,
    ) as retry:  # fmt: skip
        until(
            lambda: (
                sum(each.held for each in retry.standings) == 2
                and sum(each.depth for each in retry.standings) == 6
            ),
            "both keys are held",
            PATIENCE_S,
            lambda: str(retry.standings),
        )
        yield servers, broken, retry


def _about(servers: str) -> tuple[str, ...]:
    named = ("-b", servers, "--topic", "orders", "--group", "g", "--format", "json")
    return (*named,)


def test_a_held_message_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture, held: tuple[str, Broken, OrderedRetry]
) -> None:
    said = "is held, attempt 2 of 2: ValueError: it is broken"

    def told() -> list[str]:
        lines = [*caplog.get_records("setup"), *caplog.records]
        return [r.getMessage() for r in lines if r.levelname == "ERROR"]

    until(lambda: len(told()) == 2, "both are told", PATIENCE_S, lambda: str(told()))
    assert all(line.endswith(said) for line in told()), told()


def test_a_held_key_waits_until_it_is_redriven(
    held: tuple[str, Broken, OrderedRetry], run_sexton: RunSexton
) -> None:
    servers, broken, retry = held
    with committed(servers, OUT) as outputs:
        assert {message.value() for message in outputs.until(2)} == {b"0:0", b"1:0"}
        status = run_sexton("retry", "status", *_about(servers))
        assert status.code == 1, status.stderr  # somebody has to decide
        assert {each["code"] for each in status.json["findings"]} == {"retry-held"}
        assert sum(each["evidence"]["held"] for each in status.json["findings"]) == 2
        assert status.json["summary"]["locked_keys"] == 2
        assert status.json["summary"]["held"] == 2
        assert status.json["summary"]["depth"] == 6
        broken.mended = True
        dry = run_sexton("retry", "redrive", "--all-held", "--dry-run", *_about(servers))
        assert [row["outcome"] for row in dry.json["orders"]] == ["dry run"] * 2
        done = run_sexton("retry", "redrive", "--all-held", "--wait", "60s", *_about(servers))
        assert done.code == 0, done.stdout
        assert [row["outcome"] for row in done.json["orders"]] == ["done"] * 2
        found = outputs.until(8)
        until_drained(retry)
        assert run_sexton("retry", "status", *_about(servers)).code == 0
    assert disorder(message.value() for message in found) == []


def test_locks_and_explain_say_what_a_key_waits_for(
    held: tuple[str, Broken, OrderedRetry], run_sexton: RunSexton
) -> None:
    servers, _, _ = held
    listed = run_sexton("retry", "locks", *_about(servers)).json["locks"]
    states = {(row["key"], row["state"]) for row in listed}
    assert states == {("0", "held"), ("0", "behind"), ("1", "held"), ("1", "behind")}
    first = run_sexton("retry", "locks", "--first", *_about(servers)).json["locks"]
    assert [row["reason"] for row in first] == ["ValueError: it is broken"] * 2
    assert [row["attempts"] for row in first] == [2, 2]
    told = run_sexton("retry", "explain", "0", *_about(servers)[:-2])
    assert told.code == 0
    assert "has failed 2 times and holds its key." in told.stdout
    assert "2 more of this key wait behind it" in told.stdout
    redrive = f"sexton retry redrive {first[0]['id']} --topic orders --group g -b {servers}"
    # On a line of its own, indented: a terminal puts no newline into what is to be copied.
    assert f"To try it again:\n  $ {redrive}\n" in told.stdout
    free = run_sexton("retry", "explain", "nobody", *_about(servers)[:-2])
    assert "Nothing waits for nobody" in free.stdout


def test_a_skipped_message_lets_its_key_go_on(
    held: tuple[str, Broken, OrderedRetry], run_sexton: RunSexton
) -> None:
    servers, _, retry = held
    rows = run_sexton("retry", "locks", "--held", *_about(servers)).json["locks"]
    by_key = {row["key"]: row["id"] for row in rows}
    skipped = run_sexton("retry", "skip", by_key["0"], "--wait", "60s", *_about(servers))
    assert skipped.code == 0, skipped.stdout
    gone = run_sexton("retry", "skip", by_key["1"], "--discard", "--wait", "60s", *_about(servers))
    assert gone.code == 0, gone.stdout
    with committed(servers, OUT) as outputs:
        found = outputs.until(6)
        until_drained(retry)
    assert disorder(message.value() for message in found) == []
    assert {message.value() for message in found}.isdisjoint({b"0:1", b"1:1"})
    with committed(servers, "orders.g.dead") as letters:
        reasons = [_headers(letter)["sexton.dead.reason"] for letter in letters.until(3)]
    # Each got one when it was held, and the one that was skipped another.
    assert sorted(map(str, reasons)) == sorted(
        map(str, [b"ValueError: it is broken"] * 2 + [b"skipped by an operator"])
    )
    again = run_sexton("retry", "skip", by_key["0"], *_about(servers))
    assert again.code == 3  # it does not wait any more: nothing was done, and that is said


def test_a_command_that_came_too_late_is_not_called_done(
    held: tuple[str, Broken, OrderedRetry],
) -> None:
    """Its message waited when the operator looked, and had been handled when the owner did."""
    servers, _, retry = held
    partition = next(each.partition for each in retry.standings if each.position > 0)
    settled = Chosen(TaskName("orders", partition), 0, None, waits=True)

    async def ask() -> list[Row]:
        async with Client(servers) as client:
            names = Names.of("orders", "g")
            return await carried_out(
                client, names, "redrive", [settled], dry_run=False, wait_s=PATIENCE_S
            )

    assert [outcome for *_, outcome in asyncio.run(ask())] == [TOO_LATE]


def test_a_freed_message_is_redriven_as_a_new_one(servers: str, run_sexton: RunSexton) -> None:
    broken = Broken()
    send(servers, "orders", keys=1, numbers=range(3))
    with OrderedRetry(
        broken, topic="orders", group="g", bootstrap_servers=servers, max_attempts=1
    ) as retry, committed(servers, OUT) as outputs:  # fmt: skip
        outputs.until(2)
        until(lambda: retry.count("dead") == 1, "a dead letter", PATIENCE_S)
        broken.mended = True
        with committed(servers, "orders.g.dead") as letters:
            (letter,) = letters.until(1)
        name = (_headers(letter)["sexton.dead.id"] or b"").decode()
        done = run_sexton("retry", "redrive", name, *_about(servers))
        assert done.code == 0, done.stdout
        assert "it is" in done.json["orders"][0]["outcome"]
        values = [message.value() for message in outputs.until(3)]
    assert sorted(values) == [b"0:0", b"0:1", b"0:2"]


def test_commands_wait_for_an_instance(servers: str, run_sexton: RunSexton) -> None:
    """Nobody runs: what was asked for is done by the next one that does."""
    broken = Broken()
    send(servers, "orders", keys=1, numbers=range(3))
    named: dict[str, Any] = {
        "topic": "orders", "group": "g", "bootstrap_servers": servers, "max_attempts": 1,
        "at_ceiling": "held", "commands_every_s": 0.05,
    }  # fmt: skip
    with OrderedRetry(broken, **named) as retry:
        until(lambda: sum(s.depth for s in retry.standings) == 2, "it is held", PATIENCE_S)
    asked = run_sexton("retry", "redrive", "--all-held", "--wait", "100ms", *_about(servers))
    assert asked.code == 3
    assert asked.json["orders"][0]["outcome"] == "sent"
    broken.mended = True
    with OrderedRetry(broken, **named) as retry, committed(servers, OUT) as outputs:
        found = [message.value() for message in outputs.until(3)]
        until_drained(retry)
    assert found == [b"0:0", b"0:1", b"0:2"]


def test_commands_that_make_no_sense_say_so(servers: str, run_sexton: RunSexton) -> None:
    assert run_sexton("retry", "status", "-b", servers).code == 2
    nothing = run_sexton("retry", "status", *_about(servers))
    assert nothing.code == 2 and "there is no such topic" in nothing.stderr
    with OrderedRetry(Broken(), topic="orders", group="g", bootstrap_servers=servers) as retry:
        retry.wait_until_ready(PATIENCE_S)
    assert run_sexton("retry", "redrive", *_about(servers)).code == 2
    wrong = run_sexton("retry", "redrive", "invoices-0-1", *_about(servers))
    assert wrong.code == 2 and "orders-0-17" in wrong.stderr
    unknown = run_sexton("retry", "redrive", "orders-0-1", *_about(servers))
    assert unknown.code == 3 and "neither waits" in unknown.stdout
    reaped = run_sexton("retry", "reap", *_about(servers))
    assert reaped.code == 0 and reaped.json["summary"]["stale"] == 0
