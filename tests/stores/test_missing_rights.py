"""A right that an application lacks ends it, and it names the ACL: nobody gets one by waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sexton.base.errors import SextonError
from sexton.stores import App
from sexton.testing.apache_kafka import KafkaConfig
from sexton.testing.waiting import until
from tests.audit.test_rights import deny
from tests.guard.authorized_kafka import PASSWORD, Allowed, AuthorizedKafka
from tests.stores.counting import INPUT, SINK, counter
from tests.stores.harness import make_topics, wait_until_done, write

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

GROUP, READ = 3, 3  # Kafka's ResourceType and AclOperation
# By user, who is called like the application: the operation that is missing, and on what.
MISSING = {
    "nothing": None,
    "input": ("Read", f"topic {INPUT}"),
    "output": ("Write", f"topic {SINK}"),
    "log": ("Write", "topic log-counts-changelog"),
    "restore": ("Read", "topic restore-counts-changelog"),
    "configs": ("DescribeConfigs", "topic configs-counts-changelog"),
    "create": ("Create", "topic create-counts-changelog"),
    "group": ("Read", "group group"),
    "ids": ("Write", "transactional id *"),
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[AuthorizedKafka]:
    with AuthorizedKafka(KafkaConfig(nodes=1), MISSING) as one:
        make_topics(one, 1)
        write(one.bootstrap_servers, [(0, "a")] * 3)
        one.allow({user: _allowed(user) for user in MISSING})
        yield one


def _allowed(user: str) -> list[Allowed]:
    rows = [
        ("topic", INPUT, ("Read",)),
        ("topic", SINK, ("Write",)),
        ("topic", f"{user}-counts-changelog", ("Read", "Write", "DescribeConfigs", "Create")),
        ("group", user, ("Read",)),
        ("transactional id", "*", ("Write",)),
    ]
    lacks = MISSING[user]
    return [
        Allowed(kind, name, tuple(each for each in has if lacks != (each, f"{kind} {name}")))
        for kind, name, has in rows
    ]


def _app(kafka: AuthorizedKafka, user: str) -> App:
    who = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": PASSWORD}
    settings = {"security.protocol": "SASL_PLAINTEXT", **who}
    return App(
        user, [counter()], bootstrap_servers=kafka.for_users, store="memory", settings=settings,
        heartbeat_interval_ms=200,
    )  # fmt: skip


@pytest.mark.parametrize("user", [user for user, lacks in MISSING.items() if lacks])
def test_it_ends_and_names_the_acl(kafka: AuthorizedKafka, user: str) -> None:
    lacks = MISSING[user]
    assert lacks is not None
    operation, resource = lacks
    named = "transactional ids ids-..." if user == "ids" else resource
    with pytest.raises(SextonError) as caught:
        _run(_app(kafka, user))
    assert caught.value.hint == f"no ACL allows this user {operation} on {named}"


def test_a_right_that_is_taken_away_ends_it_as_well(kafka: AuthorizedKafka) -> None:
    """Also one that has nothing to do, and would find out when it commits."""
    one = _app(kafka, "nothing")
    one.start()
    wait_until_done(one, 3)
    deny(kafka, GROUP, "nothing", READ)
    with pytest.raises(SextonError, match=r"GROUP_AUTHORIZATION_FAILED.*Read on group nothing"):
        _until_it_ends(one)


def _run(one: App) -> None:
    one.start()
    _until_it_ends(one)


def _until_it_ends(one: App) -> None:
    assert one._ended is not None
    until(one._ended.done, "it ends")
    one.close()
