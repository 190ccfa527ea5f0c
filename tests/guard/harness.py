"""A guard with short timers in a thread of its own, and a topic's options as tests look at them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from sexton.client.client import Client
from sexton.client.config_changes import OptionValue, describe_topics
from sexton.guard.eyes import NAMES
from sexton.lab import guarding
from sexton.lab.guarding import CLIENT
from sexton.machines.guard_events import GuardConfig

QUICK = GuardConfig(
    interval_ms=50,
    request_timeout_ms=300,
    hold_ms=300,
    patience_ms=2_000,
    late_ms=200,
    settle_ms=200,
    describe_ms=500,
)


class RunningGuard(guarding.RunningGuard):
    """As in the lab, and quicker."""

    def __init__(self, bootstrap_servers: str, config: GuardConfig = QUICK) -> None:
        super().__init__(bootstrap_servers, config)


def options_of(bootstrap_servers: str, topic: str) -> Mapping[str, OptionValue]:
    """With where each value comes from."""

    async def ask() -> Mapping[str, OptionValue]:
        async with Client(bootstrap_servers, CLIENT) as client:
            return (await describe_topics(client, [topic], NAMES)).found[topic]

    return asyncio.run(ask())
