"""Kernels at the edge of memory: a byte read or written outside a buffer ends this process.

    [ no access | ....the buffer | no access ]      every buffer a kernel gets ends at a page that
                                                    nobody may touch; inputs also begin at one

A program of its own, since what it looks for is a segmentation fault:

    python -m tests.property.guarded SEED ROUNDS       exits 0 if all went well
    python -m tests.property.guarded overread-python   these two must die
    python -m tests.property.guarded overread-kernel
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
import tempfile
from dataclasses import replace
from random import Random
from typing import Any, cast

import numpy as np

from sexton.base.errors import CorruptLog
from sexton.log import cleaner_pile, segment_writer, walking, workshop
from sexton.log.cleaner_chunk import Work
from sexton.log.cleaner_plan import Chunk
from sexton.log.cleaner_report import Tally
from sexton.log.disk import File
from sexton.log.memory_disk import MemoryDisk
from sexton.records import crc_kernels, decoder, encoder, inflating, kernels
from sexton.records.columns import Columns, Spans
from sexton.records.tables import Array
from tests.kafka_data import DATA
from tests.mutations import mutated, noise, unended

PAGE = mmap.PAGESIZE
ROOM = 1024 * PAGE
PLACES = 128  # buffers in use at the same time; then the first is used again
PART_BYTES = 64 << 10
MOST_INFLATED = 128 << 10

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PROT_NONE = 0


class Fences:
    """Stretches of memory, each between two pages without access."""

    def __init__(self) -> None:
        size = PAGE + PLACES * (ROOM + PAGE)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if start in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "mmap")
        self._starts = [start + PAGE + n * (ROOM + PAGE) for n in range(PLACES)]
        for fence in [start, *(place + ROOM for place in self._starts)]:
            if _libc.mprotect(fence, PAGE, _PROT_NONE) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")
        self._next = 0

    def room(self, size: int, *, at_start: bool = False) -> Array:
        """`size` bytes that end at a fence, or begin at one."""
        assert size <= ROOM, f"{size} bytes are too many for a guarded buffer"
        place = self._starts[self._next]
        self._next = (self._next + 1) % PLACES
        where = place if at_start else place + ROOM - size
        memory = (ctypes.c_uint8 * size).from_address(where)
        return np.ctypeslib.as_array(memory) if size else np.empty(0, np.uint8)

    def copy(self, data: bytes, *, at_start: bool = False) -> Array:
        array = self.room(len(data), at_start=at_start)
        array[:] = np.frombuffer(data, np.uint8)
        return array


class GuardedNumpy:
    """numpy, but what it allocates for a kernel ends at a fence and holds no friendly zeros."""

    def __init__(self, fences: Fences) -> None:
        self._fences = fences

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, size: int, kind: Any) -> Array:
        array = self._fences.room(size * np.dtype(kind).itemsize)
        array[:] = 0xAA
        return array.view(kind)

    def zeros(self, size: int, kind: Any) -> Array:
        array = self._fences.room(size * np.dtype(kind).itemsize)
        array[:] = 0
        return array.view(kind)

    def frombuffer(self, data: bytes | bytearray, kind: Any) -> Array:
        if isinstance(data, bytearray):
            return np.frombuffer(data, kind)  # somebody is going to write to it
        return self._fences.copy(bytes(data)).view(kind)


class GuardedWorkshop(workshop.Workshop):
    """Gives a cleaner exactly as much memory as it asks for, up to a fence."""

    def __init__(self, fences: Fences) -> None:
        super().__init__()
        self.inflater = inflating.Inflater(MOST_INFLATED)
        self._fences = fences

    def room(self, name: str, size: int) -> workshop.Room:
        del name
        array = self._fences.room(size)
        array[:] = 0xAA
        return workshop.Room(array, array.ctypes.data)

    def words(self, name: str, count: int) -> workshop.Room:
        array, place = self.room(name, 8 * count)
        return workshop.Room(array.view(np.int64), place)


class GuardedPile(cleaner_pile.Pile):
    def __init__(self, shop: GuardedWorkshop) -> None:
        super().__init__(MemoryDisk(), "spill", [])
        self._shop = shop
        self._last: Array = np.empty(0, np.uint8)

    def room(self, least: int) -> workshop.Room:
        given = self._shop.room("part", least)
        self._last = given.array
        return given

    def push(self, size: int) -> None:
        """The part is written to a segment at once, as a pass does in the end."""
        if size:
            writer = segment_writer.SegmentWriter(MemoryDisk(), "t-0", 0, 0, 100, "")
            writer.append(self._shop._fences.copy(self._last[:size].tobytes()))


def run(seed: int, rounds: int) -> int:
    """Reads, writes and cleans mutated segments between fences; returns how many rows it saw."""
    fences = Fences()
    for module in (decoder, encoder, inflating, segment_writer, walking):
        vars(module)["np"] = GuardedNumpy(fences)
    inflating.FIRST_BYTES = PAGE
    segments = [p.read_bytes() for p in sorted(DATA.rglob("*.log")) if 0 < p.stat().st_size < 5000]
    rows = 0
    for number in range(rounds):
        random = Random(seed * 1_000_003 + number)
        data = noise(random) if number % 4 == 0 else mutated(random, random.choice(segments))
        if number % 16 == 1:
            data = random.choice(segments)
        if number % 16 == 3:
            data = unended(random)
        for at_start in (False, True):
            found = decoder.scan(fences.copy(data, at_start=at_start))
            for check_crc in (True, False):
                reader = decoder.Decoder(most_inflated=MOST_INFLATED, part_bytes=PART_BYTES)
                for columns, _bad in reader.parts(found, check_crc=check_crc):
                    rows += len(columns)
                    _encode(columns)
                    for wild in _wild(columns, random):
                        _encode(wild)
        rows += _clean(fences, data, random)
    return rows


def _clean(fences: Fences, data: bytes, random: Random) -> int:
    """Cleans the whole batches of `data`, with matching checksums and any fate; the rows judged."""
    sealed = fences.copy(data)
    batches = decoder.scan(sealed)
    for position, size in zip(batches.position.tolist(), batches.size.tolist(), strict=True):
        kernels.seal(sealed.ctypes.data + position, size)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(CorruptLog):
            list(walking.walk(cast("File", _OnDisk(file.fileno(), data)), len(data), "a file"))
    if not len(batches):
        return 0
    generator = np.random.default_rng(random.getrandbits(32))
    fates = generator.choice([2, 2, 2 | 4, 1, 0, 1 | 16], len(batches)).astype(np.uint8)
    fates |= (generator.integers(0, 64, len(batches)) & (8 | 32)).astype(np.uint8)
    records = int(batches.headers["records_count"].astype(np.int64).sum())
    disk, shop = MemoryDisk(), GuardedWorkshop(fences)
    disk.open("a").append(sealed[: batches.end].tobytes())
    chunk = Chunk(0, 0, batches.end, fates, records)
    try:
        work = Work(shop, disk.open("a"), chunk, "a")
        if work.mark(shop.key_set(random.choice([64, 1024])), random.randrange(100), None):
            work.gather(random.getrandbits(random.choice([10, 63])), Tally(), GuardedPile(shop))
    except CorruptLog:
        return 0
    return len(work.marks)


class _OnDisk:
    """What `walk` needs of a file."""

    def __init__(self, descriptor: int, data: bytes) -> None:
        self._descriptor = descriptor
        self._data = data

    def fileno(self) -> int:
        return self._descriptor

    def read_at(self, position: int, size: int) -> bytes:
        return self._data[position : position + size]


def _encode(columns: Columns) -> None:
    try:
        encoder.encode(columns)
    except ValueError:
        pass  # refused: a span that ends outside its buffer, or a codec that does not exist


def _wild(columns: Columns, random: Random) -> list[Columns]:
    """The same with spans that point anywhere, and numbers that need their longest varints."""
    count = len(columns)
    generator = np.random.default_rng(random.getrandbits(32))
    lengths = columns.key.length.copy()
    chosen = generator.random(count) < 0.5
    lengths[chosen] = generator.choice([-1, 0, 1, 16, 17, -(2**31), 400], chosen.sum())
    positions = columns.key.position.copy()
    moved = generator.random(count) < 0.3
    positions[moved] = len(columns.key.data) + generator.integers(-40, 3, moved.sum())
    data = columns.key.data
    wild = replace(
        columns,
        offset=generator.integers(-(2**63), 2**63 - 1, count),
        written_timestamp=generator.integers(-(2**63), 2**63 - 1, count),
    )
    return [
        wild,
        replace(wild, key=Spans(data, positions, columns.key.length)),
        replace(wild, value=Spans(data, columns.key.position, lengths)),
        replace(wild, headers=Spans(data, positions, lengths)),
    ]


def overread_in_python() -> None:
    edge = Fences().copy(b"the end")
    ctypes.string_at(edge.ctypes.data, len(edge) + 1)


def overread_in_a_kernel() -> None:
    edge = Fences().copy(b"the end")
    start = edge.ctypes.data
    crc_kernels.crc32c(start, start + len(edge))  # up to the edge all is well
    print("at the edge", flush=True)
    crc_kernels.crc32c(start, start + len(edge) + 1)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["overread-python"]:
            overread_in_python()
        case ["overread-kernel"]:
            overread_in_a_kernel()
        case [seed, rounds]:
            print(run(int(seed), int(rounds)))
