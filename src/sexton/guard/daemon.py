"""Round after round: look, decide, note, act.

    see ─▶ describe ─▶ recall ─▶ decide ─▶ describe elsewhere ─▶ decide ─▶ remember ─▶ recall
                                                                  alter ◀─ decide ◀─────┘

The thinking is in `machines.guard`; here are its eyes, hands and clock, and one log line for each
thing that it does. A process that is killed between any two of these steps leaves nothing that the
next one, or another guard beside it, does not understand.

The clock never jumps, and goes on while the machine sleeps (`clock`).
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter, deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from sexton.base.errors import SextonError
from sexton.base.findings import Finding
from sexton.client.roving import RovingClient
from sexton.guard.clock import Clock
from sexton.guard.disk import Costs
from sexton.guard.eyes import Eyes
from sexton.guard.memory import (
    TOPIC,
    MemoryCut,
    MemoryLost,
    MemoryTopic,
    forgetful,
    still_known,
)
from sexton.guard.status import FREE, Deed, Status, status_of
from sexton.machines.guard import Guard
from sexton.machines.guard_events import (
    Alter,
    Decide,
    Describe,
    Effect,
    Forget,
    GuardConfig,
    LookAgain,
    NotSeen,
    Recalled,
    Remember,
)
from sexton.machines.guard_notes import Entry, Memory, Note, Saying, Size, key_of
from sexton.report.prometheus import Labels

log = logging.getLogger("sexton.guard")
log.addHandler(logging.NullHandler())  # a command that shows findings itself has no log

DISK_MS = 30_000
SHORT_PAUSE_MS = 250  # before a look that cannot wait for the next round
MOST_DECISIONS = 5  # in one round
MOST_ROUNDS = 40  # of a guard that runs once
MOST_DEEDS = 30  # that are shown
UNSEEN_MOVES = Finding(
    "guard-moves", "warning", "cluster",
    "reassignments cannot be listed: a replica that is moved is seen by the ISR alone",
    {}, "allow Describe on the cluster to the guard's user",
)  # fmt: skip
SEES_NOTHING = Finding(
    "guard-sees-nothing", "warning", "cluster",
    "no topic can be seen but the guard's own, so nothing is guarded",
    {}, "if there are topics, allow Describe and DescribeConfigs on them to the guard's user",
)  # fmt: skip
QUIET_ROUNDS = 3  # two looks make sure that all is well, the next one sees what came of it


class Daemon:
    def __init__(
        self, client: RovingClient, config: GuardConfig, memory_topic: str = TOPIC
    ) -> None:
        self._client = client
        self.clock = Clock()
        self.now_ms = self.clock.now_ms
        self.guard = Guard(f"{uuid.uuid4().hex[:12]}", config)
        self.eyes = Eyes(client, self.now_ms)
        self.memory = MemoryTopic(client, memory_topic, config.patience_ms)
        self.costs = Costs()
        self._counted: Counter[tuple[str, Labels]] = Counter()
        self.round_s = 0.0
        self.lately: deque[Deed] = deque(maxlen=MOST_DEEDS)
        self.acts = True  # False: only looks
        self.told: list[Effect] = []  # what it would do, if it does not
        self.failure: SextonError | None = None  # of the last round
        self._ready = False
        self._lost: MemoryLost | None = None  # and what we know is not in a new one yet
        self._done = 0  # notes and changes
        self._disk_ms = -DISK_MS
        self._disk_topics: Set[str] = frozenset()  # those of the last look
        self._known: frozenset[str] = frozenset()  # findings that were told

    @property
    def counters(self) -> Counter[tuple[str, Labels]]:
        asked = self._client.asked.items()
        name = "sexton_guard_requests_total"
        return self._counted + Counter({(name, (("api", api),)): count for api, count in asked})

    # ── running ──

    async def run(self, stopping: asyncio.Event) -> None:
        """Until it is told to stop. What is frozen stays so, and the next guard knows of it."""
        config = self.guard.config
        log.info(
            "guard starts",
            extra={"guard": self.guard.name, "reaction_ms": config.reaction_ms,
                   "interval_ms": config.interval_ms, "hold_ms": config.hold_ms},
        )  # fmt: skip
        while not stopping.is_set():
            again = await self.round()
            pause_ms = SHORT_PAUSE_MS if again else config.interval_ms
            try:
                await asyncio.wait_for(stopping.wait(), pause_ms / 1000)
            except TimeoutError:
                pass
        frozen = [topic.topic for topic in self.status().topics if topic.state not in FREE]
        log.info("guard stops", extra={"frozen": frozen})

    async def once(self) -> Status:
        """Until there is nothing to do that could be done now."""
        quiet = 0
        for _ in range(MOST_ROUNDS):
            before = self._done
            again = await self.round()
            if self.guard.not_seen is not None:
                break
            quiet = quiet + 1 if self._done == before else 0
            if not again and quiet >= QUIET_ROUNDS:
                break
            await asyncio.sleep(SHORT_PAUSE_MS / 1000)
        return self.status()

    async def round_of_looking(self) -> None:
        """Sees the cluster and reads what notes there are; not even a place for them is made."""
        if await self.memory.exists():
            await self._recall()
        for look in self.guard.handle(await self.eyes.see()):
            assert isinstance(look, Describe)
            self.guard.handle(await self.eyes.describe(look.topics))

    def status(self) -> Status:
        now_ms, lately = self.now_ms(), tuple(self.lately)
        found = status_of(self.guard, self.costs, now_ms, self.eyes.cluster_id, lately)
        more = [forgetful(self.guard, self.memory.partition.topic)]
        if not self.eyes.sees_moves:
            more.append(UNSEEN_MOVES)
        if self._sees_nothing():
            more.append(SEES_NOTHING)
        told = tuple(each for each in more if each is not None)
        return replace(found, findings=(*found.findings, *told)) if told else found

    def _sees_nothing(self) -> bool:
        """Kafka leaves out of its answers what a user may not see."""
        guard = self.guard
        has_looked = guard.round > 0 and guard.not_seen is None and guard.config.only is None
        return has_looked and not guard.topics.keys() - {self.memory.partition.topic}

    # ── one round ──

    async def round(self) -> bool:
        """True: look again at once."""
        began, self.failure = time.monotonic(), None
        try:
            again = await self._round()
        except SextonError as error:
            self.failure = error
            self.guard.handle(NotSeen(self.now_ms(), f"{error.subject}: {error.why}"))
            self._count("rounds", ("outcome", "failed"))
            log.warning("round failed", extra={"why": str(error)})
            again = False
        else:
            self._count("rounds", ("outcome", "done"))
        self.round_s = time.monotonic() - began
        self._tell_findings()
        return again

    async def _round(self) -> bool:
        if not self._ready:
            await self._begin()
        looks = self.guard.handle(await self.eyes.see())
        for look in looks:
            assert isinstance(look, Describe)
            self.guard.handle(await self.eyes.describe(look.topics))
        await self._recall()
        again = False
        for number in range(1, MOST_DECISIONS + 1):
            effects = self._decide()
            again |= any(isinstance(each, LookAgain) for each in effects)
            if not await self._do(effects, number):
                break
        await self._look_at_disks()
        return again

    async def _do(self, effects: Sequence[Effect], number: int) -> bool:
        """True: there is more to decide."""
        await self._alter([each for each in effects if isinstance(each, Alter)])
        await self._forget([each for each in effects if isinstance(each, Forget)])
        notes = [each.saying for each in effects if isinstance(each, Remember)]
        if notes:
            await self._remember(notes)
            await self._recall()
        looks = [topic for each in effects if isinstance(each, Describe) for topic in each.topics]
        if looks:
            self.guard.handle(await self.eyes.describe(looks, elsewhere=number))
        return bool(notes or looks)

    def _decide(self) -> list[Effect]:
        effects = self.guard.handle(Decide(self.now_ms()))
        self.guard.check()
        if not self.acts:
            looks = Describe | LookAgain
            self.told = [each for each in effects if not isinstance(each, looks)]
            wasted = LookAgain(noted=True)  # for ever: nobody makes the note
            return [each for each in effects if isinstance(each, looks) and each != wasted]
        return effects

    # ── memory ──

    async def _begin(self) -> None:
        """Reads all notes; nothing is decided before."""
        if self.acts:
            await self.memory.ensure()
        await self._recall()
        self._ready = True

    async def _recall(self) -> None:
        if not self.acts and not await self.memory.exists():
            return  # nobody has ever guarded this cluster
        try:
            records = await self.memory.recall() if self._lost is None else ()
        except MemoryLost as error:
            log.error("memory lost", extra={"why": str(error)})
            self._lost = error
        if self._lost is not None:
            await self._remember_anew(self._lost)
            return
        self.guard.handle(Recalled(self.now_ms(), records))

    async def _remember_anew(self, lost: MemoryLost) -> None:
        """Somebody deleted the memory: what we still know goes into a new one.

        What fails on the way is done again in the next round, and until it is done nothing is
        forgotten here. What stands in a new one already is of another guard, or of an operator
        since: it is newer than what we know.
        """
        if self.acts:
            await self.memory.ensure()
        self.memory.start_over()
        if self.acts:
            records = await self.memory.recall()
            end = max((offset + 1 for offset, _key, _value in records), default=0)
            known = still_known(self.guard.memory, end)
            if not isinstance(lost, MemoryCut):
                there = {key for _offset, key, _value in records}
                known = [each for each in known if key_of(each) not in there]
            await self.memory.remember(known)
            records += await self.memory.recall()
            self.guard.memory = Memory()
            self.guard.handle(Recalled(self.now_ms(), records))
        self._lost = None

    async def _remember(self, sayings: Sequence[Saying]) -> None:
        for saying in sayings:
            if isinstance(saying, Note):
                self._done += 1
                self._count("notes", ("state", saying.state))
                log.info(
                    f"note {saying.state}",
                    extra={"topic": saying.topic, "cycle": saying.cycle, "why": saying.why,
                           "previous_min": saying.previous.min or "not set",
                           "previous_max": saying.previous.max or "not set"},
                )  # fmt: skip
        await self.memory.remember(sayings)

    async def _forget(self, effects: Sequence[Forget]) -> None:
        keys = [key for effect in effects for key in effect.keys]
        if keys:
            await self.memory.forget(keys)

    # ── acts ──

    async def _alter(self, changes: Sequence[Alter]) -> None:
        if not changes:
            return
        freezing = {each.topic: each.freezes for each in changes}
        for outcome in await self.eyes.alter(changes):
            self.guard.handle(outcome)
            what = "freeze" if freezing[outcome.topic] else "thaw"
            facts = {"topic": outcome.topic, "outcome": outcome.outcome}
            if outcome.outcome == "done":
                self._done += 1
                self._count(what + "s")
                self.lately.append(self._deed(outcome.topic, freezing[outcome.topic]))
                log.info(what, extra=facts)
            else:
                log.warning(what, extra={**facts, "why": outcome.why})

    def _deed(self, topic: str, freezes: bool) -> Deed:
        entry = self.guard.memory.in_force(topic)
        if not freezes:
            return Deed(self.now_ms(), "thawed", topic, ())
        return Deed(self.now_ms(), "froze", topic, entry.note.why if entry is not None else ())

    async def _look_at_disks(self) -> None:
        frozen = {entry.note.topic: entry for entry in self.guard.memory.all_in_force()}
        now_ms = self.now_ms()
        self.costs.keep_only(frozen)
        for topic, entry in frozen.items():
            self.costs.start_over(topic, entry.note.since_ms)
        is_early = now_ms - self._disk_ms < DISK_MS and frozen.keys() <= self._disk_topics
        if not frozen or is_early:
            return
        self._disk_ms, self._disk_topics = now_ms, frozen.keys()
        sizes = self.guard.memory.sizes
        self.costs.begin(
            size
            for (topic, _), size in sizes.items()
            if topic in frozen and size.is_of(frozen[topic].note)
        )
        await self.costs.look(self._client, self.guard.brokers, frozen, now_ms)
        await self._note_sizes(frozen)

    async def _note_sizes(self, frozen: Mapping[str, Entry]) -> None:
        """For guards that come after this one."""
        news: list[Saying] = []
        for (topic, broker), held in sorted(self.costs.held.items()):
            note = frozen[topic].note
            known = self.guard.memory.sizes.get((topic, broker))
            if known is None or not known.is_of(note):
                news.append(Size(topic, broker, note.cycle, held.began_bytes, held.began_ms))
        if not news or not self.acts:
            return
        try:
            await self._remember(news)
        except SextonError as error:  # nothing depends on it, and the next look notes it
            log.warning("sizes not noted", extra={"why": str(error)})

    # ── telling ──

    def _tell_findings(self) -> None:
        """Each finding once, when it comes to be."""
        found = {f"{each.code} {each.where}": each for each in self.status().findings}
        for name, finding in found.items():
            if name not in self._known and finding.severity != "note":
                level = logging.ERROR if finding.severity == "error" else logging.WARNING
                facts = {"code": finding.code, "where": finding.where, **finding.evidence}
                log.log(level, finding.message, extra=facts)
        self._known = frozenset(found)

    def _count(self, name: str, *labels: tuple[str, str]) -> None:
        self._counted[f"sexton_guard_{name}_total", labels] += 1
