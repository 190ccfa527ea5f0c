"""An output that cannot be written fails its own message: the others are written, in order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sexton.machines.retry_records import TaskName, Watermark
from sexton.machines.retry_rounds import Commit, Locked, Round
from sexton.machines.retry_settings import Settings
from sexton.retry import Backoff, Message, OrderedRetry, OutputTooLarge, refusals
from sexton.retry.handlers import RoundOfTask
from sexton.retry.membership import Membership, membership
from sexton.retry.messages import Place
from sexton.retry.outcomes import Drop
from sexton.retry.producing import CommitFailed, Limits, TransactionalWriter
from sexton.retry.records_out import Part
from sexton.retry.refusals import Refusals
from sexton.retry.sending import RefusedOutputs, Topics, put_outputs
from sexton.retry.topics import Names
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import AT_ONCE, OUT, PATIENCE_S, committed, disorder, send, until_drained

KEYS, NUMBERS = 4, 5
MANY = KEYS * NUMBERS
LARGE = b"x" * (2 << 20)
pytestmark = pytest.mark.kafka_options(options={"auto.create.topics.enable": "false"})


@pytest.fixture
def servers(kafka: EmbeddedCluster) -> str:
    kafka.create_topic("orders", 2)
    kafka.create_topic(OUT, 2)
    kafka.create_topic("small", 1, configs={"max.message.bytes": "1000"})
    return kafka.bootstrap_servers


def writes(topic: str, value: bytes) -> Callable[[Message], None]:
    """Each message to OUT; and number 2 of key 1 also to a topic that will not have it."""

    def handle(message: Message) -> None:
        if message.value == b"1:2":
            message.send(topic, value)
        message.send(OUT, message.value, message.key)

    return handle


def instance(servers: str, handler: Callable[[Message], None], **more: Any) -> OrderedRetry:
    options: dict[str, Any] = {"backoff": AT_ONCE, "max_attempts": 2, **more}
    return OrderedRetry(
        handler, topic="orders", group="g", bootstrap_servers=servers, **options
    )  # fmt: skip


REFUSED = {  # topic and value, and after how many attempts it is a dead letter
    "by librdkafka": ("small", LARGE, 1),
    "by its topic": ("small", Random(1).randbytes(5_000), 1),
    "no such topic": ("nowhere", b"x", 2),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_output_is_the_failure_of_its_message(servers: str, why: str) -> None:
    topic, value, attempts = REFUSED[why]
    send(servers, "orders", KEYS, range(NUMBERS))
    with instance(servers, writes(topic, value)) as retry, committed(servers, OUT) as outputs:
        found = [message.value() for message in outputs.until(MANY - 1)]
        until_drained(retry)
    with committed(servers, "orders.g.dead") as letters:
        (letter,) = letters.until(1)
    assert disorder(found) == []
    assert b"1:2" not in found
    headers = dict(letter.headers() or ())
    assert letter.value() == b"1:2"
    assert headers["sexton.dead.attempts"] == b"%d" % attempts
    reason = f"an output to {topic} cannot be written: "
    assert (headers["sexton.dead.reason"] or b"").startswith(reason.encode())


MISTAKES: dict[str, dict[str, Any]] = {
    "a header that is a number": {"headers": [("n", 3)]},
    "a header without a name": {"headers": [("\ud800", b"")]},
    "a topic that is a number": {"topic": 3},
    "a partition beyond all": {"partition": 1 << 31},
}


@pytest.mark.parametrize("what", MISTAKES)
def test_an_output_that_cannot_even_be_sent_is_too(servers: str, what: str) -> None:
    """It would end the instance, and the next one that is given this partition."""

    def handle(message: Message) -> None:
        if message.value == b"1:2":
            message.send(**({"topic": OUT, "value": b"x"} | MISTAKES[what]))
        message.send(OUT, message.value, message.key)

    send(servers, "orders", KEYS, range(NUMBERS))
    with instance(servers, handle) as retry, committed(servers, OUT) as outputs:
        found = [message.value() for message in outputs.until(MANY - 1)]
        until_drained(retry)
    assert disorder(found) == [] and b"1:2" not in found
    with committed(servers, "orders.g.dead") as letters:
        (letter,) = letters.until(1)
    assert letter.value() == b"1:2"


def test_without_transactions_a_missing_topic_is_a_dead_letter_as_well(servers: str) -> None:
    send(servers, "orders", KEYS, range(NUMBERS))
    handler = writes("nowhere", b"x")
    with (
        instance(servers, handler, mode="compensating") as retry,
        committed(servers, OUT) as outputs,
    ):
        until(lambda: retry.count("dead") == 1, "a dead letter", PATIENCE_S)
        until_drained(retry)
        found = {message.value() for message in outputs.until(MANY - 1)}
    assert len(found) == MANY - 1 and b"1:2" not in found
    with committed(servers, "orders.g.dead") as letters:
        (letter,) = letters.until(1)
    assert letter.value() == b"1:2"


def test_a_look_that_nobody_answered_is_taken_again(servers: str) -> None:
    """Nobody listens at the first address; the second is a cluster without that topic."""
    unanswered = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    answered = Producer({"bootstrap.servers": servers})
    answered.list_topics(OUT, PATIENCE_S)  # from here on an answer takes no time
    topics = Topics({}, 3.0)
    topics.check(unanswered, [_output("nowhere")])
    with pytest.raises(RefusedOutputs, match="nowhere"):
        topics.check(answered, [_output("nowhere")])
    topics.check(answered, [_output(OUT)])


class FullAtFirst:
    """A producer whose queue is full; when there is room, the partition is found to be none."""

    def __init__(self) -> None:
        self.polls = 0

    def produce(self, *record: Any, **more: Any) -> None:
        del record, more
        if not self.polls:
            raise BufferError("Local: Queue full")
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))

    def poll(self, timeout_s: float) -> int:
        del timeout_s
        self.polls += 1
        return 0


def test_a_refusal_that_comes_when_there_is_room_again_is_one() -> None:
    with pytest.raises(RefusedOutputs) as caught:
        put_outputs(cast("Producer", FullAtFirst()), _output(OUT), None)
    assert [(each.topic, each.what) for each in caught.value.refusals] == [(OUT, "this one")]


def test_without_that_rule_it_is_tried_for_ever(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""
    monkeypatch.setattr(Refusals, "note", lambda _self, _refusals: None)
    send(servers, "orders", KEYS, range(NUMBERS))
    with instance(servers, writes("small", LARGE)) as retry:
        until(lambda: retry.count("commits", ended="aborted") > 5, "it fails again", PATIENCE_S)
        assert retry.count("dead") == 0


def test_a_topic_that_is_made_meanwhile_is_written_to(
    servers: str, kafka: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "FOR_S", 0.5)
    send(servers, "orders", KEYS, range(NUMBERS))
    soon = Backoff(first_ms=200, most_ms=200)
    handler = writes("nowhere", b"there")
    with instance(servers, handler, backoff=soon, max_attempts=1_000) as retry:
        until(lambda: retry.count("attempts", outcome="retry") > 1, "it waits", PATIENCE_S)
        kafka.create_topic("nowhere", 1)
        with committed(servers, "nowhere") as there, committed(servers, OUT) as outputs:
            assert [message.value() for message in there.until(1)] == [b"there"]
            found = [message.value() for message in outputs.until(MANY)]
        until_drained(retry)
        assert retry.count("dead") == 0
    assert disorder(found) == []


def test_errors_can_say_something_else_about_it(servers: str) -> None:
    send(servers, "orders", KEYS, range(NUMBERS))
    dropped = {OutputTooLarge: Drop}
    with (
        instance(servers, writes("small", LARGE), errors=dropped) as retry,
        committed(servers, OUT) as outputs,
    ):
        outputs.until(MANY - 1)
        until_drained(retry)
        assert retry.count("attempts", outcome="drop") == 1
        assert retry.count("dead") == 0


def test_a_fenced_producer_is_replaced_whatever_confluent_kafka_raises(
    servers: str, kafka: EmbeddedCluster
) -> None:
    """A fatal error that comes while deliveries are told of is raised as a SystemError."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    consumer.subscribe(["orders"])
    member = until(lambda: _placed(consumer), "a place in the group", PATIENCE_S)
    names = Names.of("orders", "g")
    for topic in names.beside:
        kafka.create_topic(topic, 2)
    settings = {"bootstrap.servers": servers, "transactional.id": "ours"}
    writer = TransactionalWriter(settings, names, Limits())
    assert writer.write([_locks(0)], member) == {0: {}}
    for position in range(1, 6):
        Producer(settings).init_transactions(30)  # somebody else
        with pytest.raises(CommitFailed):
            writer.write([_locks(position)], member)
        assert writer.write([_locks(position)], member) == {0: {}}
    found = consumer.committed([TopicPartition("orders", 0)], 30)[0].offset
    consumer.close()
    assert found == 5


def _output(topic: str) -> Part:
    of = RoundOfTask(Round(Settings(), 1), Place("orders", 0, 1), (), {})
    of.outputs = [(topic, b"x", None, -1, (), 0)]
    return Part(TaskName("orders", 0), Commit(1, Watermark(1, 2)), of)


def _locks(position: int) -> Part:
    commit = Commit(position, Watermark(position, 2))
    commit.locks = [Locked(b"orders-0-%d" % n, b"1 waiting 0 0 0", "why") for n in range(500)]
    return Part(TaskName("orders", 0), commit, None, TopicPartition("orders", 0, position, ""))


def _placed(consumer: Consumer) -> Membership | None:
    consumer.poll(0.1)
    member = membership(consumer.consumer_group_metadata())
    return member if member.counts and consumer.assignment() else None
