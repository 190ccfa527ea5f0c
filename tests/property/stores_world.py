"""Two instances, one task, a handful of inputs: what can happen to them, and what must be true.

The task machine is the real one; disks, brokers and the group are the simplest that could be right.
A transaction goes through its steps one by one (records, offsets, decision, each marker), and
between any two of them an instance may die, hear of a new generation, or fall silent.

The task counts: an input `a` makes the count of `a` one more, `-a` deletes it. What must hold:

  - committed outputs are those of the inputs, each once, in order
  - a store that its owner works on is the fold of the inputs that were committed, no more, no less
  - the group's committed offset never goes back

`Mistakes` are made by this world, not by the machine, except for the one that is a real setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from sexton.machines.stores import Task
from sexton.machines.stores_events import (
    Aborted,
    Apply,
    Bounds,
    BoundsTold,
    Checkpoint,
    Commit,
    CommitDue,
    Committed,
    Discard,
    Effect,
    Elsewhere,
    Event,
    Fenced,
    FetchOffset,
    FindBounds,
    Given,
    Initialised,
    InitProducer,
    Lineage,
    OffsetTold,
    Opened,
    Processed,
    Read,
    Replay,
    Role,
    Run,
    Spoilt,
    Stop,
    TaskConfig,
    Unsure,
    Wipe,
)

LINEAGE = Lineage("cluster", b"topic")
RETENTION_MS = 100
LONG_MS = 1000
POSITION = "position"  # the fixed key
Changes = tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Mistakes:
    trust_local_checkpoint: bool = False
    disk_before_commit: bool = False
    checkpoint_before_data: bool = False
    end_before_fencing: bool = False
    offset_before_fencing: bool = False
    resume_from_group: bool = False
    stable_end_by_generation_alone: bool = False
    acknowledged_before_applied: bool = False  # the broker's
    no_horizon: bool = False
    lands_anywhere: bool = False  # nobody looks where the first record of a new owner lands
    fenced_stand_still: bool = False  # who is fenced does not start again, owner or not


@dataclass(frozen=True)
class Limits:
    rebalances: int = 1
    crashes: int = 0
    aborts: int = 0
    unsure: int = 0
    passes: int = 0  # of a long time, and a cleaner after it
    old_news: int = 0  # promotions that ask leaders which were replaced
    damages: int = 0  # disks that turn out to be unreadable
    epochs: int = 4  # two that fence each other could do so for ever
    states: int = 200_000


@dataclass(frozen=True)
class Entry:
    offset: int
    txn: int
    key: str  # "": a marker
    value: int | None
    written_ms: int = 0


@dataclass(frozen=True)
class Txn:
    epoch: int
    changes: Changes
    next_input: int
    outputs: Changes
    outcome: str = "open"  # or commit, abort
    marked: bool = False  # its marker is in the changelog
    applied: bool = False  # the group's offset is as it says


@dataclass
class Instance:
    task: Task
    data: dict[str, int] = field(default_factory=dict)
    found: Checkpoint | None = None
    disk_input: int | None = None
    overlay: dict[str, int | None] = field(default_factory=dict)
    outputs: Changes = ()
    hand: tuple[tuple[str, int | None], ...] = ()
    pending: tuple[Effect, ...] = ()
    running: bool = False
    next_input: int | None = None
    epoch: int = -1
    txn: int | None = None  # produced, not ended by us yet
    heard: int = -1
    torn: tuple[tuple[str, int | None], ...] = ()  # data that is not on the disk yet (mistake)
    early_end: int | None = None
    early_offset: int | None = None
    told: int | None = None
    misled: bool = False  # it asks leaders that were replaced

    def copy(self) -> Instance:
        return replace(
            self, task=replace(self.task), data=dict(self.data), overlay=dict(self.overlay)
        )

    def seen(self) -> dict[str, int]:
        """What a reader is shown: also what is not safely down yet."""
        shown = dict(self.data)
        _write(shown, self.torn)
        return shown

    def key(self) -> object:
        t = self.task
        return (
            tuple(sorted(self.data.items())), self.found, self.disk_input,
            tuple(sorted(self.overlay.items())), self.outputs, self.hand, self.pending,
            self.running, self.next_input, self.epoch, self.txn, self.heard, self.torn,
            self.early_end, self.early_offset, self.told, self.misled, t.role, t.generation,
            t.store, t.input_position, t.phase, t.least_end, t.astray, t.spoilt, t.seen_epoch,
        )  # fmt: skip


@dataclass
class World:
    instances: dict[str, Instance]
    log: tuple[Entry, ...] = ()
    log_end: int = 0
    txns: tuple[Txn, ...] = ()
    epoch: int = 0
    generation: int = 0
    owner: str = ""
    offset: int | None = None
    now_ms: int = LONG_MS
    used: Limits = field(default_factory=lambda: Limits(rebalances=0))
    wrong: str | None = None

    def copy(self) -> World:
        return replace(self, instances={n: i.copy() for n, i in self.instances.items()})

    def key(self) -> object:
        return (
            tuple(i.key() for i in self.instances.values()), self.log, self.log_end, self.txns,
            self.epoch, self.generation, self.owner, self.offset, self.now_ms, self.used,
        )  # fmt: skip

    @property
    def committed(self) -> list[Txn]:
        return [t for t in self.txns if t.outcome == "commit"]

    @property
    def stable(self) -> int:
        unresolved = {n for n, t in enumerate(self.txns) if not t.marked}
        return min((e.offset for e in self.log if e.txn in unresolved), default=self.log_end)


def counted(inputs: tuple[str, ...]) -> tuple[dict[str, int], Changes]:
    """The store and the outputs that these inputs come to."""
    store: dict[str, int] = {}
    outputs: list[tuple[str, int | None]] = []
    for each in inputs:
        key = each.lstrip("-")
        if each.startswith("-"):
            store.pop(key, None)
            outputs.append((key, None))
        else:
            store[key] = store.get(key, 0) + 1
            outputs.append((key, store[key]))
    return store, tuple(outputs)


class Rules:
    def __init__(self, inputs: str, limits: Limits, mistakes: Mistakes) -> None:
        self.inputs = tuple(inputs.split())
        self.limits = limits
        self.mistakes = mistakes
        self.config = TaskConfig(
            delete_retention_ms=RETENTION_MS,
            restore_timeout_ms=1 << 40,
            trust_local_checkpoint=mistakes.trust_local_checkpoint,
        )

    def start(self) -> World:
        world = World({"A": Instance(Task(self.config)), "B": Instance(Task(self.config))})
        for name in world.instances:
            self._open(world, name)
        world.generation, world.owner = 1, "A"
        return world

    def _open(self, world: World, name: str) -> None:
        it = world.instances[name]
        it.task = Task(self.config)
        found = it.found
        self._tell(world, name, Opened(self._now(world), LINEAGE, found, it.disk_input))

    def _now(self, world: World) -> int:
        return 0 if self.mistakes.no_horizon else world.now_ms

    # ── what can happen ──

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        for name in world.instances:
            yield from self._own_moves(world, name)
        yield from self._markers(world)
        yield from self._misfortunes(world)

    def _own_moves(self, world: World, name: str) -> Iterator[tuple[str, World]]:
        it = world.instances[name]
        if it.pending:
            after = world.copy()
            done = self._carry_out(after, name, it.pending[0])
            if done is not None:
                yield f"{name}: {done}", after
            if it.pending[0] == FetchOffset() and world.used.old_news < self.limits.old_news:
                after = self._spend(world, "old_news")
                misled = after.instances[name]
                misled.misled, misled.told, misled.pending = True, None, ()
                self._tell(after, name, OffsetTold(None))
                yield f"{name}: an old leader knows of no offset", after
        if it.heard < world.generation:
            after = world.copy()
            after.instances[name].heard = world.generation
            role = Role.ACTIVE if world.owner == name else Role.STANDBY
            self._tell(after, name, Given(self._now(world), role, world.generation))
            yield f"{name} hears that it is {role.value} in {world.generation}", after
        if it.running and it.txn is None and not it.pending:
            at = it.next_input or 0
            if at < len(self.inputs):
                after = world.copy()
                self._process(after, name, at)
                yield f"{name} processes {self.inputs[at]}", after
            if it.overlay or it.outputs:
                after = world.copy()
                self._tell(after, name, CommitDue(self._now(world)))
                yield f"{name} is to commit", after
        if it.txn is not None:
            yield from self._endings(world, name)
        if it.torn:
            after = world.copy()
            _write(after.instances[name].data, it.torn)
            after.instances[name].torn = ()
            yield f"{name} writes the data", after

    def _endings(self, world: World, name: str) -> Iterator[tuple[str, World]]:
        """EndTxn, and what comes back."""
        number = world.instances[name].txn
        assert number is not None
        for wanted, limit in (("commit", None), ("abort", "aborts")):
            if limit and getattr(world.used, limit) >= getattr(self.limits, limit):
                continue
            after = self._spend(world, limit) if limit else world.copy()
            it = after.instances[name]
            txn = after.txns[number]
            it.txn = None
            if txn.outcome != "open" or not self._current(after, it):
                self._tell(after, name, Fenced("producer"))
                yield f"{name}'s end of its transaction is refused", after
                return
            self._decide(after, number, wanted)
            self._ended(after, name, number, wanted)
            yield f"{name}'s {wanted} is confirmed", after
            if wanted == "commit" and world.used.unsure < self.limits.unsure:
                lost = self._spend(world, "unsure")
                lost.instances[name].txn = None
                self._decide(lost, number, "commit")
                self._tell(lost, name, Unsure())
                yield f"{name}'s commit is decided, the answer lost", lost

    def _ended(self, world: World, name: str, number: int, outcome: str) -> None:
        it = world.instances[name]
        if outcome == "abort":
            self._tell(world, name, Aborted())
            return
        last = max(e.offset for e in world.log if e.txn == number)
        it.hand = tuple(it.overlay.items())
        self._tell(world, name, Committed(self._now(world), last + 1, 0))

    def _markers(self, world: World) -> Iterator[tuple[str, World]]:
        for number, txn in enumerate(world.txns):
            if txn.outcome == "open":
                continue
            if not txn.marked:
                after = world.copy()
                after.log += (Entry(world.log_end, number, "", None),)
                after.log_end += 1
                self._change(after, number, marked=True)
                yield f"the {txn.outcome} marker of {number} is in the changelog", after
            if not txn.applied and all(t.applied for t in world.txns[:number]):
                after = world.copy()
                self._change(after, number, applied=True)
                if txn.outcome == "commit":
                    if after.offset is not None and txn.next_input < after.offset:
                        after.wrong = f"the offset went back to {txn.next_input}"
                    after.offset = txn.next_input
                yield f"the offset of {number} is applied", after

    def _misfortunes(self, world: World) -> Iterator[tuple[str, World]]:
        if world.used.rebalances < self.limits.rebalances:
            after = self._spend(world, "rebalances")
            after.generation += 1
            after.owner = "B" if world.owner == "A" else "A"
            yield f"{after.owner} is to own the task", after
        if world.used.crashes < self.limits.crashes:
            for name in world.instances:
                after = self._spend(world, "crashes")
                after.instances[name] = it = _after_crash(world.instances[name])
                self._open(after, name)
                it.heard = -1
                yield f"{name} is killed and starts again", after
        if world.used.damages < self.limits.damages:
            for name in world.instances:
                after = self._spend(world, "damages")
                self._tell(after, name, Spoilt("it cannot be read"))
                yield f"{name}'s disk turns out to be damaged", after
        if world.used.passes < self.limits.passes:
            after = self._spend(world, "passes")
            after.now_ms += LONG_MS
            _clean(after)
            yield "a long time passes, the changelog is cleaned", after

    def _spend(self, world: World, what: str) -> World:
        after = world.copy()
        after.used = replace(after.used, **{what: getattr(after.used, what) + 1})
        return after

    # ── an instance at work ──

    def _tell(self, world: World, name: str, event: Event) -> None:
        """What only concerns the disk and the memory is done at once, the rest waits its turn."""
        it = world.instances[name]
        if self.mistakes.fenced_stand_still and isinstance(event, Fenced):
            it.running, it.pending = False, ()
            return
        effects = it.task.handle(event)
        it.task.check()
        if not effects and not isinstance(event, Fenced):
            return
        it.running = False
        later: list[Effect] = []
        for effect in effects:
            match effect:
                case Wipe():
                    it.data, it.found, it.disk_input, it.torn = {}, None, None, ()
                case Apply():
                    self._apply(it, effect)
                case Discard():
                    self._discard(world, it)
                case Run():
                    self._run(world, name, effect)
                case Stop():
                    pass
                case _:
                    later.append(effect)
        it.pending = tuple(later)
        if self.mistakes.end_before_fencing and later == [InitProducer()]:
            it.early_end = world.log_end
        if self.mistakes.offset_before_fencing and later == [InitProducer()]:
            it.early_offset = world.offset

    def _apply(self, it: Instance, effect: Apply) -> None:
        it.found, it.disk_input = effect.checkpoint, effect.input_position
        if self.mistakes.checkpoint_before_data:
            it.torn += it.hand
        else:
            _write(it.data, it.hand)
        it.hand, it.overlay, it.outputs = (), {}, ()

    def _discard(self, world: World, it: Instance) -> None:
        it.overlay, it.outputs, it.hand = {}, (), ()
        number = it.txn
        if number is not None and self._current(world, it) and world.txns[number].outcome == "open":
            self._decide(world, number, "abort")
        it.txn = None

    def _run(self, world: World, name: str, effect: Run) -> None:
        it = world.instances[name]
        it.running, it.next_input = True, effect.next_input
        if self.mistakes.resume_from_group and effect.promoted:
            it.next_input = it.told
            it.task.handle(Processed(it.told or 0))
        # Who was misled is judged by what it commits.
        if effect.promoted and self._owns(world, it) and not it.misled:
            self._check_store(world, name)

    def _check_store(self, world: World, name: str) -> None:
        it = world.instances[name]
        done = world.committed[-1].next_input if world.committed else 0
        truth = counted(self.inputs[:done])[0]
        seen = it.seen()
        if seen != truth or (it.next_input or 0) != done:
            world.wrong = (
                f"{name} works from {it.next_input} on {seen}, committed are {done}: {truth}"
            )

    def _process(self, world: World, name: str, at: int) -> None:
        it = world.instances[name]
        each = self.inputs[at]
        key = each.lstrip("-")
        now = it.overlay.get(key, it.seen().get(key)) or 0
        value = None if each.startswith("-") else now + 1
        it.overlay[key] = value
        it.outputs += ((key, value),)
        it.next_input = at + 1
        it.task.handle(Processed(at + 1))

    def _owns(self, world: World, it: Instance) -> bool:
        return it.epoch == world.epoch or (
            self.mistakes.stable_end_by_generation_alone and it.task.generation == world.generation
        )

    def _current(self, world: World, it: Instance) -> bool:
        return it.epoch == world.epoch or self.mistakes.stable_end_by_generation_alone

    def _carry_out(self, world: World, name: str, effect: Effect) -> str | None:
        """None: it has to wait."""
        it = world.instances[name]
        match effect:
            case InitProducer():
                return self._initialise(world, name)
            case FetchOffset():
                return self._fetch_offset(world, name)
            case FindBounds():
                it.pending = ()
                end = it.early_end if it.early_end is not None else world.log_end
                it.early_end = None
                if self.mistakes.stable_end_by_generation_alone:
                    end = world.stable
                start, log_end = 0, world.log_end
                it.misled = it.misled and _old_end(world) >= effect.least_end
                if it.misled:
                    end = log_end = _old_end(world)
                bounds = Bounds(start, end, log_end)
                self._tell(world, name, BoundsTold(self._now(world), bounds))
                return f"learns that the changelog ends at {end}"
            case Replay(position, _):
                return self._replay(world, name, position)
            case Commit():
                return self._produce(world, name, effect)
            case _:
                raise AssertionError(effect)

    def _initialise(self, world: World, name: str) -> str | None:
        it = world.instances[name]
        if self.mistakes.stable_end_by_generation_alone:
            it.pending = ()
            self._tell(world, name, Initialised())
            return "fences nobody"
        for number, txn in enumerate(world.txns):
            if txn.outcome == "open":
                self._decide(world, number, "abort")
                world.epoch += 1  # whoever has it open is fenced
                return "aborts what is open"
            if not self._completed(txn):
                return None
        if world.epoch >= self.limits.epochs:
            return None
        world.epoch += 1
        it.epoch = world.epoch
        it.pending, it.misled = (), False
        self._tell(world, name, Initialised())
        return "has a new epoch"

    def _fetch_offset(self, world: World, name: str) -> str | None:
        it = world.instances[name]
        unstable = any(not t.applied for t in world.txns)
        if unstable and not self.mistakes.acknowledged_before_applied:
            return None
        offset = world.offset
        if self.mistakes.offset_before_fencing:
            offset, it.early_offset = it.early_offset, None
        it.told, it.pending = offset, ()
        # The group's offset is also a witness. A shell with these mistakes does not call it.
        told = self.mistakes in (
            Mistakes(), Mistakes(acknowledged_before_applied=True), Mistakes(lands_anywhere=True)
        )  # fmt: skip
        trusting = self.mistakes.trust_local_checkpoint
        self._tell(world, name, OffsetTold(offset if told or trusting else None))
        return f"learns that {offset} is committed"

    def _replay(self, world: World, name: str, position: int) -> str | None:
        it = world.instances[name]
        there = [e for e in world.log if e.offset >= position and e.offset < world.stable]
        if not there:
            if position >= world.stable:
                return None
            event = Read(self._now(world), position, world.stable, world.log_end, 0, None)
            self._tell(world, name, event)
            return f"reads on to {world.stable}"
        entry = there[0]
        visible = entry.key and world.txns[entry.txn].outcome == "commit"
        next_input = None
        it.hand = ()
        if visible and entry.key == POSITION:
            next_input = entry.value
        elif visible:
            it.hand = ((entry.key, entry.value),)
        after = entry.offset + 1
        event = Read(self._now(world), position, after, world.log_end, 0, next_input)
        self._tell(world, name, event)
        return f"reads {entry.key or 'a marker'} at {entry.offset}"

    def _completed(self, txn: Txn) -> bool:
        if self.mistakes.stable_end_by_generation_alone:
            return True  # everybody has a transactional id of their own
        applied = txn.applied or self.mistakes.acknowledged_before_applied
        return txn.marked and applied

    def _produce(self, world: World, name: str, effect: Commit) -> str | None:
        it = world.instances[name]
        if not self._current(world, it):
            it.pending = ()
            self._tell(world, name, Fenced("producer"))
            return "is fenced"
        if effect.generation != world.generation:
            it.pending = ()
            self._tell(world, name, Fenced("group", effect.generation))
            return "is of an old generation"
        if any(not self._completed(t) for t in world.txns):
            return None  # CONCURRENT_TRANSACTIONS: the last one is being ended
        it.pending = ()
        number = len(world.txns)
        changes = tuple(it.overlay.items())
        world.txns += (Txn(it.epoch, changes, effect.next_input, it.outputs),)
        for key, value in (*changes, (POSITION, effect.next_input)):
            world.log += (Entry(world.log_end, number, key, value, world.now_ms),)
            world.log_end += 1
        first = min(e.offset for e in world.log if e.txn == number)
        if not self.mistakes.lands_anywhere and not effect.lands(first):
            self._decide(world, number, "abort")
            self._tell(world, name, Elsewhere(first))
            return f"writes at {first}, not at {effect.lands_at}"
        it.txn = number
        if self.mistakes.disk_before_commit:
            _write(it.data, changes)
        return f"writes transaction {number} up to input {effect.next_input}"

    # ── the coordinator ──

    def _decide(self, world: World, number: int, outcome: str) -> None:
        self._change(world, number, outcome=outcome)
        if outcome != "commit":
            return
        made = tuple(o for t in world.committed for o in t.outputs)
        wanted = counted(self.inputs)[1][: len(made)]
        if made != wanted:
            world.wrong = f"committed outputs are {made}, they should be {wanted}"

    def _change(self, world: World, number: int, **changes: object) -> None:
        txns = list(world.txns)
        txns[number] = replace(txns[number], **changes)  # type: ignore[arg-type]
        world.txns = tuple(txns)


def _write(data: dict[str, int], changes: tuple[tuple[str, int | None], ...]) -> None:
    for key, value in changes:
        if value is None:
            data.pop(key, None)
        else:
            data[key] = value


def _after_crash(it: Instance) -> Instance:
    return Instance(
        Task(it.task.config), dict(it.data), it.found, it.disk_input, epoch=-1, heard=it.heard
    )


def _old_end(world: World) -> int:
    """Where the changelog ended before its last transaction."""
    last = len(world.txns) - 1
    return min((e.offset for e in world.log if e.txn == last), default=0)


def _clean(world: World) -> None:
    """The last committed record per key stays; a tombstone goes when its time is over."""
    stable = world.stable
    last: dict[str, int] = {}
    for e in world.log:
        if e.key and e.offset < stable and world.txns[e.txn].outcome == "commit":
            last[e.key] = e.offset

    def stays(e: Entry) -> bool:
        if e.offset >= stable or not e.key:
            return True
        if last.get(e.key) != e.offset:
            return False
        return e.value is not None or world.now_ms - e.written_ms < RETENTION_MS

    world.log = tuple(e for e in world.log if stays(e))


def mistakes_there_are() -> set[str]:
    return {each.name for each in fields(Mistakes)}
