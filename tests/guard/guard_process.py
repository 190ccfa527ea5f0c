"""A guard with short timers as a process of its own, which can be killed like one.

    python -m tests.guard.guard_process SERVERS [--dies-at N] [--forgetful]

`--dies-at` has it killed by SIGKILL just before or after its N-th note or change: between two steps
that take milliseconds, where a kill from outside would seldom come. `--forgetful` is the mistake
that chaos has to find: what it notes it keeps to itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar

from sexton.client.roving import RovingClient
from sexton.guard.daemon import Daemon
from sexton.guard.memory import MemoryTopic, Records
from sexton.lab.guarding import CLIENT
from sexton.machines.guard_events import GuardConfig
from sexton.machines.guard_notes import Saying, encode

P = ParamSpec("P")
R = TypeVar("R")
Step = Callable[P, Coroutine[Any, Any, R]]

CONFIG = GuardConfig(
    interval_ms=100,
    request_timeout_ms=CLIENT.request_timeout_ms,
    hold_ms=500,
    patience_ms=2_000,
    late_ms=1_000,
    settle_ms=300,
    describe_ms=1_000,
    thaw_in_doubt=True,  # nobody is there to audit
)


class Fuse:
    """Burns with each call that is led through it, before and after."""

    def __init__(self, length: int) -> None:
        self._left = length

    def along(self, call: Step[P, R]) -> Step[P, R]:
        async def burning(*given: P.args, **named: P.kwargs) -> R:
            self._burn()
            answer = await call(*given, **named)
            self._burn()
            return answer

        return burning

    def _burn(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Forgetful(MemoryTopic):
    """Notes that end with the process."""

    def __init__(self, client: RovingClient) -> None:
        super().__init__(client)
        self._records: list[tuple[int, bytes, bytes | None]] = []
        self._told = 0

    async def remember(self, sayings: Sequence[Saying]) -> None:
        for saying in sayings:
            self._records.append((len(self._records), *encode(saying)))

    async def forget(self, keys: Sequence[bytes]) -> None:
        self._records += [(len(self._records) + at, key, None) for at, key in enumerate(keys)]

    async def recall(self) -> Records:
        found, self._told = tuple(self._records[self._told :]), len(self._records)
        return found


async def run(servers: str, dies_at: int, forgetful: bool) -> None:
    async with RovingClient(servers, CLIENT) as client:
        daemon = Daemon(client, CONFIG)
        if forgetful:
            daemon.memory = Forgetful(client)
        fuse = Fuse(dies_at)
        daemon.memory.remember = fuse.along(daemon.memory.remember)  # type: ignore[method-assign]
        daemon.eyes.alter = fuse.along(daemon.eyes.alter)  # type: ignore[method-assign]
        await daemon.run(asyncio.Event())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("servers")
    parser.add_argument("--dies-at", type=int, default=0)
    parser.add_argument("--forgetful", action="store_true")
    given = parser.parse_args()
    asyncio.run(run(given.servers, given.dies_at, given.forgetful))
