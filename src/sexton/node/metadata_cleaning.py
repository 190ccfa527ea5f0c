"""When is the metadata log compacted? When it has grown to twice what the last pass left of it.

High watermarks alone are a record for each busy partition every few seconds, so that without this a
cluster at work would fill its disk with what nobody needs, and read all of it at its next start.

Nobody misses what goes. Brokers follow the records that the controller holds in memory, by offset,
and whoever is too far behind is sent the image (`machines.ledger`). Only the controller reads the
log, from its start and when it starts itself: the latest record of each key makes the same image.
There is no other replica either, so a tombstone may go as soon as it has buried what was before it,
a day later as with any compacted log.
"""

from __future__ import annotations

from sexton.log.cleaner_bounds import Bounds
from sexton.log.cleaner_report import CleanerOptions
from sexton.log.cleaner_swap import Prepared
from sexton.log.partition import PartitionLog
from sexton.node.outside import Outside

LEAST_BYTES = 16 << 20  # read in a fraction of a second: below, a pass is not worth its while


class MetadataCleaning:
    def __init__(self, log: PartitionLog, outside: Outside, seed: int) -> None:
        self._log = log
        self._outside = outside
        self._seed = seed  # of the hash of keys
        self._due_bytes = LEAST_BYTES

    def look(self) -> None:
        """Begins a pass if one is due; the log may grow while it is under way."""
        if self._log.being_cleaned or self._log.size < self._due_bytes:
            return
        from sexton.log.cleaner import begin  # with its kernels: a controller starts without them

        now_ms = self._outside.now_ms
        self._log.roll(now_ms)
        bounds = Bounds.independent(now_ms, self._log.active.base_offset)
        options = CleanerOptions(self._log.config.delete_retention_ms, seed=self._seed)
        self._outside.run(begin(self._log, bounds, options).prepare, self._prepared)

    def _prepared(self, result: object) -> None:
        if isinstance(result, Prepared):
            result.swap(self._outside.now_ms)
        self._due_bytes = max(2 * self._log.size, LEAST_BYTES)
        if isinstance(result, BaseException) and not isinstance(result, OSError):
            raise result  # a full disk is no news; the next decision will tell
