"""One task of the counting application on one instance: what `machines.stores` decides, done.

The machine is the real one; this is the shell that `sexton.stores` has around it, without threads
and files. There is one thing under way at any time, and when the machine wants something else, that
is dropped. The task counts: an input makes the count of its key one more, a tombstone deletes it.

    input     k4=x, -k2, k4=y            (orders-0)
    output    k4: 17 1, k2: 18 0, k4: 19 2   input offset and count: each input is seen once
    changelog k4=2, -k2, position=20
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines.stores import Task
from sexton.machines.stores_events import (
    Apply,
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
    PositionGone,
    Processed,
    Read,
    Replay,
    Role,
    Run,
    Stop,
    TaskConfig,
    Tick,
    Unsure,
    Wipe,
)
from sexton.machines.stores_phases import Running
from sexton.node.coordinators import CONSUMER_OFFSETS
from sexton.records.few import KeyAndValue
from sexton.sim import store_calls as calls
from sexton.sim.conversations import Conversation, Talk, Talking, Wait
from sexton.sim.store_calls import Member, Producer, Rows
from sexton.sim.store_checks import CHANGELOG, INPUT, OUTPUT, POSITION, StoreChecks

LINEAGE = Lineage("simulated", b"counts")
TROUBLE_MS = 60_000
LEFT_BEHIND = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
FENCED = frozenset(
    {
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
    }
)


@dataclass(slots=True)
class Disk:
    """A local store. One write is whole or not there, as RocksDB's batches are."""

    data: dict[bytes, bytes] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    input_position: int | None = None

    def put(self, changes: dict[bytes, bytes | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self.data.pop(key, None)
            else:
                self.data[key] = value

    def wipe(self) -> None:
        self.data, self.checkpoint, self.input_position = {}, None, None


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """One instance of the application."""

    name: str
    partitions: int
    task: TaskConfig
    version: int  # of its transactions
    pause_ms: int  # between two commits, and two looks at the changelog


class Worker:
    def __init__(
        self,
        client: Talking,
        config: StoreConfig,
        partition: int,
        disk: Disk,
        checks: StoreChecks,
        member: Callable[[], Member],
        failed: Callable[[str], None],
    ) -> None:
        self.client, self.name, self.partition, self.disk = client, config.name, partition, disk
        self.input_at = TopicPartition(INPUT, partition)
        self.output_at = TopicPartition(OUTPUT, partition)
        self.changelog_at = TopicPartition(CHANGELOG, partition)
        self.machine = Task(config.task)
        self.producer = Producer(client, self.transactional_id, config.version)
        self._pause_ms, self._checks = config.pause_ms, checks
        self._member, self._failed = member, failed
        self._doing: Conversation[Event | None] | None = None
        self._wanted: Effect | None = None
        self._misled = False  # who told the end of the changelog did not lead it any more
        self._hand: dict[bytes, bytes | None] = {}
        self._drop()

    def __str__(self) -> str:
        return f"instance {self.name}, task {self.partition}"

    @property
    def transactional_id(self) -> str:
        return f"counts-{self.partition}"

    @property
    def now_ms(self) -> int:
        return self.client.world.now_ms

    @property
    def position(self) -> int:
        store = self.machine.store
        return 0 if store is None else store.position

    @property
    def _next_input(self) -> int | None:
        phase = self.machine.phase
        return phase.next_input if isinstance(phase, Running) else None

    # ── for the instance ──

    def open(self) -> None:
        disk = self.disk
        opened = Opened(self.now_ms, LINEAGE, disk.checkpoint, disk.input_position)
        self._carry_out(self.machine.handle(opened))

    def give(self, role: Role, generation: int) -> None:
        effects = self.machine.handle(Given(self.now_ms, role, generation))
        self.machine.check()
        if effects:
            self._stop_doing()
            self._carry_out(effects)

    # ── the loop ──

    def _stop_doing(self) -> None:
        doing, self._doing = self._doing, None
        if doing is not None:
            doing.drop()

    def _answered(self, event: Event | None) -> None:
        self._doing = None
        effects = [] if event is None else self.machine.handle(event)
        self.machine.check()
        if effects:
            self._carry_out(effects)
            if effects[-1] == Run(self._next_input, promoted=True):
                self._tell(f"is active from input {self._next_input or 0} on")
                if not self._misled:  # else it is judged by what it commits
                    self._checks.promoted(self, self._next_input)
        elif self._wanted is not None:
            self._begin(self._wanted)  # nothing follows from it: go on

    def _carry_out(self, effects: list[Effect]) -> None:
        self._wanted = None
        for effect in effects:
            match effect:
                case Wipe(why):
                    self._tell(f"throws its store away: {why}")
                    self.disk.wipe()
                    self._drop()
                case Apply():
                    self._apply(effect)
                case Discard():
                    self._drop()
                case Stop(why):
                    self._checks.counts.refused_promotions += 1
                    self._failed(f"task {self.partition}: {why}")
                case _:
                    self._begin(effect)

    def _tell(self, what: str) -> None:
        self.client.world.tell(f"{self} {what}")

    def _begin(self, effect: Effect) -> None:
        self._wanted = effect
        self._doing = self.client.talk(self._do(effect), self._answered)

    def _do(self, effect: Effect) -> Talk[Event | None]:
        """Trouble with brokers passes, or the machine's patience ends."""
        yield Wait(0)  # what follows from an event begins after it
        try:
            event = yield from self._once(effect)
        except Refused as refused:
            yield Wait(TROUBLE_MS)
            if refused.error is KafkaError.OFFSET_OUT_OF_RANGE and isinstance(effect, Replay):
                return PositionGone()
            return Tick(self.now_ms)
        return event

    def _once(self, effect: Effect) -> Talk[Event | None]:
        match effect:
            case InitProducer():
                return self._initialise()
            case FetchOffset():
                return self._ask_offset()
            case FindBounds():
                return self._find_bounds(effect)
            case Replay():
                return self._replay(effect)
            case Run():
                return self._run()
            case Commit():
                return self._commit(effect)
            case _:
                raise AssertionError(effect)

    # ── promotion ──

    def _initialise(self) -> Talk[Event | None]:
        yield from self.producer.initialise()
        self._checks.initialised(self)
        self._misled = False
        return Initialised()

    def _ask_offset(self) -> Talk[Event | None]:
        least = self._checks.acknowledged(self)
        offset = yield from calls.stable_offset(self.client, self.input_at)
        if self._leads(self.client.coordinator(CONSUMER_OFFSETS, calls.GROUP)):
            self._checks.told(self, offset, least)
        return OffsetTold(offset)

    def _find_bounds(self, effect: FindBounds) -> Talk[Event | None]:
        asked_ms = self.now_ms
        found = yield from calls.bounds(self.client, self.changelog_at, effect)
        self._misled = not self._leads(self.changelog_at)
        return BoundsTold(asked_ms, found)

    def _leads(self, at: TopicPartition) -> bool:
        """Does whoever has just answered lead it, or was it replaced?"""
        record = self._checks.checks.image.partitions.get(at)
        return record is not None and record.leader == self.client.leader(at)

    def _replay(self, effect: Replay) -> Talk[Event | None]:
        if effect.end is None:
            yield Wait(self._pause())
        rows = yield from calls.read(self.client, self.changelog_at, effect.start, effect.end)
        changes = {key: value for _, key, value in rows.records}
        told = changes.pop(POSITION, None)
        self._hand = changes
        mtro = None
        if self.machine.needs_mtro(self.now_ms):
            mtro = yield from calls.mtro(self.client, self.changelog_at)
        position = None if told is None else int(told)
        return Read(
            rows.asked_ms, rows.start, rows.next, rows.high_watermark, rows.leader_epoch,
            position, mtro, rows.first_epoch,
        )  # fmt: skip

    def _pause(self) -> int:
        return int(self.client.random.expovariate(1 / self._pause_ms))

    # ── work ──

    def _run(self) -> Talk[Event | None]:
        phase = self.machine.phase
        assert isinstance(phase, Running)
        yield Wait(self._pause())
        rows = yield from calls.read(self.client, self.input_at, phase.next_input or 0, None)
        if rows.next > rows.start:
            self._process(rows)
            self.machine.handle(Processed(rows.next))
        return CommitDue(self.now_ms)

    def _process(self, rows: Rows) -> None:
        for offset, key, value in rows.records:
            count = 0 if value is None else int(self._get(key) or b"0") + 1
            self._overlay[key] = b"%d" % count if count else None
            self._outputs.append((key, b"%d %d" % (offset, count)))

    def _get(self, key: bytes) -> bytes | None:
        if key in self._overlay:
            return self._overlay[key]
        return self.disk.data.get(key)

    def _drop(self) -> None:
        self._overlay: dict[bytes, bytes | None] = {}
        self._outputs: list[KeyAndValue] = []
        self._hand = {}

    # ── committing ──

    def _commit(self, effect: Commit) -> Talk[Event | None]:
        asked_ms, generation = self.now_ms, effect.generation
        batches = {self.output_at: self._outputs} if self._outputs else {}
        batches[self.changelog_at] = [*self._overlay.items(), (POSITION, b"%d" % effect.next_input)]
        try:
            landed = (yield from self.producer.send(batches))[self.changelog_at]
            if not effect.lands(landed.start):
                self._tell(f"was to write at {effect.lands_at}, and wrote at {landed.start}")
                self._checks.counts.promotions_astray += 1
                return Elsewhere(landed.start)
            member, generation = self._member(), self.machine.generation
            latest = self._checks.latest_generation
            yield from self._send_offset(Member(member.member_id, generation), effect.next_input)
            self._checks.offset_taken(self, generation, latest)
            yield from self.producer.commit()
        except Refused as refused:
            if refused.error in LEFT_BEHIND:
                return Fenced("group", generation)
            return Fenced("producer") if refused.error in FENCED else Unsure()
        if self._misled:
            self._misled = False
            self._checks.promoted(self, self.machine.input_position, landed.start)
        self._checks.committed(self, effect.next_input)
        self._tell(f"has committed input up to {effect.next_input}")
        self._hand = dict(self._overlay)
        return Committed(asked_ms, landed.stop, self._leader_epoch())

    def _send_offset(self, member: Member, next_input: int) -> Talk[None]:
        return self.producer.send_offset(member, self.input_at, next_input)

    def _leader_epoch(self) -> int:
        """Not older than that of our records."""
        record = self._checks.checks.image.partitions.get(self.changelog_at)
        return -1 if record is None else record.leader_epoch

    def _apply(self, effect: Apply) -> None:
        """The changes at hand and the checkpoint, in one atomic write."""
        disk = self.disk
        disk.put(self._hand)
        disk.checkpoint = effect.checkpoint
        if effect.input_position is not None:
            disk.input_position = effect.input_position
        self._drop()
