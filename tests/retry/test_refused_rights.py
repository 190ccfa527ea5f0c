"""A topic that we may not write to fails the messages that are sent to it, and no others.

Apache Kafka's transaction coordinator refuses the whole transaction then, and librdkafka does not
say for which topic; brokers are asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sexton.client.client import Client
from sexton.client.rights import NotAllowed
from sexton.machines.retry_records import Command, TaskName
from sexton.retry import commanding
from sexton.retry.topics import Names
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.waiting import until
from tests.audit.test_rights import OPTIONS, READ, TOPIC, deny
from tests.retry.harness import OUT, PATIENCE_S, committed, disorder, send, until_drained
from tests.retry.test_refused import KEYS, MANY, NUMBERS, instance, writes

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]
WRITE = 4  # Kafka's AclOperation


@pytest.fixture
def kafka() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(nodes=1, options=OPTIONS)) as one:
        yield one


def test_an_output_that_is_not_authorized_is_a_dead_letter_at_the_ceiling(
    kafka: ApacheKafka,
) -> None:
    servers = kafka.bootstrap_servers
    for topic in ("orders", OUT, "denied"):
        kafka.create_topic(topic, 2)
    deny(kafka, TOPIC, "denied", WRITE)
    send(servers, "orders", KEYS, range(NUMBERS))
    with instance(servers, writes("denied", b"x")) as retry, committed(servers, OUT) as outputs:
        found = [message.value() for message in outputs.until(MANY - 1)]
        until_drained(retry)
    with committed(servers, "orders.g.dead") as letters:
        (letter,) = letters.until(1)
    assert disorder(found) == []
    assert letter.value() == b"1:2"
    reason = dict(letter.headers() or ())["sexton.dead.reason"]
    assert reason == b"an output to denied cannot be written: not authorized"


def test_an_instance_that_may_not_hear_commands_any_more_ends(kafka: ApacheKafka) -> None:
    """It has nothing to read back: only an operator would find out, from whom nobody hears."""
    servers = kafka.bootstrap_servers
    for topic in ("orders", OUT):
        kafka.create_topic(topic, 1)
    send(servers, "orders", 1, range(3))
    retry = instance(servers, writes(OUT, b"x")).start()
    until_drained(retry)
    deny(kafka, TOPIC, "orders.g.retry", READ)
    asyncio.run(_command(servers))
    until(lambda: retry._failed is not None, "it ends", PATIENCE_S)
    with pytest.raises(NotAllowed, match=r"topic orders\.g\.retry: .* allows Read"):
        retry.close()


async def _command(servers: str) -> None:
    async with Client(servers) as client:
        names, name = Names.of("orders", "g"), TaskName("orders", 0)
        await commanding.send(client, names, name, Command("reap"))
