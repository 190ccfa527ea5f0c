"""What a node hears from the world, and what it can do to it.

    Asked     somebody sends a request                Answer    to whoever asked
    Answered  the answer to an earlier Ask            Ask       a request to another node
    Ran       a job is done                           Run       a long job that needs no node
    Woken     a time that was asked for has come      WakeAt    the next such time
    Left      who asked has gone without an answer

A request is a message object of `sexton.protocol`, or one of the private ones in `node.messages`;
who turns it into bytes, and whether anybody does, is not the node's business. Messages must not be
changed once they are given away: a simulator passes them on as they are.

There are two clocks. `now_ms` is the time of day, for what is written down; it may jump. Timers go
by `clock_ms`, which only ever goes on.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from dataclasses import field

from sexton.base.errors import Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass

NodeId = int
Caller = Hashable
CONTROLLER: NodeId = -1
LATEST = 1 << 15

Action = Callable[[], None]
Then = Callable[[object | None], None]  # None: nobody answered in time
Job = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Asked:
    caller: Caller
    request: object
    version: int = LATEST  # of the API: some mean more in a later one


@dataclass(frozen=True, slots=True)
class Answered:
    token: int
    response: object | None  # None: timed out, or the connection is gone


@dataclass(frozen=True, slots=True)
class Ran:
    token: int
    result: object  # what the job returned, or the exception it raised


@dataclass(frozen=True, slots=True)
class Woken:
    pass


@dataclass(frozen=True, slots=True)
class Left:
    """Nobody reads the answer any more, so nothing need wait to be told; what was asked is done."""

    caller: Caller


Event = Asked | Answered | Ran | Woken | Left


@dataclass(frozen=True, slots=True)
class Ask:
    peer: NodeId
    request: object
    token: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Answer:
    caller: Caller
    response: object


@dataclass(frozen=True, slots=True)
class Run:
    token: int
    job: Job


@dataclass(frozen=True, slots=True)
class WakeAt:
    clock_ms: int


Effect = Ask | Answer | Run | WakeAt


class Halt(SextonError):
    """The node must not go on. Other failures end one event, this one ends the node."""


def is_of_disk(error: BaseException) -> bool:
    """Has the disk failed? That ends a node as well, until somebody has seen to the disk."""
    of_log = isinstance(error, Refused) and error.error is KafkaError.KAFKA_STORAGE_ERROR
    return of_log or isinstance(error, OSError)


@dataclass(slots=True)
class Outside:
    """Collects what a node wants done while it handles one event."""

    now_ms: int = 0
    clock_ms: int = 0
    _effects: list[Effect] = field(default_factory=list)
    _then: dict[int, Then] = field(default_factory=dict)  # token -> what to do with the answer
    _token: int = 0
    _alarms: list[tuple[int, int, Action]] = field(default_factory=list)  # a heap by time
    _alarm_count: int = 0
    _wake_at: int | None = None  # the last WakeAt that was given out and has not come

    def ask(self, peer: NodeId, request: object, then: Then, timeout_ms: int) -> None:
        self._token += 1
        self._then[self._token] = then
        self._effects.append(Ask(peer, request, self._token, timeout_ms))

    def answer(self, caller: Caller, response: object) -> None:
        self._effects.append(Answer(caller, response))

    def run(self, job: Job, then: Then) -> None:
        """Has a job done elsewhere; it must touch nothing that the node changes meanwhile."""
        self._token += 1
        self._then[self._token] = then
        self._effects.append(Run(self._token, job))

    def after(self, delay_ms: int, action: Action) -> None:
        """An action, once. It cannot be called off: the action itself looks whether it is due."""
        self._alarm_count += 1
        heapq.heappush(self._alarms, (self.clock_ms + delay_ms, self._alarm_count, action))

    def every(self, interval_ms: int, action: Action) -> None:
        """An action again and again, for as long as the node lives."""

        def again() -> None:
            self.after(interval_ms, again)
            action()

        self.after(interval_ms, again)

    # ── for the node's own loop ──

    def came_back(self, token: int, what: object | None) -> None:
        then = self._then.pop(token, None)
        if then is not None:  # else it came twice, or after its time
            then(what)

    def due(self) -> Action | None:
        """The next action whose time has come."""
        if self._alarms and self._alarms[0][0] <= self.clock_ms:
            return heapq.heappop(self._alarms)[2]
        return None

    def woken(self) -> None:
        if self._wake_at is not None and self._wake_at <= self.clock_ms:
            self._wake_at = None  # else it is one that an earlier one has replaced

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        if self._alarms:
            at = self._alarms[0][0]
            if self._wake_at is None or at < self._wake_at:
                self._wake_at = at
                effects.append(WakeAt(at))
        return effects
