"""A guard in a thread of its own, and a cluster whose time waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any, Self

from sexton.client.client import Client
from sexton.client.config_changes import OptionValue, describe_topics
from sexton.client.connection import ClientConfig
from sexton.client.roving import RovingClient
from sexton.guard.daemon import Daemon
from sexton.guard.eyes import NAMES
from sexton.guard.status import Status
from sexton.machines.guard_events import GuardConfig
from sexton.testing.waiting import until

QUICK = GuardConfig(
    interval_ms=50,
    request_timeout_ms=300,
    hold_ms=300,
    patience_ms=2_000,
    late_ms=200,
    settle_ms=200,
    describe_ms=500,
)
CLIENT = ClientConfig(request_timeout_ms=2_000, socket_connection_setup_timeout_ms=1_000)


class RunningGuard:
    """`kill` ends it between two steps, as kill -9 would: nothing is said, nothing tidied up."""

    def __init__(self, bootstrap_servers: str, config: GuardConfig = QUICK) -> None:
        self._bootstrap = bootstrap_servers
        self._config = config
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.daemon: Daemon | None = None
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self.failure is not None:
            raise self.failure

    def kill(self) -> None:
        assert self._loop is not None and self._task is not None
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(20)

    def _run(self) -> None:
        async def main() -> None:
            async with RovingClient(self._bootstrap, CLIENT) as client:
                self.daemon = Daemon(client, self._config)
                self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
                self._up.set()
                await self.daemon.run(asyncio.Event())

        try:
            asyncio.run(main())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - told where the test can see it
            self.failure = error

    @property
    def rounds(self) -> int:
        assert self.daemon is not None
        return self.daemon.counters["sexton_guard_rounds_total", (("outcome", "done"),)]

    @property
    def freezes(self) -> int:
        """Topics that were frozen so far."""
        assert self.daemon is not None
        return self.daemon.counters["sexton_guard_freezes_total", ()]

    def catch_up(self, rounds: int = 3) -> None:
        """Whatever was to be seen before this call has been seen and acted on after it."""
        target = self.rounds + rounds
        until(lambda: self.rounds >= target or self.failure is not None, "the guard's rounds")

    def status(self) -> Status:
        assert self.daemon is not None
        return self.daemon.status()

    def state_of(self, topic: str) -> str:
        return next((t.state for t in self.status().topics if t.topic == topic), "not there")


class GuardedCluster:
    """Any cluster, whose time passes only after the guard has had the time it promises to need."""

    def __init__(self, cluster: Any, guard: RunningGuard) -> None:
        self._cluster = cluster
        self._guard = guard

    def let_time_pass(self, ms: int) -> None:
        self._guard.catch_up()
        self._cluster.let_time_pass(ms)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def options_of(bootstrap_servers: str, topic: str) -> Mapping[str, OptionValue]:
    """With where each value comes from."""

    async def ask() -> Mapping[str, OptionValue]:
        async with Client(bootstrap_servers, CLIENT) as client:
            return (await describe_topics(client, [topic], NAMES)).found[topic]

    return asyncio.run(ask())
