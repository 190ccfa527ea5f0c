"""A topic on three brokers, those who use it, and the story so far: what a scenario is made of.

Each verb is a step. When it is done the stage tells what happened, and shows whoever watches what
every broker holds now. Brokers 1 and 2 stay; broker 3 is the one that is away, slow, or comes back
with an old disk, or with records of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from sexton.lab.hands import Acks, Hands
from sexton.lab.looking import Consumed, ReplicaLog
from sexton.testing.cluster import Cluster

AWAY: Final = 3
NEXT: Final = 2  # leads next, where broker 3 has led
BALLAST: Final = "ballast-"
FILLER: Final = "filler"
SOME_FILLERS: Final = 5  # more of them in a row are told in a word
MIN_LAG: Final = "min.compaction.lag.ms"
RETENTION: Final = "delete.retention.ms"
FOREVER_MS: Final = (1 << 63) - 1
_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast things are forgotten, and how much time passes at a time."""

    topic_options: Mapping[str, object]
    step_ms: int  # a little more than delete.retention.ms, and than it takes to begin a segment
    most_steps: int = 12  # what is not forgotten by then is kept
    ballast: int = 24  # records that a slow broker has to copy first


@dataclass(frozen=True, slots=True)
class Step:
    """Something has happened, and this is what there is to see of it."""

    number: int
    what: str
    logs: dict[int, ReplicaLog]  # of the brokers that answer
    calm: bool  # may a person take their time now? Not while broker 3 is copying.


Look = Callable[[str], None]  # told the topic, when all there is to see can be seen
Watch = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    topic: str
    diverged: bool
    forgotten: bool  # did the others forget the witness while broker 3 could not know of it?
    cleaned_up: bool  # and in the end, when everyone was back?
    seen: Consumed  # by an ordinary consumer, after the election of broker 3
    replicas: dict[int, ReplicaLog]  # at that time
    story: tuple[str, ...] = ()
    states: tuple[str, ...] = ()  # of a marker, where that is what is looked at


Diverged = Callable[[Consumed, dict[int, ReplicaLog]], bool]


@dataclass(slots=True)
class Stage:
    cluster: Cluster
    hands: Hands
    pace: Pace
    name: str
    look: Look | None = None
    watch: Watch | None = None
    replicas: tuple[int, ...] = (1, 2, AWAY)
    bumps: bool = False  # does every transaction get an epoch of its own, as since Kafka 4.0?
    topic: str = ""
    story: list[str] = field(default_factory=list)
    _calm: bool = True
    _cleaning_is_put_off: bool = False
    _fillers: int = 0

    def __post_init__(self) -> None:
        self.topic = f"{self.name}-{next(_NUMBERS)}"
        self.cluster.create_topic(self.topic, [list(self.replicas)], self.pace.topic_options)
        self.cluster.wait_for(self.topic, 0, lambda state: set(state.isr) == set(self.replicas))
        if self.cluster.leader_of(self.topic) != self.replicas[0]:
            self.cluster.elect(self.topic, 0, self.replicas[0])

    def tell(self, what: str) -> None:
        self.story.append(what)
        if self.watch is not None:
            if self._calm:
                self.until(self._in_sync_alike, "every replica in sync knows what all have")
            self.watch(Step(len(self.story), what, self.logs(), self._calm))

    def _in_sync_alike(self) -> bool:
        """A follower hears with its next fetch how far all have got, and shows no more."""
        state = self.cluster.partition(self.topic)
        isr = state.isr if state is not None else ()
        return len({log.offsets.high_watermark for n, log in self.logs().items() if n in isr}) < 2

    @contextmanager
    def in_a_hurry(self) -> Iterator[None]:
        """What happens here cannot wait for anybody."""
        self._calm = False
        try:
            yield
        finally:
            self._calm = True

    # ── writing, as an application does ──

    def write(self, key: str, value: str | None) -> None:
        self.hands.write(self.topic, key, value)
        self.tell(f"write {key}={value}" if value is not None else f"delete {key}")

    def write_to_leader(self, key: str, value: str) -> None:
        """The others copy it when they come to it, which is soon."""
        before = self._acknowledged()
        self.hands.write(self.topic, key, value, acks="1")
        self.until(lambda: self._acknowledged() > before, "every replica in sync has the record")
        self.tell(f"write {key}={value}, acks=1")

    def write_fillers(self, count: int) -> None:
        """One key again and again, each time a batch of its own: all but the last may go."""
        for _ in range(count):
            self._write_filler()
        self.tell(f"write {FILLER} {count} times")

    def _write_filler(self, acks: Acks = "all") -> None:
        self._fillers += 1
        self.hands.write(self.topic, FILLER, str(self._fillers), acks=acks)

    def ballast(self) -> int:
        """Records that stay, each a batch of its own."""
        count = self.pace.ballast
        for number in range(count):
            self.hands.write(self.topic, f"{BALLAST}{number}", "x")
        self.tell(f"write {count} other keys")
        return count

    def begin(self, producer: str, key: str, value: str) -> None:
        self.hands.begin(self.topic, producer, key, value, bumps=self.bumps)
        self.tell(f"{producer} writes {key}={value} in a transaction")

    def commit(self, producer: str) -> None:
        self._end(producer, commit=True)
        self.tell(f"{producer} commits")

    def abort(self, producer: str) -> None:
        self._end(producer, commit=False)
        self.tell(f"{producer} aborts")

    def _end(self, producer: str, *, commit: bool) -> None:
        """A transaction ends for its producer when it is decided, a little before its marker."""
        before = self._acknowledged()
        self.hands.end(self.topic, producer, commit=commit)
        self.until(lambda: self._acknowledged() > before, "a marker at the end of the log")

    def _acknowledged(self) -> int:
        return max((log.offsets.high_watermark for log in self.logs().values()), default=0)

    # ── time ──

    def until(self, ask: Callable[[], bool], what: str) -> None:
        self.hands.until(ask, what)

    def pass_time(self) -> None:
        """Some time, and a record in a new segment, so that the one before can be cleaned."""
        self.cluster.let_time_pass(self.pace.step_ms)
        self._write_filler()

    def passes_until(self, good: Callable[[dict[int, ReplicaLog]], bool]) -> bool:
        """Time passes until it is so; False if that does not come in `most_steps`."""
        for _ in range(self.pace.most_steps):
            if good(self.logs()):
                return True
            self.pass_time()
        return good(self.logs())

    def is_forgotten(self, witness: int) -> bool:
        """Time passes, as much as it takes; is the witness at this offset gone by then?"""
        forgotten = self.passes_until(lambda logs: gone(logs[1], witness))
        then = "clean their logs and forget" if forgotten else "keep"
        self.tell(f"time passes; brokers 1 and 2 {then} offset {witness}")
        return forgotten

    def put_off_cleaning(self) -> None:
        """So that one can look at what the next pass would remove."""
        self.cluster.alter_topic(self.topic, {MIN_LAG: FOREVER_MS})
        self._cleaning_is_put_off = True

    def _go_on_cleaning(self) -> None:
        if self._cleaning_is_put_off:
            self.cluster.alter_topic(self.topic, {MIN_LAG: None})
            self._cleaning_is_put_off = False

    # ── brokers ──

    def take_away(self) -> None:
        """Broker 3 dies, with what it has."""
        self.until(lambda: self.has_copied(1), f"broker {AWAY} has the first record")
        self.cluster.kill(AWAY)
        self.cluster.wait_for(self.topic, 0, lambda state: AWAY not in state.isr)
        self.tell(f"broker {AWAY} is killed")

    def dies_as_leader_with(self, key: str) -> None:
        """Broker 3 leads, and dies with a record that nobody has copied.

        It is all one step: a broker that is held back for long is taken for dead. The first record
        after that may be on its way already, so it is one that does not matter.
        """
        self.cluster.hold_back(NEXT)
        try:
            self._write_filler("1")
            self.hands.write(self.topic, key, "1", acks="1")
            self.cluster.kill(AWAY)
        finally:
            self.cluster.let_go(NEXT)
        self.cluster.wait_for(
            self.topic, 0, lambda state: state.leader == NEXT and AWAY not in state.isr
        )
        self.tell(
            f"while broker {NEXT} copies nothing, write {FILLER}={self._fillers} and {key}=1,"
            f" acks=1; broker {AWAY} is killed, and broker {NEXT} leads"
        )

    def bring_back(self) -> None:
        self.cluster.restart(AWAY)
        self.wait_until_in_sync()
        self.tell(f"broker {AWAY} is back, in sync")

    def wait_until_in_sync(self) -> None:
        self.cluster.wait_for(self.topic, 0, lambda state: AWAY in state.isr)

    def elect(self, node: int = AWAY) -> None:
        self.cluster.elect(self.topic, 0, node)
        self.tell(f"broker {node} is elected")

    def has_copied(self, count: int) -> bool:
        """Can so many offsets be read from broker 3?"""
        log = self.logs().get(AWAY)
        return log is not None and log.offsets.high_watermark >= count

    def holds(self, offset: int) -> bool:
        """Has broker 3 copied this offset, whether others know of it or not?"""
        log = self.logs().get(AWAY)
        return log is not None and log.offsets.log_end > offset

    # ── looking ──

    def logs(self) -> dict[int, ReplicaLog]:
        return self.hands.logs(self.topic)

    def wait_until_all_know_the_end(self) -> None:
        self.until(self._all_know_the_end, "every replica has all, and knows that all have it")

    def _all_know_the_end(self) -> bool:
        offsets = [log.offsets for log in self.logs().values()]
        ends = {each.high_watermark for each in offsets} | {each.log_end for each in offsets}
        return len(offsets) == 3 and len(ends) == 1

    def outcome(
        self, forgotten: bool, diverged: Diverged, witness: int, states: tuple[str, ...] = ()
    ) -> Outcome:
        """Looks at everything, then waits for the witness at this offset to go everywhere."""
        self.wait_until_all_know_the_end()
        seen = self.hands.consumed(self.topic)
        logs = self.logs()
        self.tell(f"a consumer sees {in_words(seen)}")
        if self.look is not None:
            self.look(self.topic)
        self._go_on_cleaning()
        cleaned_up = self.passes_until(
            lambda logs: all(gone(log, witness) for log in logs.values())
        )
        if cleaned_up and not forgotten:
            self.tell(f"time passes; all brokers clean their logs and forget offset {witness}")
        return Outcome(
            self.name,
            self.topic,
            diverged(seen, logs),
            forgotten,
            cleaned_up,
            seen,
            logs,
            tuple(self.story),
            states,
        )


def gone(log: ReplicaLog, offset: int) -> bool:
    """Was something there of which nothing is left? An emptied batch says nothing."""
    return offset < log.offsets.high_watermark and log.stored.get(offset, "()").endswith("()")


def in_words(seen: Consumed) -> str:
    return f"{values_in(seen)}, up to offset {seen.position}"


def values_in(seen: Consumed) -> str:
    """The last value of every key that lives."""
    others = sum(key.startswith(BALLAST) for key in seen.latest)
    shown = [f"{key}={value}" for key, value in seen.latest.items() if not key.startswith(BALLAST)]
    if others:
        shown.append(f"and {others} other keys")
    return " ".join(shown) or "nothing"


def held(log: ReplicaLog) -> str:
    """What a replica holds, in words; of many keys that nothing happens to, only where they are."""
    words: list[str] = []
    for kind, batches in itertools.groupby(log.batches, _kind):
        found = list(batches)
        if kind == "other" or (kind == "filler" and len(found) > SOME_FILLERS):
            first, last = (each.partition(":")[0] for each in (found[0], found[-1]))
            found = [f"{first}..{last}:({'other keys' if kind == 'other' else 'fillers'})"]
        words += found
    return " ".join(words) or "nothing"


def _kind(batch: str) -> str:
    if f":{BALLAST}" in batch:
        return "other"
    return "filler" if f":{FILLER}=" in batch else ""
