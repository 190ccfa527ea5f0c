"""Cleaned segments take the place of the old ones.

    prepared     0.log 40.log 90.log    0.log.cleaned      complete and synced; a crash removes it
    swap         0.log 40.log 90.log    0.log.swap         from here on it counts; a crash finishes
                 0.log                                     the old ones are gone

Group by group, oldest first, each durable before the next: a tombstone must not be gone before what
it buries is. This is short, and the only part of a pass that changes the log. It looks first
whether the log is still the one that the pass was made for: if segments were removed or cut, or the
log was closed, the work is thrown away, and nothing has happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sexton.log.cleaner_report import Cleaned
from sexton.log.disk import DiskFailed
from sexton.log.names import SWAP
from sexton.log.partition import PartitionLog
from sexton.log.replay import remove_snapshots
from sexton.log.segment import Segment


@dataclass(slots=True)
class Prepared:
    """What a pass has made of a log, ready to take its place: `swap` or `discard` it.

    Both belong to whoever appends to the log; preparing may have happened in another thread.
    """

    log: PartitionLog
    revision: int  # of the log, when the pass began
    cleaned: Cleaned  # what will be true after `swap`
    ready: list[tuple[list[Segment], Segment]] = field(default_factory=list)  # old ones, new one

    @property
    def is_stale(self) -> bool:
        """Is it of no use any more, because of what happened to the log since?"""
        return self.log.closed or self.log.revision != self.revision

    def swap(self, now_ms: int) -> bool:
        """Puts the cleaned segments in place; False if the log has changed, and nothing was done.

        The log is synced first: what goes, goes because of records that must not be lost.
        """
        if self.is_stale:
            self.discard()
            return False
        assert self.cleaned.end <= self.log.last_stable_offset
        try:
            self.log.flush(now_ms)
            _forget_snapshots(self.log, self.cleaned.end)
            while self.ready:
                _swap_or_fail(self.log, *self.ready.pop(0))  # not to be discarded, come what may
        except Exception:
            self.discard()
            raise
        self.log.being_cleaned = False
        return True

    def discard(self) -> None:
        """Forgets what was prepared; harmless after `swap`.

        The files of a closed log belong to whoever opens it next, who removes these first.
        """
        ready, self.ready = self.ready, []
        for _old, fresh in ready:
            if not self.log.closed:
                fresh.remove()
        self.log.being_cleaned = False


def _forget_snapshots(log: PartitionLog, end: int) -> None:
    """A snapshot may hold a transaction open whose marker this pass removes: it goes first."""
    remove_snapshots(log.disk, log.directory, keeps=lambda at: at >= end, durably=False)
    log.disk.sync_directory(log.directory)  # those that went before, too


def _swap_or_fail(log: PartitionLog, old: list[Segment], fresh: Segment) -> None:
    """Half done it must not stay: the next start would finish it, on top of what was done since.

    If the log were emptied meanwhile and copied anew, the cleaned segment would take the copy's
    place.
    """
    try:
        _swap(log, old, fresh)
    except OSError as error:
        why = f"cleaned segments of {log.directory} could not be put in place: {error}"
        raise DiskFailed(why) from error


def _swap(log: PartitionLog, old: list[Segment], fresh: Segment) -> None:
    """From here on the cleaned segment is the one that counts, whatever happens.

    As long as an old log is there, so may be its indexes; after a crash `recovery` removes both.
    """
    fresh.rename(SWAP)
    log.disk.sync_directory(log.directory)
    for segment in old:
        segment.remove(log_last=True)
    fresh.rename("")
    log.disk.sync_directory(log.directory)
    log.replace_segments(old, fresh)
