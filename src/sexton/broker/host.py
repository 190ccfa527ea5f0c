"""Runs one node on an event loop: what it hears goes in, what it wants done is done.

    sockets, timers, jobs ──Event──▶ node.handle ──Effect──▶ sockets, timers, jobs

A host outlives its node. It can be killed, which leaves the files as they are; stopped, which
closes them in good order; paused, so that everything waits; and started again on the same files.
Whatever was sent to an earlier life of the node is not for the next one.

Callers are whatever has an `answer` method: the connection of a client, or another host.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from sexton.base.errors import Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.log.disk import remedy
from sexton.node.outside import (
    CONTROLLER,
    Answer,
    Ask,
    Asked,
    Effect,
    Event,
    Halt,
    NodeId,
    Ran,
    Run,
    WakeAt,
    Woken,
    is_of_disk,
)

log = logging.getLogger("sexton.broker")


class Node(Protocol):
    def start(self) -> list[Effect]: ...

    def hear(self, event: Event, now_ms: int, clock_ms: int) -> None: ...

    def settle(self) -> list[Effect]: ...

    def close(self, now_ms: int) -> None: ...


class Answers(Protocol):
    """Whoever asked."""

    def answer(self, response: object) -> None: ...

    def fail(self) -> None:
        """There will be no answer: the node has gone, or its code has failed."""


AskPeer = Callable[["Host", Ask], None]
Deliver = Callable[["Host", Event], None]  # in its turn
MakeNode = Callable[[int, int], Node]  # given the time of day and the clock


@dataclass(slots=True)
class Clock:
    """The time of day as this cluster has it, which a test may advance, and one for timers."""

    ahead_ms: int = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class Host:
    def __init__(
        self,
        node_id: NodeId,
        make: MakeNode,
        ask_peer: AskPeer,
        deliver: Deliver,
        clock: Clock,
        jobs: Executor,
    ) -> None:
        self.node_id = node_id
        self.life = 0  # counts starts and ends
        self.node: Node | None = None
        self.paused = False
        self.on_halt: Callable[[BaseException], None] = lambda _error: None
        self.on_gone: Callable[[], None] = lambda: None  # killed, stopped or halted
        self._make = make
        self._ask_peer = ask_peer
        self._deliver = deliver
        self._clock = clock
        self._jobs = jobs
        self._backlog: list[Event] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # ── its life ──

    def start(self) -> None:
        assert self.node is None
        self._loop = asyncio.get_running_loop()
        self.life += 1
        self.node = self._make(self._clock.now_ms(), self._clock.monotonic_ms())
        self._carry_out(self.node.start())

    def kill(self) -> None:
        """The node is gone at once; what it wrote stays."""
        self.node, self.paused, self._backlog = None, False, []
        self.life += 1
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.on_gone()

    def stop(self) -> None:
        """In good order: the next start needs no recovery."""
        node = self.node
        self.kill()
        if node is not None:
            try:
                node.close(self._clock.now_ms())
            except (OSError, Refused) as error:
                if not is_of_disk(error):
                    raise
                # The others of its cluster are to be stopped as well.
                log.error(
                    "%s could not close its logs: %s; its next start recovers them",
                    self._who,
                    error,
                )

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for event in backlog:
            self._deliver(self, event)

    # ── events and effects ──

    def handle_all(self, events: list[Event]) -> None:
        """In their order; then whatever they call for is done."""
        if self.paused:
            self._backlog += events
            return
        now_ms, clock_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        for event in events:
            node = self.node
            if node is None:
                _turn_away(event)
                continue
            try:
                node.hear(event, now_ms, clock_ms)
            except Exception as error:  # noqa: BLE001  one request must not end the others
                self._failed(event, error)
        if self.node is not None:
            self._settle(self.node)

    def _settle(self, node: Node) -> None:
        try:
            effects = node.settle()
        except Exception as error:  # noqa: BLE001
            self._failed(Woken(), error)
        else:
            self._carry_out(effects)

    def _failed(self, event: Event, error: Exception) -> None:
        match error:
            case OSError():
                self._halt(error, remedy(error))
            case Refused(error=KafkaError.KAFKA_STORAGE_ERROR) | Halt():
                self._halt(error, error.hint)
            case _:
                what = _name(event)
                log.error("%s failed to handle %s", self._who, what, exc_info=error)
        _turn_away(event)

    def _halt(self, error: SextonError | OSError, hint: str | None) -> None:
        """A disk that does not keep what must be kept ends the broker, as it does Kafka's."""
        cause = error.__cause__ if isinstance(error, Halt) else None
        why = f"{error.subject}: {error.why}" if isinstance(error, SextonError) else error
        log.critical("%s halts: %s; %s", self._who, why, hint, exc_info=cause)
        self.kill()
        self.on_halt(error)

    @property
    def _who(self) -> str:
        return "the controller" if self.node_id == CONTROLLER else f"broker {self.node_id}"

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Answer(caller, response):
                    caller.answer(response)  # type: ignore[attr-defined]
                case Ask():
                    self._ask_peer(self, effect)
                case WakeAt(clock_ms):
                    self._wake_at(clock_ms)
                case Run(token, job):
                    self._run(token, job)

    def _wake_at(self, clock_ms: int) -> None:
        assert self._loop is not None
        if self._alarm is not None:
            self._alarm.cancel()  # a node asks again only for an earlier time, or after it came
        delay = max(clock_ms - self._clock.monotonic_ms(), 0) / 1000
        self._alarm = self._loop.call_later(delay, self._wake, self.life)

    def _wake(self, life: int) -> None:
        if self.life == life:
            self._alarm = None
            self._deliver(self, Woken())

    def _run(self, token: int, job: Callable[[], object]) -> None:
        loop, life = self._loop, self.life
        assert loop is not None

        def done(result: object) -> None:
            if self.life == life:
                self._deliver(self, Ran(token, result))

        def work() -> None:
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001  the node decides what it means
                result = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(done, result)

        self._jobs.submit(work)


def _turn_away(event: Event) -> None:
    if isinstance(event, Asked):
        event.caller.fail()  # type: ignore[attr-defined]


def _name(event: Event) -> str:
    return type(event.request).__name__ if isinstance(event, Asked) else type(event).__name__
