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

import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from crc32c import crc32c

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.log.checkpoints import pack_epochs
from sexton.log.config import LogConfig
from sexton.log.disk import Disk, replace
from sexton.log.epochs import LeaderEpochs
from sexton.log.indexes import AbortedTransaction
from sexton.log.names import EPOCHS, SNAPSHOT, parse_segment_file, segment_file
from sexton.log.producers import Producers
from sexton.log.replay import rebuild_producers
from sexton.log.segment import MOST_RELATIVE_OFFSET, Segment, Slice
from sexton.log.snapshots import pack_snapshot
from sexton.records.control import ControlRecord, first_control_record
from sexton.records.layout import (
    CRC_START,
    LOG_APPEND_TIME,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Codec,
    headers_in,
)

_Batch = tuple[int, BatchHeader]  # with its position


@dataclass(frozen=True, slots=True)
class Appended:
    first_offset: int
    last_offset: int
    append_time_ms: int = NO_TIMESTAMP  # if the topic has log-append time
    repeat: bool = False  # the producer had sent this before; nothing was written


@dataclass(frozen=True, slots=True)
class Read:
    """What a fetch gets: a stretch of one segment, and which transactions in it to leave out."""

    slice: Slice | None  # None: nothing there up to the bound
    aborted: list[AbortedTransaction] = field(default_factory=list)


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
    _epochs_stale: bool = False  # the file lags behind; no recovery point may pass that

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
        self, data: bytes | memoryview, leader_epoch: int, now_ms: int, *, from_client: bool = True
    ) -> Appended:
        """Appends one batch at the end, or raises Refused and writes nothing."""
        batch = bytearray(data)
        header = self._checked(batch, from_client)
        marker = first_control_record(bytes(batch), self.directory) if header.is_control else None
        repeat = self.producers.check(header, marker)
        if repeat is not None:
            return Appended(repeat.first_offset, repeat.last_offset, repeat=True)
        append_time = NO_TIMESTAMP
        if self.config.message_timestamp_type == "LogAppendTime":
            append_time = now_ms
            _set_append_time(batch, header, now_ms)
        struct.pack_into(">q", batch, 0, self.end_offset)
        struct.pack_into(">i", batch, 12, leader_epoch)  # neither field is under the CRC
        header = BatchHeader.unpack(batch)
        self._write(batch, [(0, header)], [marker], now_ms)
        return Appended(header.base_offset, header.last_offset, append_time)

    def append_as_follower(self, data: bytes | memoryview, now_ms: int) -> Appended | None:
        """Appends the leader's batches as they are; one cut at the end is left for later."""
        whole = bytes(data[: whole_batches_end(data)])
        headers = list(headers_in(whole, self.directory))
        if not headers:
            return None
        expected = self.end_offset
        for position, header in headers:
            where = f"{self.directory}, fetched batch at offset {header.base_offset}"
            if header.base_offset < expected:
                raise CorruptLog(where, f"the log already ends at {expected}")
            if not _crc_matches(whole, position, header):
                raise CorruptLog(where, "the checksum does not match")
            expected = header.next_offset
        markers = [
            first_control_record(whole[p : p + h.size], self.directory) if h.is_control else None
            for p, h in headers
        ]
        first, last = headers[0][1], headers[-1][1]
        if last.last_offset - first.base_offset <= MOST_RELATIVE_OFFSET:
            self._write(whole, headers, markers, now_ms)
        else:  # cleaning has left such gaps that they do not fit into one segment
            for (position, header), marker in zip(headers, markers, strict=True):
                batch = whole[position : position + header.size]
                self._write(batch, [(0, header)], [marker], now_ms)
        return Appended(first.base_offset, last.last_offset)

    def _checked(self, batch: bytearray, from_client: bool) -> BatchHeader:
        """The header of the one batch that a producer may send at once, if it is sound."""
        try:
            headers = list(headers_in(batch, self.directory))
        except CorruptLog as error:
            raise Refused(KafkaError.CORRUPT_MESSAGE, error.why) from None
        if len(headers) != 1:
            raise Refused(
                KafkaError.INVALID_RECORD, f"{len(headers)} batches in one request, not 1"
            )
        header = headers[0][1]
        if header.size > self.config.max_message_bytes:
            most = self.config.max_message_bytes
            why = f"the batch has {header.size} bytes, max.message.bytes is {most}"
            raise Refused(KafkaError.MESSAGE_TOO_LARGE, why)
        if not _crc_matches(batch, 0, header):
            raise Refused(KafkaError.CORRUPT_MESSAGE, "the checksum does not match")
        refusal = _refusal(header, from_client)
        if refusal is not None:
            raise Refused(KafkaError.INVALID_RECORD, refusal)
        return header

    def _write(
        self,
        data: bytes | bytearray,
        headers: list[_Batch],
        markers: list[ControlRecord | None],
        now_ms: int,
    ) -> None:
        with self._storage():
            self._roll_if_due(len(data), headers, now_ms)
            self.active.append(data, headers, self.config.index_interval_bytes)
        news = [self.epochs.assign(h.partition_leader_epoch, h.base_offset) for _, h in headers]
        for (_position, header), marker in zip(headers, markers, strict=True):
            ended = self.producers.apply(header, marker)
            if ended is not None and ended.aborted:
                self.active.add_aborted(self.producers.aborted_entry(ended))
        if any(news):
            self._epochs_stale = True
            with suppress(OSError):  # `flush` must succeed with it, recovery can do without
                self.write_epochs()
        if self.end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush(now_ms)

    # ── rolling and flushing ──

    def _roll_if_due(self, size: int, headers: list[_Batch], now_ms: int) -> None:
        segment, config = self.active, self.config
        last_offset = headers[-1][1].last_offset
        too_far = last_offset - segment.base_offset > MOST_RELATIVE_OFFSET
        if too_far:
            self._roll_at(max(self.end_offset, last_offset - MOST_RELATIVE_OFFSET), now_ms)
        if too_far or segment.size == 0:
            return
        newest = max(header.max_timestamp for _, header in headers)
        age = (
            newest - segment.first_timestamp
            if newest != NO_TIMESTAMP and segment.first_timestamp not in (None, NO_TIMESTAMP)
            else now_ms - segment.created_ms
        )
        if (
            segment.size + size > config.segment_bytes
            or age > config.segment_ms
            or len(segment.offsets.data) >= config.segment_index_bytes
        ):
            self.roll(now_ms)

    def roll(self, now_ms: int) -> None:
        """Closes the active segment and starts a new one at the end."""
        if self.active.size > 0:
            self._roll_at(self.end_offset, now_ms)

    def _roll_at(self, base_offset: int, now_ms: int) -> None:
        """A new active segment; an empty one that indexes could not serve any more is replaced."""
        self.active.seal()
        self.take_snapshot()
        fresh = Segment.create(self.disk, self.directory, base_offset, now_ms)
        if self.active.size == 0:
            self._remove([self.segments.pop()])
        self.segments.append(fresh)

    def flush(self, now_ms: int) -> None:
        """Makes everything appended so far survive a crash of the machine."""
        with self._storage():
            self._sync()
        self.recovery_point = self.end_offset
        self.flushed_ms = now_ms

    def _sync(self) -> None:
        if self._epochs_stale:
            self.write_epochs()
        for segment in self.segments:
            if segment.end_offset >= self.recovery_point:
                segment.sync()
        self.disk.sync_directory(self.directory)

    @contextmanager
    def _storage(self) -> Iterator[None]:
        """A disk that fails is an answer to the client, not a bug."""
        try:
            yield
        except OSError as error:
            why = f"cannot write to {self.directory}: {error.strerror}"
            hint = "free or mend the disk, then try again"
            raise Refused(KafkaError.KAFKA_STORAGE_ERROR, why, hint) from error

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
        for segment in self._segments_from(offset):
            found = segment.find(offset)
            if found is None:
                continue  # cleaning has removed the end of this segment
            position, header = found
            if header.base_offset >= bound:
                return Read(None)
            limit = segment.size
            if bound < segment.end_offset:
                past = segment.find(bound)
                limit = past[0] if past else segment.size
            size = max(min(max_bytes, limit - position), min(header.size, limit - position))
            if size <= 0:
                return Read(None)
            piece = Slice(segment.log, position, size)
            if not committed:
                return Read(piece)
            upper = min(bound, segment.offset_after_position(position + size))
            return Read(piece, self.aborted_between(offset, max(upper, header.next_offset)))
        return Read(None)

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in [start, end) and a marker at or after `start`."""
        found: list[AbortedTransaction] = []
        for segment in self._segments_from(start):
            for entry in segment.aborted:
                if entry.last_offset >= start and entry.first_offset < end:
                    found.append(entry)
                if entry.last_stable_offset >= end:
                    return found
        return found

    def batches(
        self, start: int, end: int | None = None
    ) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """Every batch from the one that holds `start` on, with its segment and position."""
        for segment in self._segments_from(start):
            found = segment.find(start)
            if found is None:
                continue
            for position, header in segment.headers(found[0]):
                if end is not None and header.base_offset >= end:
                    return
                yield segment, position, header

    def _segments_from(self, offset: int) -> list[Segment]:
        index = max(0, sum(segment.base_offset <= offset for segment in self.segments) - 1)
        return self.segments[index:]

    # ── moving the ends ──

    def advance_high_watermark(self, offset: int) -> None:
        self.high_watermark = max(self.high_watermark, min(offset, self.end_offset))
        self.producers.high_watermark_reached(self.high_watermark)

    def delete_records(self, before: int, now_ms: int) -> int:
        """Forgets all records below an offset; returns the new log start."""
        if before > self.high_watermark:
            why = f"offset {before} is above the high watermark {self.high_watermark}"
            raise Refused(KafkaError.OFFSET_OUT_OF_RANGE, why)
        self._move_start(before)
        self.enforce_retention(now_ms)
        return self.log_start_offset

    def enforce_retention(self, now_ms: int) -> list[Segment]:
        """Removes segments that are too old, too many, or below the log start."""
        doomed = 0
        spare = self.size - self.config.retention_bytes
        for segment, after in zip(self.segments, [*self.segments[1:], None], strict=True):
            end = after.base_offset if after else segment.end_offset
            newest = segment.max_timestamp.timestamp
            last_touched = segment.created_ms if newest == NO_TIMESTAMP else newest
            deletes = self.config.deletes
            too_old = deletes and 0 <= self.config.retention_ms < now_ms - last_touched
            too_much = deletes and self.config.retention_bytes >= 0 and spare >= segment.size
            below_start = after is not None and end <= self.log_start_offset
            if segment.size == 0 or end > self.high_watermark:
                break
            if not (too_old or too_much or below_start):
                break
            spare -= segment.size
            doomed += 1
        if doomed == len(self.segments):
            self.roll(now_ms)  # there is always an active segment
        gone, self.segments = self.segments[:doomed], self.segments[doomed:]
        self._remove(gone)
        self._move_start(self.segments[0].base_offset)
        return gone

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drops every record at or after `offset`, and with it the whole batch that holds it.

        Go through `DataDirectory.truncate`: the recovery point on disk has to follow before the
        next append, or a crash would trust bytes that were never synced.
        """
        if offset >= self.end_offset:
            return
        if offset <= self.segments[0].base_offset:
            self.truncate_fully(offset, now_ms)
            return
        keep = [segment for segment in self.segments if segment.base_offset < offset]
        gone, self.segments = self.segments[len(keep) :], keep
        self._remove(gone)
        self.disk.sync_directory(self.directory)
        self.active.truncate(offset)
        self._after_truncation()

    def truncate_fully(self, start: int, now_ms: int) -> None:
        """Drops everything; the log is empty and begins at `start`."""
        gone, self.segments = self.segments, []
        self._remove(gone)
        self.segments = [Segment.create(self.disk, self.directory, start, now_ms)]
        self.log_start_offset = start
        self._after_truncation()

    def _after_truncation(self) -> None:
        # Snapshots beyond the new end tell of batches that are gone.
        for name in self.disk.names(self.directory):
            parsed = parse_segment_file(name)
            if parsed and parsed[1] == SNAPSHOT and parsed[0] > self.end_offset:
                self.disk.remove(f"{self.directory}/{name}")
        if self.epochs.cut_end(self.end_offset):
            self.write_epochs()
        self.recovery_point = min(self.recovery_point, self.end_offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)
        self.producers = rebuild_producers(
            self.disk, self.directory, self.segments, self.high_watermark
        )

    def _move_start(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        if self.epochs.cut_start(offset):
            self.write_epochs()

    def _remove(self, segments: list[Segment]) -> None:
        for segment in segments:
            segment.remove()
            self.disk.remove(f"{self.directory}/{segment_file(segment.base_offset, SNAPSHOT)}")

    # ── ending ──

    def close(self, now_ms: int) -> None:
        """Leaves the log so that opening it again needs no recovery."""
        self.active.seal()
        self.flush(now_ms)
        self.take_snapshot()
        for segment in self.segments:
            segment.close()

    def check(self) -> None:
        """What must always be true; tests and the simulator ask after every step."""
        bases = [segment.base_offset for segment in self.segments]
        assert bases == sorted(set(bases))
        assert self.log_start_offset >= 0
        for before, after in zip(self.segments, self.segments[1:], strict=False):
            assert before.end_offset <= after.base_offset
        assert self.recovery_point <= self.end_offset
        assert self.high_watermark <= self.end_offset
        assert self.last_stable_offset <= self.high_watermark
        self.producers.check_invariants()


def whole_batches_end(data: bytes | memoryview) -> int:
    """Where the last whole batch of `data` ends."""
    position = 0
    while position + 12 <= len(data):
        size = 12 + struct.unpack_from(">i", data, position + 8)[0]
        if size < 12 or position + size > len(data):
            break
        position += size
    return position


def _crc_matches(data: bytes | bytearray, position: int, header: BatchHeader) -> bool:
    view = memoryview(data)[position + CRC_START : position + header.size]
    return bool(crc32c(view) == header.crc)


def _set_append_time(batch: bytearray, header: BatchHeader, now_ms: int) -> None:
    struct.pack_into(">h", batch, 21, header.attributes | LOG_APPEND_TIME)
    struct.pack_into(">q", batch, 35, now_ms)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[CRC_START:]))


def _refusal(header: BatchHeader, from_client: bool) -> str | None:
    """Why a leader does not take this batch from a producer, or None."""
    if header.records_count != header.last_offset_delta + 1:
        return f"{header.records_count} records, but offsets for {header.last_offset_delta + 1}"
    if header.codec not in set(Codec):
        return f"compression codec {header.codec} does not exist"
    if header.is_control and from_client:
        return "a client may not write control batches"
    if header.has_producer and not header.is_control and header.base_sequence == NO_SEQUENCE:
        return f"producer {header.producer_id} sends no sequence number"
    if header.is_transactional and not header.has_producer:
        return "a transactional batch without a producer id"
    return None
