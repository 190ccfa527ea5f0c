"""One round's messages to the handler, and what the handler said of each to the round.

A handler is a function of one message or of a list of them, and either may be a coroutine. Whatever
it is, one key is never in two places at once, and after a message that is to be tried again none of
its key follows in this round:

    one worker      round.work, in log order; `Calm` while nothing is pending
    many            lanes, each of them by one worker from its first message to its last
    lists           waves: the first message of each lane, then the second of those that go on, ...

So a list never holds two messages of one key. Nothing here is a thread: see `pool`.

A message is *poison* if it cannot be deserialised, or if `key` cannot tell what it is to stay in
order with: a dead letter at once, and since nobody knows its key, the latter holds nobody up.

Whoever calls a function gets a coroutine or a generator from some, which have done nothing yet. To
take that for done would lose every message, so it ends the instance (`NeverRan`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from time import monotonic
from typing import Any

from sexton.base.errors import ConfigError
from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_rounds import Failure, Item, Lane, Outcome, Round
from sexton.retry.headers import shown
from sexton.retry.messages import (
    Deserializer,
    KeyOf,
    Message,
    Output,
    Payload,
    Place,
    payload_of,
)
from sexton.retry.outcomes import Errors, Retry, failure_of, outcome_of
from sexton.retry.refusals import Refusals

Handler = Callable[..., Any]
INFINITE = float("inf")
LOOKS_EACH = 16  # messages, at the clock
_DONE = Outcome.DONE
NOT_READ, NO_KEY = "cannot be deserialised", "its key cannot be told"  # why a message is poison
# A handler may await, or have another thread await, what somebody has cancelled.
_FAILED = (Exception, asyncio.CancelledError)


class NeverRan(ConfigError):
    """To call the handler does not run it."""


class RoundOfTask:
    """A round of one task while it runs: where its messages are, and what came of them."""

    __slots__ = ("errors", "outputs", "place", "polled", "read", "round", "running")

    def __init__(
        self, round: Round, place: Place, polled: Sequence[Any], read: dict[int, Payload | None]
    ) -> None:
        self.round = round
        self.place = place
        self.polled = polled  # confluent_kafka's messages, by `Item.index`
        self.read = read  # payloads of retries, by id
        self.outputs: list[Output] = []  # of those that were done
        self.errors: dict[int, BaseException] = {}  # of those that are dead, by id
        self.running: dict[int, None] = {}  # which the handler is at

    def payload(self, item: Item) -> Payload:
        payload = self.read.get(item.id)
        if payload is None:
            assert item.index >= 0, "it is read before the round runs"
            polled = self.polled[item.index]
            payload = self.read[item.id] = payload_of(polled, self.place.headers_at)
        return payload

    def message(self, item: Item) -> Message:
        payload = self.payload(item)
        return Message(self.place, item.id, payload.key, payload.value, payload, item.attempts)


class Calm:
    """Messages of a task for which nothing is pending: all of them, until one fails.

    Nothing has to be known of their keys then, but that there is one, and nothing is noted of those
    that succeed: that the position moves past them is all that is ever written about them.
    """

    __slots__ = ("at", "done", "failed", "messages", "outputs", "place", "poison", "until_s")

    def __init__(self, place: Place, messages: Sequence[Any], until_s: float = INFINITE) -> None:
        self.place = place
        self.messages = messages  # confluent_kafka's
        self.until_s = until_s  # then what is left waits for the next round, and this is committed
        self.at = -1  # which the handler is at; -1: none
        self.done = 0  # so many of them
        self.outputs: list[Output] = []
        self.failed: BaseException | None = None  # of the one after those
        self.poison = ""  # why that one can never be handled


@dataclass(frozen=True, slots=True)
class Handling:
    """The user's handler, and how its failures are taken."""

    handler: Handler
    errors: Errors
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    batch: bool = False
    key_of: KeyOf | None = None  # None: Kafka's key
    refusals: Refusals = field(default_factory=Refusals)

    @property
    def is_async(self) -> bool:
        call = getattr(self.handler, "__call__", None)  # noqa: B004 - an object may have an async one
        return inspect.iscoroutinefunction(self.handler) or inspect.iscoroutinefunction(call)

    # ── one message ──

    def run(self, of: RoundOfTask, item: Item) -> bool:
        """Whether its lane goes on."""
        message = self._opened(of, item)
        if message is None:
            return not item.lane.stopped
        of.running[item.id] = None
        try:
            returned = self.handler(message)
        except _FAILED as error:  # it is the handler's way to say so
            return self._note(of, item, message, error)
        finally:
            of.running.pop(item.id, None)
        self._has_run(returned)
        return self._note(of, item, message, message.error)

    def run_in_order(self, plan: Plan) -> None:
        """All rounds, by one worker: what `run` does, for thousands at a time."""
        handler, done = self.handler, _DONE
        opens = self.key_deserializer is not None or self.value_deserializer is not None
        for of in plan.rounds:
            for item in of.round.work:
                if plan.cut:
                    return
                if item.outcome is not None or item.lane.stopped:
                    continue
                message = self._opened(of, item) if opens else of.message(item)
                if message is None:
                    continue
                of.running = {item.id: None}
                try:
                    returned = handler(message)
                except _FAILED as error:
                    self._note(of, item, message, error)
                    continue
                finally:
                    of.running = {}
                if returned is not None:
                    self._has_run(returned)
                if message.outputs is None and message.error is None:
                    item.outcome = done  # all that `Round.note` would do
                else:
                    self._note(of, item, message, message.error)

    async def run_async(self, of: RoundOfTask, item: Item) -> bool:
        message = self._opened(of, item)
        if message is None:
            return not item.lane.stopped
        of.running[item.id] = None
        try:
            returned = await self.handler(message)
        except _FAILED as error:
            _go_on_after(error)
            return self._note(of, item, message, error)
        finally:
            of.running.pop(item.id, None)
        self._has_run(returned)
        return self._note(of, item, message, message.error)

    # ── many, while nothing is pending ──

    def run_calm(self, calm: Calm, plan: Plan) -> None:
        handler, place, outputs = self.handler, calm.place, calm.outputs
        refusals = self.refusals or None  # if one comes now, this round is done again anyway
        opens = self.key_deserializer is not None or self.value_deserializer is not None
        key_of = self.key_of
        done = 0
        try:
            for polled in calm.messages:
                # At least one: to begin may have taken all the time there was.
                if plan.cut or (done and done % LOOKS_EACH == 0 and monotonic() > calm.until_s):
                    return
                calm.at = polled.offset()
                message = Message(place, calm.at, polled.key(), polled.value(), polled)
                if key_of is not None:
                    calm.poison = NO_KEY
                    _key(key_of(shown(polled, place.headers_at)))
                    calm.poison = ""
                if opens:
                    calm.poison = NOT_READ
                    self._open(message)
                    calm.poison = ""
                returned = handler(message)
                if returned is not None:
                    self._has_run(returned)
                if message.outputs is not None or message.error is not None:
                    failed = message.error
                    if failed is None and refusals is not None:
                        failed = self._refused(place, message)
                    if failed is not None:
                        calm.failed = failed
                        return
                    outputs += message.outputs or ()
                done += 1
        except NeverRan:
            raise
        except _FAILED as error:  # it is the handler's way to say so
            calm.failed = error
        finally:
            calm.at, calm.done = -1, done

    # ── a list of them ──

    def run_batch(self, batch: Sequence[tuple[RoundOfTask, Item]]) -> None:
        opened = self._all_opened(batch)
        error: BaseException | None = None
        returned: object = None
        _begin(opened)
        try:
            if opened:
                returned = self.handler([message for _, _, message in opened])
        except _FAILED as raised:
            error = raised
        finally:
            _end(opened)
        self._has_run(returned)
        self._note_all(opened, error)

    async def run_batch_async(self, batch: Sequence[tuple[RoundOfTask, Item]]) -> None:
        opened = self._all_opened(batch)
        error: BaseException | None = None
        returned: object = None
        _begin(opened)
        try:
            if opened:
                returned = await self.handler([message for _, _, message in opened])
        except _FAILED as raised:
            _go_on_after(raised)
            error = raised
        finally:
            _end(opened)
        self._has_run(returned)
        self._note_all(opened, error)

    # ── keys ──

    def keys_of(
        self, polled: Sequence[Any], place: Place
    ) -> tuple[list[bytes | None], dict[int, BaseException]]:
        """What each is to stay in order with; and of which rows, and why, that cannot be told."""
        key_of = self.key_of
        if key_of is None:
            return [message.key() for message in polled], {}
        keys, unknown = list[bytes | None](), dict[int, BaseException]()
        for row, message in enumerate(polled):
            try:
                keys.append(_key(key_of(shown(message, place.headers_at))))
            except _FAILED as error:
                keys.append(None)
                unknown[row] = error
        return keys, unknown

    def note_unknown(self, of: RoundOfTask, unknown: dict[int, BaseException]) -> None:
        """Before the round runs: these are not run at all."""
        for item in of.round.work:
            error = unknown.get(item.index)
            if error is not None:
                self.note_poison(of, item, error, NO_KEY)

    # ── parts ──

    def _has_run(self, returned: object) -> None:
        """Or NeverRan: what it returned would have to be awaited, or iterated over."""
        if returned is None:
            return
        if inspect.isawaitable(returned):
            if inspect.iscoroutine(returned):
                returned.close()
            why = f"returns something to be awaited ({type(returned).__name__}), and nobody does"
            hint = "declare it `async def`, and `await` what it calls"
        elif inspect.isgenerator(returned) or inspect.isasyncgen(returned):
            why = "is a generator: nobody asks it for anything, so nothing of it is done"
            hint = "a handler returns nothing; what it has to say it gives to `message.send`"
        else:
            return
        named = getattr(self.handler, "__qualname__", None) or repr(self.handler)
        raise NeverRan(f"handler {named}", why, hint)

    def _opened(self, of: RoundOfTask, item: Item) -> Message | None:
        """None: it cannot be deserialised, and never will be."""
        message = of.message(item)
        if self.key_deserializer is None and self.value_deserializer is None:
            return message
        try:
            self._open(message)
        except _FAILED as error:
            self.note_poison(of, item, error, NOT_READ)
            return None
        return message

    def _open(self, message: Message) -> None:
        if self.key_deserializer is not None:
            message.key = self.key_deserializer(message.key)
        if self.value_deserializer is not None:
            message.value = self.value_deserializer(message.value)

    def note_poison(self, of: RoundOfTask, item: Item, error: BaseException, why: str) -> None:
        said = failure_of(error, with_stack=False)
        of.errors[item.id] = error
        reason = f"{why}: {said.reason}"
        of.round.note(item, Outcome.DEAD, Failure(reason, said.exception))

    def note_failure(self, of: RoundOfTask, item: Item, error: BaseException) -> bool:
        outcome = outcome_of(error, self.errors)
        after_ms = error.after_ms if isinstance(error, Retry) else None
        goes_on = of.round.note(item, outcome, failure_of(error, with_stack=False), after_ms)
        if item.outcome is Outcome.DEAD:
            of.errors[item.id] = error
        return goes_on

    def _refused(self, place: Place, message: Message) -> Exception | None:
        if not self.refusals:
            return None
        return self.refusals.of(place.partition, message.offset, message.outputs or ())

    def _note(
        self, of: RoundOfTask, item: Item, message: Message, error: BaseException | None
    ) -> bool:
        if error is None and message.outputs is not None:
            error = self._refused(of.place, message)
            if error is None:
                of.outputs += message.outputs
        return of.round.note(item, _DONE) if error is None else self.note_failure(of, item, error)

    def _all_opened(
        self, batch: Sequence[tuple[RoundOfTask, Item]]
    ) -> list[tuple[RoundOfTask, Item, Message]]:
        opened = ((of, item, self._opened(of, item)) for of, item in batch)
        return [(of, item, message) for of, item, message in opened if message is not None]

    def _note_all(
        self,
        opened: Sequence[tuple[RoundOfTask, Item, Message]],
        error: BaseException | None,
    ) -> None:
        for of, item, message in opened:
            own = message.error
            self._note(of, item, message, error if own is None else own)


def _begin(opened: Sequence[tuple[RoundOfTask, Item, Message]]) -> None:
    for of, item, _ in opened:
        of.running[item.id] = None


def _end(opened: Sequence[tuple[RoundOfTask, Item, Message]]) -> None:
    for of, _, _ in opened:
        of.running.clear()


def _go_on_after(error: BaseException) -> None:
    """Whoever runs handlers is cancelled by nobody but a handler, and the next one has to run."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None:
        while task.uncancel():
            pass


def _key(key: bytes | str | None) -> bytes | None:
    match key:
        case None | bytes():
            return key
        case str():
            return key.encode()
        case _:
            raise TypeError(f"bytes, text or None can be a key, not {type(key).__name__}")


# ── who runs what ──


class Plan:
    """The rounds of all tasks of this instance that run together; several workers may take."""

    def __init__(self, rounds: Sequence[RoundOfTask] = (), calm: Sequence[Calm] = ()) -> None:
        self.rounds = rounds
        self.calm = calm
        self.cut = False  # nothing more is begun; what runs is waited for
        self._lanes: deque[tuple[RoundOfTask, Lane]] = deque()

    @property
    def busy_lanes(self) -> int:
        return len(self._lanes)

    def in_lanes(self) -> Plan:
        self._lanes.extend((of, lane) for of in self.rounds for lane in of.round.lanes)
        return self

    def take(self) -> Iterator[tuple[RoundOfTask, Item]]:
        """For one of many: the items of a lane, and of the next one when it has ended."""
        while not self._is_cut():
            try:
                of, lane = self._lanes.popleft()
            except IndexError:
                return
            for item in lane.items:
                if lane.stopped or self._is_cut():
                    break
                if item.outcome is None:
                    yield of, item

    def _is_cut(self) -> bool:
        return self.cut

    def waves(self, most: int) -> Iterator[list[tuple[RoundOfTask, Item]]]:
        """Lists without two messages of one key."""
        lanes = [(of, lane) for of in self.rounds for lane in of.round.lanes]
        wave = 0
        while lanes:
            ready = [
                (of, lane.items[wave]) for of, lane in lanes if lane.items[wave].outcome is None
            ]
            for start in range(0, len(ready), most):
                if self.cut:
                    return
                yield ready[start : start + most]
            wave += 1
            lanes = [
                (of, lane) for of, lane in lanes if not lane.stopped and wave < len(lane.items)
            ]
