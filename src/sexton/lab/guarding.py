"""A guard beside a scenario: the same story, and nobody forgets too early.

    with guarded(place) as beside:
        ending = perform(tombstone_divergence, beside)

It is the guard that stands beside any Kafka (`sexton guard run`), with timers as short as those of
the scenarios, in a thread of its own. Where the clock is moved, it is moved only after the guard
has had the time that it promises to need; on Apache Kafka time passes by itself, and the guard has
to be fast enough.

Every option of a topic that the scenario makes is looked at as soon as it is there. In the end all
have to be the same again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Self, cast

from sexton.base.errors import ConfigError, PeerError
from sexton.base.findings import Finding
from sexton.client.client import Client
from sexton.client.config_changes import TOPIC
from sexton.client.connection import ClientConfig
from sexton.client.roving import RovingClient
from sexton.guard.daemon import Daemon
from sexton.guard.status import Deed, Status
from sexton.lab.divergences import Scenario
from sexton.lab.places import Beside, Place
from sexton.lab.stage import RETENTION, Pace
from sexton.machines.guard_events import GuardConfig
from sexton.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from sexton.testing.cluster import Cluster
from sexton.testing.waiting import until

# It promises as if brokers answered quickly. On a busy machine they do not, and the client waits.
QUICK: Final = GuardConfig(
    interval_ms=300,
    request_timeout_ms=350,
    hold_ms=1_000,
    patience_ms=5_000,
    late_ms=200,
    settle_ms=200,
    describe_ms=500,
)
OFTEN_MS: Final = 30  # between two looks, where everybody waits for them
RETENTION_MS: Final = 8_000  # more than QUICK.reaction_ms, also on a machine that is busy
MOST_STEPS: Final = 17  # enough to forget a marker, if nobody held it back
CLIENT: Final = ClientConfig(request_timeout_ms=2_000, socket_connection_setup_timeout_ms=1_000)
START_S: Final = 60.0

TopicOptions = dict[str, tuple[str | None, int]]  # value and Kafka's ConfigSource, by name


class RunningGuard:
    """`kill` ends it between two steps, as kill -9 would: nothing is said, nothing tidied up."""

    def __init__(self, bootstrap_servers: str, config: GuardConfig = QUICK) -> None:
        self._bootstrap = bootstrap_servers
        self._config = config
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)
        self._up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._told = 0
        self.daemon: Daemon | None = None
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._up.wait(START_S):
            raise self.failure or PeerError("the guard", f"has not started in {START_S:g} s")
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self.failure is not None:
            raise self.failure

    def kill(self) -> None:
        assert self._loop is not None and self._task is not None
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(START_S)

    def _run(self) -> None:
        async def main() -> None:
            async with RovingClient(self._bootstrap, CLIENT) as client:
                self.daemon = Daemon(client, self._config)
                self.daemon.lately = deque()  # a story is short: all of it
                self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
                self._up.set()
                await self.daemon.run(asyncio.Event())

        try:
            asyncio.run(main())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - told where somebody can see it
            self.failure = error

    # ── what it has done ──

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

    def news(self) -> list[Deed]:
        """What it has done since somebody last asked."""
        assert self.daemon is not None
        deeds = list(self.daemon.lately)
        found, self._told = deeds[self._told :], len(deeds)
        return found

    def status(self) -> Status:
        assert self.daemon is not None
        return self.daemon.status()

    def state_of(self, topic: str) -> str:
        return next((t.state for t in self.status().topics if t.topic == topic), "not there")


class GuardedCluster:
    """Any cluster with a guard beside it, which is given the time that it promises to need."""

    def __init__(self, cluster: Cluster, guard: RunningGuard, *, clock_is_moved: bool) -> None:
        self._cluster = cluster
        self._guard = guard
        self._clock_is_moved = clock_is_moved
        self.before: dict[str, TopicOptions] = {}

    def create_topic(
        self,
        topic: str,
        assignment: Sequence[Sequence[int]] | int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        self._cluster.create_topic(topic, assignment, configs)
        self.before[topic] = options_of(self._cluster.bootstrap_servers, topic)

    def let_time_pass(self, ms: int) -> None:
        if self._clock_is_moved:
            self._guard.catch_up()
        self._cluster.let_time_pass(ms)

    def _loud_findings(self) -> list[Finding]:
        return [each for each in self._guard.status().findings if each.severity != "note"]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def changed_options(self, topic: str) -> list[str]:
        """Options that are not as they were before, when nothing is held any more."""
        until(
            lambda: self._guard.state_of(topic) == "free",
            f"the guard lets {topic} be cleaned",
            explain=lambda: "\n".join(f"{f.where}: {f.message}" for f in self._loud_findings()),
        )
        before, after = self.before[topic], options_of(self._cluster.bootstrap_servers, topic)
        names = sorted(before.keys() | after.keys())
        return [name for name in names if before.get(name) != after.get(name)]


def options_of(bootstrap_servers: str, topic: str) -> TopicOptions:
    """Every option of a topic, with where it comes from."""

    async def ask() -> TopicOptions:
        request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic, None)])
        async with Client(bootstrap_servers, CLIENT) as client:
            (result,) = (await client.ask(request)).results
        return {each.name: (each.value, each.config_source) for each in result.configs or ()}

    return until(lambda: asyncio.run(ask()) or None, f"the options of {topic}")


def refuse_senseless(on: str, policy: str | None) -> None:
    """ConfigError where there is nothing for a guard to do."""
    if on == "sim":
        why = "needs brokers that listen: a guard is a client, and the simulator has no sockets"
        raise ConfigError("--guard", why, "--on embedded or --on kafka")
    if policy == "coordinated":
        why = "has nothing to do where replicas ask each other before they forget"
        raise ConfigError("--guard", why, "leave out --policy coordinated or --guard")


@contextmanager
def guarded(place: Place) -> Iterator[Place]:
    """The same place with a guard that looks."""
    config = replace(QUICK, interval_ms=OFTEN_MS) if place.clock_is_moved else QUICK
    with RunningGuard(place.cluster.bootstrap_servers, config) as guard:
        guard.catch_up()
        cluster = GuardedCluster(place.cluster, guard, clock_is_moved=place.clock_is_moved)
        yield replace(
            place,
            cluster=cast("Cluster", cluster),
            pace=lambda scenario, early: _pace(place, scenario, early),
            guard=Beside(guard.news, cluster.changed_options),
        )


def _pace(place: Place, scenario: Scenario, early: bool) -> Pace:
    usual = place.pace(scenario, early)
    if scenario.finding is None:  # nobody is away
        return usual
    pace = slower(usual, clock_is_moved=place.clock_is_moved, held_by=scenario.held_by)
    # Where it does not help, the witness goes in the end, when the guard has let the topic go.
    return pace if scenario.guard_helps else replace(pace, most_steps=MOST_STEPS)


def slower(pace: Pace, *, clock_is_moved: bool = False, held_by: str = RETENTION) -> Pace:
    """What a replica misses must not be forgotten before the guard can act."""
    options = {**pace.topic_options, RETENTION: RETENTION_MS, held_by: RETENTION_MS}
    if clock_is_moved:  # time costs nothing, and the guard has some at every step
        return replace(pace, topic_options=options, step_ms=3 * pace.step_ms, most_steps=8)
    return replace(pace, topic_options=options, most_steps=MOST_STEPS)
