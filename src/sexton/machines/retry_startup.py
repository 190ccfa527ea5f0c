"""What must a new owner know before it may run the first message, and in which order does it ask?

    InitProducer      (only with one transactional id per task) what a predecessor began is over
    FetchCommitted    with require_stable: no commit of a predecessor is under way any more
    MarkEnds          a record of our own at the ends of lock-p and retry-p
    ReadTo            both, committed records only, until the position has passed these records
    Started           what is stale is to be reaped, then the task may run

The order is the proof. Once the offsets are stable, every transaction that moved them has its lock
records in lock-p already, so what is written *afterwards* lies behind them. The offsets' marker may
be written and the locks' marker not: then the last stable offset of lock-p is still in front of
these locks, and of our record, which a reader of committed records cannot pass before the marker is
there. A predecessor that is still running cannot commit anything: each of its transactions carries
the generation of a group that has moved on.

The ends are written and not asked for, since a leader that was replaced, and has not heard of it,
would tell the end that it knows, and then give all that is before it: a lock that its successor
took would be missing. But no record is acknowledged by a leader that has lost its followers, so
where ours is, the log is what it is for everybody, and that old leader cannot be read to there.

A lock is stale if its id is below W, or if the retry topic has no live record of it. A retry record
without a lock is dropped below W; at or above it we do not know, so it is reported and left alone.
Without transactions we do know: a message is settled only after its retry record is gone, and a
lock may be missing because a predecessor that woke up late took it for stale. So it is pending, and
`ReadKeys` asks for the business keys of such messages.

All of it is about one main topic, and `orders-3-17` is another message in one that was deleted and
made again. So lock-p says which topic it is about, from the first commit on, and whoever finds that
it was another one does not begin (`_check_main`). Nor does a task begin if retry-p has lost what
waits: the group's offset is the witness (`_is_w_there`). It is asked for once more, since a start
that slept half-way may have been overtaken by an owner that handled the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from random import Random
from typing import TYPE_CHECKING, assert_never

from sexton.base.errors import ConfigError, PeerError, SextonError
from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_commands import Orders
from sexton.machines.retry_pending import Held, Pending
from sexton.machines.retry_records import (
    COMMAND,
    MAIN_ID,
    STARTED,
    LockRecord,
    TaskName,
    Watermark,
)
from sexton.machines.retry_rounds import Report
from sexton.machines.retry_settings import Settings
from sexton.machines.retry_task import Row, Stale, Task

if TYPE_CHECKING:
    from sexton.machines.retry_columns import Last, Rows

# ── what it asks for ──


@dataclass(frozen=True, slots=True)
class InitProducer:
    pass


@dataclass(frozen=True, slots=True)
class FetchCommitted:
    require_stable: bool = True


@dataclass(frozen=True, slots=True)
class MarkEnds:
    """A record that all replicas in sync have, in each; the ends are behind these.

    For somebody who only looks high watermarks will do; not last stable offsets.
    """


@dataclass(frozen=True, slots=True)
class ReadTo:
    """From the beginning, committed records only, until the readers stand there."""

    locks: int
    retries: int


@dataclass(frozen=True, slots=True)
class ReadKeys:
    """The business keys that these records of the retry topic name in their headers."""

    orphans: dict[int, int]  # id, offset


@dataclass(frozen=True, slots=True)
class Started:
    task: Task


Effect = InitProducer | FetchCommitted | MarkEnds | ReadTo | ReadKeys | Started

# ── what it is told ──


@dataclass(frozen=True, slots=True)
class Initialised:
    pass


@dataclass(frozen=True, slots=True)
class Committed:
    position: int  # or where the group begins if it has never committed
    metadata: str | None
    begins: int = 0  # main-p, as far as it was looked at


@dataclass(frozen=True, slots=True)
class Ends:
    locks: int
    retries: int


@dataclass(frozen=True, slots=True)
class LocksRead:
    rows: Rows | Sequence[Row]
    position: int  # where the reader stands now: markers and what compaction left out are passed


@dataclass(frozen=True, slots=True)
class RetriesRead:
    rows: Rows | Sequence[Row]
    position: int


@dataclass(frozen=True, slots=True)
class KeysRead:
    keys: dict[int, bytes | None]  # by id


Event = Initialised | Committed | Ends | LocksRead | RetriesRead | KeysRead


@dataclass(slots=True, eq=False)
class StartUp:
    name: TaskName
    settings: Settings
    chance: Random
    partitions: int  # of the main topic
    main_id: bytes = b""  # of the main topic as it is now; empty: nobody knows
    to_run: bool = True  # False: somebody only looks, while an owner goes on
    said_id: bytes | None = None  # by the lock topic
    committed: Committed | None = None
    ends: Ends | None = None
    locks_at: int = -1
    retries_at: int = -1
    locks: dict[int, bytes] = field(default_factory=dict)  # live ones
    retries: dict[int, int] = field(default_factory=dict)  # live ones: their offsets
    orders: Orders = field(default_factory=Orders)
    foreign: int = 0  # records that no task of this name can have written

    def begin(self) -> list[Effect]:
        return [InitProducer()] if self.settings.ids_per_task else [FetchCommitted()]

    def handle(self, event: Event) -> list[Effect]:
        match event:
            case Initialised():
                return [FetchCommitted()]
            case Committed() if self.committed is not None:
                raise self._lost(self.committed, event)
            case Committed():
                self.committed = event
                return [MarkEnds()]
            case Ends(locks, retries):
                assert self.committed is not None, "the ends are marked after the offsets are known"
                self.ends = event
                return [ReadTo(locks, retries)]
            case LocksRead(rows, position):
                assert self.ends is not None, "nothing is read before its end is known"
                self._fold_locks(rows)
                self.locks_at = position
                return self._started()
            case RetriesRead(rows, position):
                assert self.ends is not None, "nothing is read before its end is known"
                self._fold_retries(rows)
                self.retries_at = position
                return self._started()
            case KeysRead(keys):
                return [Started(self._task(keys))]
            case _:
                assert_never(event)

    # ── reading ──

    def _fold_locks(self, rows: Rows | Sequence[Row]) -> None:
        locks = self.locks
        if not isinstance(rows, Sequence):
            last = last_of_each(self.name, rows)
            for message in last.gone_of(locks):
                del locks[message]
            locks.update(zip(last.live, last.values(rows), strict=True))
            rows = [(int(rows.offset[row]), rows.key[row], rows.value[row]) for row in last.others]
        for _offset, key, value in rows:
            named = None if key is None else self.name.offset_of(key)
            if key == MAIN_ID:
                self.said_id = value
            elif named is None:
                self.foreign += key != STARTED
            elif value is None:
                locks.pop(named, None)
            else:
                locks[named] = value

    def _fold_retries(self, rows: Rows | Sequence[Row]) -> None:
        if not isinstance(rows, Sequence):
            last = last_of_each(self.name, rows)
            for message in last.gone_of(self.retries):
                del self.retries[message]
            self.retries.update(zip(last.live, last.offsets(rows), strict=True))
            rows = [(int(rows.offset[row]), rows.key[row], rows.value[row]) for row in last.others]
        for offset, key, value in rows:
            self._fold_retry(offset, key, value)

    def _fold_retry(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        message = None if key is None else self.name.offset_of(key)
        if message is not None and value is None:
            self.retries.pop(message, None)
        elif message is not None:
            self.retries[message] = offset
        elif key is not None and key.startswith(COMMAND):
            self.orders.hear(key, value)
        else:
            self.foreign += key != STARTED

    # ── the end of it ──

    def _started(self) -> list[Effect]:
        assert self.ends is not None
        if self.locks_at < self.ends.locks or self.retries_at < self.ends.retries:
            return []
        self._check_main()
        if not self._is_w_there():
            return [FetchCommitted()]
        w, locks = self.w, self.locks
        orphans = {
            message: offset
            for message, offset in self.retries.items()
            if message >= w and message not in locks
        }
        if orphans and self.settings.mode == "compensating":
            return [ReadKeys(orphans)]
        return [Started(self._task({}))]

    def _check_main(self) -> None:
        """Is what is there about this main topic? One that left nothing behind is no trouble."""
        assert self.committed is not None
        if not self.said_id or not self.main_id or self.said_id == self.main_id.hex().encode():
            return
        waits = len(self.locks.keys() | self.retries.keys())
        is_ours = Watermark.decode(self.committed.metadata) is not None
        if not waits and not is_ours:
            return
        what = f"{waits} messages wait" if waits else f"offset {self.committed.position} is"
        raise ConfigError(
            str(self.name),
            f"{what} of a topic {self.name.topic} that was deleted; another one has its name now",
            "delete its lock and retry topics and the group's offsets, and all of the new one is "
            "handled; or give the new one another name",
        )

    def _is_w_there(self) -> bool:
        """W below the position is itself a message that waits. Then the retry topic has it.

        Each transaction that commits a W makes sure of it. Without transactions the offset comes
        last: it may still name a message that was handled. It may also be old when somebody only
        looks, while the owner goes on.
        """
        assert self.committed is not None
        is_said = Watermark.decode(self.committed.metadata) is not None
        is_sure = self.to_run and self.settings.mode == "transactional"
        waits = is_said and is_sure and self.w < self.committed.position
        return not waits or self.w in self.retries

    def _lost(self, before: Committed, now: Committed) -> SextonError:
        """W was not there, and was it meanwhile settled? Then it is not W any more."""
        if (before.position, before.metadata) != (now.position, now.metadata):
            return PeerError(str(self.name), "has changed meanwhile: it has another owner")
        return ConfigError(
            self.name.id_of(self.w).decode(),
            "waits, as the group has committed, and the retry topic has no record of it",
            "was that topic made again, or cut by an unclean election? Then messages since may be "
            f"lost as well. Stop all instances and set the group's offset of {self.name}: to "
            f"{self.w}, and all from there on is handled, most of it again; or to {now.position}",
        )

    @property
    def w(self) -> int:
        assert self.committed is not None
        watermark = Watermark.decode(self.committed.metadata)
        return 0 if watermark is None else watermark.w

    def _task(self, adopted: Mapping[int, bytes | None]) -> Task:
        assert self.committed is not None
        position, w = self.committed.position, self.w
        said = self.main_id.hex().encode()
        stale = Stale(
            never_committed=self.committed.metadata is None,
            unnamed=said if said != self.said_id else b"",
        )
        reports = list[Report]()
        if position < self.committed.begins:
            count = self.committed.begins - position
            text = f"{count} offsets from {position} on were deleted unread"
            why = "the main topic keeps too little, unless they were all of transaction markers"
            reports.append(Report("deleted", None, f"{text}: {why}"))
        held: dict[int, Held] = {}
        for message, value in self.locks.items():
            offset = self.retries.get(message)
            if message < w or offset is None:
                stale.locks.append(message)
                why = "is below W" if message < w else "has no retry record"
                reports.append(Report("stale-lock", message, f"released: it {why}"))
            else:
                record = LockRecord.decode(value)
                held[message] = Held(
                    record.key, record.attempts, record.not_before_ms, record.since_ms,
                    record.dead, offset,
                )  # fmt: skip
        for message, offset in self.retries.items():
            if message < w:
                stale.retries.append(message)
            elif message in adopted:
                held[message] = Held(adopted[message], 0, 0, 0, dead=False, retry_offset=offset)
                reports.append(Report("adopted", message, "has a retry record and no lock"))
            elif message not in self.locks:
                self.orders.orphans[message] = offset
                text = "has a retry record and no lock: left alone; redrive, skip or discard it"
                reports.append(Report("orphan", message, text))
        return self._running(position, held, stale, reports)

    def _running(
        self, position: int, held: dict[int, Held], stale: Stale, reports: list[Report]
    ) -> Task:
        ahead = max(held, default=-1)
        if ahead >= position and self.settings.mode == "transactional":
            text = f"waits, though {self.name} is read from {position}: were offsets reset?"
            reports.append(Report("lock-ahead", ahead, text))
        if self.foreign:
            text = f"{self.foreign} records in the lock and retry topics are of no message of ours"
            reports.append(Report("foreign-records", None, text))
        return Task(
            self.name,
            self.settings,
            self.chance,
            position,
            self.partitions,
            Pending.of(held),
            stale,
            self.orders,
            ahead=ahead if ahead >= position else -1,
            paused=len(held) >= self.settings.max_pending and ahead < position,
            reports=reports,
        )


def last_of_each(name: TaskName, rows: Rows) -> Last:
    from sexton.machines import retry_columns  # numpy takes a tenth of a second to load

    return retry_columns.last_of_each(name, rows)
