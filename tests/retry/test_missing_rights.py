"""A right that an instance lacks ends it, and it names the ACL: nobody gets one by waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sexton.client.rights import NotAllowed
from sexton.retry import Message, OrderedRetry
from sexton.testing.apache_kafka import KafkaConfig
from sexton.testing.waiting import until
from tests.guard.authorized_kafka import PASSWORD, Allowed, AuthorizedKafka
from tests.retry.harness import AT_ONCE, PATIENCE_S, send, until_drained

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

IDS = "transactional ids sexton-retry-{user}-orders-..."
# By user, who is called like the group: the operation that is missing, and on what.
MISSING = {
    "nothing": None,
    "main": ("Read", "topic orders"),
    "configs": ("DescribeConfigs", "topic orders"),
    "locks": ("Write", "topic orders.locks.locks"),
    "retry": ("Write", "topic orders.retry.retry"),
    "dead": ("Write", "topic orders.dead.dead"),
    "create": ("Create", "topic orders.create.locks"),
    "group": ("Read", "group group"),
    "ids": ("Write", "transactional id *"),
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[AuthorizedKafka]:
    with AuthorizedKafka(KafkaConfig(nodes=1), MISSING) as one:
        one.create_topic("orders", 1)
        send(one.bootstrap_servers, "orders", 1, range(3))
        one.allow({user: _allowed(user) for user in MISSING})
        yield one


def _allowed(user: str) -> list[Allowed]:
    beside = ("Read", "Write", "DescribeConfigs", "Create")
    rows = [
        ("topic", "orders", ("Read", "DescribeConfigs")),
        *(("topic", f"orders.{user}.{each}", beside) for each in ("retry", "locks", "dead")),
        ("group", user, ("Read",)),
        ("transactional id", "*", ("Write",)),
    ]
    return [
        Allowed(
            kind, name, tuple(each for each in has if MISSING[user] != (each, f"{kind} {name}"))
        )
        for kind, name, has in rows
    ]


def _instance(kafka: AuthorizedKafka, user: str, mode: str = "transactional") -> OrderedRetry:
    def fail(message: Message) -> None:
        if message.attempts < 2:
            raise ValueError("not yet")

    who = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": PASSWORD}
    return OrderedRetry(
        fail, topic="orders", group=user, bootstrap_servers=kafka.for_users, backoff=AT_ONCE,
        settings={"security.protocol": "SASL_PLAINTEXT", **who}, mode=mode,  # type: ignore[arg-type]
        max_attempts=1 if user == "dead" else 5,
    )  # fmt: skip


def test_with_all_rights_it_works(kafka: AuthorizedKafka) -> None:
    with _instance(kafka, "nothing") as retry:
        until(lambda: retry.count("attempts", outcome="done") == 3, "all of them", PATIENCE_S)
        until_drained(retry)


@pytest.mark.parametrize("user", [user for user, lacks in MISSING.items() if lacks])
def test_it_ends_and_names_the_acl(kafka: AuthorizedKafka, user: str) -> None:
    lacks = MISSING[user]
    assert lacks is not None
    operation, resource = lacks
    named = IDS.format(user=user) if user == "ids" else resource
    with pytest.raises(NotAllowed) as caught:
        _until_it_ends(_instance(kafka, user))
    assert caught.value.subject == named
    assert caught.value.why == f"this user has no ACL that allows {operation} on it"


def test_so_it_does_without_transactions(kafka: AuthorizedKafka) -> None:
    with pytest.raises(NotAllowed, match=r"orders\.locks\.locks: .* allows Write"):
        _until_it_ends(_instance(kafka, "locks", "compensating"))


def _until_it_ends(retry: OrderedRetry) -> None:
    retry.start()
    until(lambda: retry._failed is not None, "it ends", PATIENCE_S)
    retry.close()
