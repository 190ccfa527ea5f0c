"""A topic's options change while a repair begins, or one broker has old news of them.

A guard that holds the topic sets it free: is it frozen all the same? A broker that is behind shows
it as it was before a guard froze it: is that taken for what is to be put back?
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.config_changes import TOPIC, OptionValue, alter, described
from sexton.guard import agreed_options, repair_options
from sexton.guard.agreed_options import agreed
from sexton.guard.repair_notes import Held, Notes
from sexton.guard.repair_options import HeldOptions
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG
from sexton.testing.embedded import EmbeddedCluster

FROZEN = {MIN_LAG: FOREVER, MAX_LAG: FOREVER}
PREVIOUS = {MIN_LAG: "7", MAX_LAG: "86400000"}


def _seen_through(monkeypatch: pytest.MonkeyPatch, described: Any) -> None:
    for module in (repair_options, agreed_options):
        monkeypatch.setattr(module, "described", described)


@pytest.mark.parametrize("looks", [1, 2, 3, 4, 6])
def test_a_topic_that_is_set_free_between_look_and_change_is_frozen_again(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each broker is asked before it is decided what is wanted, and again before it is changed.

    After the first three looks `min.compaction.lag.ms` alone is wanted, and refused; after six, it
    seems to be there already.
    """
    left = looks

    async def described_too_early(client, place, names, node=None):  # type: ignore[no-untyped-def]
        nonlocal left
        found = await described(client, place, names, node)
        left -= 1
        if left == 0:
            await alter(client, place, [*PREVIOUS.items()])
        return found

    async def freeze(servers: str) -> tuple[bool, tuple[Held, ...]]:
        async with Client(servers) as client:
            notes = Notes("cluster", "orders", "id", 0)
            held = HeldOptions(client, notes, lambda _notes: None)
            _seen_through(monkeypatch, described_too_early)
            frozen = await held.freeze([1, 2, 3])
            return frozen, held.notes.options

    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]], {"cleanup.policy": "compact", **FROZEN})
        frozen, noted = asyncio.run(freeze(cluster.bootstrap_servers))
    assert frozen and left <= 0
    assert {each.option: each.previous for each in noted} == PREVIOUS


def _behind(monkeypatch: pytest.MonkeyPatch, own: OptionValue, asked: int) -> None:
    """Broker 1 shows this value of MIN_LAG so often before it has caught up, and answers first."""

    async def described_late(client, place, names, node=None):  # type: ignore[no-untyped-def]
        nonlocal asked
        found = await described(client, place, names, node)
        if node in (None, 1) and MIN_LAG in found and asked:
            asked -= 1
            return {**found, MIN_LAG: own}
        return found

    _seen_through(monkeypatch, described_late)


@pytest.mark.parametrize(
    ("real", "stale"),
    [
        (FOREVER, OptionValue("0", None)),  # a guard has frozen it since
        ("86400000", OptionValue("7", "7")),  # an operator has changed it since
    ],
)
def test_what_one_broker_alone_says_is_not_what_is_put_back(
    real: str, stale: OptionValue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the end of the repair would set free what a guard holds, or lose an operator's wish."""

    async def hold_and_release(servers: str) -> str | None:
        async with Client(servers) as client:
            held = HeldOptions(client, Notes("cluster", "orders", "id", 0), lambda _notes: None)
            _behind(monkeypatch, stale, asked=4)
            assert await held.freeze([1, 2, 3])
            frozen = await described(client, (TOPIC, "orders"), [MIN_LAG])
            assert frozen[MIN_LAG].own == FOREVER
            await held.release()
            return (await agreed(client, (TOPIC, "orders"), [MIN_LAG]))[MIN_LAG].own

    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]], {"cleanup.policy": "compact", MIN_LAG: real})
        assert asyncio.run(hold_and_release(cluster.bootstrap_servers)) == real


def test_a_broker_that_has_not_heard_of_the_topic_does_not_prove_that_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would stay frozen for good, and what was set before would be forgotten."""
    left = 2

    async def not_heard_of(client, place, names, node=None):  # type: ignore[no-untyped-def]
        nonlocal left
        if node == 1 and left:
            left -= 1
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "options of the topic orders")
        return await described(client, place, names, node)

    async def hold_and_release(servers: str) -> tuple[str | None, list[str]]:
        async with Client(servers) as client:
            held = HeldOptions(client, Notes("cluster", "orders", "id", 0), lambda _notes: None)
            assert await held.freeze([1, 2, 3])
            _seen_through(monkeypatch, not_heard_of)
            theirs = await held.release()
            found = await agreed(client, (TOPIC, "orders"), [MIN_LAG])
            return found[MIN_LAG].own, theirs

    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]], {"cleanup.policy": "compact", MIN_LAG: "7"})
        assert asyncio.run(hold_and_release(cluster.bootstrap_servers)) == ("7", [])
    assert not left


def test_brokers_that_were_started_with_different_defaults_agree_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def of_its_own_file(client, place, names, node=None):  # type: ignore[no-untyped-def]
        found = await described(client, place, names, node)
        if node == 1 and found.get(MIN_LAG) == OptionValue("0", None):
            return {**found, MIN_LAG: OptionValue("5000", None)}
        return found

    async def hold_and_release(servers: str) -> str | None:
        async with Client(servers) as client:
            held = HeldOptions(client, Notes("cluster", "orders", "id", 0), lambda _notes: None)
            assert await held.freeze([1, 2, 3])
            assert [each.previous for each in held.notes.options] == [None]
            assert await held.release() == []
            return (await agreed(client, (TOPIC, "orders"), [MIN_LAG]))[MIN_LAG].own

    _seen_through(monkeypatch, of_its_own_file)
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]], {"cleanup.policy": "compact"})
        assert asyncio.run(hold_and_release(cluster.bootstrap_servers)) is None
