"""Whose word counts when it is asked what is set on a topic?"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import cast

import pytest

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.config_changes import TOPIC, OptionValue
from sexton.client.topology import BrokerAddress, Topology
from sexton.guard import agreed_options
from sexton.machines.guard_notes import FOREVER, MIN_LAG

FROZEN, FREE = OptionValue(FOREVER, FOREVER), OptionValue("0", None)
SILENT = PeerError("broker", "does not answer")
NO_TOPIC = Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "options of the topic orders")
DENIED = Refused(KafkaError.TOPIC_AUTHORIZATION_FAILED, "options of the topic orders")
Said = OptionValue | PeerError | Refused


@dataclass
class Brokers:
    """Each answers with what is left of its list, and with the last of it for good."""

    says: dict[int, list[Said]]

    async def topology(self, _topics: list[str]) -> Topology:
        return Topology("cluster", 1, {n: BrokerAddress(n, "host", n) for n in self.says}, {})

    def look_elsewhere(self) -> None: ...

    async def described(self, _client, _place, _names, node):  # type: ignore[no-untyped-def]
        said = self.says[node].pop(0) if len(self.says[node]) > 1 else self.says[node][0]
        if isinstance(said, OptionValue):
            return {MIN_LAG: said}
        raise said


def ask(monkeypatch: pytest.MonkeyPatch, *says: list[Said]) -> str | None:
    brokers = Brokers({node: [*each] for node, each in enumerate(says, 1)})
    monkeypatch.setattr(agreed_options, "described", brokers.described)
    monkeypatch.setattr(agreed_options, "PAUSE_S", 0)
    client = cast("Client", brokers)
    return asyncio.run(agreed_options.agreed(client, (TOPIC, "orders"), [MIN_LAG]))[MIN_LAG].own


@pytest.mark.parametrize(
    ("says", "own"),
    [
        ([[FROZEN]], FOREVER),  # there is nobody else
        ([[FROZEN], [FROZEN], [FROZEN]], FOREVER),
        ([[SILENT], [FROZEN], [FROZEN]], FOREVER),  # it has no say
        ([[FREE], [SILENT, FREE], [SILENT, FREE]], None),  # one alone is not believed
        ([[FREE, FREE, FROZEN], [FROZEN], [FROZEN]], FOREVER),
        ([[NO_TOPIC, FROZEN], [FROZEN], [FROZEN]], FOREVER),
        ([[FREE], [OptionValue("5000", None)]], None),  # by the file that each was started with
    ],
)
def test_what_brokers_come_to_agree_on(
    says: list[list[Said]], own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(monkeypatch, *says) == own


@pytest.mark.parametrize(("says", "error"), [([[NO_TOPIC]] * 3, NO_TOPIC), ([[DENIED]], DENIED)])
def test_what_is_refused_is_an_answer(
    says: list[list[Said]], error: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused) as refused:
        ask(monkeypatch, *says)
    assert refused.value.error is error.error


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ([[FREE], [FROZEN], [SILENT]], "brokers do not agree about its options"),
        ([[FROZEN], [SILENT], [SILENT]], "only 1 of 3 brokers"),
        ([[SILENT], [SILENT]], "only 0 of 2 brokers"),
    ],
)
def test_who_waits_in_vain_hears_for_what(
    says: list[list[Said]], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreed_options, "PATIENCE_S", 0)
    with pytest.raises(PeerError) as error:
        ask(monkeypatch, *says)
    assert why in error.value.why
