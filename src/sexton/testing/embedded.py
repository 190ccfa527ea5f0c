"""A replicated, transactional, compacting Kafka inside this process, ready in a few milliseconds.

    with EmbeddedCluster(brokers=3) as kafka:       async with EmbeddedCluster() as kafka:
        kafka.create_topic("orders", 3)                 await kafka.create_topic("orders", 3)
        use(kafka.bootstrap_servers)                    await use(kafka.bootstrap_servers)
        kafka.kill(2)                                   await kafka.kill(2)

No JVM, no Docker. Any Kafka client connects over TCP. The brokers are real: each has its own files
and cleans them itself, can be killed, paused, cut off and started again. They run on an event loop
in a thread of their own, so that a test may block while they work. `with` gives methods that block,
`async with` the same methods to be awaited, on whichever event loop the caller has.

Where Kafka's defaults are made for machines that may be far away, ours here are made for tests: see
`FOR_TESTS`.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar

from sexton.base.errors import ConfigError
from sexton.base.lazy_dataclass import dataclass
from sexton.broker.cluster import ClusterConfig, LocalCluster
from sexton.broker.exposure import refuse_exposure, refuse_nowhere
from sexton.broker.home import Home
from sexton.broker.host import Clock
from sexton.broker.options import with_options
from sexton.testing.embedded_actions import EmbeddedActions
from sexton.testing.waiting import TimedOut, until

P = ParamSpec("P")
R = TypeVar("R")

FOR_TESTS: Final[Mapping[str, object]] = {
    # Long enough for a machine that is busy with other things. That a broker was killed, paused or
    # isolated is noticed sooner: see `noticed_after_ms`.
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 250,
    "replica.lag.time.max.ms": 3_000,
    "replica.fetch.backoff.ms": 50,
    "request.timeout.ms": 2_000,  # between brokers: what was lost with a cut is asked for again
    # A follower hears of the high watermark with its next fetch.
    "replica.fetch.wait.max.ms": 100,
    # One partition holds all the groups and transactions of a test.
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.min.isr": 1,
    # A group's first member need not wait for a second one.
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
    # A member of a KIP-848 group hears of its partitions with its next heartbeat: 5 s in Kafka.
    "group.consumer.heartbeat.interval.ms": 500,
}
NOTICED_AFTER_MS = 300
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
WAIT_TIMEOUT_S = 60.0
LOOK_AGAIN_S = 0.01

Action = Callable[Concatenate[EmbeddedActions, P], Coroutine[Any, Any, R]]


@dataclass(slots=True)
class FrozenClock(Clock):
    """A time of day that does not pass by itself; timers go on all the same."""

    frozen_at_ms: int = 0

    def now_ms(self) -> int:
        return self.frozen_at_ms + self.ahead_ms


class _Embedded:
    """What both kinds share: a cluster, and the thread it runs in."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        data: Path | str | None = None,
        compaction: Literal["coordinated", "independent"] = "coordinated",
        options: Mapping[str, object] | None = None,
        frozen_clock: bool = False,
        noticed_after_ms: int | None = NOTICED_AFTER_MS,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str | None = None,
        insecure: bool = False,
    ) -> None:
        """`data` is kept if it is given, else a temporary directory is used and removed.

        One that is given is of one cluster at a time: a second one is refused, or a `sexton up`.

        `options` are Kafka's broker options by Kafka's names. A `frozen_clock` goes forward only
        when somebody moves it (`advance_clock`), so that a slow machine changes nothing. A broker
        that is killed, stopped, paused or isolated is given up after `noticed_after_ms`, or with
        None when its session ends, as in Kafka. `port` is the first broker's, the others follow; 0
        takes any that are free. A `host` that others reach is refused unless clients have to
        authenticate, or `insecure` says that this is meant; for 0.0.0.0 clients are told of the
        `advertised_host`.
        """
        chosen = {**FOR_TESTS, "compaction.policy": compaction, **(options or {})}
        config = ClusterConfig(
            brokers=brokers, host=host, port=port, advertised_host=advertised_host
        )
        self._config = with_options(config, chosen)
        self._config.check()
        _keep_strangers_out(self._config, insecure)
        self._frozen_clock = frozen_clock
        self._noticed_after_ms = noticed_after_ms
        self._data = None if data is None else Path(data)
        self._home: Home | None = None  # of `data`, while it is ours
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._cluster: LocalCluster | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._actions: EmbeddedActions | None = None

    # ── what does not need the brokers ──

    @property
    def bootstrap_servers(self) -> str:
        """For any Kafka client: `host:port,host:port`."""
        return self._running_cluster.bootstrap_servers

    @property
    def node_ids(self) -> list[int]:
        """Every broker's number, from 1 on."""
        return list(range(1, self._config.brokers + 1))

    def address_of(self, node: int) -> str:
        """One broker's own `host:port`."""
        self._check(node)
        host = self._config.advertised_host or self._config.host
        return f"{host}:{self._running_cluster.listeners[node].port}"

    @property
    def data(self) -> Path:
        """Where the files of all brokers are."""
        return self._running_cluster.data

    def data_directory(self, node: int) -> Path:
        """Where a broker has one directory for each partition."""
        self._check(node)
        return self.data / f"broker-{node}"

    def _check(self, node: int) -> None:
        if node not in self.node_ids:
            there = ", ".join(map(str, self.node_ids))
            raise ConfigError(f"broker {node}", "is not in this cluster", f"there are {there}")

    @property
    def _running_cluster(self) -> LocalCluster:
        if self._cluster is None:
            raise ConfigError(
                "the embedded cluster", "does not run", "use it inside `with EmbeddedCluster()`"
            )
        return self._cluster

    # ── the thread ──

    def _must_be_new(self) -> None:
        if self._cluster is not None:
            raise ConfigError("the embedded cluster", "runs already", "make another one")

    def _begin(self) -> asyncio.AbstractEventLoop:
        """A directory, an event loop in a thread, and a cluster that is not started yet."""
        if self._data is None:
            self._temporary = tempfile.TemporaryDirectory(
                prefix="sexton-cluster-", ignore_cleanup_errors=True
            )
        else:
            self._home = _taken(self._data)
        data = Path(self._temporary.name) if self._temporary else self._data
        assert data is not None
        self._cluster = LocalCluster(data, self._config)
        if self._frozen_clock:
            self._cluster.clock = FrozenClock(frozen_at_ms=self._cluster.clock.now_ms())
        self._actions = EmbeddedActions(self._cluster, self._noticed_after_ms)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="sexton-cluster", daemon=True
        )
        self._thread.start()
        return self._loop

    def _end(self) -> None:
        """The brokers are down: the thread, the loop and the directory go."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = self._cluster = self._actions = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_stop(loop), loop)
            thread.join(STOP_TIMEOUT_S)
            if not thread.is_alive():
                loop.close()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
        if self._home is not None and (thread is None or not thread.is_alive()):
            self._home.leave()  # unless somebody still writes there
            self._home = None

    def _submit(self, action: Action[P, R], *given: P.args, **named: P.kwargs) -> Any:
        actions, loop = self._actions, self._loop
        if actions is None or loop is None:
            _ = self._running_cluster  # says why not
        assert actions is not None and loop is not None
        assert threading.current_thread() is not self._thread, "would wait for itself"
        return asyncio.run_coroutine_threadsafe(action(actions, *given, **named), loop)


def _taken(data: Path) -> Home:
    home = Home(data)
    try:
        home.take()
    except ConfigError as error:
        raise ConfigError(error.subject, error.why, "choose another `data`") from error
    return home


async def _stop(loop: asyncio.AbstractEventLoop) -> None:
    """Ends what a caller who was interrupted has left under way, and then the loop."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    loop.stop()


def _keep_strangers_out(config: ClusterConfig, insecure: bool) -> None:
    """As `sexton up` does."""
    known = config.listener.authenticates
    refuse_exposure(
        config.host, authenticated=known, insecure=insecure, option="host", consent="insecure=True"
    )
    refuse_nowhere(config.host, config.advertised_host, option="host", advertised="advertised_host")


def _blocking(action: Action[P, R]) -> Callable[Concatenate[_Embedded, P], R]:
    @functools.wraps(action)
    def method(self: _Embedded, *given: P.args, **named: P.kwargs) -> R:
        answer: R = self._submit(action, *given, **named).result()
        return answer

    return method  # type: ignore[return-value]  # wraps() shows the coroutine's type


def _awaited(action: Action[P, R]) -> Callable[Concatenate[_Embedded, P], Coroutine[Any, Any, R]]:
    @functools.wraps(action)
    async def method(self: _Embedded, *given: P.args, **named: P.kwargs) -> R:
        answer: R = await asyncio.wrap_future(self._submit(action, *given, **named))
        return answer

    return method  # type: ignore[return-value]


class AsyncEmbeddedCluster(_Embedded):
    """The same with methods to be awaited; `async with EmbeddedCluster()` gives one."""

    async def __aenter__(self) -> AsyncEmbeddedCluster:
        self._must_be_new()
        try:
            self._begin()
            started = self._submit(EmbeddedActions.start, READY_TIMEOUT_S)
            await asyncio.wrap_future(started)
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.wrap_future(self._submit(EmbeddedActions.shut_down))
        finally:
            await asyncio.to_thread(self._end)

    async def wait_until(
        self,
        condition: Callable[[], bool | Awaitable[bool]],
        what: str = "the condition",
        timeout_s: float = WAIT_TIMEOUT_S,
    ) -> None:
        """Asks again and again until the answer is yes; it may be a coroutine's."""
        deadline = time.monotonic() + timeout_s
        while True:
            answer = condition()
            if await answer if isinstance(answer, Awaitable) else answer:
                return
            if time.monotonic() > deadline:
                raise TimedOut(what, f"not within {timeout_s:g} s")
            await asyncio.sleep(LOOK_AGAIN_S)

    kill = _awaited(EmbeddedActions.kill)
    stop = _awaited(EmbeddedActions.stop)
    restart = _awaited(EmbeddedActions.restart)
    pause = _awaited(EmbeddedActions.pause)
    resume = _awaited(EmbeddedActions.resume)
    running = _awaited(EmbeddedActions.running)
    isolate = _awaited(EmbeddedActions.isolate)
    cut = _awaited(EmbeddedActions.cut)
    mend = _awaited(EmbeddedActions.mend)
    heal = _awaited(EmbeddedActions.heal)
    slow_down = _awaited(EmbeddedActions.slow_down)
    speed_up = _awaited(EmbeddedActions.speed_up)
    hold_back = _awaited(EmbeddedActions.hold_back)
    let_go = _awaited(EmbeddedActions.let_go)
    create_topic = _awaited(EmbeddedActions.create_topic)
    delete_topic = _awaited(EmbeddedActions.delete_topic)
    alter_topic = _awaited(EmbeddedActions.alter_topic)
    topics = _awaited(EmbeddedActions.topics)
    partition = _awaited(EmbeddedActions.partition)
    wait_for = _awaited(EmbeddedActions.wait_for)
    wait_until_in_sync = _awaited(EmbeddedActions.wait_until_in_sync)
    leader_of = _awaited(EmbeddedActions.leader_of)
    elect = _awaited(EmbeddedActions.elect)
    begin_reassign = _awaited(EmbeddedActions.begin_reassign)
    reassign = _awaited(EmbeddedActions.reassign)
    offsets = _awaited(EmbeddedActions.offsets)
    advance_clock = _awaited(EmbeddedActions.advance_clock)
    now_ms = _awaited(EmbeddedActions.now_ms)
    let_time_pass = _awaited(EmbeddedActions.let_time_pass)
    clean = _awaited(EmbeddedActions.clean)


class EmbeddedCluster(_Embedded):
    """Brokers in this process, numbered from 1; `embedded_actions` says what each method does."""

    def __enter__(self) -> EmbeddedCluster:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncEmbeddedCluster:
        other = AsyncEmbeddedCluster.__new__(AsyncEmbeddedCluster)
        other.__dict__ = self.__dict__
        return await AsyncEmbeddedCluster.__aenter__(other)

    async def __aexit__(self, *about: object) -> None:
        await AsyncEmbeddedCluster.__aexit__(self, *about)  # type: ignore[arg-type]

    def start(self) -> None:
        """What `with` does first: returns when every broker is in the cluster."""
        self._must_be_new()
        try:
            self._begin()
            self._submit(EmbeddedActions.start, READY_TIMEOUT_S).result()
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """What `with` does last: brokers are stopped in good order; harmless a second time."""
        if self._cluster is None:
            return
        try:
            self._submit(EmbeddedActions.shut_down).result(STOP_TIMEOUT_S)
        finally:
            self._end()

    def wait_until(
        self,
        condition: Callable[[], bool],
        what: str = "the condition",
        timeout_s: float = WAIT_TIMEOUT_S,
    ) -> None:
        """Asks again and again until the answer is yes."""
        until(condition, what, timeout_s)

    kill = _blocking(EmbeddedActions.kill)
    stop = _blocking(EmbeddedActions.stop)
    restart = _blocking(EmbeddedActions.restart)
    pause = _blocking(EmbeddedActions.pause)
    resume = _blocking(EmbeddedActions.resume)
    running = _blocking(EmbeddedActions.running)
    isolate = _blocking(EmbeddedActions.isolate)
    cut = _blocking(EmbeddedActions.cut)
    mend = _blocking(EmbeddedActions.mend)
    heal = _blocking(EmbeddedActions.heal)
    slow_down = _blocking(EmbeddedActions.slow_down)
    speed_up = _blocking(EmbeddedActions.speed_up)
    hold_back = _blocking(EmbeddedActions.hold_back)
    let_go = _blocking(EmbeddedActions.let_go)
    create_topic = _blocking(EmbeddedActions.create_topic)
    delete_topic = _blocking(EmbeddedActions.delete_topic)
    alter_topic = _blocking(EmbeddedActions.alter_topic)
    topics = _blocking(EmbeddedActions.topics)
    partition = _blocking(EmbeddedActions.partition)
    wait_for = _blocking(EmbeddedActions.wait_for)
    wait_until_in_sync = _blocking(EmbeddedActions.wait_until_in_sync)
    leader_of = _blocking(EmbeddedActions.leader_of)
    elect = _blocking(EmbeddedActions.elect)
    begin_reassign = _blocking(EmbeddedActions.begin_reassign)
    reassign = _blocking(EmbeddedActions.reassign)
    offsets = _blocking(EmbeddedActions.offsets)
    advance_clock = _blocking(EmbeddedActions.advance_clock)
    now_ms = _blocking(EmbeddedActions.now_ms)
    let_time_pass = _blocking(EmbeddedActions.let_time_pass)
    clean = _blocking(EmbeddedActions.clean)
