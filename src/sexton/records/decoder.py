"""Bytes to columns.

    data ──scan──▶ Batches (positions, headers) ──Decoder.parts──▶ Columns, and what is unreadable

`scan` finds whole batches and says why it stopped. A `Decoder` turns their records into columns in
buffers that it uses again, so that reading a terabyte needs the memory of one chunk. Compressed
batches are inflated side by side into one buffer first; a part ends when that buffer is full.

A batch that cannot be read gives no rows and one `BadBatch`; the others are read all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sexton.base.errors import CorruptLog
from sexton.records.codecs import MOST_INFLATED_BYTES
from sexton.records.columns import Columns, Spans
from sexton.records.layout import (
    CODEC_MASK,
    HEADER_BYTES,
    MIN_RECORD_BYTES,
    BatchHeader,
    header_fault,
)
from sexton.records.tables import HEADER_TYPE, Array, HeaderTable, field, join, sizes

if TYPE_CHECKING:
    from sexton.records.inflating import Inflater

Data = bytes | bytearray | memoryview | Array

# Spans are 32-bit; nobody needs a chunk this large.
MOST_DATA_BYTES = (1 << 31) - 4096
# When this much has been inflated a part is decoded and its memory used again.
PART_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Batches:
    """Whole batches found in `data`, in order."""

    data: Array  # uint8
    position: Array  # int64, of each batch in data
    headers: HeaderTable
    end: int  # what follows is no whole batch
    fault: str | None  # why not; None if `data` ends here
    torn: bool = False  # it may be whole once more bytes follow

    def __len__(self) -> int:
        return len(self.headers)

    @property
    def size(self) -> Array:
        """Bytes of each batch, its header included."""
        return sizes(self.headers)

    def slice(self, start: int, stop: int) -> Batches:
        """These batches only, over the same bytes."""
        return replace(self, position=self.position[start:stop], headers=self.headers[start:stop])


@dataclass(frozen=True, slots=True)
class BadBatch:
    """A batch whose header is sound and whose content is not."""

    index: int  # among the batches given
    position: int  # of the batch in their data
    base_offset: int
    why: str
    crc: bool  # its checksum is wrong: the bytes changed after they were written


def as_array(data: Data) -> Array:
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    if len(array) > MOST_DATA_BYTES:
        raise ValueError(f"{len(array)} bytes at once; at most {MOST_DATA_BYTES} can be decoded")
    return array


def scan(data: Data) -> Batches:
    """The whole batches that `data` begins with."""
    from sexton.records import kernels
    from sexton.records.native import address

    array = as_array(data)
    positions: list[Array] = []
    tables: list[HeaderTable] = []
    end, fault, room = 0, kernels.OK, 1024
    while end < len(array) and fault == kernels.OK:
        room = min(room * 4, (len(array) - end) // HEADER_BYTES + 1)
        position, headers = np.empty(room, np.int64), np.empty(room, HEADER_TYPE)
        found, hopped, fault = kernels.scan(
            address(array) + end, len(array) - end, address(position), address(headers), room
        )
        positions.append(position[:found] + end)
        tables.append(headers[:found])
        end += hopped
    return Batches(
        array,
        np.concatenate(positions) if positions else np.empty(0, np.int64),
        join(tables),
        end,
        None if fault == kernels.OK else fault_in_words(fault, array.data[end:], len(array) - end),
        torn=fault in (kernels.SHORT_HEADER, kernels.TORN),
    )


def fault_in_words(fault: int, data: bytes | memoryview, left: int) -> str:
    """What `kernels.scan` has against the header that `data` begins with; `left` bytes follow."""
    from sexton.records import kernels

    if fault == kernels.SHORT_HEADER:
        return f"{left} bytes left, a batch header has {HEADER_BYTES}"
    header = BatchHeader.unpack(data)
    if fault == kernels.TORN:
        return f"the batch has {header.size} bytes and only {left} are there"
    why = header_fault(header)
    assert why is not None, "the kernel and layout have the same rules"
    return why


def decode(data: Data | Batches, where: str = "data", *, check_crc: bool = True) -> Columns:
    """All records of whole, sound batches; CorruptLog names the first that is not."""
    batches = data if isinstance(data, Batches) else scan(data)
    if batches.fault is not None:
        raise CorruptLog(f"{where} at byte {batches.end}", batches.fault)
    decoder = Decoder(part_bytes=MOST_DATA_BYTES)
    parts = list(decoder.parts(batches, where, check_crc=check_crc))
    assert len(parts) == 1, "one part holds everything up to MOST_DATA_BYTES"
    columns, bad = parts[0]
    if bad:
        raise CorruptLog(f"{where} at byte {bad[0].position}", bad[0].why)
    return columns


class Decoder:
    """Decodes again and again into the same memory: a part is valid until the next is asked for."""

    def __init__(
        self, *, part_bytes: int = PART_BYTES, most_inflated: int = MOST_INFLATED_BYTES
    ) -> None:
        self._part_bytes = part_bytes
        self._most_inflated = most_inflated
        self._rows = _RowBuffers()
        self._scratch = np.empty(0, np.uint8)
        self._inflater: Inflater | None = None

    def parts(
        self, batches: Batches, where: str = "data", *, check_crc: bool = True
    ) -> Iterator[tuple[Columns, list[BadBatch]]]:
        """The batches in one or more parts, in order. `BadBatch.index` counts within its part."""
        if not (field(batches.headers, "attributes") & CODEC_MASK).any():
            starts = batches.position + HEADER_BYTES
            ends = batches.position + batches.size
            status = np.zeros(len(batches), np.int32)
            yield self._decode(batches, batches.data, starts, ends, status, {}, check_crc)
            return
        yield from self._inflated_parts(batches, where, check_crc)

    def _inflated_parts(
        self, batches: Batches, where: str, check_crc: bool
    ) -> Iterator[tuple[Columns, list[BadBatch]]]:
        from sexton.records.inflating import Inflater

        if self._inflater is None:
            self._inflater = Inflater(self._most_inflated)
        status = _crc_status(batches, check_crc)
        first = 0
        while first < len(batches):
            plain = self._inflater.run(
                batches.data, batches.position[first:], status[first:] == 0, where, self._part_bytes
            )
            stop = first + len(plain.starts)
            for index in plain.faults:
                status[first + index] = -1
            yield self._decode(
                batches.slice(first, stop), plain.data, plain.starts, plain.ends,
                status[first:stop], plain.faults, with_crc=False,
            )  # fmt: skip
            first = stop

    def _decode(
        self,
        batches: Batches,
        data: Array,
        starts: Array,
        ends: Array,
        status: Array,
        why: dict[int, str],  # for status -1, found before the records were looked at
        with_crc: bool,
    ) -> tuple[Columns, list[BadBatch]]:
        from sexton.records import kernels
        from sexton.records.native import address

        data = as_array(data)
        counts = field(batches.headers, "records_count").astype(np.int64)
        # A count that cannot be true must not size an allocation; decode reports it.
        possible = (ends - starts) // MIN_RECORD_BYTES
        rows = self._rows.get(int(np.minimum(counts, possible).sum()))
        longest = int((ends - starts).max(initial=0)) + kernels.GUARD
        if len(self._scratch) < longest:
            self._scratch = np.empty(longest, np.uint8)
        first_row = np.empty(len(batches) + 1, np.int64)
        fault_at = np.zeros(len(batches), np.int64)
        starts, ends = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
        status = np.ascontiguousarray(status)
        headers = np.ascontiguousarray(batches.headers)
        decoded = kernels.decode(
            address(data), len(data), address(headers), address(starts), address(ends),
            len(batches), with_crc, address(self._scratch), address(first_row), address(status),
            address(fault_at), *(address(column) for column in rows),
        )  # fmt: skip
        columns = _columns(data, headers, first_row, [column[:decoded] for column in rows])
        bad = [
            _bad_batch(
                batches, index, int(status[index]), why, int(fault_at[index] - starts[index])
            )
            for index in np.flatnonzero(status).tolist()
        ]
        return columns, bad


def _crc_status(batches: Batches, check_crc: bool) -> Array:
    from sexton.records import kernels
    from sexton.records.native import address

    status = np.zeros(len(batches), np.int32)
    if check_crc:
        position = np.ascontiguousarray(batches.position)
        kernels.check_crcs(address(batches.data), address(position), len(batches), address(status))
    return status


def first_bad_crc(batches: Batches) -> int | None:
    """The base offset of the first batch whose bytes have changed, if any."""
    bad = np.flatnonzero(_crc_status(batches, check_crc=True))
    return int(batches.headers["base_offset"][bad[0]]) if len(bad) else None


def _columns(data: Array, headers: HeaderTable, first_row: Array, rows: list[Array]) -> Columns:
    offset, timestamp, key_at, key_len, value_at, value_len, headers_at, headers_len = rows
    return Columns(
        headers_of_batches=headers,
        first_row=first_row,
        offset=offset,
        written_timestamp=timestamp,
        key=Spans(data, key_at, key_len),
        value=Spans(data, value_at, value_len),
        headers=Spans(data, headers_at, headers_len),
    )


def _bad_batch(
    batches: Batches, index: int, status: int, why: dict[int, str], fault_at: int
) -> BadBatch:
    from sexton.records import kernels

    header = batches.headers[index]
    count = int(header["records_count"])
    words = {
        kernels.BAD_CRC: "the checksum does not match: the bytes changed after they were written",
        kernels.COUNT_TOO_LARGE: f"claims {count} records, too many for its bytes",
        kernels.BAD_RECORD_LENGTH: "a record's length is wrong",
        kernels.BAD_KEY: "a key ends outside its record",
        kernels.BAD_VALUE: "a value ends outside its record",
        kernels.BAD_HEADERS: "the headers of a record do not fill it",
        kernels.BAD_OFFSET_DELTA: "offsets do not increase within the batch's range",
        kernels.BYTES_LEFT: f"bytes are left after the {count} records it claims",
    }
    reason = why[index] if status == -1 else words[status]
    if status not in (-1, kernels.BAD_CRC):
        reason += f" (byte {fault_at} of its records)"
    return BadBatch(
        index=index,
        position=int(batches.position[index]),
        base_offset=int(header["base_offset"]),
        why=reason,
        crc=status == kernels.BAD_CRC,
    )


class _RowBuffers:
    """One array a column, grown as needed: fresh memory costs more than decoding into it."""

    _TYPES = (np.int64, np.int64, np.int32, np.int32, np.int32, np.int32, np.int32, np.int32)

    def __init__(self) -> None:
        self._columns: list[Array] = [np.empty(0, kind) for kind in self._TYPES]

    def get(self, rows: int) -> list[Array]:
        if len(self._columns[0]) < rows:
            self._columns = [np.empty(rows, kind) for kind in self._TYPES]
        return self._columns
