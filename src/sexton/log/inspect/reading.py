"""A segment of any size, in the memory of one chunk.

A file is read in chunks; what a chunk ends with of a batch is carried over to the next one, and a
batch that is larger than a chunk makes the chunk grow. After the last whole batch comes the `Tail`:
nothing, as it should be; the zeros of a preallocated file; a batch that was torn when the machine
died; or bytes that are no batch, after which nobody can say where the next one would begin.

    file ──read──▶ chunk ──scan──▶ Chunk(batches) ──work, in a thread──▶ result ──▶ in order
                     ▲                   │
                     └──── carried over ─┘
"""

from __future__ import annotations

import errno
import os
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from sexton.log.inspect.paths import SegmentFile
from sexton.log.inspect.reporting import os_fault
from sexton.records import BadBatch, Batches, Columns, Decoder, scan
from sexton.records.decoder import first_bad_crc
from sexton.records.layout import HEADER_BYTES, LENGTH_END, MAGIC, magic_fault
from sexton.records.tables import Array

CHUNK_BYTES = 8 << 20
# Kafka's max.message.bytes is 1 MiB by default and some megabytes where people raised it. A length
# that claims more than this is damage, and must not make us allocate what it says.
MOST_BATCH_BYTES = 512 << 20
# Bytes that look like many long batches, one inside the other, must not keep us busy for ever.
MOST_CHECKED_BYTES = 256 << 20
MAGIC_AT = 16  # byte of a batch

Result = TypeVar("Result")
Advance = Callable[[int], None]  # told how many more bytes have been read


@dataclass(frozen=True, slots=True)
class Tail:
    """What a segment ends with, after its last whole batch."""

    kind: Literal["end", "preallocated", "torn", "damaged", "old-format", "unreadable"]
    position: int  # where the last whole batch ends
    size: int  # bytes that follow and were not understood
    why: str = ""

    @property
    def is_sound(self) -> bool:
        return self.kind in ("end", "preallocated")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some whole batches of a segment; its bytes are used again once it has been worked on."""

    position: int  # in the file, of the first byte of `batches.data`
    batches: Batches
    buffer: Array  # all of the memory that `batches.data` is the beginning of

    @property
    def file_position(self) -> Array:
        """Of each batch, in the file."""
        return self.batches.position + self.position

    @property
    def end(self) -> int:
        return self.position + self.batches.end


@dataclass(frozen=True, slots=True)
class Part:
    """The records of some batches of a chunk."""

    first: int  # which batch of the chunk is this part's first
    columns: Columns
    bad: list[BadBatch]  # `index` counts from `first`


def decoded(chunk: Chunk, decoder: Decoder, where: str) -> Iterator[Part]:
    """The records of a chunk; each part is valid until the next is asked for."""
    first = 0
    for columns, bad in decoder.parts(chunk.batches, where):
        yield Part(first, columns, bad)
        first += len(columns.headers_of_batches)


class SegmentReader:
    """Reads one file from front to back; `tail` is known when `chunks` has come to its end."""

    def __init__(
        self,
        file: Any,  # binary, unbuffered: has readinto
        size: int,
        buffers: list[Array] | None = None,  # memory to use again, shared between readers
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self.tail: Tail | None = None
        self._file = file
        self._size = size
        self._buffers = [] if buffers is None else buffers
        self._chunk_bytes = chunk_bytes

    def chunks(self) -> Iterator[Chunk]:
        """A chunk's memory is used again only after it was put back among the buffers."""
        try:
            yield from self._chunks()
        finally:
            self._file.close()

    def _chunks(self) -> Iterator[Chunk]:
        position, needed, carried = 0, 0, np.empty(0, np.uint8)
        while self.tail is None:
            buffer = self._buffer(max(needed, min(self._chunk_bytes, self._size + HEADER_BYTES)))
            buffer[: len(carried)] = carried
            filled = self._fill(buffer, len(carried))
            batches = scan(buffer[:filled])
            chunk = Chunk(position, batches, buffer)
            position = chunk.end
            # Copied before the chunk is handed on: whoever gets it may put its memory back.
            carried = buffer[batches.end : filled].copy()
            needed = _bytes_needed(carried)
            self.tail = self._tail(position, carried, batches, at_end=filled < len(buffer))
            if len(batches):
                yield chunk
            else:
                self._buffers.append(buffer)

    def _tail(self, position: int, rest: Array, batches: Batches, *, at_end: bool) -> Tail | None:
        """How the file ends, if it does, `rest` being what was read and is no whole batch."""
        if not rest.size:
            return Tail("end", position, 0) if at_end else None
        if at_end or not batches.torn:
            return self._judge(position, rest, batches)
        needed, left = _bytes_needed(rest), self._size - position
        if needed > max(left, len(rest)):
            why = f"the batch has {needed} bytes and only {left} are there"
            return _torn(position, left, self._read_on(rest), why)
        if needed > MOST_BATCH_BYTES:
            why = f"claims to be a batch of {needed} bytes, more than any producer sends"
            return Tail("damaged", position, left, why)
        return None

    def _buffer(self, size: int) -> Array:
        while self._buffers:
            buffer = self._buffers.pop()
            if len(buffer) >= size:
                return buffer
        return np.empty(size, np.uint8)

    def _fill(self, buffer: Array, filled: int) -> int:
        view = memoryview(buffer.data)
        while filled < len(buffer):
            count = self._file.readinto(view[filled:])
            if not count:
                break
            filled += count
        return filled

    def _judge(self, position: int, rest: Array, batches: Batches) -> Tail:
        """What stands where a batch should begin, `rest` being what was read of it."""
        size = max(self._size - position, len(rest))
        # Fewer zeros may be the beginning of an offset: a batch that was torn right at its start.
        if size >= 8 and not rest.any() and self._only_zeros_follow():
            return Tail("preallocated", position, size)
        why = batches.fault or "it is not a record batch"
        if batches.torn:
            return _torn(position, size, rest, why)
        magic = int(rest[MAGIC_AT])
        if magic in (0, 1):
            if _is_old_message(rest.tobytes()):
                return Tail("old-format", position, size, magic_fault(magic))
            why = f"magic byte is {magic}, not 2: this is not a record batch"
        return Tail("damaged", position, size, why)

    def _read_on(self, rest: Array) -> Array:
        """`rest` and as much of what follows as a chunk holds."""
        longer = np.empty(len(rest) + self._chunk_bytes, np.uint8)
        longer[: len(rest)] = rest
        return longer[: self._fill(longer, len(rest))]

    def _only_zeros_follow(self) -> bool:
        buffer = np.empty(1 << 20, np.uint8)
        while True:
            self._skip_hole()
            filled = self._fill(buffer, 0)
            if not filled:
                return True
            if buffer[:filled].any():
                return False

    def _skip_hole(self) -> None:
        """What was allocated and never written need not be read, if the file system can tell."""
        try:
            self._file.seek(self._file.tell(), os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                self._file.seek(0, os.SEEK_END)
        except (AttributeError, ValueError):
            pass  # not on this system, or no real file


def _bytes_needed(start: Array) -> int:
    """How long the batch is that begins here, as far as it can be known."""
    if len(start) < HEADER_BYTES:
        return HEADER_BYTES if len(start) else 0
    return LENGTH_END + int.from_bytes(start[8:12].tobytes(), "big", signed=True)


def _torn(position: int, size: int, rest: Array, why: str) -> Tail:
    """The batch that begins `rest` would end after the file: is the file short, or that length?

    A write that was cut off leaves nothing behind it. Sound batches there mean that a broker which
    "cuts the torn tail" would throw them away.
    """
    after = _next_sound_batch(rest)
    if after is None:
        return Tail("torn", position, size, why)
    return Tail(
        "damaged", position, size, f"{why}, but a whole batch follows at byte {position + after}"
    )


def _next_sound_batch(data: Array) -> int | None:
    """Where the first batch with the right checksum begins, after the first byte."""
    room = max(len(data) - HEADER_BYTES, 0)  # none begins after it
    start = np.flatnonzero(data[1 + MAGIC_AT : 1 + MAGIC_AT + room] == MAGIC) + 1
    length = np.zeros(len(start), np.int64)
    for byte in range(8, LENGTH_END):
        length = length << 8 | data[start + byte]
    size = length + LENGTH_END
    fits = (size >= HEADER_BYTES) & (start + size <= len(data))
    fits &= np.cumsum(np.where(fits, size, 0)) <= MOST_CHECKED_BYTES
    for at, count in zip(start[fits].tolist(), size[fits].tolist(), strict=True):
        batches = scan(data[at : at + count])
        if len(batches) == 1 and first_bad_crc(batches) is None:
            return int(at)
    return None


def _is_old_message(data: bytes) -> bool:
    """Is this really a message of format v0 or v1 (offset, size, CRC-32, magic ...)?"""
    size = int.from_bytes(data[8:12], "big", signed=True)
    if size < 14 or LENGTH_END + size > len(data):
        return False
    crc = int.from_bytes(data[12:16], "big")
    return crc == zlib.crc32(data[16 : LENGTH_END + size])


def open_segment(segment: SegmentFile, buffers: list[Array] | None = None) -> SegmentReader:
    """A reader of the file as it is now: a broker may have appended since it was listed."""
    file = segment.path.open("rb", buffering=0)
    return SegmentReader(file, os.fstat(file.fileno()).st_size, buffers)


# ── several chunks at a time ──


@dataclass(frozen=True, slots=True)
class Done(Generic[Result]):
    """What `work` made of a chunk."""

    segment: SegmentFile
    result: Result


Work = Callable[[SegmentFile, Chunk, Decoder], Result]


def work_through(
    segments: Iterable[SegmentFile],
    work: Work[Result],
    advance: Advance = lambda _count: None,
    workers: int | None = None,
) -> Iterator[Done[Result] | tuple[SegmentFile, Tail]]:
    """What `work` makes of every chunk, in the order of the log; each segment ends with its Tail.

    `work` runs in threads, several chunks at a time: decompression and our kernels let go of
    Python's lock. This thread reads, and hands results on.
    """
    count = workers or min(os.cpu_count() or 1, 8)
    buffers: list[Array] = []
    decoders = threading.local()

    def run(segment: SegmentFile, chunk: Chunk) -> Result:
        if not hasattr(decoders, "own"):
            decoders.own = Decoder()
        return work(segment, chunk, decoders.own)

    pool = ThreadPoolExecutor(count, "sexton-log")
    waiting: deque[tuple[SegmentFile, Chunk, Future[Result]]] = deque()

    def next_done() -> Done[Result]:
        segment, chunk, future = waiting.popleft()
        result = future.result()
        buffers.append(chunk.buffer)
        return Done(segment, result)

    try:
        for segment in segments:
            tail = Tail("end", 0, 0)
            read = 0
            try:
                reader = open_segment(segment, buffers)
                for chunk in reader.chunks():
                    waiting.append((segment, chunk, pool.submit(run, segment, chunk)))
                    advance(chunk.end - read)
                    read = chunk.end
                    if len(waiting) > count:
                        yield next_done()
                tail = reader.tail or tail
            except OSError as error:
                tail = Tail("unreadable", read, segment.size - read, os_fault(error))
            while waiting:
                yield next_done()
            advance(max(segment.size - read, 0))
            yield segment, tail
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
