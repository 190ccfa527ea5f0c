"""What a store's task hears, what it does, and how it is set up.

Effects are carried out in order, and a new list replaces what is still under way from the last one.
One of them is an atomic write: `Apply` puts the records at hand (a stretch of changelog, or the
overlay of a commit) and the checkpoint that it carries on the disk together, so that a store never
says of itself what is not so.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

from sexton.base.lazy_dataclass import dataclass


class Role(Enum):
    NONE = "none"
    STANDBY = "standby"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class TaskConfig:
    delete_retention_ms: int = 86_400_000  # of the changelog: how long its tombstones stay
    # A restore that stands still this long has failed. One that moves is bounded by the above.
    restore_timeout_ms: int = 300_000
    # For the lab only: believe the local disk on promotion, as Kafka Streams did (KAFKA-16017).
    trust_local_checkpoint: bool = False
    # So many promotions in a row whose first record lands elsewhere: somebody else writes there.
    most_astray: int = 5
    # So many stores in a row that were spoilt before they were of use: it is the disk itself.
    most_spoilt: int = 3

    @property
    def horizon_ms(self) -> int:
        """A tenth less than the tombstones stay: clocks differ, and a look takes time."""
        return self.delete_retention_ms - self.delete_retention_ms // 10

    def is_in_future(self, found: Checkpoint, now_ms: int) -> bool:
        """Was it written by a clock that was ahead? It would seem young for too long."""
        return found.caught_up_ms - now_ms > self.delete_retention_ms // 10

    @property
    def renew_ms(self) -> int:
        """A quiet store says this often that it is complete: else it grows old while it is well."""
        return self.delete_retention_ms // 20


@dataclass(frozen=True, slots=True)
class Lineage:
    """Which log it was: names are given again, ids are not."""

    cluster_id: str
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a store is: the fold of this changelog below `position`."""

    lineage: Lineage
    position: int
    leader_epoch: int  # of the last batch that is in it; -1: of none
    caught_up_ms: int  # then nothing was missing, or it began empty then
    # It ends with a commit of its own, whose marker comes next and is not in it yet.
    before_marker: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """The changelog as its leader has it; asked in one go, after what it is to be compared with."""

    log_start: int
    high_watermark: int
    log_end: int
    mtro: int | None = None  # below it tombstones may be gone; None: a Kafka that cannot say
    parts_at: int | None = None  # the log of the checkpoint's leader epoch ended here
    leader_epoch: int = -1  # of the leader that says all this; -1: it is not known


# ── events ──


@dataclass(frozen=True, slots=True)
class Opened:
    """The local store was opened; `found` is what it says of itself."""

    now_ms: int
    lineage: Lineage  # of the changelog as it is now
    found: Checkpoint | None
    input_position: int | None = None
    damaged: str | None = None  # why it could not be read


@dataclass(frozen=True, slots=True)
class Given:
    """What the group says of this task and this instance."""

    now_ms: int
    role: Role
    generation: int


@dataclass(frozen=True, slots=True)
class Initialised:
    """There is a new producer epoch: whoever wrote before is fenced, what was open has ended."""


@dataclass(frozen=True, slots=True)
class OffsetTold:
    """The group's committed offset, once no transaction hung over it."""

    offset: int | None


@dataclass(frozen=True, slots=True)
class BoundsTold:
    asked_ms: int
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Read:
    """Committed records of the changelog in [start, position) are at hand."""

    asked_ms: int
    start: int
    position: int
    end: int  # its high watermark at that time
    leader_epoch: int
    input_position: int | None  # the newest among them
    mtro: int | None = None  # asked after the records had come
    first_epoch: int = -1  # of the first batch; `leader_epoch` is that of the last


@dataclass(frozen=True, slots=True)
class PositionGone:
    """The changelog has nothing at the store's position: it was cut, at one end or the other."""


@dataclass(frozen=True, slots=True)
class Spoilt:
    """What is on the disk is of no use: it cannot be read, or its changelog has been cut below."""

    why: str


@dataclass(frozen=True, slots=True)
class Processed:
    """Inputs up to here went through `process`; what they wrote is in the overlay."""

    next_input: int


@dataclass(frozen=True, slots=True)
class CommitDue:
    """The commit interval is over, or the overlay is large."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Kafka confirmed. `position` is the offset after the transaction's last changelog record."""

    asked_ms: int
    position: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The first changelog record did not land where it must: nothing of it may be committed."""

    offset: int  # where it landed


@dataclass(frozen=True, slots=True)
class Aborted:
    """The transaction has ended, and nothing of it will ever be seen."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """Nobody knows how the transaction ended, or will end."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """Somebody else has a newer epoch, or the group a newer generation."""

    by: Literal["producer", "group"]
    generation: int = -1  # that the group refused


@dataclass(frozen=True, slots=True)
class Tick:
    now_ms: int


Event = (
    Opened
    | Given
    | Initialised
    | OffsetTold
    | BoundsTold
    | Read
    | PositionGone
    | Spoilt
    | Processed
    | CommitDue
    | Committed
    | Elsewhere
    | Aborted
    | Unsure
    | Fenced
    | Tick
)


# ── effects ──


@dataclass(frozen=True, slots=True)
class Wipe:
    """Throw the local store away, and say why where people see it."""

    why: str


@dataclass(frozen=True, slots=True)
class InitProducer:
    """A new epoch for the task's transactional id; answered by `Initialised`."""


@dataclass(frozen=True, slots=True)
class FetchOffset:
    """The group's offset with require_stable; answered by `OffsetTold`."""


@dataclass(frozen=True, slots=True)
class FindBounds:
    """Answered by `BoundsTold`; `leader_epoch` is that of the checkpoint.

    Whoever says that the changelog ends before `least_end`, or that its leader's epoch is less than
    `least_epoch`, does not lead it any more: ask on.
    """

    position: int
    leader_epoch: int
    least_end: int = 0
    least_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Replay:
    """Read the changelog, read_committed, in stretches; each is answered by `Read`."""

    start: int
    end: int | None  # None: a standby's work has no end


@dataclass(frozen=True, slots=True)
class Apply:
    """The records at hand and this checkpoint, in one atomic write."""

    checkpoint: Checkpoint
    input_position: int | None


@dataclass(frozen=True, slots=True)
class Run:
    """Process inputs from here on; None: where the input begins. Stops with the next list."""

    next_input: int | None
    promoted: bool  # this ends a promotion


@dataclass(frozen=True, slots=True)
class Commit:
    """Outputs, changelog, input position and offset in one transaction, with this generation.

    If the first changelog record does not land where it must, it is `Elsewhere`, and aborted.
    """

    generation: int
    next_input: int
    lands_at: int  # the store has everything below
    or_after: bool = False  # not the first of its owner: its own markers may lie in between

    def lands(self, offset: int) -> bool:
        """Is a first changelog record at `offset` one on top of what the store has?"""
        return offset == self.lands_at or (self.or_after and offset > self.lands_at)


@dataclass(frozen=True, slots=True)
class Discard:
    """Drop the overlay; end its transaction as aborted if that can still be said."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The task cannot go on, and must not go on with less."""

    why: str


Effect = (
    Wipe | InitProducer | FetchOffset | FindBounds | Replay | Apply | Run | Commit | Discard | Stop
)
