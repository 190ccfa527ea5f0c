"""Clients whose work is a sequence: ask, hear, ask the next, give up, begin again.

A talk is a generator. It yields what it waits for and is sent the answer, so that what a client
does in ten calls reads from top to bottom:

    answer = yield Ask(partition, request, version)     to whoever leads it; None: nobody answered
    yield Wait(30_000)

A process that talks can be killed, and then nothing that was under way comes back to it; it can
stand still, and then everything comes at once when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.sim.clients import CALL_MS, PAUSE_MS, TRY_AGAIN, Client

PATIENCE_MS = 600_000  # until trouble with brokers is somebody else's trouble


@dataclass(frozen=True, slots=True)
class Ask:
    partition: TopicPartition
    request: object
    version: int
    timeout_ms: int = CALL_MS


@dataclass(frozen=True, slots=True)
class Wait:
    ms: int


T = TypeVar("T")
Talk = Generator[Ask | Wait, Any, T]
ErrorOf = Callable[[Any], int]


class Talking(Client):
    """A client that is a process of its own."""

    life = 0  # counts starts: what was asked in an earlier one is not heard any more
    paused = False
    _backlog: list[Callable[[], None]]  # came while it stood still

    def talk(self, talk: Talk[T], then: Callable[[T], None]) -> Conversation[T]:
        conversation = Conversation(self, talk, then)
        conversation.go_on(None)
        return conversation

    def pause(self) -> None:
        if not self.paused:
            self.paused, self._backlog = True, []

    def resume(self) -> None:
        if self.paused:
            self.paused, backlog = False, self._backlog
            for each in backlog:
                each()

    def carry(self, step: Ask | Wait, then: Callable[[Any], None]) -> None:
        life = self.life

        def hear(answer: object | None) -> None:
            if self.life != life or self.stopped:
                return
            if self.paused:
                self._backlog.append(lambda: hear(answer))
                return
            if answer is None and isinstance(step, Ask):
                self.forget(step.partition)
            then(answer)

        if isinstance(step, Wait):
            self.world.after(step.ms, lambda: hear(None))
            return
        target = self.leader(step.partition)
        if target is None:
            self.world.after(PAUSE_MS, lambda: hear(None))
        else:
            self.call(target, step.request, hear, step.version, step.timeout_ms)

    def ask_anew(self, partition: TopicPartition) -> None:
        """Takes some broker's word again for who leads it; that may be an old one.

        Whom to ask is drawn apart, so that asking changes nothing else of a run.
        """
        if partition not in self._leaders:
            return  # then it is asked for anyway
        usual, self.random = self.random, Random(f"{self.address} {self.world.now_ms}")
        self.forget(partition)
        self.leader(partition)
        self.random = usual

    def asked(
        self,
        partition: TopicPartition,
        request: object,
        version: int,
        error_of: ErrorOf,
        also: frozenset[KafkaError] = frozenset(),
    ) -> Talk[Any]:
        """The answer, once it is one; Refused if it is no, or is not to be had in time."""
        deadline = self.world.now_ms + PATIENCE_MS
        while True:
            answer = yield Ask(partition, request, version)
            error = KafkaError.NETWORK_EXCEPTION
            if answer is not None:
                error = KafkaError(error_of(answer))
            if error is KafkaError.NONE:
                return answer
            self.forget(partition)
            passes = error in TRY_AGAIN or error in also
            if not passes or self.world.now_ms >= deadline:
                raise Refused(error, f"{type(request).__name__} to {partition}")
            yield Wait(self.random.randint(PAUSE_MS // 2, PAUSE_MS * 2))


class Conversation(Generic[T]):
    """A talk under way; `then` hears how it ended, unless it is dropped before."""

    def __init__(self, client: Talking, talk: Talk[T], then: Callable[[T], None]) -> None:
        self._client, self._talk, self._then = client, talk, then
        self._dropped = False

    def drop(self) -> None:
        self._dropped = True
        self._talk.close()

    def go_on(self, answer: object | None) -> None:
        if self._dropped:
            return
        try:
            step = self._talk.send(answer)
        except StopIteration as ended:
            self._dropped = True
            self._then(ended.value)
            return
        self._client.carry(step, self.go_on)
