"""When is a local store what its changelog says, and what may be done on top of it?

A task turns inputs into outputs and keeps state. The state is in a local store and in a changelog
topic; outputs, changelog and the input position go to Kafka in one transaction.

    standby    follow the changelog, read_committed ───────────────────────────┐
                                                                               ▼
    active     InitProducerId ─▶ committed offset ─▶ high watermark ─▶ read up to it ─▶ process
                    ▲                                                                     │
                    └───── fenced, or nobody knows ◀── commit ◀── overlay ◀───────────────┘
                                                          └─▶ one write: data + position

Why a promoted store is never stale: a new producer epoch ends the last owner's transaction and
refuses the next, so after it nothing more is committed by anyone else; the high watermark is asked
for *after* that and so lies behind everything that ever was committed; and a read_committed reader
whose position has reached it has all of it. What the disk says of itself is only where to begin.

Why a disk is never ahead: writes stay in memory until Kafka has confirmed the commit, then go down
in one batch with the changelog offset that they reach. A crash in between leaves the disk behind,
and the changelog heals it. After an abort the overlay is dropped; when nobody knows how a commit
ended, the task starts again and finds out by reading.

Why that high watermark is the real one: it may not be. A leader that was replaced and has not heard
of it tells an old one, and a true beginning of the log. But the first changelog record of a new
owner is acknowledged by all in sync, so where it lands is the real end. If that is not the place up
to which the store was read, somebody committed in between: the transaction is aborted before anyone
has seen it, and the promotion starts again, and reads on. Of a later commit only its own markers
can lie in between.

Why a changelog cannot forget and yet look whole: no commit lands before what the store has. In a
changelog that was made again, or cut by an unclean election, it would, and its position would then
be as new as the group's offset. So it is aborted, the task stops, and that offset stays ahead.

The input position is a changelog record, so store and position cannot disagree. The group's offset
serves fencing, and as a witness: where it is ahead of the changelog, that has lost records.

A reader that was away for longer than tombstones are kept may hold keys that were deleted since,
and nothing in the log would tell it. So it starts again from nothing (`_stale`). So does one whose
changelog was cut by an unclean election: records of an epoch that is new to it are not taken before
the new leader has said where its log parts from the old one (`_is_news`).
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import assert_never

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.stores_doubts import cut, foreign, is_older, too_old
from sexton.machines.stores_events import (
    Aborted,
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
    Spoilt,
    Stop,
    TaskConfig,
    Tick,
    Unsure,
    Wipe,
)
from sexton.machines.stores_phases import (
    Asking,
    CatchingUp,
    Fencing,
    Following,
    Idle,
    Phase,
    Running,
    Stopped,
)


@dataclass(slots=True)
class Task:
    config: TaskConfig = field(default_factory=TaskConfig)
    role: Role = Role.NONE
    generation: int = -1
    lineage: Lineage | None = None  # None: not opened yet
    store: Checkpoint | None = None  # what is on the disk; None: nothing
    input_position: int | None = None  # on the disk, too
    phase: Phase = field(default_factory=Idle)
    saved_ms: int = 0  # the disk's own `caught_up_ms`
    least_end: int = 0  # of the changelog: below it lies what we have written ourselves
    astray: int = 0  # promotions in a row that ended with `Elsewhere`
    spoilt: int = 0  # stores in a row that were of no use
    seen_epoch: int = -1  # leaders up to this epoch have our place in the changelog, or are asked

    def handle(self, event: Event) -> list[Effect]:
        match event:
            case Opened():
                return self._opened(event)
            case Given():
                return self._given(event)
            case Initialised() if isinstance(self.phase, Fencing):
                return self._ask_offset()
            case OffsetTold(offset) if isinstance(self.phase, Asking):
                return self._offset_told(offset)
            case BoundsTold():
                return self._bounded(event)
            case Read():
                return self._read(event)
            case PositionGone():
                return self._look_again()
            case Spoilt(why):
                return self._spoilt(why)
            case Processed(next_input) if isinstance(self.phase, Running):
                self.phase = replace(self.phase, next_input=next_input)
                return []
            case CommitDue(now_ms) if isinstance(self.phase, Running):
                return self._commit(self.phase, now_ms)
            case Committed() if isinstance(self.phase, Running):
                return self._committed(event, self.phase)
            case Elsewhere() if isinstance(self.phase, Running):
                return self._elsewhere(event)
            case Aborted() if isinstance(self.phase, Running):
                return self._aborted(self.phase)
            case Unsure() | Fenced("producer") if self.role is Role.ACTIVE:
                return [Discard(), *self._promote()]
            case Fenced("group", refused):
                if self.role is Role.ACTIVE and refused < self.generation:
                    return [Discard(), *self._promote()]  # it has told us meanwhile: still ours
                self.phase = Idle()  # the group has moved on, and will say where to
                return [Discard()]
            case Tick(now_ms):
                return self._tick(now_ms)
            case _:
                return []  # an answer to what is no longer asked

    @property
    def is_running(self) -> bool:
        return isinstance(self.phase, Running)

    # ── beginning ──

    def _opened(self, event: Opened) -> list[Effect]:
        self.lineage = event.lineage
        self.store, self.input_position = event.found, event.input_position
        if self.store is not None and self.config.is_in_future(self.store, event.now_ms):
            self.store = replace(self.store, caught_up_ms=0)  # nobody knows how old it is
        self.saved_ms = 0 if self.store is None else self.store.caught_up_ms
        if event.damaged is not None:
            return self._wipe(event.damaged)
        if event.found is not None and event.found.lineage != event.lineage:
            return self._wipe(foreign(event.found.lineage, event.lineage))
        return []

    def _given(self, event: Given) -> list[Effect]:
        assert self.lineage is not None, "a store is opened before it is given a role"
        before, last = self.role, self.generation
        self.role, self.generation = event.role, event.generation
        if event.role is not Role.ACTIVE:
            self.least_end, self.astray = 0, 0
        match event.role:
            case Role.NONE:
                self.phase = Idle()
                return [Discard()] if before is not Role.NONE else []
            case Role.STANDBY:
                if before is Role.STANDBY and isinstance(self.phase, Following):
                    return []
                self.phase = Following()
                return [*([Discard()] if before is Role.ACTIVE else []), self._find_bounds()]
            case Role.ACTIVE:
                # Nobody else can have owned the task if it was ours in the generation before.
                kept = before is Role.ACTIVE and event.generation - last in (0, 1)
                if kept and not isinstance(self.phase, Idle | Stopped):
                    return []
                return [*([Discard()] if before is Role.ACTIVE else []), *self._promote()]
            case _:
                assert_never(event.role)

    def _promote(self) -> list[Effect]:
        self.phase = Fencing()
        return [InitProducer()]

    def _ask_offset(self) -> list[Effect]:
        self.phase = Asking()
        return [FetchOffset()]

    def _offset_told(self, offset: int | None) -> list[Effect]:
        if self.config.trust_local_checkpoint and self.store is not None:
            self.phase = Running(offset)
            return [Run(offset, promoted=True)]
        self.phase = Asking(told=True, offset=offset)
        return [self._find_bounds()]

    def _find_bounds(self) -> FindBounds:
        position, epoch = -1, -1
        if self.store is not None:
            position, epoch = self.store.position, self.store.leader_epoch
        return FindBounds(position, epoch, self.least_end, self.seen_epoch)

    # ── reading the changelog ──

    def _bounded(self, event: BoundsTold) -> list[Effect]:
        following = isinstance(self.phase, Following)
        asking = isinstance(self.phase, Asking) and self.phase.told
        if not (following or asking):
            return []
        bounds, wiped = event.bounds, self._judge(event)
        self.seen_epoch = max(self.seen_epoch, bounds.leader_epoch)
        if self.store is None:
            assert self.lineage is not None
            self.store = Checkpoint(self.lineage, bounds.log_start, -1, event.asked_ms)
            self.input_position = None
        if following:
            return [*wiped, Replay(self.store.position, None)]
        assert isinstance(self.phase, Asking)
        end, since_ms = bounds.high_watermark, self.phase.moved_ms
        moved_ms = event.asked_ms if since_ms is None or wiped else since_ms
        self.phase = CatchingUp(self.phase.offset, end, moved_ms)
        if self.store.position >= end:
            return [*wiped, *self._arrive(self.phase)]
        if event.asked_ms - moved_ms > self.config.restore_timeout_ms:
            return self._stop(self._too_long(self.phase))
        return [*wiped, Replay(self.store.position, end)]

    def _judge(self, event: BoundsTold) -> list[Effect]:
        """May what is on the disk be read on from? If not, it goes."""
        store, bounds = self.store, event.bounds
        if store is None or self.config.trust_local_checkpoint:
            return []
        why = cut(store, bounds)
        # Its own commit's marker is certain to come after it. If nothing else does, or not even
        # that, there is nothing that it could miss.
        behind = store.position + store.before_marker < bounds.log_end
        if why is None and behind and self._stale(event.asked_ms, store.position, bounds.mtro):
            why = too_old(store, event.asked_ms, self.config)
        return [] if why is None else self._wipe(why)

    def _look_again(self) -> list[Effect]:
        """The bounds will say whether what is on the disk has to go."""
        match self.phase:
            case Following():
                return [self._find_bounds()]
            case CatchingUp(offset, moved_ms=moved_ms):
                self.phase = Asking(told=True, offset=offset, moved_ms=moved_ms)
                return [self._find_bounds()]
            case _:
                return []

    def _is_news(self, epoch: int) -> bool:
        """Of a leader that nobody has asked yet whether its log goes on where the store ends?"""
        ours = -1 if self.store is None else self.store.leader_epoch
        return 0 <= ours < epoch and epoch > self.seen_epoch

    def _spoilt(self, why: str) -> list[Effect]:
        """Everything is in the changelog: throw it away, and begin again as what we are."""
        self.spoilt += 1
        wiped = self._wipe(why)
        if self.role is Role.NONE or isinstance(self.phase, Stopped):
            return wiped
        if self.spoilt > self.config.most_spoilt:
            often = f"the local store was of no use {self.spoilt} times in a row, at last: {why}"
            return [*wiped, *self._stop(often)]
        if self.role is Role.ACTIVE:
            return [Discard(), *wiped, *self._promote()]
        self.phase = Following()
        return [*wiped, self._find_bounds()]

    def needs_mtro(self, now_ms: int) -> bool:
        """By time alone the store is too old: the cluster may still say that nothing is missing."""
        return self.store is not None and self._stale(now_ms, self.store.position, None)

    def _stale(self, now_ms: int, start: int, mtro: int | None) -> bool:
        """May a tombstone at or after `start` be gone that a value below `start` needs?"""
        if self.store is None or now_ms - self.store.caught_up_ms <= self.config.horizon_ms:
            return False  # none that was written since has been cleaned and kept its time
        return mtro is None or start < mtro

    def _read(self, event: Read) -> list[Effect]:
        store, phase = self.store, self.phase
        if store is None or not isinstance(phase, Following | CatchingUp):
            return []
        if event.start != store.position or event.position < store.position:
            return []  # from before the store was wiped
        if self._is_news(event.leader_epoch):
            self.seen_epoch = event.leader_epoch
            return self._look_again()
        moved = event.position > store.position
        over_marker = store.before_marker and event.position == store.position + 1
        # To read no more than its own marker is no proof yet that nothing is missing.
        caught_up = event.position >= event.end and not over_marker
        why = is_older(store, event)
        if moved and not over_marker and self._stale(event.asked_ms, event.start, event.mtro):
            why = why or too_old(store, event.asked_ms, self.config)
        if why is not None:
            wiped = self._wipe(why)
            if isinstance(phase, CatchingUp):
                self.phase = Asking(told=True, offset=phase.offset)
            return [*wiped, self._find_bounds()]
        epoch = max(event.leader_epoch, store.leader_epoch)
        caught_up_ms = event.asked_ms if caught_up else store.caught_up_ms
        self.store = Checkpoint(store.lineage, event.position, epoch, caught_up_ms)
        if event.input_position is not None:
            self.input_position = event.input_position
        # Where nothing moved, only the time is news, and can wait.
        applied: list[Effect] = []
        if moved or caught_up_ms - self.saved_ms > self.config.renew_ms:
            applied.append(self._apply(self.store))
        if isinstance(phase, Following):
            self.spoilt = 0 if caught_up else self.spoilt
            return [*applied, Replay(event.position, None)]
        if event.position >= phase.end:
            return [*applied, *self._arrive(phase)]
        if moved:
            self.phase = replace(phase, moved_ms=event.asked_ms)
        elif event.asked_ms - phase.moved_ms > self.config.restore_timeout_ms:
            return self._stop(self._too_long(phase))
        return [*applied, Replay(event.position, phase.end)]

    def _apply(self, store: Checkpoint) -> Apply:
        self.saved_ms = store.caught_up_ms
        return Apply(store, self.input_position)

    def _arrive(self, phase: CatchingUp) -> list[Effect]:
        """The store is the fold of everything that was ever committed."""
        known = self.input_position
        if phase.offset is not None and phase.offset > (known or 0):
            return self._stop(
                f"the group has committed input up to {phase.offset}, but the changelog knows of"
                f" {'none' if known is None else known}: it has lost records,"
                " or somebody moved the group's offset"
            )
        next_input = phase.offset if known is None else known
        assert self.store is not None
        self.phase = Running(next_input, lands_at=self.store.position)
        return [Run(next_input, promoted=True)]

    def _tick(self, now_ms: int) -> list[Effect]:
        phase, patience_ms = self.phase, self.config.restore_timeout_ms
        match phase:
            case CatchingUp(moved_ms=since_ms) if now_ms - since_ms > patience_ms:
                return self._stop(self._too_long(phase))
            case Fencing(since_ms=None) | Asking(since_ms=None):
                self.phase = replace(phase, since_ms=now_ms)
            case Fencing(int(since_ms)) | Asking(since_ms=int(since_ms)):
                if now_ms - since_ms > patience_ms:
                    return self._stop(self._too_long(phase))
        return []

    def _too_long(self, phase: Fencing | Asking | CatchingUp) -> str:
        patience_ms = self.config.restore_timeout_ms
        match phase:
            case Fencing():
                return phase.unanswered(patience_ms)
            case Asking():
                return phase.unanswered(patience_ms, self.least_end)
            case CatchingUp():
                at = self.store.position if self.store is not None else 0
                return phase.stands_still(at, patience_ms)
            case _:
                assert_never(phase)

    def _stop(self, why: str) -> list[Effect]:
        self.phase = Stopped(why)
        return [Discard(), Stop(why)]

    def _wipe(self, why: str) -> list[Effect]:
        self.store, self.input_position = None, None
        return [Wipe(why)]

    # ── committing ──

    def _commit(self, phase: Running, now_ms: int) -> list[Effect]:
        if phase.committing or phase.next_input is None or self.store is None:
            return []
        quiet = phase.next_input == self.input_position
        if quiet and now_ms - self.store.caught_up_ms < self.config.renew_ms:
            return []
        self.phase = replace(phase, committing=True)
        later = phase.lands_at is None
        return [Commit(self.generation, phase.next_input, self.store.position, or_after=later)]

    def _committed(self, event: Committed, phase: Running) -> list[Effect]:
        assert self.store is not None and phase.committing
        if 0 <= self.seen_epoch < event.leader_epoch:
            # It is committed, but not on top of what we have, if the new leader has cut the log.
            # Whoever is asked now is to lead in that epoch, and to have what was committed.
            self.seen_epoch = event.leader_epoch
            self.least_end = max(self.least_end, event.position)
            return [Discard(), *self._promote()]
        self.input_position = phase.next_input
        # Whoever says less is behind: the leader of that epoch was asked before we wrote.
        epoch = -1 if event.leader_epoch < 0 else max(event.leader_epoch, self.seen_epoch)
        self.store = Checkpoint(
            self.store.lineage, event.position, epoch, event.asked_ms, before_marker=True
        )
        self.phase, self.least_end, self.astray = Running(phase.next_input), 0, 0
        self.spoilt = 0
        return [self._apply(self.store), Run(phase.next_input, promoted=False)]

    def _elsewhere(self, event: Elsewhere) -> list[Effect]:
        """Whoever told the end of the changelog did not lead it any more; or it has two writers.

        If that is before what the store has, the changelog has it no more.
        """
        assert self.store is not None
        if event.offset < self.store.position:
            return self._stop(
                f"the changelog was there up to {self.store.position}, and what this task wrote"
                f" next is at {event.offset}: it has lost records, or was deleted and made again"
            )
        self.least_end, self.astray = max(self.least_end, event.offset + 1), self.astray + 1
        if self.astray < self.config.most_astray:
            return [Discard(), *self._promote()]
        return self._stop(
            f"the changelog was read to {self.store.position}, and what this task wrote next is at"
            f" {event.offset}, {self.astray} times in a row: somebody else writes to it"
        )

    def _aborted(self, phase: Running) -> list[Effect]:
        if phase.lands_at is not None:
            return [Discard(), *self._promote()]  # where its records were, nobody has told
        self.phase = Running(self.input_position)
        return [Discard(), Run(self.input_position, promoted=False)]

    def check(self) -> None:
        assert self.store is None or self.lineage is not None
        if isinstance(self.phase, Running):
            assert self.role is Role.ACTIVE and self.store is not None
        if isinstance(self.phase, Following):
            assert self.role is Role.STANDBY
