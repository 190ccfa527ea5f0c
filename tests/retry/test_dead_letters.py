"""Dead letters can be seen, with what became of them, and none is sent again twice by mistake."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
)
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.listing import LATEST, list_offsets
from sexton.client.reading import PartitionReader
from sexton.client.replica import Isolation
from sexton.machines.retry_records import TaskName
from sexton.retry import Message, OrderedRetry, looking
from sexton.retry.letters import read_letters
from sexton.retry.reading import committed_columns
from sexton.retry.redriving import REDRIVEN, Redrive, Redriven, _Sender, redrive
from sexton.retry.topics import Names
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.conftest import RunSexton
from tests.retry.harness import PATIENCE_S, send, until_drained

NAMES = Names.of("orders", "g")
TASK = TaskName("orders", 0)
LETTER = "orders-0-1"


@pytest.fixture
def servers(kafka: EmbeddedCluster) -> str:
    kafka.create_topic("orders", 1)
    return kafka.bootstrap_servers


def about(servers: str) -> tuple[str, ...]:
    return ("-b", servers, "--topic", "orders", "--group", "g", "--format", "json")


def service(servers: str, broken: list[bytes], **options: Any) -> OrderedRetry:
    """Cannot handle these values, and tries none of them twice."""

    def handle(message: Message) -> None:
        if message.value in broken:
            raise ValueError("no such customer")

    return OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers, max_attempts=1,
        commands_every_s=0.05, **options,
    )  # fmt: skip


@pytest.fixture
def freed(servers: str) -> str:
    """orders-0-1 and orders-0-3, of key 1, are dead letters, and nobody runs any more."""
    send(servers, "orders", keys=2, numbers=range(2))
    with service(servers, [b"1:0", b"1:1"]) as retry:
        until(lambda: retry.count("dead") == 2, "two dead letters", PATIENCE_S)
    return servers


def redriven(servers: str) -> list[bytes]:
    """Which messages the main topic has a second time."""
    at = TopicPartition("orders", 0)

    async def read() -> list[bytes]:
        found = []
        async with Client(servers) as client:
            end = (await list_offsets(client, {at: LATEST}))[at]
            reader = PartitionReader(client, at)
            async for chunk in reader.read(0, end, isolation=Isolation.READ_COMMITTED):
                for record in committed_columns(chunk, at).records():
                    found += [value or b"" for name, value in record.headers if name == REDRIVEN]
        return found

    return asyncio.run(read())


def test_dead_letters_are_listed_with_what_became_of_them(
    freed: str, run_sexton: RunSexton
) -> None:
    listed = run_sexton("retry", "dead", *about(freed))
    assert listed.code == 0, listed.stderr
    assert listed.json["summary"] == {"letters": 2, "open": 2}
    first, second = listed.json["letters"]
    written = first.pop("written")
    assert first == {
        "id": LETTER, "key": "1", "state": "freed", "sent_as": None, "attempts": 1,
        "offset": 0, "reason": "ValueError: no such customer",
    }  # fmt: skip
    assert second["id"] == "orders-0-3"
    assert run_sexton("retry", "dead", "--key", "0", *about(freed)).json["letters"] == []
    assert len(run_sexton("retry", "dead", "--since", written, *about(freed)).json["letters"]) == 2
    later = run_sexton("retry", "dead", "--since", "0s", *about(freed))
    assert later.json["letters"] == []
    status = run_sexton("retry", "status", *about(freed))
    assert status.code == 0 and status.json["summary"]["freed"] == 2


def test_a_key_of_any_bytes_can_be_named(servers: str, run_sexton: RunSexton) -> None:
    """A shell passes them on as they are: --key $'\\xfe7'."""
    typed, shown = os.fsdecode(b"\xfe7"), "\\xfe7"
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("orders", b"broken", b"\xfe7")
    assert producer.flush(PATIENCE_S) == 0
    with service(servers, [b"broken"], at_ceiling="held") as retry:
        until(lambda: retry.count("dead") == 1, "it is held", PATIENCE_S)
    letters = run_sexton("retry", "dead", "--key", typed, *about(servers))
    assert letters.code == 0, letters.stderr
    assert [each["key"] for each in letters.json["letters"]] == [shown]
    told = run_sexton("retry", "explain", typed, *about(servers))
    assert told.json["summary"] == {"key": shown, "locked": True, "depth": 1}
    assert (
        f"{shown} has waited" in run_sexton("retry", "explain", typed, *about(servers)[:-2]).stdout
    )
    for order in ("skip", "redrive"):
        tried = run_sexton("retry", order, "--key", typed, "--dry-run", *about(servers))
        assert [row["key"] for row in tried.json["orders"]] == [shown], tried.stderr


def test_the_status_reads_the_newest_letters_only_and_says_so(
    freed: str, run_sexton: RunSexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept for a month, each with its whole message; `retry dead` reads all of them."""
    assert "letters_not_read" not in run_sexton("retry", "status", *about(freed)).json["summary"]
    monkeypatch.setattr(looking, "NEWEST", 2)  # a marker is the last
    summary = run_sexton("retry", "status", *about(freed)).json["summary"]
    assert summary["freed"] == 1 and summary["letters_not_read"] in (1, 2)
    shown = run_sexton("retry", "status", *about(freed)[:-2])
    assert "older dead letters" in shown.stdout
    assert len(run_sexton("retry", "dead", *about(freed)).json["letters"]) == 2


def test_a_dead_letter_is_sent_again_once(freed: str, run_sexton: RunSexton) -> None:
    dry = run_sexton("retry", "redrive", LETTER, "--dry-run", *about(freed))
    assert dry.json["orders"][0]["outcome"] == "dry run"
    done = run_sexton("retry", "redrive", LETTER, *about(freed))
    assert done.code == 0, done.stdout
    now = done.json["orders"][0]["outcome"].removeprefix("done: it is ").removesuffix(" now")
    letters = run_sexton("retry", "dead", *about(freed)).json["letters"]
    states = [(each["id"], each["state"], each["sent_as"]) for each in letters]
    assert states == [(LETTER, "sent again", now), ("orders-0-3", "freed", None)]
    left = run_sexton("retry", "dead", "--open", *about(freed)).json["letters"]
    assert [each["id"] for each in left] == ["orders-0-3"]
    assert run_sexton("retry", "status", *about(freed)).json["summary"]["freed"] == 1
    for option in ((), ("--dry-run",)):
        twice = run_sexton("retry", "redrive", LETTER, *option, *about(freed))
        assert twice.code == 3
        assert twice.json["orders"][0]["outcome"] == f"was sent again before, as {now}"
        assert "--again" in twice.stderr
    assert redriven(freed) == [LETTER.encode()]
    assert run_sexton("retry", "redrive", LETTER, "--again", *about(freed)).code == 0
    assert redriven(freed) == [LETTER.encode()] * 2


def test_without_transactions_it_is_noted_as_well(freed: str, run_sexton: RunSexton) -> None:
    mode = ("--mode", "compensating")
    assert run_sexton("retry", "redrive", LETTER, *mode, *about(freed)).code == 0
    assert run_sexton("retry", "redrive", LETTER, *mode, *about(freed)).code == 3
    assert redriven(freed) == [LETTER.encode()]


def test_a_held_message_that_was_handled_in_its_place_is_not_sent_again(
    servers: str, run_sexton: RunSexton
) -> None:
    send(servers, "orders", keys=2, numbers=range(2))
    broken = [b"1:0"]
    with service(servers, broken, at_ceiling="held") as retry:
        until(lambda: sum(s.depth for s in retry.standings) == 2, "it is held", PATIENCE_S)
        (letter,) = run_sexton("retry", "dead", *about(servers)).json["letters"]
        assert (letter["id"], letter["state"]) == (LETTER, "held")
        broken.clear()
        assert run_sexton("retry", "redrive", LETTER, "--wait", "60s", *about(servers)).code == 0
        until_drained(retry)
    (letter,) = run_sexton("retry", "dead", *about(servers)).json["letters"]
    assert letter["state"] == "settled"
    again = run_sexton("retry", "redrive", LETTER, *about(servers))
    assert again.code == 3
    assert again.json["orders"][0]["outcome"] == "was held, and was settled in its place"
    assert redriven(servers) == []


def test_the_end_of_a_transaction_is_no_message_that_waits(
    servers: str, run_sexton: RunSexton
) -> None:
    """Redrive writes one, and its marker is the last in the main topic: nobody ever reads it."""
    send(servers, "orders", keys=2, numbers=range(1))
    broken = [b"1:0"]
    with service(servers, broken) as retry:
        until(lambda: retry.count("dead") == 1, "a dead letter", PATIENCE_S)
        broken.clear()
        assert run_sexton("retry", "redrive", LETTER, *about(servers)).code == 0
        until(lambda: retry.count("attempts", outcome="done") == 2, "it is handled", PATIENCE_S)
    status = run_sexton("retry", "status", *about(servers)).json
    assert status["summary"]["lag"] == 0
    assert [each["lag"] for each in status["partitions"]] == [0]
    send(servers, "orders", keys=1, numbers=range(3))
    assert run_sexton("retry", "status", *about(servers)).json["summary"]["lag"] == 3


def test_a_note_behind_an_open_transaction_is_waited_for(freed: str) -> None:
    """A service's transaction began before the note and ends after it: readers see neither yet."""
    settings = {"bootstrap.servers": freed, "log_level": "0"}
    asked = Redrive(NAMES, "g")
    service = Producer({**settings, "transactional.id": "service"})
    service.init_transactions(PATIENCE_S)

    async def one_after_the_other() -> dict[int, Redriven]:
        async with Client(freed) as client:
            first = _Sender(settings, asked, TASK)
            letters = await read_letters(client, NAMES, TASK, keep=[1])
            service.begin_transaction()
            service.produce(NAMES.dead, b"", partition=0)
            assert service.flush(PATIENCE_S) == 0
            first.send(1, letters.records[1])
            asyncio.get_running_loop().call_later(0.3, service.abort_transaction, PATIENCE_S)
            return await redrive(client, asked, TASK, [1], settings)

    (second,) = asyncio.run(one_after_the_other()).values()
    assert (second.state, second.is_sent) == ("sent again", False)
    assert redriven(freed) == [LETTER.encode()]


def test_of_two_that_redrive_at_once_one_sends(freed: str) -> None:
    settings = {"bootstrap.servers": freed, "log_level": "0"}
    asked = Redrive(NAMES, "g")

    async def at_once() -> dict[int, Redriven]:
        async with Client(freed) as client:
            slow = _Sender(settings, asked, TASK)
            letters = await read_letters(client, NAMES, TASK, keep=[1])
            quick = await redrive(client, asked, TASK, [1], settings)
            with pytest.raises(PeerError, match="orders-0"):
                slow.send(1, letters.records[1])
            return quick

    assert asyncio.run(at_once())[1].is_sent
    assert redriven(freed) == [LETTER.encode()]


def test_a_fatal_error_that_comes_with_a_delivery_is_told_as_one() -> None:
    """confluent-kafka raises it inside the callback, and Python makes a SystemError of that."""
    sender = _Sender.__new__(_Sender)
    sender._name = TASK

    def flush() -> None:
        fenced = KafkaException(KafkaError(KafkaError._FENCED, "fenced by a newer instance"))
        raise SystemError("a method returned a result with an exception set") from fenced

    def interrupted() -> None:
        raise SystemError("a method returned a result with an exception set")

    with pytest.raises(PeerError, match=r"orders-0: .* was not sent: fenced by a newer instance"):
        sender._do(flush, "was not sent")
    with pytest.raises(SystemError):
        sender._do(interrupted, "was not sent")


def test_a_note_speaks_of_the_letters_before_it(freed: str, run_sexton: RunSexton) -> None:
    """Offsets are set back, and the message that was sent again fails once more in its place."""
    assert run_sexton("retry", "redrive", LETTER, *about(freed)).code == 0
    admin = AdminClient({"bootstrap.servers": freed})
    offsets = ConsumerGroupTopicPartitions("g", [Place("orders", 0, 1)])
    admin.alter_consumer_group_offsets([offsets])["g"].result(PATIENCE_S)
    with service(freed, [b"1:0"]) as retry:
        until(lambda: retry.count("dead") == 2, "it fails, and so does its copy", PATIENCE_S)
        until_drained(retry)
    letters = run_sexton("retry", "dead", "--open", *about(freed)).json["letters"]
    assert LETTER in [each["id"] for each in letters]
    assert [each["sent_as"] for each in letters if each["id"] == LETTER] == [None]
    again = run_sexton("retry", "redrive", LETTER, *about(freed))
    assert again.code == 0, again.stdout
