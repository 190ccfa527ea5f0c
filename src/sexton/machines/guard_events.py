"""What the guard hears, what it does, and how it is set up."""

from __future__ import annotations

from typing import Literal

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.guard_health import TopicSight
from sexton.machines.guard_notes import Lags, Saying

STEPS = 4
ATTEMPTS = 3  # of each step, at different brokers


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """All in milliseconds. What each has to do with the promise stands in `guard_promise`."""

    interval_ms: int = 5_000  # between two looks
    request_timeout_ms: int = 10_000
    hold_ms: int = 60_000  # all replicas in sync for so long before a topic is thawed
    patience_ms: int = 10_000  # a change that was decided longer ago than this is not made any more
    late_ms: int = 30_000  # a change that was sent takes effect within this, or never
    settle_ms: int = 2_000  # brokers hear of a change at different times; later it is a difference
    blind_ms: int = 60_000  # not seen for so long: everything is frozen first of all
    describe_ms: int = 60_000  # between two looks at the options of a topic that is well
    reapply: bool = False  # what somebody else unfroze is frozen again
    thaw_in_doubt: bool = False
    durable_hold: bool = False  # for `--once`: the next run is another process
    only: frozenset[str] | None = None  # topics; None: all that are compacted
    force: bool = False  # thaw whatever there is against it: `guard thaw --force`

    @property
    def reaction_ms(self) -> int:
        """At worst, from a replica's leaving the ISR to a freeze that all live brokers know of.

        A look just missed it; then seeing, making sure, noting and changing are each answered only
        at the last attempt, after the brokers asked before have let us wait.
        """
        return self.interval_ms + STEPS * ATTEMPTS * self.request_timeout_ms

    @property
    def round_ms(self) -> int:
        """What a look and all that follows takes when most brokers answer."""
        return self.interval_ms + STEPS * self.request_timeout_ms


@dataclass(frozen=True, slots=True)
class Options:
    """A topic's options, as far as the guard is concerned."""

    own: Lags  # what is set on the topic itself
    min_lag_ms: int  # what counts, wherever it comes from
    max_lag_ms: int
    cleanup_policy: str
    delete_retention_ms: int

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy.split(",")


# ── events ──


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at the whole cluster; what was asked for earlier than this is old."""

    now_ms: int
    brokers: frozenset[int]
    topics: dict[str, TopicSight]
    by: str  # the broker that said so


@dataclass(frozen=True, slots=True)
class NotSeen:
    now_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class Described:
    now_ms: int
    options: dict[str, Options]
    failed: dict[str, str]  # topic, why
    by: str  # the broker that said so


@dataclass(frozen=True, slots=True)
class Recalled:
    """Everything new in the guard's memory, up to its end."""

    now_ms: int
    records: tuple[tuple[int, bytes, bytes | None], ...]  # offset, key, value


@dataclass(frozen=True, slots=True)
class Decide:
    """Cluster, options and memory have been looked at, in this order."""

    now_ms: int


Outcome = Literal["done", "refused", "unknown"]


@dataclass(frozen=True, slots=True)
class Altered:
    now_ms: int
    topic: str
    outcome: Outcome
    why: str = ""


Event = Seen | NotSeen | Described | Recalled | Decide | Altered


# ── effects ──


@dataclass(frozen=True, slots=True)
class Describe:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remember:
    """Write this down durably, then read the memory to its end and decide again."""

    saying: Saying


@dataclass(frozen=True, slots=True)
class Forget:
    """Not urgent."""

    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Alter:
    """Set these options of a topic in one request, None: back to not set; not after that time."""

    topic: str
    values: tuple[tuple[str, str | None], ...]
    freezes: bool
    not_after_ms: int


@dataclass(frozen=True, slots=True)
class LookAgain:
    """At once: there is more to do that wants fresh eyes."""

    noted: bool = False  # when the note is made that goes with it: nothing comes of it before


Effect = Describe | Remember | Forget | Alter | LookAgain
