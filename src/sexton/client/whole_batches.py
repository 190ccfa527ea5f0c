"""How much of a broker's answer is whole batches, and at which offset do they end?

An answer may end in the middle of a batch. A few batches are hopped over here; for many there is a
kernel, 9 times as fast on batches of 16 KiB and 90 times on single records. Its machine code and
numpy take a fifth of a second to load, so it is called only where somebody reads so much that he
will want them anyway.
"""

from __future__ import annotations

from typing import NamedTuple

from sexton.records.layout import HEADER_BYTES, BatchHeader, header_fault

MANY_BYTES = 1 << 18


class Whole(NamedTuple):
    end: int  # of the last whole batch, in bytes
    next_offset: int  # after its last record
    fault: str | None  # what follows is no batch, and why not


def whole_batches(records: memoryview, offset: int) -> Whole:
    """Of what was asked for from `offset` on; the first batch may begin below it."""
    return _many(records, offset) if len(records) >= MANY_BYTES else few(records, offset)


def few(records: memoryview, offset: int) -> Whole:
    position, after = 0, offset
    while position + HEADER_BYTES <= len(records):
        header = BatchHeader.unpack(records, position)
        if (fault := header_fault(header)) is not None:
            return Whole(position, after, fault)
        if position + header.size > len(records):
            break
        position += header.size
        after = max(after, header.next_offset)
    return Whole(position, after, None)


def _many(records: memoryview, offset: int) -> Whole:
    from sexton.records.decoder import scan
    from sexton.records.tables import last_offsets

    batches = scan(records)
    after = max(offset, int(last_offsets(batches.headers).max(initial=-1)) + 1)
    return Whole(batches.end, after, None if batches.torn else batches.fault)
