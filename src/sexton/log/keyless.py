"""Has every record of a batch a key? A compacted topic takes no other: nothing could replace it.

    length  attributes  timestamp delta  offset delta  key length ...   varints, but for attributes

Only the first bytes of each record are looked at.
"""

from __future__ import annotations

from sexton.base.errors import CorruptLog
from sexton.records.varints import get_varint

_NO_KEY = 1  # the varint -1


def first_keyless(records: bytes, count: int, where: str) -> int | None:
    """Its place in the batch, from 0; CorruptLog if records do not lie where they should."""
    begin = 0
    try:
        for number in range(count):
            length, place = get_varint(records, begin)
            if length < 0:
                raise IndexError
            begin = place + length
            place += 1  # attributes
            while records[place] >= 0x80:  # timestamp
                place += 1
            place += 1
            while records[place] >= 0x80:  # offset
                place += 1
            if records[place + 1] == _NO_KEY:
                return number
    except IndexError:
        raise CorruptLog(where, f"ends within {count} records") from None
    return None
