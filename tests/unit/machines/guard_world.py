"""A cluster as the guard sees it, in which everything that can go wrong does, from one seed.

It has a few topics with options, replicas that leave and come back, operators who change options,
and a memory that is compacted now and then. Guards live in it; each does one effect at a time and
can be killed before the next. Answers get lost, changes take effect late.

Judged from outside, by means that guards do not have:

  - `truth` is what operators last wished for; when all is well and quiet it must be so
  - a replica that is away for longer than the promise, while a guard lives, means a frozen topic
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sexton.machines.guard import Guard
from sexton.machines.guard_events import (
    Alter,
    Altered,
    Decide,
    Describe,
    Described,
    Effect,
    Forget,
    GuardConfig,
    LookAgain,
    NotSeen,
    Options,
    Recalled,
    Remember,
    Seen,
)
from sexton.machines.guard_health import PartitionSight, TopicSight
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Audited, Lags, encode

CONFIG = GuardConfig(
    interval_ms=1_000,
    request_timeout_ms=1_000,
    hold_ms=5_000,
    patience_ms=1_000,
    late_ms=3_000,
    settle_ms=1_500,
    blind_ms=20_000,
    describe_ms=4_000,
)
PROMISE_MS = 15_000  # of this world: a few rounds, each with answers that get lost
WISHES = (None, "0", "1000", "60000")
REPLICAS = (1, 2, 3)


@dataclass(slots=True)
class WorldTopic:
    own: Lags
    truth: Lags
    topic_id: str = "id-0"
    isr: tuple[int, ...] = REPLICAS
    leader_epoch: int = 0
    away_since_ms: int | None = None
    back_since_ms: int = 0
    unfrozen_ms: int = 0
    operator_unfroze: bool = False  # and wants it so until all replicas are back


@dataclass(slots=True)
class Life:
    """One guard process."""

    guard: Guard
    steps: Iterator[None]
    since_ms: int
    read_to: int = 0
    turn: int = 0  # which broker is asked
    in_act: bool = False  # between a look at options and the change that follows from it


@dataclass(slots=True)
class World:
    seed: int
    config: GuardConfig = CONFIG
    change_before_note: bool = False  # planted: what must never be
    forgetful: bool = False  # planted: a guard reads no notes from before its time
    faults: bool = True
    now_ms: int = 1_000_000
    topics: dict[str, WorldTopic] = field(default_factory=dict)
    log: list[tuple[bytes, bytes | None] | None] = field(default_factory=list)  # None: compacted
    lives: list[Life] = field(default_factory=list)
    late: list[tuple[int, Alter]] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    born: int = 0
    cut_off: tuple[Seen, dict[str, Lags]] | None = None  # what broker 3 knew when it lost contact

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        for number in range(3):
            self.topics[f"t{number}"] = self._new_topic(f"id-{number}")

    def _new_topic(self, topic_id: str) -> WorldTopic:
        own = self._wish()
        return WorldTopic(own, own, topic_id)

    def _wish(self) -> Lags:
        """A pair that Kafka accepts: min is not above max."""
        while True:
            wish = Lags(self.rng.choice(WISHES), self.rng.choice(WISHES))
            if int(wish.min or 0) <= int(wish.max or FOREVER):
                return wish

    rng: random.Random = field(init=False, default_factory=random.Random)

    # ── guards ──

    def start_guard(self) -> Life:
        self.born += 1
        life = Life(Guard(f"guard-{self.born}", self.config), iter(()), self.now_ms)
        life.steps = self._live(life)
        self.lives.append(life)
        self.tell(f"{life.guard.name} starts")
        return life

    def kill(self, life: Life) -> None:
        self.lives.remove(life)
        self.tell(f"{life.guard.name} is killed")

    def _live(self, life: Life) -> Iterator[None]:
        """The shell: one effect at a time, and it may be the last."""
        guard = life.guard
        if self.forgetful:
            life.read_to = len(self.log)
        self._recall(life)
        while True:
            yield
            if self._fails():
                guard.handle(NotSeen(self.now_ms, "timed out"))
                continue
            life.turn = rounds = guard.round
            looks = guard.handle(self._sight(life))
            yield
            for look in looks:
                assert isinstance(look, Describe)
                life.in_act = True
                guard.handle(self._described(life, look))
                yield
            self._recall(life)
            yield
            for number in range(1, 6):
                effects = guard.handle(Decide(self.now_ms))
                yield from self._do(life, effects)
                looks = [each for each in effects if isinstance(each, Describe)]
                if not looks and not any(isinstance(each, Remember) for each in effects):
                    break
                self._recall(life)
                life.turn = rounds + number
                for look in looks:
                    assert isinstance(look, Describe)
                    guard.handle(self._described(life, look))
            guard.check()
            life.in_act = False

    def _do(self, life: Life, effects: list[Effect]) -> Iterator[None]:
        for effect in effects:
            yield
            match effect:
                case Remember(saying):
                    if self.change_before_note and getattr(saying, "state", "") == "planned":
                        values = ((MIN_LAG, FOREVER), (MAX_LAG, FOREVER))
                        self._alter(life, Alter(saying.topic, values, True, self.now_ms))  # type: ignore[union-attr]
                        yield
                    if not self._fails():
                        self.log.append(encode(saying))
                    self._fails()  # the answer, too, can be lost; nobody asks for it
                case Forget(keys):
                    self.log += [(key, None) for key in keys]
                case Alter() as alter:
                    if self.now_ms <= alter.not_after_ms:
                        self._alter(life, alter)
                case LookAgain() | Describe():
                    pass

    def _alter(self, life: Life, alter: Alter) -> None:
        self.count("freeze" if alter.freezes else "thaw")
        chance = self.rng.random() if self.faults else 1.0
        if self._is_cut_off(life):
            life.turn += 1  # it times out, and goes to the next one
            self._alter(life, alter)
            return
        if chance < 0.15:
            outcome = "unknown"  # lost on the way
        elif chance < 0.3:
            delay_ms = self.rng.randrange(self.config.late_ms - 500)
            self.late.append((self.now_ms + delay_ms, alter))
            outcome = "unknown"
        elif chance < 0.4:
            self._take_effect(alter)
            outcome = "unknown"
        else:
            outcome = self._take_effect(alter)
        life.guard.handle(Altered(self.now_ms, alter.topic, outcome, outcome))  # type: ignore[arg-type]

    def _take_effect(self, alter: Alter) -> str:
        topic = self.topics.get(alter.topic)
        if topic is None:
            return "refused"
        changed = dict(alter.values)
        own = Lags(changed.get(MIN_LAG, topic.own.min), changed.get(MAX_LAG, topic.own.max))
        if int(own.min or 0) > int(own.max or FOREVER):
            self.count("refused")
            return "refused"
        topic.own = own
        self.tell(f"{alter.topic} is set to {own.min}, {own.max}")
        return "done"

    def _recall(self, life: Life) -> None:
        records = tuple(
            (offset, *self.log[offset])  # type: ignore[misc]
            for offset in range(life.read_to, len(self.log))
            if self.log[offset] is not None
        )
        life.read_to = len(self.log)
        life.guard.handle(Recalled(self.now_ms, records))

    def _is_cut_off(self, life: Life) -> bool:
        return self.cut_off is not None and life.turn % len(REPLICAS) == 0

    def _sight(self, life: Life) -> Seen:
        by = f"broker {life.turn % len(REPLICAS)}"
        if self.cut_off is not None and self._is_cut_off(life):
            return replace(self.cut_off[0], now_ms=self.now_ms, by=by)
        topics = {
            name: TopicSight(
                name,
                topic.topic_id,
                (PartitionSight(0, topic.isr[0], topic.leader_epoch, REPLICAS, topic.isr),),
            )
            for name, topic in self.topics.items()
        }
        return Seen(self.now_ms, frozenset(REPLICAS), topics, by)

    def _described(self, life: Life, look: Describe) -> Described:
        options = {}
        for name in look.topics:
            topic = self.topics.get(name)
            if topic is None or self._fails():
                continue
            own = topic.own
            if self.cut_off is not None and self._is_cut_off(life):
                own = self.cut_off[1].get(name, own)
            options[name] = Options(
                own, int(own.min or 0), int(own.max or FOREVER), "compact", 86_400_000
            )
        return Described(self.now_ms, options, {}, f"broker {life.turn % len(REPLICAS)}")

    def _fails(self) -> bool:
        return self.faults and self.rng.random() < 0.08

    # ── what happens ──

    def step(self) -> None:
        self.now_ms += self.rng.randrange(1, 400)
        for at_ms, alter in list(self.late):
            if at_ms <= self.now_ms:
                self.late.remove((at_ms, alter))
                self.tell("late: ")
                self._take_effect(alter)
        if self.faults:
            self._happen()
        for life in list(self.lives):
            next(life.steps)
        self._judge()

    def _happen(self) -> None:
        chance = self.rng.random()
        name = self.rng.choice(sorted(self.topics))
        if chance < 0.01:
            self.leave(name)
        elif chance < 0.03:
            self.come_back(name)
        elif chance < 0.04 and self.lives:
            self.kill(self.rng.choice(self.lives))
        elif chance < 0.06 and len(self.lives) < 2:
            self.start_guard()
        elif chance < 0.07:
            self._operate(name)
        elif chance < 0.08:
            self.compact()
        elif chance < 0.09:
            self._cut_off_or_heal()
        elif chance < 0.091 and not self._busy(name):
            self.topics[name] = self._new_topic(f"id-{self.now_ms}")
            self.tell(f"{name} is deleted and made again")

    def leave(self, name: str) -> None:
        topic = self.topics[name]
        if topic.away_since_ms is None:
            topic.isr, topic.away_since_ms = (1, 2), self.now_ms
            since_ms = max(topic.back_since_ms, topic.unfrozen_ms)
            since = (max(life.since_ms, since_ms) for life in self.lives)
            if any(self.now_ms - at_ms > PROMISE_MS for at_ms in since):
                topic.operator_unfroze = False  # a guard has seen that all was well
            self.count("away")
            self.tell(f"{name}: broker 3 is away")

    def come_back(self, name: str) -> None:
        topic = self.topics[name]
        if topic.away_since_ms is not None:
            topic.isr, topic.away_since_ms = REPLICAS, None
            topic.back_since_ms = self.now_ms
            self.tell(f"{name}: broker 3 is back")

    def _cut_off_or_heal(self) -> None:
        """Broker 3 loses its controller: it goes on to tell what it knew then."""
        if self.cut_off is None and self.lives:
            everything = {name: topic.own for name, topic in self.topics.items()}
            self.cut_off = self._sight(self.lives[0]), everything
            self.count("cut off")
        else:
            self.cut_off = None

    def _operate(self, name: str) -> None:
        """An operator changes both lags, but not in the moment between a guard's look and act."""
        if not self._busy(name):
            self.wish(name, self._wish())

    def wish(self, name: str, lags: Lags) -> None:
        topic = self.topics[name]
        if topic.own.min == FOREVER:
            topic.operator_unfroze, topic.unfrozen_ms = True, self.now_ms
            self.count("operator unfreezes")
        topic.own = topic.truth = lags
        self.count("operator")
        self.tell(f"{name}: an operator wishes {topic.own.min}, {topic.own.max}")

    def _busy(self, name: str) -> bool:
        """Kafka has no compare-and-set: what happens in this moment nobody can see."""
        under_way = any(alter.topic == name for _, alter in self.late)
        return under_way or any(life.in_act for life in self.lives)

    def compact(self) -> None:
        """Keeps the last record of each key, and of tombstones perhaps nothing."""
        last = {record[0]: at for at, record in enumerate(self.log) if record is not None}
        for at, record in enumerate(self.log):
            if record is None:
                continue
            gone = record[1] is None and self.rng.random() < 0.5
            if last[record[0]] != at or gone:
                self.log[at] = None
        self.count("compacted")

    # ── judging ──

    def _judge(self) -> None:
        guarded_ms = max((self.now_ms - life.since_ms for life in self.lives), default=0)
        for name, topic in self.topics.items():
            since_ms = topic.away_since_ms
            if since_ms is None or guarded_ms < PROMISE_MS:
                continue
            if topic.operator_unfroze and not self.config.reapply:
                continue
            if self.now_ms - max(since_ms, topic.unfrozen_ms) > PROMISE_MS:
                assert topic.own.min == FOREVER, f"seed {self.seed}: {name} is not frozen"

    def settle(self) -> None:
        """No more faults; everybody comes back; one guard stays."""
        self.faults, self.cut_off = False, None
        for name in self.topics:
            self.come_back(name)
        for name in self.topics:  # somebody has looked at replicas that are in doubt
            self.log.append(encode(Audited(name, 1_000_000)))
        if not self.lives:
            self.start_guard()
        until_ms = self.now_ms + 60_000
        while self.now_ms < until_ms:
            self.step()
        for name, topic in self.topics.items():
            assert topic.own.min != FOREVER, f"seed {self.seed}: {name} is left frozen"
            assert topic.own == topic.truth, f"seed {self.seed}: {name}: {topic.own}"
            assert self.lives[0].guard.memory.in_force(name) is None, f"seed {self.seed}: {name}"

    def tell(self, what: str) -> None:
        self.story.append(f"{self.now_ms - 1_000_000:>7} {what}")

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


def run(world: World, steps: int = 1_500) -> World:
    world.start_guard()
    for _ in range(steps):
        world.step()
    world.settle()
    return world
