"""Two workers, a few messages, and everything that can go wrong between them and a broker.

The tasks are the real ones (`machines.retry_*`). The broker is as small as it can be and still be
late, forgetful and unsure in all the ways that matter: transactions whose markers reach one
partition before another, answers that get lost, compaction, a group that gives the partition to
somebody else while the old owner sleeps and later wakes up. A history is a path of moves:

    rebalance   start-up, one question at a time   a round   flush   send offsets   commit   mark
    crash       a handler fails   a transaction is aborted   an answer is lost   compaction
    a leader is replaced, and does not hear of it   both topics are lost

In every state one asks: of each key, are the committed outputs (and the first effects outside of
Kafka) in the order of the main topic, none twice, none left out? And if from now on nothing more
went wrong: would everything be handled, and every key be free?
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from sexton.machines.retry_commands import Orders
from sexton.machines.retry_pending import Held, Pending
from sexton.machines.retry_rounds import Commit
from sexton.machines.retry_startup import Ends, StartUp
from sexton.machines.retry_task import Row, Task
from tests.property.retry_mistakes import Boolean, OtherStartUp, Seed

PLACES = frozenset({"offsets", "lock", "retry"})
Number = tuple[int, int]  # a worker, and one of its transactions


@dataclass(frozen=True, slots=True)
class Limits:
    """How often each may happen in one history."""

    failures: int = 2
    crashes: int = 1
    rebalances: int = 1
    late: int = 1  # markers
    aborts: int = 1
    unknown: int = 1  # answers that get lost
    compactions: int = 1
    cuts: int = 0  # rounds that end before everything has run
    replaced: int = 0  # leaders, of both topics
    lost: int = 0  # all that the lock and the retry topic had
    atomic: bool = False  # a start-up is one move, and so is a round with its transaction
    polls: tuple[int, ...] = (0, 1, 2)  # how many messages
    states: int = 1_000_000


class Record(NamedTuple):
    key: bytes
    value: bytes | None
    transaction: Number | None  # None: committed, and its marker is here
    writer: int


Log = tuple[Record | None, ...]  # None: compacted away, or aborted


class Transaction(NamedTuple):
    outputs: tuple[int, ...] = ()
    offsets: tuple[int, str] | None = None
    decided: bool | None = None  # True: committed
    unmarked: frozenset[str] = PLACES


@dataclass(slots=True)
class Worker:
    phase: str = "down"  # starting, ready, sending, stopped
    current: bool = False  # in the group's present generation
    fenced: bool = False  # somebody else has initialised its transactional id
    startup: StartUp | None = None
    ask: object = None
    early: Ends | None = None  # a mistake: ends that were asked for too soon
    task: Task | None = None
    commit: Commit | None = None
    outputs: tuple[int, ...] = ()
    number: Number | None = None  # its transaction
    flushed: bool = False
    offsets_sent: bool = False
    stage: int = 0  # without transactions
    tail: int = 0  # how far it has read the retry topic

    def go_down(self) -> None:
        """Nothing that it knew is left."""
        fresh = Worker(current=self.current)
        for slot in Worker.__slots__:
            setattr(self, slot, getattr(fresh, slot))

    def copy(self) -> Worker:
        """What it points to is shared: `own_task` before the task does anything."""
        twin = Worker(*_WORKER(self))
        if self.startup is not None:
            twin.startup = begun(self.startup)
        return twin

    def own_task(self) -> Task:
        assert self.task is not None
        self.task, self.commit = copied(self.task)
        return self.task

    def key(self, locks: Places, retries: Places) -> tuple[object, ...]:
        startup, ends = self.startup, None
        if startup is not None and startup.ends is not None:
            ends = (locks[startup.ends.locks], retries[startup.ends.retries])
        return (
            self.phase, self.current, self.fenced, self.ask and type(self.ask),
            self.early and (locks[self.early.locks], retries[self.early.retries]), self.outputs,
            self.number, self.flushed, self.offsets_sent, self.stage, retries[self.tail], ends,
            None if startup is None else startup.committed,
            None if self.task is None else task_key(self.task, retries),
            None if self.commit is None else commit_key(self.commit),
        )  # fmt: skip


Places = list[int]  # for each offset, how many records there are before it


def places(log: Log) -> Places:
    """Two worlds that differ only in where something has been removed are one and the same."""
    return [*accumulate((record is not None for record in log), initial=0)]


_WORKER = attrgetter(*(each.name for each in fields(Worker)))
_TASK = attrgetter(*(each.name for each in fields(Task)))
_HELD = attrgetter(*(each.name for each in fields(Held)))


def begun(startup: StartUp) -> StartUp:
    """A copy of one that has read nothing yet, or needs nothing of it: it reads in one move."""
    twin = copy.copy(startup)
    twin.locks, twin.retries, twin.orders = {}, {}, Orders()
    if isinstance(twin, OtherStartUp):
        twin.counts = {}
    return twin


def copied(task: Task) -> tuple[Task, Commit | None]:
    """`copy.deepcopy` would take a hundred times as long."""
    twin = type(task)(*_TASK(task))
    pending = task.pending
    twin.pending = Pending(
        {message: Held(*_HELD(held)) for message, held in pending.held.items()},
        {key: list(ids) for key, ids in pending.by_key.items()},
        list(pending.heads),
        list(pending.ids),
    )
    twin.orders = Orders(dict(task.orders.waiting), dict(task.orders.orphans))
    twin.unread, twin.not_reached = dict(task.unread), dict(task.not_reached)
    twin.reports = []
    if isinstance(task, Seed) and isinstance(twin, Seed):
        twin.counts, twin.own = dict(task.counts), task.own
    if isinstance(task, Boolean) and isinstance(twin, Boolean):
        twin.open = task.open
    if task._commit is not None:
        twin._commit = copy.copy(task._commit)
        changed = task._commit.changed
        twin._commit.changed = {each: Held(*_HELD(held)) for each, held in changed.items()}
    return twin, twin._commit


def task_key(task: Task, retries: Places) -> tuple[object, ...]:
    pending = task.pending
    held = tuple(
        (message, each.attempts, each.dead, each.retry_offset < 0 or retries[each.retry_offset])
        for message, each in sorted(pending.held.items())
    )
    lanes = tuple(tuple(ids) for ids in pending.by_key.values())
    return (
        task.position, held, lanes, frozenset(filter(pending._counts, pending.heads)),
        tuple(task.stale.locks), tuple(task.stale.retries), tuple(task.orders.waiting),
        tuple(task.orders.orphans), tuple(task.unread), task.restart, task.ahead,
        tuple(task.not_reached),
        frozenset(task.counts.items()) if isinstance(task, Seed) else None,
        task.open if isinstance(task, Boolean) else None,
    )  # fmt: skip


def commit_key(commit: Commit) -> tuple[object, ...]:
    return (
        commit.position, commit.watermark, tuple(commit.locks),
        tuple(item.id for item in commit.redirected), tuple(commit.retry_tombstones),
        tuple(commit.lock_tombstones), tuple(item.id for item in commit.dead),
    )  # fmt: skip


class Used(NamedTuple):
    failures: int = 0
    crashes: int = 0
    rebalances: int = 0
    late: int = 0
    aborts: int = 0
    unknown: int = 0
    compactions: int = 0
    cuts: int = 0
    replaced: int = 0
    lost: int = 0


@dataclass(slots=True)
class World:
    workers: tuple[Worker, ...]
    lock: Log = ()
    retry: Log = ()
    transactions: dict[Number, Transaction] = field(default_factory=dict)
    committed: tuple[int, str | None] = (0, "sexton.retry 1 W=0 of=1")
    old_ends: Ends | None = None  # as a leader knows them that was replaced
    refused: bool = False  # somebody has to look what was lost
    owner: int = 0
    done: frozenset[int] = frozenset()  # by committed outputs
    effects: frozenset[int] = frozenset()  # outside of Kafka
    used: Used = field(default_factory=Used)
    fault: str | None = None

    def copy(self, *changing: int) -> World:
        """Workers that are about to change are copied, too."""
        twin = World(*_WORLD(self))
        twin.transactions = dict(self.transactions)
        twin.workers = tuple(
            worker.copy() if number in changing else worker
            for number, worker in enumerate(self.workers)
        )
        return twin

    def key(self) -> tuple[object, ...]:
        locks, retries = places(self.lock), places(self.retry)
        return (
            tuple(worker.key(locks, retries) for worker in self.workers),
            tuple(filter(None, self.lock)), tuple(filter(None, self.retry)),
            tuple(sorted(self.transactions.items())), self.committed, self.owner, self.done,
            self.refused,
            self.old_ends and (locks[self.old_ends.locks], retries[self.old_ends.retries]),
            self.effects, self.used, self.fault,
        )  # fmt: skip

    # ── the broker ──

    def append(self, place: str, records: Sequence[Record]) -> None:
        if place == "lock":
            self.lock += tuple(records)
        else:
            self.retry += tuple(records)

    def ends(self) -> Ends:
        return Ends(len(self.lock), len(self.retry))

    def mark_ends(self) -> None:
        """Records that are of no message: nothing is to be read in them."""
        self.lock += (None,)
        self.retry += (None,)

    def lose(self) -> None:
        self.lock, self.retry = (None,) * len(self.lock), (None,) * len(self.retry)

    def log(self, place: str) -> Log:
        return self.lock if place == "lock" else self.retry

    def stable_end(self, place: str) -> int:
        """A reader of committed records gets this far."""
        log = self.log(place)
        for at, record in enumerate(log):
            if record is not None and record.transaction is not None:
                return at
        return len(log)

    def is_stable(self) -> bool:
        return all(each.offsets is None for each in self.transactions.values())

    def rows(self, place: str, start: int, end: int) -> list[Row]:
        return [
            (at, record.key, record.value)
            for at, record in enumerate(self.log(place)[start:end], start)
            if record is not None and record.transaction is None
        ]

    def mark(self, number: Number, place: str) -> None:
        """The transaction's end reaches a partition."""
        transaction = self.transactions[number]
        assert transaction.decided is not None
        if place == "offsets":
            if transaction.decided and transaction.offsets is not None:
                self.committed = transaction.offsets
            transaction = transaction._replace(offsets=None)
        else:
            marked = tuple(
                (record._replace(transaction=None) if transaction.decided else None)
                if record is not None and record.transaction == number
                else record
                for record in self.log(place)
            )
            if place == "lock":
                self.lock = marked
            else:
                self.retry = marked
        left = transaction.unmarked - {place}
        if left:
            self.transactions[number] = transaction._replace(unmarked=left)
        else:
            del self.transactions[number]

    def compact(self, place: str, keeps_tombstones: bool) -> bool:
        """False: there was nothing to remove."""
        log, end = self.log(place), self.stable_end(place)
        last = {record.key: at for at, record in enumerate(log[:end]) if record is not None}
        cleaned = tuple(
            record
            if at >= end
            or record is None
            or (last[record.key] == at and (record.value is not None or keeps_tombstones))
            else None
            for at, record in enumerate(log)
        )
        if place == "lock":
            self.lock = cleaned
        else:
            self.retry = cleaned
        return cleaned != log


_WORLD = attrgetter(*(each.name for each in fields(World)))
