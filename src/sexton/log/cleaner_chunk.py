"""One chunk of a log while it is judged and written: bytes in, fewer bytes out.

    raw batches ──inflate──▶ records ──mark──▶ what stays ──gather──▶ ──deflate──▶ on the pile

Every step is a kernel that sees the whole chunk at once, in memory that the next chunk uses again
(`workshop`). A chunk that has changed since the plan was made, because somebody else has cut the
file, is as bad as a damaged one.
"""

from __future__ import annotations

import numpy as np

from sexton.base.errors import CorruptLog
from sexton.log import cleaner_kernels as kernels
from sexton.log import gather_kernels
from sexton.log.cleaner_pile import Pile
from sexton.log.cleaner_plan import Chunk
from sexton.log.cleaner_report import Tally
from sexton.log.disk import File
from sexton.log.workshop import KeySet, Room, Workshop
from sexton.records import lz4_kernels
from sexton.records.decoder import MOST_DATA_BYTES
from sexton.records.encoder import compressed
from sexton.records.kernels import BAD_CRC, GUARD, check_crcs
from sexton.records.layout import Codec
from sexton.records.liblz4 import find_lz4
from sexton.records.native import address
from sexton.records.tables import Array

_ROW_BYTES = 24  # what `mark` notes of a record: hash, slot, offset delta


class Work:
    """One chunk; `where` is the name of its file."""

    def __init__(self, shop: Workshop, file: File, chunk: Chunk, where: str) -> None:
        self._shop = shop
        self._where = where
        self._count = count = len(chunk.fates)
        self._size = size = chunk.end - chunk.start
        self._records = chunk.records
        self._fates = np.ascontiguousarray(chunk.fates)
        self._fates_at = address(self._fates)
        self._raw = shop.room("raw", size)
        got = file.read_into(chunk.start, self._raw.array[:size].data)
        self._position = shop.words("position", count)
        self._starts, self._ends = shop.words("starts", count), shop.words("ends", count)
        found, codecs = kernels.lay_out(
            self._raw.address, got, count, self._position.address, self._starts.address,
            self._ends.address,
        )  # fmt: skip
        if found != count or got != size:
            raise CorruptLog(f"{where} at byte {chunk.start}", "has changed while it was cleaned")
        self._packed = bool(codecs & ~(1 << Codec.NONE))
        self._only_lz4 = not codecs & ~(1 << Codec.NONE | 1 << Codec.LZ4)
        self._data, self._data_size = self._raw.address, size
        self._first_row = shop.words("first_row", count)
        self._marks, self._rows = self._raw, 0

    # ── what stays? ──

    def mark(self, keys: KeySet, bound: int, before: Array | None) -> bool:
        """Judges every record; False if the set is too small, and then nothing is certain.

        `before` are the marks of an earlier reading, for other parts of the keys.
        """
        if self._packed:
            self._inflate(check=before is None)
        self._rows, most_rows, longest = kernels.count_rows(
            self._raw.address, self._position.address, self._starts.address, self._ends.address,
            self._fates_at, self._count, self._first_row.address,
        )  # fmt: skip
        if self._rows < 0:
            raise self._corrupt(-1 - self._rows, "claims more records than it has bytes for")
        self._marks = self._shop.room("marks", self._rows)
        if before is None:
            self._marks.array[: self._rows] = 0
        else:
            self._marks.array[: self._rows] = before
        keys.used, left, fault = kernels.mark(
            self._raw.address, self._position.address, self._data, self._data_size,
            self._starts.address, self._ends.address, self._fates_at, self._count,
            self._first_row.address, self._marks.address, before is None and not self._packed,
            keys.seed, keys.table.address, keys.slots, keys.used, keys.most, keys.part, keys.parts,
            bound, self._shop.room("batch", longest + GUARD).address,
            self._shop.room("rows", most_rows * _ROW_BYTES).address, most_rows,
        )  # fmt: skip
        if fault == BAD_CRC:
            raise self._corrupt(left - 1, "the checksum does not match")
        if fault:
            raise self._corrupt(left - 1, "its records cannot be read")
        return not left

    @property
    def marks(self) -> Array:
        """A copy of what `mark` has found out."""
        return self._marks.array[: self._rows].copy()

    def _inflate(self, *, check: bool) -> None:
        """The plain records of each batch, side by side; first its checksum is looked at."""
        raw, position = self._raw.array[: self._size], self._position.array[: self._count]
        if check:
            status = np.zeros(self._count, np.int32)
            if check_crcs(self._raw.address, self._position.address, self._count, address(status)):
                raise self._corrupt(int(status.argmax()), "the checksum does not match")
        fate = self._fates & kernels.FATE
        codecs = raw[position + 22] & 7  # the low byte of a batch's attributes
        wanted = (fate == kernels.DEDUPLICATE) | (codecs == Codec.NONE)
        plain = self._shop.inflater.run(raw, position, wanted, self._where, MOST_DATA_BYTES)
        for index, why in plain.faults.items():
            raise self._corrupt(index, why)
        self._data, self._data_size = address(plain.data), len(plain.data)
        self._starts.array[: self._count] = plain.starts
        self._ends.array[: self._count] = plain.ends

    def _corrupt(self, batch: int, why: str) -> CorruptLog:
        place = int(self._position.array[batch])
        offset = int.from_bytes(self._raw.array[place : place + 8].tobytes(), "big")
        return CorruptLog(f"{self._where}, batch at offset {offset}", why)

    # ── the bytes of it ──

    def gather(self, horizon: int, tally: Tally, pile: Pile) -> None:
        """Puts what stays on the pile."""
        # A rebuilt record may need a longer time delta and a longer length.
        room = self._size + 16 * self._rows + GUARD
        if self._packed:
            out = self._shop.room("out", room + self._data_size)
        else:
            out = pile.room(room)
        sizes, kinds = self._shop.words("sizes", self._count), self._shop.room("kinds", self._count)
        counted = self._shop.words("counted", gather_kernels.TALLY_WORDS)
        counted.array[: gather_kernels.TALLY_WORDS] = 0
        written = gather_kernels.gather(
            self._raw.address, self._position.address, self._data, self._starts.address,
            self._fates_at, self._count, self._first_row.address, self._marks.address, horizon,
            out.address, sizes.address, kinds.address, counted.address,
        )  # fmt: skip
        if self._packed:
            written = self._deflate(out, written, sizes, kinds, pile)
        pile.push(written)
        tally.records_read += self._records
        tally.bytes_read += self._size
        tally.bytes_written += written
        _add(tally, counted.array.tolist())

    def _deflate(self, plain: Room, size: int, sizes: Room, kinds: Room, pile: Pile) -> int:
        """Compresses what was inflated and has changed; returns the size of all."""
        position = self._position.array[: self._count]
        codecs = self._raw.array[position + 22] & 7
        again = (codecs != Codec.NONE) & (kinds.array[: self._count] == gather_kernels.REBUILT)
        lz4 = find_lz4()
        if lz4 is not None and self._only_lz4:
            flags = again.astype(np.uint8)
            blocks = size // lz4_kernels.BLOCK + self._count
            room = size + 16 * self._count + 4 * blocks + GUARD
            written: int = lz4_kernels.deflate(
                plain.address, sizes.address, address(flags), self._count,
                pile.room(room).address, room, lz4.compress,
            )  # fmt: skip
            assert written >= 0
            return written
        parts: list[bytes | bytearray | memoryview] = []
        place = 0
        each = zip(
            sizes.array[: self._count].tolist(), codecs.tolist(), again.tolist(), strict=True
        )
        for length, codec, changed in each:
            batch = plain.array.data[place : place + length]
            place += length
            parts.append(compressed(batch, codec) if changed else batch)
        whole = b"".join(parts)
        pile.room(len(whole)).array[: len(whole)] = np.frombuffer(whole, np.uint8)
        return len(whole)


def _add(tally: Tally, counted: list[int]) -> None:
    tally.superseded += counted[gather_kernels.SUPERSEDED]
    tally.aborted += counted[gather_kernels.ABORTED]
    tally.tombstones += counted[gather_kernels.TOMBSTONES]
    tally.markers += counted[gather_kernels.MARKERS]
    tally.without_key += counted[gather_kernels.KEYLESS]
    tally.empty_batches += counted[gather_kernels.EMPTY_BATCHES]
