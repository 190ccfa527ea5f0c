"""What runs in one transaction, in which order, and what does it write?

A round is what was polled from the main topic plus the messages whose turn it is to be tried again.
Messages of one key form a lane. Lanes run at the same time if there are workers for it; a lane runs
one message after the other and stops at the first that is to be tried again:

    order-123   17 ✓   21 ✗   30 ·        30 is not run: 21 comes first
    order-77    33 ✓   34 ✓

What was not run loses nothing: a retry stays pending, a main message is put behind what its key
waits for. So a round can be cut short whenever somebody is in a hurry. That 21 may run right after
17, before 17's release is committed, is safe because both are in one transaction.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import NamedTuple

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_pending import Held, LaneKey
from sexton.machines.retry_records import Watermark
from sexton.machines.retry_settings import Settings


class Outcome(Enum):
    DONE = "done"
    RETRY = "retry"  # it failed, and may go better later
    DEAD = "dead"  # it failed, and will not go better
    DROP = "drop"  # it failed, and nobody minds


class Failure(NamedTuple):
    reason: str
    exception: str = ""
    stack: str = ""


@dataclass(slots=True, eq=False)
class Lane:
    """The messages of one key in a round, in order."""

    key: LaneKey
    items: list[Item] = field(default_factory=list)
    stopped: bool = False


@dataclass(slots=True, eq=False)
class Item:
    """One message in a round."""

    id: int
    key: bytes | None
    attempts: int  # failed runs; `Round.note` counts the one that it is told of
    index: int  # its row in what was polled; -1: it comes from the retry topic
    retry_offset: int  # where; -1: not known, the caller said that it has the payload
    lane: Lane
    outcome: Outcome | None = None  # None: not run
    failure: Failure | None = None
    after_ms: int | None = None  # the handler has said how long to wait; None: as the backoff says


@dataclass(slots=True, eq=False)
class Obeyed:
    """What operators have asked for, as far as this round does it."""

    commands: list[bytes] = field(default_factory=list)  # their keys in the retry topic
    in_vain: dict[bytes, None] = field(default_factory=dict)  # those that changed nothing
    changed: dict[int, Held] = field(default_factory=dict)
    settled: dict[int, None] = field(default_factory=dict)
    skipped: list[Item] = field(default_factory=list)  # to the dead letter topic
    keys: dict[LaneKey, None] = field(default_factory=dict)  # not to be run in this round
    begins_again: bool = False


@dataclass(slots=True, eq=False)
class Round:
    settings: Settings
    position: int  # of the main topic, when all that was polled is done
    retry_lanes: list[Lane] = field(default_factory=list)
    main_lanes: list[Lane] = field(default_factory=list)
    blocked: list[Item] = field(default_factory=list)  # their key waits: redirected, not run
    work: list[Item] = field(default_factory=list)  # for one worker: whose lane has stopped is left
    retries: list[Item] = field(default_factory=list)  # whose payloads are needed
    again: dict[int, int] = field(default_factory=dict)  # polled, and waits already: id and row
    orders: Obeyed = field(default_factory=lambda: Obeyed())

    @property
    def lanes(self) -> list[Lane]:
        return [*self.retry_lanes, *self.main_lanes]

    def note(
        self,
        item: Item,
        outcome: Outcome,
        failure: Failure | None = None,
        after_ms: int | None = None,
    ) -> bool:
        """Whether its lane goes on. Touches nothing but this lane."""
        item.outcome = outcome
        item.failure = failure
        item.after_ms = after_ms
        if outcome is Outcome.DONE or outcome is Outcome.DROP:
            return True
        item.attempts += 1
        if outcome is Outcome.RETRY and item.attempts >= self.settings.max_attempts:
            item.outcome = outcome = Outcome.DEAD
        item.lane.stopped = outcome is Outcome.RETRY or self.settings.at_ceiling == "held"
        return not item.lane.stopped


class Report(NamedTuple):
    """Something that a person should hear of."""

    code: str
    id: int | None  # of the message that it is about
    text: str


class Locked(NamedTuple):
    """A lock record to write."""

    key: bytes
    value: bytes
    reason: str


@dataclass(slots=True, eq=False)
class Commit:
    """Everything that one task has to write for a round.

    In one transaction, with the offset of main-p at all times: the group's generation, which goes
    with it, is what keeps a predecessor that wakes up from settling anything. Without transactions
    in four stages, each acknowledged before the next begins:

        outputs, dead letters, live locks │ retry records and tombstones │ released locks │ offset

    A lock is there before its retry record, and goes after it: whoever finds a lock without one
    knows that it is stale. And nothing goes from the main topic before both are there.
    """

    position: int
    watermark: Watermark
    locks: list[Locked] = field(default_factory=list)
    redirected: list[Item] = field(default_factory=list)  # their retry records
    retry_tombstones: list[bytes] = field(default_factory=list)
    in_vain: dict[bytes, None] = field(default_factory=dict)  # of these: commands that did nothing
    lock_tombstones: list[bytes] = field(default_factory=list)
    dead: list[Item] = field(default_factory=list)
    changed: dict[int, Held] = field(default_factory=dict)  # what memory learns when confirmed
    settled: dict[int, None] = field(default_factory=dict)
    touched: dict[LaneKey, None] = field(default_factory=dict)
    begins_again: bool = False  # after this an operator wants the task to start up again

    @property
    def metadata(self) -> str:
        return self.watermark.encode()

    @property
    def changes(self) -> bool:
        """False: nothing to write but the offset."""
        return bool(self.locks or self.retry_tombstones or self.lock_tombstones or self.dead)
