"""One partition's log: append at the end, read anywhere, forget from the start.

    log start                   high watermark   end
        |  segment  |  segment  |  active segment  |
        ▼           ▼           ▼        ▼         ▼
        0           120         500      612       640
                                    ▲ last stable offset: what read_committed may see

A leader gives offsets to the batches it appends; a follower takes them as they are. Everything the
log knows beside its bytes (producers, epochs, indexes) follows from those bytes: after a crash
`recovery` makes it again.

Appended bytes are in the page cache. They are safe from a crash of the machine once `flush` has
moved the recovery point past them; replication, not fsync, protects an acknowledged record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.log import reading
from sexton.log.checkpoints import EpochStart, pack_epochs
from sexton.log.config import LogConfig
from sexton.log.disk import Disk, DiskFailed, put, remedy, replace
from sexton.log.epochs import LeaderEpochs
from sexton.log.incoming import (
    Marker,
    Placed,
    check_records,
    from_leader,
    from_producer,
    set_append_time,
    stamp,
)
from sexton.log.indexes import AbortedTransaction
from sexton.log.names import EPOCHS, LOG, SNAPSHOT, segment_file
from sexton.log.producers import Producers
from sexton.log.reading import BASE_OFFSET, Read
from sexton.log.replay import rebuild_producers, remove_snapshots
from sexton.log.retention import count_expired
from sexton.log.segment import MOST_RELATIVE_OFFSET, Segment
from sexton.log.snapshots import pack_snapshot
from sexton.records.layout import NO_TIMESTAMP, BatchHeader

WRITE_BACK_BYTES = 32 << 20  # some tenths of a second on a slow disk; 1 GiB would be many seconds


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    append_time_ms: int = NO_TIMESTAMP  # if the topic has log-append time
    repeat: bool = False  # the producer had sent this before; nothing was written


@dataclass(slots=True)
class PartitionLog:
    disk: Disk
    directory: str
    config: LogConfig
    segments: list[Segment]  # in order; the last one is active
    producers: Producers
    epochs: LeaderEpochs
    log_start_offset: int
    recovery_point: int  # everything below is synced
    high_watermark: int = 0
    flushed_ms: int = 0
    closed: bool = False
    being_cleaned: bool = False  # a pass is under way; there is never more than one
    revision: int = 0  # grows when written batches go, by retention, truncation or cleaning
    # Small files that came with a new log and are not synced; no recovery point may pass that.
    unsynced: list[str] = field(default_factory=list)
    _epochs_stale: bool = False  # the file lags behind; nor may it pass that
    _changed: bool = True  # since it was last synced
    _written_back: int = 0  # of the active segment: how much the disk was told to write soon

    # ── asked of it ──

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def end_offset(self) -> int:
        return self.active.end_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        unstable = self.producers.first_unstable_offset()
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    # ── appending ──

    def append_as_leader(
        self,
        data: bytes | bytearray | memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        from_client: bool = True,
    ) -> Appended:
        """Appends one batch at the end, or raises Refused and writes nothing.

        A view that can be written to is taken over: the batch gets its offset where it is.
        """
        batch = data if isinstance(data, memoryview) and not data.readonly else bytearray(data)
        config = self.config
        header, marker = from_producer(batch, config.max_message_bytes, from_client, self.directory)
        repeat = self.producers.check(header, marker)
        if repeat is not None:
            return Appended(repeat.first_offset, repeat.last_offset, repeat=True)
        if from_client and (config.compacts or header.codec):
            check_records(batch, header, config.compacts, self.directory)
        append_time = NO_TIMESTAMP
        if config.message_timestamp_type == "LogAppendTime":
            append_time = now_ms
            set_append_time(batch, header, now_ms)
        header = stamp(batch, self.end_offset, leader_epoch)
        self._write(batch, [(0, header)], [marker], now_ms)
        return Appended(header.base_offset, header.last_offset, append_time)

    def append_as_follower(
        self,
        data: bytes | bytearray | memoryview,
        now_ms: int,
        noted: Sequence[EpochStart] = (),
    ) -> Appended | None:
        """Appends the leader's batches as they are; one cut at the end is left for later.

        `noted` are the epochs that the leader knows of, where it has told them.
        """
        whole, headers, markers = from_leader(data, self.end_offset, self.directory)
        if not headers:
            return None
        first, last = headers[0][1], headers[-1][1]
        if last.last_offset - first.base_offset <= MOST_RELATIVE_OFFSET:
            self._write(whole, headers, markers, now_ms, noted)
        else:  # cleaning has left such gaps that they do not fit into one segment
            for (position, header), marker in zip(headers, markers, strict=True):
                batch = whole[position : position + header.size]
                self._write(batch, [(0, header)], [marker], now_ms, noted)
        return Appended(first.base_offset, last.last_offset)

    def _write(
        self,
        data: bytes | bytearray | memoryview,
        headers: list[Placed],
        markers: list[Marker],
        now_ms: int,
        noted: Sequence[EpochStart] = (),
    ) -> None:
        reached = self.end_offset  # a new segment may begin further on
        try:
            self._roll_if_due(len(data), headers, now_ms)
            self._changed = True  # rolling syncs what was there before
            self.active.append(data, headers, self.config.index_interval_bytes)
        except DiskFailed:
            raise
        except OSError as error:
            raise self._storage_error(error) from error
        if self.active.size - self._written_back >= WRITE_BACK_BYTES:
            self._written_back = self.active.size
            self.disk.write_back(self.active.path(LOG))
        news, by_batches = False, self.config.notes_epochs_by_batches
        for (_position, header), marker in zip(headers, markers, strict=True):
            if by_batches:
                reached = header.base_offset
            news |= self.epochs.learn(
                header.partition_leader_epoch, reached, header.base_offset, noted
            )
            reached = header.next_offset
            ended = self.producers.apply(header, marker)
            if ended is not None and ended.aborted:
                self.active.add_aborted(self.producers.aborted_entry(ended))
        if news:
            self._write_epochs_if_possible()
        if self.end_offset - self.recovery_point >= self.config.flush_messages:
            self._flush_appended(now_ms)

    def begin_epoch(self, epoch: int) -> None:
        """A leader's term begins here: whoever asks where an earlier one ended is told this."""
        if self.epochs.assign(epoch, self.end_offset):
            # Not synced: until the term has written something, nobody misses it after a crash.
            self._epochs_stale = True
            put(self.disk, f"{self.directory}/{EPOCHS}", pack_epochs(self.epochs.entries))

    # ── rolling and flushing ──

    def _roll_if_due(self, size: int, headers: list[Placed], now_ms: int) -> None:
        segment, config = self.active, self.config
        last = headers[-1][1]
        last_offset = last.last_offset
        too_far = last_offset - segment.base_offset > MOST_RELATIVE_OFFSET
        if too_far:
            self._roll_at(max(self.end_offset, last_offset - MOST_RELATIVE_OFFSET), now_ms)
        if too_far or segment.size == 0:
            return
        newest = last.max_timestamp
        if len(headers) > 1:
            newest = max(header.max_timestamp for _, header in headers)
        age = (
            newest - segment.first_timestamp
            if newest != NO_TIMESTAMP and segment.first_timestamp not in (None, NO_TIMESTAMP)
            else now_ms - segment.created_ms
        )
        if (
            segment.size + size > config.segment_bytes
            or age > config.most_segment_ms
            or segment.offsets.size_bytes >= config.segment_index_bytes
        ):
            self.roll(now_ms)

    def roll(self, now_ms: int) -> None:
        """Closes the active segment and starts a new one at the end."""
        if self.active.size > 0:
            self._roll_at(self.end_offset, now_ms)

    def _roll_at(self, base_offset: int, now_ms: int) -> None:
        """A new active segment; an empty one that indexes could not serve any more is replaced.

        The old one is synced first. Otherwise a power cut could take its last batches and leave the
        new segment: a hole that looks like what cleaning leaves, which a follower may have copied.
        So nothing is appended until that is done, and others wait as well. It does not take long,
        for most of the segment was written back while it grew.
        """
        self._changed |= self.active.seal()
        self.flush(now_ms)
        self.take_snapshot()
        fresh = self._durable_segment(base_offset, now_ms)
        self.active.close_indexes()
        if self.active.size == 0:
            self._remove([self.segments.pop()])
        self.segments.append(fresh)
        self._written_back = 0

    def _durable_segment(self, base_offset: int, now_ms: int) -> Segment:
        """None that stays without being used: the next start would take it for the log's end."""
        fresh = Segment.create(self.disk, self.directory, base_offset, now_ms)
        try:
            self.disk.sync_directory(self.directory)
        except DiskFailed:
            raise  # nothing is appended any more
        except OSError:
            fresh.remove()
            raise
        return fresh

    def flush(self, now_ms: int) -> None:
        """Makes everything appended so far survive a crash of the machine."""
        try:
            if self._changed or self._epochs_stale or self.unsynced:
                self._sync()
        except DiskFailed:
            raise
        except OSError as error:
            raise self._storage_error(error) from error
        self.recovery_point = self.end_offset
        self.flushed_ms = now_ms
        self._changed = False

    def _flush_appended(self, now_ms: int) -> None:
        """Its sender cannot be told that this failed: it is in the log, and will be served."""
        try:
            self.flush(now_ms)
        except Refused as error:
            raise DiskFailed(error.why) from error

    def _sync(self) -> None:
        if self._epochs_stale:
            self.write_epochs()
        for segment in self.segments:
            if segment.end_offset >= self.recovery_point:
                segment.sync()
        self._sync_small_files()
        self.disk.sync_directory(self.directory)

    def _sync_small_files(self) -> None:
        if self.unsynced:
            for path in self.unsynced:
                file = self.disk.open(path)
                file.sync()
                file.close()
            self.disk.sync_directory(".")  # the log's own directory is as new
            self.unsynced = []

    def _storage_error(self, error: OSError) -> Refused:
        """A disk that takes no more is an answer to the client, not a bug."""
        why = f"cannot write to {self.directory}: {error.strerror}"
        return Refused(KafkaError.KAFKA_STORAGE_ERROR, why, remedy(error))

    def flush_if_due(self, now_ms: int) -> bool:
        due = (
            self.end_offset > self.recovery_point
            and now_ms - self.flushed_ms >= self.config.flush_ms
        )
        if due:
            self.flush(now_ms)
        return due

    def take_snapshot(self) -> None:
        """Writes down the producer state. Not synced: one torn by a crash has a wrong checksum."""
        if self.producers.end_offset == 0:
            return  # nothing to tell yet
        path = f"{self.directory}/{segment_file(self.producers.end_offset, SNAPSHOT)}"
        file = self.disk.open(path)
        file.truncate(0)
        file.append(pack_snapshot(self.producers.to_snapshot()))
        file.close()

    def _write_epochs_if_possible(self) -> None:
        """On a full disk it is not: `flush` must succeed with it, recovery can do without."""
        self._epochs_stale = True
        with suppress(OSError):
            self.write_epochs()

    def write_epochs(self) -> None:
        replace(self.disk, f"{self.directory}/{EPOCHS}", pack_epochs(self.epochs.entries))
        self._epochs_stale = False

    # ── reading ──

    def read(
        self, offset: int, max_bytes: int, *, end: int | None = None, committed: bool = False
    ) -> Read:
        """Batches from the one that holds `offset` on, all below `end`: at least one, if any.

        With `committed`, `end` is at most the last stable offset and the aborted transactions among
        the returned batches are told.
        """
        bound = self.end_offset if end is None else min(end, self.end_offset)
        if committed:
            bound = min(bound, self.last_stable_offset)
        if offset < self.log_start_offset or offset > self.end_offset:
            why = f"offset {offset} is outside [{self.log_start_offset}, {self.end_offset}]"
            raise Refused(KafkaError.OFFSET_OUT_OF_RANGE, why)
        return reading.read(self.segments, offset, bound, max_bytes, committed=committed)

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in [start, end) and a marker at or after `start`."""
        return reading.aborted_between(self.segments, start, end)

    def batches(
        self, start: int, end: int | None = None
    ) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """Every batch from the one that holds `start` on, with its segment and position."""
        return reading.batches(self.segments, start, end)

    # ── moving the ends ──

    def advance_high_watermark(self, offset: int) -> None:
        self.high_watermark = max(self.high_watermark, min(offset, self.end_offset))
        self.producers.high_watermark_reached(self.high_watermark)

    def delete_records(self, before: int) -> int:
        """Nobody reads what is below an offset any more; returns the new log start.

        Files go when retention is looked at next, and nothing above the offset goes for it.
        """
        if before > self.high_watermark:
            why = f"offset {before} is above the high watermark {self.high_watermark}"
            raise Refused(KafkaError.OFFSET_OUT_OF_RANGE, why)
        self._move_start(before)
        return self.log_start_offset

    def enforce_retention(self, now_ms: int) -> list[Segment]:
        """Removes segments that are too old, too many, or below the log start."""
        doomed = count_expired(
            self.segments,
            self.config,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            now_ms=now_ms,
        )
        if doomed < len(self.segments):
            return self._drop_first(doomed)
        # There is always an active segment. On a full disk the older ones make room for a new one.
        gone = self._drop_first(doomed - 1)
        self.roll(now_ms)
        return gone + self._drop_first(1)

    def _drop_first(self, count: int) -> list[Segment]:
        gone, self.segments = self.segments[:count], self.segments[count:]
        self.revision += bool(gone)
        self._remove(gone)
        self._move_start(self.segments[0].base_offset)
        return gone

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drops every record at or after `offset`, and with it the whole batch that holds it.

        Go through `DataDirectory.truncate`: the recovery point on disk has to follow before the
        next append, or a crash would trust bytes that were never synced.
        """
        if offset >= self.end_offset:
            # A term that began here and wrote nothing may be one that others never heard of.
            if self.epochs.cut_end(offset):
                self.write_epochs()
            return
        if offset <= self.segments[0].base_offset:
            self.truncate_fully(offset, now_ms)
            return
        self.revision += 1
        keep = [segment for segment in self.segments if segment.base_offset < offset]
        gone, self.segments = self.segments[len(keep) :], keep
        self._remove(gone[::-1])
        self.disk.sync_directory(self.directory)
        self.active.truncate(offset)
        self._after_truncation()

    def truncate_fully(self, start: int, now_ms: int) -> None:
        """Drops everything; the log is empty and begins at `start`."""
        self.revision += 1
        gone, self.segments = self.segments, []
        self._remove(gone[::-1])
        self.segments = [Segment.create(self.disk, self.directory, start, now_ms)]
        self.disk.sync_directory(self.directory)
        self.log_start_offset = start
        self._after_truncation()

    def _after_truncation(self) -> None:
        self._changed = True
        # Snapshots beyond the new end, or from before the start, tell of batches that are gone.
        start, end = self.segments[0].base_offset, self.end_offset
        remove_snapshots(self.disk, self.directory, keeps=lambda at: start <= at <= end)
        if self.epochs.cut_end(self.end_offset):
            self.write_epochs()
        self.recovery_point = min(self.recovery_point, self.end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)
        # Records were deleted up to an offset that, after an unclean election, nobody has reached.
        self.log_start_offset = min(self.log_start_offset, self.end_offset)
        self.producers = rebuild_producers(
            self.disk, self.directory, self.segments, self.high_watermark
        )

    def configure(self, config: LogConfig) -> None:
        """Goes by other options from now on; a pass that goes by another policy is in vain."""
        self.revision += config.compaction_policy != self.config.compaction_policy
        self.config = config

    def replace_segments(self, old: list[Segment], cleaned: Segment) -> None:
        """A cleaned segment, its files in place already, stands for some neighbours from now on."""
        self.revision += 1
        at = bisect_left(self.segments, old[0].base_offset, key=BASE_OFFSET)
        assert self.segments[at : at + len(old)] == old
        self.segments[at : at + len(old)] = [cleaned]

    def _move_start(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        if self.epochs.cut_start(offset):
            self._write_epochs_if_possible()

    def _remove(self, segments: list[Segment]) -> None:
        """In this order: what a power cut leaves must be a log that could have been."""
        for segment in segments:
            segment.remove()
            self.disk.remove(f"{self.directory}/{segment_file(segment.base_offset, SNAPSHOT)}")

    # ── ending ──

    def close(self, now_ms: int) -> None:
        """Leaves the log so that opening it again needs no recovery."""
        self.closed = True
        self._changed |= self.active.seal()
        self.flush(now_ms)
        self.take_snapshot()
        for segment in self.segments:
            segment.close()

    def check(self) -> None:
        """What must always be true; tests and the simulator ask after every step."""
        bases = [segment.base_offset for segment in self.segments]
        assert bases == sorted(set(bases))
        assert 0 <= self.log_start_offset <= self.end_offset
        for before, after in zip(self.segments, self.segments[1:], strict=False):
            assert before.end_offset <= after.base_offset
        assert self.recovery_point <= self.end_offset
        assert self.high_watermark <= self.end_offset
        assert self.last_stable_offset <= self.high_watermark
        self.producers.check_invariants()
