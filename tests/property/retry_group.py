"""Who owns the partition in the small world, and how it starts up: the real `StartUp`, answered."""

from __future__ import annotations

from sexton.base.errors import ConfigError, PeerError
from sexton.machines.retry_records import TaskName
from sexton.machines.retry_settings import Backoff, Settings
from sexton.machines.retry_startup import (
    Committed,
    Effect,
    Ends,
    Event,
    FetchCommitted,
    Initialised,
    InitProducer,
    KeysRead,
    LocksRead,
    MarkEnds,
    ReadKeys,
    ReadTo,
    RetriesRead,
    Started,
)
from sexton.machines.retry_task import Row
from tests.property.retry_mistakes import Mistake, startup_of
from tests.property.retry_world import PLACES, Limits, Number, Worker, World

NAME = TaskName("m", 0)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
BOTH = (0, 1)  # workers


def letter(message: int) -> str:
    return LETTERS[message]


class Group:
    """`script`: the key of each message of the main topic, such as `aab`."""

    def __init__(
        self,
        script: str,
        limits: Limits,
        settings: Settings | None = None,
        mistake: Mistake | None = None,
    ) -> None:
        self.script = script
        self.limits = limits
        self.settings = settings or Settings(backoff=Backoff(0), max_attempts=9)
        self.mistake = mistake
        self.transactional = self.settings.mode == "transactional"

    def begin(self) -> World:
        world = World((Worker(), Worker()))
        self._assign(world, 0)
        return world

    def _spend(self, world: World, what: str, *changing: int) -> World | None:
        count = getattr(world.used, what)
        if count >= getattr(self.limits, what):
            return None
        after = world.copy(*changing)
        after.used = world.used._replace(**{what: count + 1})
        return after

    # ── the group ──

    def _assign(self, world: World, number: int) -> None:
        """A new generation. Whoever had the partition before does not know yet."""
        for each in world.workers:
            each.current = False
        world.owner = number
        world.workers[number].go_down()
        world.workers[number].current = True
        self._start_up(world, number)

    def _start_up(self, world: World, number: int) -> None:
        """One producer per instance: what it had left open is aborted when it starts again."""
        worker = world.workers[number]
        for each, transaction in list(world.transactions.items()):
            if each[0] == number and transaction.decided is None:
                self._decide(world, each, commit=False)
        worker.go_down()
        worker.phase = "starting"
        worker.startup = startup_of(self.mistake, NAME, self.settings, self.script)
        worker.ask = worker.startup.begin()[0]

    def _failed(self, world: World, number: int, how: str) -> None:
        worker = world.workers[number]
        assert worker.task is not None
        owner = worker.current
        then = worker.own_task().failed(how, owner)  # type: ignore[arg-type]
        if self.mistake is Mistake.FENCED_BY_ID_ALONE and how == "fenced":
            then = "stop"
        if then == "start up again":
            self._start_up(world, number)
        else:
            worker.go_down()
            worker.phase = "stopped" if owner else "down"

    # ── start-up ──

    def _start_step(self, world: World, number: int) -> str | None:
        """One question and its answer; None: the answer has to wait."""
        worker = world.workers[number]
        assert worker.startup is not None
        answers = self._answers(world, number, worker.ask)
        if answers is None:
            return None
        asked = type(worker.ask).__name__
        startup = worker.startup
        try:
            for answer in answers:
                for effect in startup.handle(answer):
                    self._next_question(worker, effect)
        except PeerError:
            self._start_up(world, number)
            return f"{number} finds that others went on, and starts up again"
        except ConfigError:
            worker.phase, world.refused = "stopped", True
            return f"{number} refuses to start"
        if isinstance(worker.ask, ReadKeys):  # records that are there: they wait for nobody
            self._start_step(world, number)
        return f"{number} starts up: {asked}"

    def _start_whole(self, world: World, number: int) -> str:
        while world.workers[number].phase == "starting":
            if self._start_step(world, number) is None:
                break
        return f"{number} starts up"

    def _next_question(self, worker: Worker, effect: Effect) -> None:
        if not isinstance(effect, Started):
            worker.ask = effect
            return
        assert worker.startup is not None and worker.startup.ends is not None
        worker.tail = worker.startup.ends.retries
        worker.phase, worker.task, worker.startup, worker.ask = "ready", effect.task, None, None

    def _answers(self, world: World, number: int, ask: object) -> list[Event] | None:
        worker = world.workers[number]
        match ask:
            case InitProducer():
                return self._initialise(world, number)
            case FetchCommitted():
                if self.mistake is Mistake.END_BEFORE_OFFSETS and worker.early is None:
                    worker.early = world.ends()
                    return []
                if not world.is_stable() and self.mistake is not Mistake.NOT_REQUIRE_STABLE:
                    return None
                return [Committed(*world.committed)]
            case MarkEnds():
                return [self._ends(world, worker)]
            case ReadKeys(orphans):
                return [KeysRead({each: self.script[each].encode() for each in orphans})]
            case ReadTo(locks, retries):
                if world.stable_end("lock") < locks or world.stable_end("retry") < retries:
                    return None
                rows = self._lock_rows(world, number, locks)
                return [
                    LocksRead(rows, locks),
                    RetriesRead(world.rows("retry", 0, retries), retries),
                ]
        raise AssertionError(ask)

    def _initialise(self, world: World, number: int) -> list[Event] | None:
        """One id for all of them: what others began is aborted, and they are fenced."""
        if any(each.decided is not None for each in world.transactions.values()):
            return None  # CONCURRENT_TRANSACTIONS
        for each in list(world.transactions):
            self._decide(world, each, commit=False)
        for other in world.workers:
            other.fenced = True
        world.workers[number].fenced = False
        return [Initialised()]

    def _ends(self, world: World, worker: Worker) -> Ends:
        if self.mistake is Mistake.NO_BARRIER:
            return Ends(0, 0)
        if self.mistake is Mistake.STABLE_OFFSET_BARRIER:
            return Ends(world.stable_end("lock"), world.stable_end("retry"))
        if self.mistake is Mistake.ENDS_ASKED_FOR:
            return world.old_ends or world.ends()
        if worker.early is None:
            world.mark_ends()
        return worker.early or world.ends()

    def _lock_rows(self, world: World, number: int, end: int) -> list[Row]:
        rows = world.rows("lock", 0, end)
        if self.mistake is Mistake.SKIPS_OWN:
            own = {at for at, record in enumerate(world.lock) if record and record.writer == number}
            rows = [row for row in rows if row[0] not in own]
        return rows

    # ── what is seen of it ──

    def _decide(self, world: World, which: Number, commit: bool, late: str | None = None) -> None:
        transaction = world.transactions[which]
        world.transactions[which] = transaction._replace(decided=commit)
        if commit:
            for message in transaction.outputs:
                self._output(world, message)
        for place in sorted(PLACES - {late}):
            world.mark(which, place)

    def _output(self, world: World, message: int) -> None:
        missing = [each for each in self._earlier(message) if each not in world.done]
        if message in world.done:
            world.fault = world.fault or f"the output of {letter(message)} is there twice"
        elif missing:
            world.fault = world.fault or f"{letter(message)} before {letter(missing[0])}"
        world.done |= {message}

    def _effect(self, world: World, message: int) -> None:
        """The first time that it is done with, by whomever, every earlier one has to be."""
        missing = [each for each in self._earlier(message) if each not in world.effects]
        if missing:
            world.fault = world.fault or f"{letter(message)} before {letter(missing[0])}"
        world.effects |= {message}

    def _earlier(self, message: int) -> list[int]:
        return [each for each in range(message) if self.script[each] == self.script[message]]
