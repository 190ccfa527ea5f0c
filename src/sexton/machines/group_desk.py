"""What may a group do while it handles one event?

Answer, write, and be woken. All groups of a coordinator share one desk, which keeps what is under
way: batches that are not replicated yet, and who waits for them; and deadlines.

    append(records, then)         `then` hears NONE, or the error, when it is known
    answer(caller, response)      at once
    answer_safely(...)            when all that was written so far is replicated: what a member is
                                  told must not be lost with a coordinator
    by(timer, at), cancel(timer)  a deadline for (group, what for, member)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from random import Random

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.machines import coordinator_errors
from sexton.machines.alarms import Alarms
from sexton.machines.group_messages import (
    Answer,
    Append,
    Caller,
    Effect,
    GroupConfig,
    GroupRecord,
    MemberResponse,
    Token,
    Topic,
)
from sexton.machines.offset_messages import GroupChanged

Timer = tuple[str, str, str]  # group, what for, member
Then = Callable[[KafkaError], None]
Refusal = Callable[[KafkaError], MemberResponse | KafkaError]

TICK_LIMIT = 1000  # deadlines that one tick looks at


@dataclass(slots=True)
class _Waiting:
    caller: Caller
    response: MemberResponse | KafkaError
    refusal: Refusal


@dataclass(slots=True)
class _Write:
    records: tuple[GroupRecord, ...]
    then: Then
    waiting: list[_Waiting] = field(default_factory=list)


@dataclass(slots=True)
class Desk:
    config: GroupConfig
    random: Random
    now_ms: int = 0  # the time of day, for what is written down
    clock_ms: int = 0  # for deadlines
    topics: dict[str, Topic] = field(default_factory=dict)  # all of the cluster, as last told
    topics_version: int = 0  # counts how often they were others
    effects: list[Effect] = field(default_factory=list)
    deadlines: dict[Timer, int] = field(default_factory=dict)
    _writes: OrderedDict[Token, _Write] = field(default_factory=OrderedDict)
    _last_token: Token = 0
    alarms: Alarms[Timer] = field(default_factory=Alarms)

    # ── for groups ──

    def answer(self, caller: Caller, response: MemberResponse | KafkaError) -> None:
        self.effects.append(Answer(caller, response))

    def answer_safely(
        self, caller: Caller, response: MemberResponse | KafkaError, refusal: Refusal
    ) -> None:
        if not self._writes:
            self.answer(caller, response)
            return
        last = next(reversed(self._writes.values()))
        last.waiting.append(_Waiting(caller, response, refusal))

    @property
    def written(self) -> int:
        """How many batches so far."""
        return self._last_token

    def append(self, records: Iterable[GroupRecord], then: Then) -> None:
        self._last_token += 1
        batch = tuple(records)
        self._writes[self._last_token] = _Write(batch, then)
        self.effects.append(Append(self._last_token, batch))

    def changed(self, change: GroupChanged) -> None:
        self.effects.append(change)

    def by(self, timer: Timer, delay_ms: int) -> None:
        """From now on; replaces the deadline that this timer had."""
        self.deadlines[timer] = self.clock_ms + delay_ms
        self.alarms.by(timer, self.deadlines[timer])

    def cancel(self, timer: Timer) -> None:
        if self.deadlines.pop(timer, None) is not None:
            self.alarms.cancel(timer)

    def new_id(self) -> str:
        """A random uuid, in Java's writing."""
        bits = self.random.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
        text = f"{bits:032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    # ── for the coordinator ──

    def appended(self, token: Token) -> None:
        if token not in self._writes:
            return  # of a term that is over, or told along with a later one
        while self._writes and (earlier := next(iter(self._writes))) <= token:
            write = self._writes.pop(earlier)
            write.then(KafkaError.NONE)
            for waiting in write.waiting:
                self.answer(waiting.caller, waiting.response)

    def append_failed(self, token: Token, error: KafkaError) -> None:
        write = self._writes.pop(token, None)
        if write is not None:
            self._fail(write, coordinator_errors.to_client(error))

    def fail_all(self, error: KafkaError) -> None:
        writes, self._writes = self._writes, OrderedDict()
        for write in writes.values():
            self._fail(write, error)

    def _fail(self, write: _Write, error: KafkaError) -> None:
        write.then(error)
        for waiting in write.waiting:
            self.answer(waiting.caller, waiting.refusal(error))

    def due(self) -> Iterator[Timer]:
        """Whose deadline has passed, one by one: what is done for one may help another."""
        for timer in self.alarms.due(self.clock_ms, TICK_LIMIT):
            deadline = self.deadlines.get(timer)
            if deadline is None:
                continue
            if deadline <= self.clock_ms:
                del self.deadlines[timer]
                yield timer
            else:
                self.alarms.by(timer, deadline)

    @property
    def writing(self) -> tuple[GroupRecord, ...]:
        """All that is not replicated yet, in the order of the log."""
        return tuple(record for write in self._writes.values() for record in write.records)

    def clear(self) -> None:
        self.effects, self.deadlines = [], {}
        self._writes, self.alarms = OrderedDict(), Alarms()

    def check(self) -> None:
        assert list(self._writes) == sorted(self._writes)
        for timer, deadline in self.deadlines.items():
            alarm = self.alarms.at(timer)
            assert alarm is not None and alarm <= deadline
        assert len(self.alarms) == len(self.deadlines)
