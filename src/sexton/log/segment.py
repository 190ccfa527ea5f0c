"""A segment: a stretch of the log in one file, with its indexes beside it.

    00000000000000000120.log          batches, one after the other
                        .index        every 4 KiB or so: the offset of a batch and its position
                        .timeindex    the largest timestamp so far, and its offset
                        .txnindex     transactions whose ABORT marker is in this segment

The log file is the truth. An index that is lost or wrong is made again from it (`recovery`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sexton.base.errors import CorruptLog
from sexton.log.disk import Disk, File
from sexton.log.indexes import (
    AbortedTransaction,
    OffsetEntry,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
    pack_aborted,
    parse_aborted,
)
from sexton.log.names import LOG, OFFSET_INDEX, SEGMENT_SUFFIXES, TIME_INDEX, TRANSACTION_INDEX
from sexton.log.names import segment_file as file_name
from sexton.records.layout import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, hop_to, read_header

READ_BYTES = 1 << 20  # how much of a segment is read at once while it is walked through
FIRST_READ_BYTES = 8 << 10  # at first: from an index entry on, one batch is near
MOST_RELATIVE_OFFSET = (1 << 31) - 1  # indexes hold offsets as int32
_NO_TIME = TimeEntry(NO_TIMESTAMP, 0)


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of a segment's file, to be sent or read; its last batch may be cut, as in Kafka."""

    file: File
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size)


@dataclass(slots=True)
class Segment:
    disk: Disk
    directory: str
    base_offset: int
    created_ms: int
    log: File
    offsets: OffsetIndex
    times: TimeIndex
    aborted: list[AbortedTransaction]
    end_offset: int  # after the last batch
    max_timestamp: TimeEntry = _NO_TIME  # with the offset it was reached at
    first_timestamp: int | None = None  # of the first batch: how old is this segment?
    bytes_since_index: int = 0
    tail: str = ""  # of its file names: `.cleaned` or `.swap` until it takes its place
    _index_files: dict[str, File] = field(default_factory=dict)
    _stale_indexes: bool = False  # an index file could not be written; memory is right

    # ── making one ──

    @classmethod
    def create(
        cls, disk: Disk, directory: str, base_offset: int, now_ms: int, tail: str = ""
    ) -> Segment:
        """A new, empty segment, in place of anything an earlier life has left under its name."""
        for suffix in SEGMENT_SUFFIXES[1:]:
            disk.remove(f"{directory}/{file_name(base_offset, suffix)}{tail}")
        segment = cls.attach(disk, directory, base_offset, now_ms, tail)
        if segment.log.size:
            segment.log.truncate(0)
        return segment

    @classmethod
    def attach(
        cls, disk: Disk, directory: str, base_offset: int, now_ms: int, tail: str = ""
    ) -> Segment:
        """The segment with what is in its log file; indexes are empty until loaded or rebuilt."""
        log = disk.open(f"{directory}/{file_name(base_offset, LOG)}{tail}")
        return cls(
            disk,
            directory,
            base_offset,
            now_ms,
            log,
            OffsetIndex(),
            TimeIndex(),
            [],
            base_offset,
            tail=tail,
        )

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{file_name(self.base_offset, suffix)}{self.tail}"

    def rename(self, tail: str) -> None:
        """Gives all its files another tail, the log last: its name is what decides."""
        files = [s for s in reversed(SEGMENT_SUFFIXES) if self.disk.exists(self.path(s))]
        for suffix in files:
            old = self.path(suffix)
            self.disk.rename(old, f"{old.removesuffix(self.tail)}{tail}")
        self.tail = tail

    @property
    def size(self) -> int:
        return self.log.size

    def forget_indexes(self) -> None:
        """Back to nothing known of the log file's content, before it is read anew."""
        self.offsets, self.times, self.aborted = OffsetIndex(), TimeIndex(), []
        self.end_offset, self.bytes_since_index = self.base_offset, 0
        self.max_timestamp, self.first_timestamp = _NO_TIME, None
        for suffix in SEGMENT_SUFFIXES[1:]:
            file = self._index_files.pop(suffix, None)
            if file is not None:
                file.close()
            self.disk.remove(self.path(suffix))

    def load_indexes(self) -> None:
        """Reads the index files of a segment that was closed in good order."""
        if not self.disk.exists(self.path(OFFSET_INDEX)):
            raise CorruptLog(self.path(OFFSET_INDEX), "is missing")
        self.offsets = OffsetIndex.parse(self.disk.read(self.path(OFFSET_INDEX)))
        if self.disk.exists(self.path(TIME_INDEX)):
            self.times = TimeIndex.parse(self.disk.read(self.path(TIME_INDEX)))
        if self.disk.exists(self.path(TRANSACTION_INDEX)):
            where = self.path(TRANSACTION_INDEX)
            self.aborted = parse_aborted(self.disk.read(where), where)
        self._find_end()

    def adopt_indexes(
        self,
        offsets: bytes,
        times: bytes,
        aborted: list[AbortedTransaction],
        max_timestamp: TimeEntry,
    ) -> None:
        """Takes over what somebody has worked out for a log file just written, and writes it."""
        self.offsets, self.times = OffsetIndex.parse(offsets), TimeIndex.parse(times)
        assert (self.offsets.size_bytes, self.times.size_bytes) == (len(offsets), len(times))
        self.aborted = list(aborted)
        self.max_timestamp = max_timestamp
        self._write(OFFSET_INDEX, offsets)
        self._write(TIME_INDEX, times)
        self._write(TRANSACTION_INDEX, b"".join(map(pack_aborted, aborted)))

    def _find_end(self) -> None:
        """The end offset and largest timestamp, from the last index entries and what follows."""
        if len(self.times):
            self.max_timestamp = self.times[len(self.times) - 1]
        start = self.offsets[len(self.offsets) - 1].position if len(self.offsets) else 0
        if start >= self.size > 0:
            raise CorruptLog(self.path(OFFSET_INDEX), f"points to byte {start} of {self.size}")
        if not len(self.times):
            start = 0  # its file is lost, or no batch has a time
        for _position, header in self.headers(start):
            self.end_offset = header.next_offset
            if header.max_timestamp > self.max_timestamp.timestamp:
                relative = header.last_offset - self.base_offset
                self.max_timestamp = TimeEntry(header.max_timestamp, relative)
        if self.size:
            first = read_header(self.log.read_at(0, HEADER_BYTES), 0, self.path(LOG))
            self.first_timestamp = first.max_timestamp

    # ── writing ──

    def append(
        self,
        data: bytes | bytearray | memoryview,
        headers: list[tuple[int, BatchHeader]],
        interval: int,
    ) -> None:
        """Appends whole batches, given with their positions in `data`; all of them or none."""
        start = self.size
        try:
            self.log.append(data)
        except OSError:
            self.log.truncate(start)
            raise
        for position, header in headers:
            self.index(start + position, header, interval)

    def index(self, position: int, header: BatchHeader, interval: int) -> None:
        """Takes note of a written batch: with an index entry, if the last is far enough away."""
        last_offset = header.last_offset
        if header.max_timestamp > self.max_timestamp.timestamp:
            self.max_timestamp = TimeEntry(header.max_timestamp, last_offset - self.base_offset)
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        if self.bytes_since_index > interval:
            entry = OffsetEntry(last_offset - self.base_offset, position)
            self._write(OFFSET_INDEX, self.offsets.append(entry))
            self._write(TIME_INDEX, self.times.append(self.max_timestamp))
            self.bytes_since_index = 0
        self.bytes_since_index += header.size
        self.end_offset = last_offset + 1

    def add_aborted(self, entry: AbortedTransaction) -> None:
        self.aborted.append(entry)
        self._write(TRANSACTION_INDEX, pack_aborted(entry))

    def _write(self, suffix: str, data: bytes) -> None:
        """Appends to an index file. If that fails the batch is safe all the same; `sync` mends."""
        if not data:
            return
        try:
            if suffix not in self._index_files:
                self._index_files[suffix] = self.disk.open(self.path(suffix))
            self._index_files[suffix].append(data)
        except OSError:
            self._stale_indexes = True

    def rewrite_indexes(self) -> None:
        """Makes the index files equal to what is in memory."""
        contents = {
            OFFSET_INDEX: self.offsets.pack(),
            TIME_INDEX: self.times.pack(),
            TRANSACTION_INDEX: b"".join(map(pack_aborted, self.aborted)),
        }
        for suffix, content in contents.items():
            if content or self.disk.exists(self.path(suffix)):
                file = self._index_files.setdefault(suffix, self.disk.open(self.path(suffix)))
                file.truncate(0)
                file.append(content)
        self._stale_indexes = False

    # ── reading ──

    def headers(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a batch's start on."""
        stop = self.size if end is None else end
        window, window_start, want = b"", start, FIRST_READ_BYTES
        position = start
        while position < stop:
            if position + HEADER_BYTES > window_start + len(window):
                window, window_start = self.log.read_at(position, want), position
                want = min(2 * want, READ_BYTES)
            header = self._header(window, position - window_start, position)
            yield position, header
            position += header.size

    def batches(self, start: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Each whole batch from a batch's start on, with its bytes; CorruptLog if one is not."""
        window, window_start = memoryview(b""), start
        position = start
        while position < self.size:
            if position + HEADER_BYTES > window_start + len(window):
                window, window_start = memoryview(self.log.read_at(position, READ_BYTES)), position
            header = self._header(window, position - window_start, position)
            left = self.size - position
            if header.size > left:
                why = f"the batch has {header.size} bytes and only {left} are there"
                raise CorruptLog(f"{self.path(LOG)} at byte {position}", why)
            if position + header.size > window_start + len(window):
                size = max(header.size, READ_BYTES)
                window, window_start = memoryview(self.log.read_at(position, size)), position
            begin = position - window_start
            yield position, header, window[begin : begin + header.size]
            position += header.size

    def find(self, offset: int, start: int = 0) -> tuple[int, BatchHeader] | None:
        """The first batch that ends at or after `offset`, or None if there is none here.

        Looks from `start` on, where a batch begins, if no index entry is nearer.
        """
        position = max(start, self.offsets.position_before(offset - self.base_offset))
        want = FIRST_READ_BYTES
        while position < self.size:
            window = self.log.read_at(position, want)
            place = hop_to(window, 0, offset)
            if place + HEADER_BYTES <= len(window) or place == 0:
                return position + place, self._header(window, place, position + place)
            position += place
            want = min(2 * want, READ_BYTES)
        return None

    def _header(self, window: bytes | memoryview, place: int, position: int) -> BatchHeader:
        """The header at `place` of a window of the log file, which is at `position` of the file."""
        try:
            return read_header(window, place, "")
        except CorruptLog as error:  # a path is long to spell out, and seldom needed
            raise CorruptLog(f"{self.path(LOG)} at byte {position}", error.why) from None

    def offset_after_position(self, position: int) -> int:
        """An offset that no batch before `position` reaches, near enough to it."""
        found = self.offsets.offset_after(position)
        return self.end_offset if found is None else self.base_offset + found

    # ── ending ──

    def sync(self) -> None:
        if self._stale_indexes:
            self.rewrite_indexes()
        for file in self._index_files.values():
            file.sync()
        self.log.sync()

    def seal(self) -> bool:
        """No more appends: the last time entry is written. Was there one, that is to be synced?"""
        news = b""
        if self.max_timestamp.timestamp != NO_TIMESTAMP:
            news = self.times.append(self.max_timestamp)
            self._write(TIME_INDEX, news)
        for suffix in (OFFSET_INDEX, TIME_INDEX):  # Kafka expects both, even empty
            self._index_files.setdefault(suffix, self.disk.open(self.path(suffix)))
        return bool(news)

    def truncate(self, offset: int) -> None:
        """Drops the batch that holds `offset` and all after it."""
        found = self.find(offset)
        if found is None:
            return
        position, header = found
        self.log.truncate(position)
        self.offsets.truncate(header.base_offset - self.base_offset)
        self.times.truncate(header.base_offset - self.base_offset)
        self.aborted = [e for e in self.aborted if e.last_offset < header.base_offset]
        self.rewrite_indexes()
        self.end_offset = self.base_offset
        self.max_timestamp = _NO_TIME
        self.first_timestamp = None
        self._find_end()
        last = self.offsets[len(self.offsets) - 1].position if len(self.offsets) else 0
        self.bytes_since_index = self.size - last
        self.sync()  # a power cut must not bring back the old end under a new one

    def close(self) -> None:
        self.log.close()
        self.close_indexes()

    def close_indexes(self) -> None:
        """They are in memory, too, and a log may have thousands of segments that nobody appends to.

        Only after `sync`, which does not look at files that are closed.
        """
        for file in self._index_files.values():
            file.close()
        self._index_files = {}

    def remove(self, *, log_last: bool = False) -> None:
        """Removes the files. Nothing is closed: a reader may still hold a `Slice` of the log."""
        for suffix in reversed(SEGMENT_SUFFIXES) if log_last else SEGMENT_SUFFIXES:
            self.disk.remove(self.path(suffix))
