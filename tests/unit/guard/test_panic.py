"""The panic button: what it does not reach is said, and what it sets is set back."""

from __future__ import annotations

import asyncio
import io
from types import SimpleNamespace
from typing import Any

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.cli.guard_panic import _tell
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.client.client import Client
from sexton.client.config_changes import DescribedOptions, OptionValue, alter, described
from sexton.guard import agreed_options, panic
from sexton.guard.agreed_options import agreed
from sexton.guard.memory import MemoryTopic
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Lags
from sexton.testing.embedded import EmbeddedCluster

COMPACTED = {
    "cleanup.policy": OptionValue("compact", None),
    "delete.retention.ms": OptionValue("86400000", None),
    MIN_LAG: OptionValue("0", None),
    MAX_LAG: OptionValue(FOREVER, None),
}
DENIED = Refused(KafkaError.TOPIC_AUTHORIZATION_FAILED, "topic secret")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], dict[str, str]]:
    """Of three topics, of which one may not be looked at."""

    async def describe(*_: object) -> DescribedOptions:
        own = {**COMPACTED, MIN_LAG: OptionValue("5", "5")}
        return DescribedOptions({"own": own, "plain": COMPACTED}, {"secret": DENIED})

    class Asked:
        async def topology(self) -> Any:
            return SimpleNamespace(topics=["own", "plain", "secret"])

    monkeypatch.setattr(panic, "describe_topics", describe)
    return asyncio.run(panic.not_reached(Asked()))  # type: ignore[arg-type]


def test_a_topic_that_may_not_be_looked_at_is_named(
    found: tuple[dict[str, str], dict[str, str]],
) -> None:
    reached, seen = found
    assert reached == {"own": "5"} and seen == {"options of secret": DENIED.why}


def test_who_panics_hears_that_it_is_not_the_whole_answer() -> None:
    stderr = io.StringIO()
    out = Output("guard panic", Format.jsonl, io.StringIO(), stderr)
    _tell(out, panic.Panicked(True, Lags(), {}, {"options of secret": "not allowed"}, {}))
    assert out.exit_code == 3 and "options of secret: not allowed" in stderr.getvalue()


# ── a broker that has not heard of the panic yet ──


@pytest.mark.parametrize("previous", [None, "5000"])
def test_what_was_frozen_does_not_stay_so_because_one_broker_has_old_news(
    previous: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows the default as it was before: neither is there nothing to set back, nor is what it
    shows at the next panic what was there before."""
    left = 0

    async def described_late(client, place, names, node=None):  # type: ignore[no-untyped-def]
        nonlocal left
        found = await described(client, place, names, node)
        if place == panic.EVERYWHERE and node in (None, 1) and left:
            left -= 1
            return {}
        return found

    async def run(servers: str) -> tuple[str | None, str | None]:
        nonlocal left
        async with Client(servers) as client:
            memory = MemoryTopic(client)
            if previous is not None:
                await alter(client, panic.EVERYWHERE, [(panic.DEFAULT_MIN, previous)])
            left = 2
            await panic.begin(client, memory)
            left = 2
            noted = (await panic.end(client, memory)).previous.min
            found = await agreed(client, panic.EVERYWHERE, [panic.DEFAULT_MIN])
            return noted, found[panic.DEFAULT_MIN].own if found else None

    monkeypatch.setattr(agreed_options, "described", described_late)
    with EmbeddedCluster(brokers=3) as cluster:
        assert asyncio.run(run(cluster.bootstrap_servers)) == (previous, previous)
    assert not left, "it was asked, and behind"
