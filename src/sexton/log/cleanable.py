"""Is it worth cleaning this log now, and up to where?

Up to where: never at or above the last stable offset (what is not settled supersedes nothing), the
active segment, or a segment with records younger than `min.compaction.lag.ms`.

Worth it, if any of these holds:

    dirty    the bytes that no pass has seen are at least `min.cleanable.dirty.ratio` of all
    overdue  the oldest of them is older than `max.compaction.lag.ms`
    waiting  nothing is new, but a witness that an earlier pass had to keep may go by now. Without
             this a topic that has gone quiet would never finish (Apache Kafka's does not).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sexton.base.errors import CorruptLog, Refused
from sexton.log.cleaner_bounds import Bounds, LastBatches, Policy
from sexton.log.cleaner_report import Cleaned, CleanerOptions, Waiting
from sexton.log.disk import DiskFailed
from sexton.log.partition import PartitionLog
from sexton.records.layout import NO_TIMESTAMP

if TYPE_CHECKING:
    from sexton.log.workshop import Workshop

RETRY_MS = 15_000  # after a failed pass, as log.cleaner.backoff.ms
MOST_RETRY_MS = 15 * 60 * 1000
PASS_FAILURES = (CorruptLog, Refused, OSError)  # what the world may do to a pass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A log that a pass would do something for."""

    end: int  # where the pass would end, exclusive
    dirty_ratio: float
    reason: str  # dirty, overdue or waiting


@dataclass(slots=True)
class LogCleaning:
    """What is known of the cleaning of one log."""

    clean_until: int = 0  # MCCO while coordinated: a durable pass has covered all below
    waiting: Waiting | None = None  # None: not known since the start of this process
    uncleanable: str | None = None  # why the last attempt failed, for the operator
    _failures: int = 0
    _retry_at_ms: int = 0

    def candidate(
        self, log: PartitionLog, now_ms: int, tombstones_below: int, markers_below: int
    ) -> Candidate | None:
        """What to clean, or None. Both bounds are ignored under the policy `independent`."""
        if not log.config.compacts or now_ms < self._retry_at_ms:
            return None
        end = first_uncleanable(log, now_ms)
        first_dirty = min(max(self.clean_until, log.segments[0].base_offset), end)
        clean_bytes = _bytes_between(log, 0, first_dirty)
        dirty_bytes = _bytes_between(log, first_dirty, end)
        ratio = dirty_bytes / max(clean_bytes + dirty_bytes, 1)
        if dirty_bytes and ratio >= log.config.min_cleanable_dirty_ratio:
            return Candidate(end, ratio, "dirty")
        if dirty_bytes and _overdue(log, first_dirty, now_ms):
            return Candidate(end, ratio, "overdue")
        bounds = _bounds(log, now_ms, end, tombstones_below, markers_below)
        if end and self._may_go(log, bounds):
            return Candidate(end, ratio, "waiting")
        return None

    def _may_go(self, log: PartitionLog, bounds: Bounds) -> bool:
        if bounds.policy is Policy.INDEPENDENT:
            return False  # as in Apache Kafka
        if self.waiting is None:
            return True  # a restart: look once
        now_ms, last = bounds.now_ms, LastBatches.of(log)
        return (
            any(h <= now_ms and at < bounds.tombstones for h, at in self.waiting.tombstones)
            or any(h is None for h, _ in self.waiting.markers)
            or any(h and h <= now_ms and at < bounds.markers for h, at in self.waiting.markers)
            or any(_unneeded(last, producer, at, bounds.end) for producer, at in self.waiting.empty)
        )

    def attempt(
        self,
        log: PartitionLog,
        candidate: Candidate,
        options: CleanerOptions,
        now_ms: int,
        tombstones_below: int,
        markers_below: int,
        shop: Workshop | None = None,
    ) -> Cleaned | None:
        """One pass; None if it failed, which is remembered and tried again later."""
        from sexton.log.cleaner import clean  # with its kernels: only who cleans needs them

        bounds = pass_bounds(log, candidate, now_ms, tombstones_below, markers_below)
        try:
            cleaned = clean(log, bounds, options, shop)
        except DiskFailed:
            raise
        except PASS_FAILURES as error:
            self.failed(error, now_ms)
            return None
        self.succeeded(cleaned)
        return cleaned

    def failed(self, error: Exception, now_ms: int) -> None:
        """A pass did not end well: it is tried again later, later each time."""
        self.uncleanable = str(error)
        delay = min(RETRY_MS * 2**self._failures, MOST_RETRY_MS)
        self._failures += 1
        self._retry_at_ms = now_ms + delay

    def succeeded(self, cleaned: Cleaned) -> None:
        """The cleaned segments of a pass are in their place."""
        self.uncleanable, self._failures, self._retry_at_ms = None, 0, 0
        self.waiting = cleaned.waiting
        self.clean_until = max(self.clean_until, cleaned.end)


def _unneeded(last: LastBatches, producer_id: int, last_offset: int, end: int) -> bool:
    """May an empty batch go? Not while it holds a producer's state, or the end of what is clean."""
    holds = last.by_offset.get(last_offset) == producer_id or producer_id in last.by_marker
    return not holds and producer_id not in last.unsettled and last_offset + 1 != end


def pass_bounds(
    log: PartitionLog, candidate: Candidate, now_ms: int, tombstones_below: int, markers_below: int
) -> Bounds:
    """What a pass over a candidate may rely on."""
    return _bounds(log, now_ms, candidate.end, tombstones_below, markers_below)


def _bounds(log: PartitionLog, now_ms: int, end: int, tombstones: int, markers: int) -> Bounds:
    if Policy(log.config.compaction_policy) is Policy.INDEPENDENT:
        return Bounds.independent(now_ms, end)
    return Bounds.coordinated(now_ms, end, tombstones, markers)


def first_uncleanable(log: PartitionLog, now_ms: int) -> int:
    """The end of what a pass may look at."""
    end = min(log.last_stable_offset, log.active.base_offset)
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        for segment in log.segments:
            if segment.max_timestamp.timestamp > now_ms - lag:
                return min(end, segment.base_offset)
    return end


def _bytes_between(log: PartitionLog, start: int, end: int) -> int:
    """Whole segments that begin in [start, end); good enough to decide by."""
    return sum(s.size for s in log.segments if start <= s.base_offset < end)


def _overdue(log: PartitionLog, first_dirty: int, now_ms: int) -> bool:
    for segment in log.segments:
        if segment.end_offset > first_dirty and segment.first_timestamp is not None:
            first = segment.first_timestamp
            return first != NO_TIMESTAMP and now_ms - first > log.config.max_compaction_lag_ms
    return False
