"""One task on one instance: what `machines.stores` decides, done.

    events ──▶ machine ──▶ effects ──┬─ at once: wipe, apply, discard, stop
                 ▲                   └─ one that takes a while: fence, ask, read, process, commit
                 └────────── its answer ──────────┘

There is one thing under way at any time. What the group says comes in between: if the machine then
wants something else, what was under way is cancelled first. `process` and disk writes run in a
thread, so heartbeats go on; a thread cannot be cancelled, so it is told to begin no further record
and waited for, and what it wrote is in an overlay that nobody looks at any more.

If the disk turns out to be damaged, whoever met it, whatever came of it is dropped, and the machine
hears of that instead (`Spoilt`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.reading import LogTruncated
from sexton.client.transacting import stable_offset
from sexton.machines import stores as machine
from sexton.machines.stores_assignment import CAUGHT_UP, TaskId
from sexton.machines.stores_events import (
    Apply,
    BoundsTold,
    Commit,
    CommitDue,
    Discard,
    Effect,
    Event,
    FetchOffset,
    FindBounds,
    Given,
    Initialised,
    InitProducer,
    OffsetTold,
    PositionGone,
    Replay,
    Role,
    Run,
    Spoilt,
    Stop,
    TaskConfig,
    Tick,
    Wipe,
)
from sexton.stores import changelog as changelogs
from sexton.stores.calling import Calling
from sexton.stores.changelog import Changelog
from sexton.stores.committing import Committing
from sexton.stores.disks import DamagedStore
from sexton.stores.fetching import now_ms
from sexton.stores.following import Following
from sexton.stores.local import Local
from sexton.stores.numbers import Progress
from sexton.stores.processing import InputGone, Processing
from sexton.stores.producing import FOR_GOOD, PATIENCE, TaskProducer, for_good
from sexton.stores.repeats import Repeats
from sexton.stores.surroundings import Surroundings
from sexton.stores.task import Task
from sexton.stores.view import View
from sexton.stores.warmth import Warmth

_RETRY_S = 0.2

_GONE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.UNKNOWN_TOPIC_OR_PARTITION)

log = logging.getLogger("sexton.stores")


class Worker:
    def __init__(
        self,
        id_: TaskId,
        task: Task,
        changelog: Changelog,
        around: Surroundings,
        input_id: bytes = b"",
    ) -> None:
        self.id, self._around, self._changelog = id_, around, changelog
        config = around.config
        self._input_at = TopicPartition(task.input, id_.partition)
        self._changelog_at = TopicPartition(changelog.topic, id_.partition)
        self.machine = machine.Task(
            TaskConfig(
                changelog.delete_retention_ms,
                config.restore_timeout_ms,
                config.trust_local_checkpoint,
            )
        )
        self._local = Local(id_, task, around, input_id)
        self.calling = Calling(self._local, around)
        self._processing = Processing(
            self._input_at, self.machine, self._local, self.calling, around
        )
        self._following = Following(changelog, self._changelog_at, around)
        self._producer = TaskProducer(
            around.client,
            config.transactional_id(*id_),
            config.application_id,
            config.transaction_timeout_ms,
        )
        self._committing = Committing(
            str(self), self._producer, self._input_at, self._changelog_at, around
        )
        self._inbox: asyncio.Queue[Event] = asyncio.Queue()
        self._life: asyncio.Task[None] | None = None
        self._doing: asyncio.Task[Event | None] | None = None
        self._wanted: Effect | None = None  # what `_doing` does, to be done again
        self._works = False  # all that it has read is on the disk, and its work has begun
        self._settling: asyncio.Future[None] | None = None
        self._promoting_s = 0.0
        self.on_disk: tuple[int, int | None] = (0, None)  # changelog and input positions
        self.stopped: str | None = None
        self._troubles = Repeats()

    def __str__(self) -> str:
        return f"{self.id.task}-{self.id.partition}"

    # ── for the instance ──

    async def open(self) -> None:
        try:
            opened = await self._around.thread(self._local.open, self._changelog.lineage)
            for effect in self.machine.handle(opened):
                assert isinstance(effect, Wipe)
                await self._around.thread(self._local.wipe, effect.why)
        except BaseException:  # cancelled, too: nobody else would ever close it
            with suppress(Exception):  # it may be closed already, and the first error tells more
                await self._around.thread(self._local.close)
            raise
        self._written_down()
        self._life = asyncio.create_task(self._live(), name=str(self))

    def give(self, role: Role, generation: int) -> None:
        self._inbox.put_nowait(Given(now_ms(), role, generation))

    async def heard(self) -> None:
        """Returns when nothing works any more for a role that it had before the last `give`."""
        await self._inbox.join()

    async def settle(self) -> None:
        """Returns when all that was processed is committed or given up; then it stands still."""
        if not self.machine.is_running or self.stopped is not None:
            return
        if self._settling is None:
            self._settling = asyncio.get_running_loop().create_future()
        timeout_s = self._around.config.transaction_timeout_ms / 1000
        await asyncio.wait([self._settling], timeout=timeout_s)

    async def close(self) -> None:
        if self._life is not None:
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
        await self._stop_doing()
        self._processing.drop()
        await self._following.drop()
        await self._around.thread(self._local.close)

    def view(self) -> View:
        return self._local.view(self.machine.role.value)

    @property
    def position(self) -> int:
        """That of the verified copy; 0: there is none."""
        store = self.machine.store
        return 0 if store is None else store.position

    @property
    def is_old(self) -> bool:
        """By time alone it may lack tombstones; whether it does is seen when it is used."""
        return self.machine.needs_mtro(now_ms())

    @property
    def missing(self) -> int | None:
        """Changelog records that it saw it had not read yet; None: it does not look."""
        lag = 0 if self.machine.is_running else self._following.lag
        return lag if lag >= 0 else None

    @property
    def state(self) -> str:
        if self.stopped is not None:
            return "stopped"
        if self.machine.is_running and self._works:
            return "running"
        return "restoring" if self.machine.role is Role.ACTIVE else str(self.machine.role.value)

    @property
    def lag(self) -> int:
        return self._processing.lag if self.machine.is_running else self._following.lag

    @property
    def restore(self) -> Progress | None:
        return self._following.restore if self.state == "restoring" else None

    @property
    def warmth(self) -> Warmth:
        return Warmth(self.position, max(0, self.lag), now_ms())

    # ── the loop ──

    async def _live(self) -> None:
        hearing = asyncio.create_task(self._inbox.get())
        try:
            while True:
                waited = {hearing} | ({self._doing} if self._doing is not None else set())
                done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if hearing in done:
                    event = hearing.result()
                    hearing = asyncio.create_task(self._inbox.get())
                    await self._hear(event)
                elif self._doing is not None:
                    doing, self._doing = self._doing, None
                    await self._answered(doing.result())
        except Exception as error:  # noqa: BLE001 - whatever it was, the task stands still
            self._broke(error)
        finally:
            hearing.cancel()

    async def _hear(self, event: Event) -> None:
        effects = self.machine.handle(event)
        if effects:
            await self._stop_doing()
        self._inbox.task_done()
        if effects:
            self._settled()
            self._settling = None
            await self._carry_out(effects)

    async def _answered(self, event: Event | None) -> None:
        effects = [] if event is None else self.machine.handle(event)
        if effects:
            await self._carry_out(effects)
        elif self._wanted is not None:
            self._begin(self._wanted)  # nothing follows from it: go on

    async def _stop_doing(self) -> None:
        doing, self._doing = self._doing, None
        if doing is not None:
            doing.cancel()
            self.calling.cut()
            await asyncio.gather(doing, return_exceptions=True)

    async def _carry_out(self, effects: list[Effect]) -> None:
        try:
            await self._carry_out_all(effects)
            return
        except DamagedStore as error:
            spoilt = Spoilt(error.why)
        await self._carry_out(self.machine.handle(spoilt))

    async def _carry_out_all(self, effects: list[Effect]) -> None:
        self._wanted = None
        for effect in effects:
            match effect:
                case Wipe(why):
                    await self._following.drop()
                    await self._around.thread(self._local.wipe, why)
                    self._written_down()
                case Apply():
                    await self._around.thread(self._local.apply, effect)
                    self._written_down()
                case Discard():
                    await self._discard()
                case Stop(why):
                    self._stop(why)
                case _:
                    self._begin(effect)
        if self._doing is None:
            self._settled()

    def _begin(self, effect: Effect) -> None:
        self._works = isinstance(effect, Run | Commit)
        self._wanted = effect
        self._doing = asyncio.create_task(self._do(effect))

    async def _do(self, effect: Effect) -> Event | None:
        """None: do it again."""
        event: Event | None = None
        try:
            event = await self._try(effect)
        except Exception:
            if self._local.damage is None:
                raise
        damage = self._local.damage  # `process` may have caught it, and a query may have met it
        return event if damage is None else Spoilt(damage)

    async def _try(self, effect: Effect) -> Event | None:
        """Trouble with brokers passes, or the machine's patience ends."""
        try:
            return await self._once(effect)
        except LogTruncated as error:
            return Spoilt(error.why)
        except (PeerError, Refused) as error:
            code = error.error if isinstance(error, Refused) else KafkaError.NONE
            if isinstance(error, Refused) and code in FOR_GOOD:
                raise for_good(error) from None
            if isinstance(effect, Run) and code in _GONE:
                raise InputGone(self._input_at, error.why) from None
            if self._troubles.is_news(str(error)):
                about = {"task": str(self), "why": str(error)}
                log.warning("%s: waiting for Kafka: %s", self, error, extra=about)
            await self._following.drop()
            self._processing.drop()
            await asyncio.sleep(_RETRY_S)
            if isinstance(effect, Replay) and code is KafkaError.OFFSET_OUT_OF_RANGE:
                return PositionGone()
            return Tick(now_ms())

    async def _once(self, effect: Effect) -> Event | None:
        match effect:
            case InitProducer():
                self._promoting_s = self._promoting_s or time.monotonic()
                self.stopped = None
                await self._producer.initialise()
                return Initialised()
            case FetchOffset():
                group = self._around.config.application_id
                found = await stable_offset(self._around.client, group, self._input_at, PATIENCE)
                return OffsetTold(None if found is None else found.offset)
            case FindBounds(position, epoch, least_end, least_epoch):
                asked_ms, client, at = now_ms(), self._around.client, self._changelog_at
                told = await changelogs.bounds(client, at, position, epoch, least_end, least_epoch)
                return BoundsTold(asked_ms, told)
            case Replay(start, end):
                return await self._read(start, end)
            case Run():
                return await self._run(effect)
            case Commit():
                return await self._committing.commit(
                    effect, self._local, lambda: self.machine.generation
                )
            case _:
                raise AssertionError(effect)

    def _written_down(self) -> None:
        self.on_disk = self.position, self.machine.input_position

    # ── the end of something ──

    async def _discard(self) -> None:
        self._local.drop()
        await self._following.drop()
        self._processing.drop()
        if self.machine.role is not Role.ACTIVE:
            await self._producer.abort()

    def _settled(self) -> None:
        if self._settling is not None and not self._settling.done():
            self._settling.set_result(None)

    def _stop(self, why: str) -> None:
        self.stopped = why
        self._around.numbers.refused_promotions += 1
        log.error("%s: task stopped: %s", self, why, extra={"task": str(self), "why": why})
        self._around.failed(self.id, why, None)

    def _broke(self, error: Exception) -> None:
        """`process` raised, or we are wrong: nothing of it is committed."""
        self.stopped = why = f"{type(error).__name__}: {error}{self._local.where_it_failed}"
        about = {"task": str(self), "why": why}
        log.error("%s: task failed: %s", self, why, extra=about, exc_info=error)
        self._settled()
        self._around.failed(self.id, why, error)

    # ── reading the changelog ──

    async def _read(self, start: int, end: int | None) -> Event | None:
        read = await self._following.read(start, end, self._local)
        if read is None:
            return Tick(now_ms())
        if end is None and self._following.lag <= CAUGHT_UP // 2:  # so that it still is when asked
            self._around.caught_up(self.id)
        if self.machine.needs_mtro(now_ms()):
            mtro = await changelogs.mtro(self._around.client, self._changelog_at)
            read = replace(read, mtro=mtro)
        return read

    # ── processing ──

    async def _run(self, effect: Run) -> Event:
        if effect.promoted:
            await self._around.thread(self._local.check_input)
        if effect.promoted and self._promoting_s:
            self._promoted()
        if self._settling is not None and not self._processing.is_dirty:
            self._settled()
            await asyncio.Event().wait()  # until the group says what comes next
        await self._processing.until_due(self._committing.last_s, lambda: self._settling is None)
        return CommitDue(now_ms())

    def _promoted(self) -> None:
        took_s = time.monotonic() - self._promoting_s
        self._promoting_s = 0.0
        self._committing.last_s = time.monotonic()
        self._around.numbers.promoted(took_s)
        took_ms, at = round(took_s * 1000), self.position
        about = {"task": str(self), "ms": took_ms, "position": at}
        log.info("%s: task is active after %d ms, at %d", self, took_ms, at, extra=about)
