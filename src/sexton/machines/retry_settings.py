"""How is ordered retry set up, and may it run on topics like these?

The three topics have as many partitions as each other, for task p owns partition p of all three.
If the main topic alone has grown, keys have moved: the next message of a key may be on a new
partition while earlier ones wait, locked or unread, on the old one. Nobody could tell, so we
refuse. The same if all three have grown while something waited: each offset commit says how many
partitions there were, and the first start after the growth looks whether all had been settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from random import Random
from typing import Literal, get_args

from sexton.base.errors import ConfigError
from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_records import Watermark

Mode = Literal["transactional", "compensating"]
Ceiling = Literal["freed", "held"]

# Options of the topics beside the main one.
HEADROOM_BYTES = 64 << 10  # a message in the retry or dead-letter topic has headers of ours as well
WORKING: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.ms": "600000",
    "delete.retention.ms": "3600000",  # a guard has to notice a lost replica well within it
    "min.cleanable.dirty.ratio": "0.1",
    # Tombstones whose hour is over make no log dirty: without this the last ones stay until then.
    "max.compaction.lag.ms": "3600000",
}
DEAD: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": str(30 * 24 * 3_600_000)}


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential, with jitter: keys that failed together do not come back together."""

    first_ms: int = 1_000  # 0: no waiting at all
    factor: float = 2.0
    most_ms: int = 300_000  # an outage that lasted an hour is noticed to be over within minutes
    jitter: float = 0.5  # of the wait, at most so much is taken off

    def wait_ms(self, attempts: int, chance: Random) -> int:
        """After the `attempts`-th failure."""
        if self.first_ms <= 0:
            return 0
        exponent = min(attempts - 1, 64)  # 2.0 ** 1100 would be an error
        whole = min(float(self.most_ms), self.first_ms * self.factor**exponent)
        return int(whole * (1 - self.jitter * chance.random()))


@dataclass(frozen=True, slots=True)
class Settings:
    mode: Mode = "transactional"
    max_attempts: int = 10  # runs of one message: four to nine minutes with the default backoff
    at_ceiling: Ceiling = "freed"
    max_pending: int = 100_000  # per partition, about 50 MB: beyond it the main topic is paused
    round_limit: int = 2_000  # retries in one transaction: below a second for quick handlers
    backoff: Backoff = field(default_factory=Backoff)
    ids_per_task: bool = False  # one transactional id per task instead of one per instance

    def __post_init__(self) -> None:
        # Whatever is no choice would else be taken for the other one, and weaken a promise.
        _check_choice("mode", self.mode, get_args(Mode))
        _check_choice("at_ceiling", self.at_ceiling, get_args(Ceiling))
        for option, value, least in (
            ("max.attempts", self.max_attempts, 1),
            ("max.pending", self.max_pending, 1),
            ("round.limit", self.round_limit, 1),
            ("backoff.first.ms", self.backoff.first_ms, 0),
        ):
            if value < least:
                raise ConfigError(option, f"is {value}", f"at least {least}")
        if not 0 <= self.backoff.jitter <= 1:
            raise ConfigError("backoff.jitter", f"is {self.backoff.jitter}", "from 0 to 1")
        if self.backoff.factor < 1:
            raise ConfigError("backoff.factor", f"is {self.backoff.factor}", "1 or more")

    @property
    def resume_below(self) -> int:
        """Pending; lower than where the main topic is paused, or it would be a flutter."""
        return max(1, self.max_pending * 9 // 10)


def _check_choice(option: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(option, f"is {value!r}, and not one of {', '.join(choices)}")


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the group is in one partition of the main topic."""

    position: int
    end: int
    watermark: Watermark | None

    @property
    def is_settled(self) -> bool:
        nothing_pending = self.watermark is not None and self.watermark.w >= self.position
        return nothing_pending and self.position >= self.end


def check_partitions(main: int, retry: int, locks: int) -> None:
    """At start and at each assignment; numbers of partitions."""
    if main == retry == locks:
        return
    raise ConfigError(
        "partitions",
        f"main has {main}, retry {retry} and locks {locks}: they have to be as many",
        "stop the producers, let the group settle (no lag, no locks), then give all three topics "
        "the same number of partitions",
    )


def check_growth(partitions: int, standings: Mapping[int, Standing]) -> None:
    """Have all three grown while something waited? `standings`: where the group has committed."""
    known = max((s.watermark.partitions for s in standings.values() if s.watermark), default=0)
    if known in (0, partitions):
        return
    for partition, standing in sorted(standings.items()):
        if not standing.is_settled:
            raise ConfigError(
                "partitions",
                f"there were {known} and are {partitions}, and partition {partition} was not "
                "settled: later messages of its keys may be elsewhere now",
                "once no lock is held and the old partitions are read to their ends, start with "
                "the growth accepted",
            )
