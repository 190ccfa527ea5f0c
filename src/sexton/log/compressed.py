"""Can anybody read what a producer has compressed?

A batch whose records cannot be inflated, or are not as many as its header says, stops every
consumer that comes to it, and there is no way past it. Its checksum is right, for it was damaged
before that was made. So it is refused while whoever made it is still there to be told.

    length ──▶ length ──▶ length ──▶ the end, after as many records as the header claims

That is less than Kafka looks at (it reads all of a record but its key and value), and takes a fifth
of a microsecond for each. What is not compressed is not walked through: there is no codec between
it and its producer.
"""

from __future__ import annotations

from sexton.base.errors import CorruptLog
from sexton.records.codecs import inflate
from sexton.records.layout import HEADER_BYTES, MIN_RECORD_BYTES, BatchHeader
from sexton.records.varints import get_varint

_LEAST = MIN_RECORD_BYTES - 1  # without its length


def plain_records(batch: bytes | bytearray | memoryview, header: BatchHeader, where: str) -> bytes:
    """The records of a compressed batch; CorruptLog if there are others than it claims."""
    section = bytes(memoryview(batch)[HEADER_BYTES : header.size])
    records = inflate(header.codec, section, where)
    claimed = header.records_count
    end = len(records)
    place = 0
    try:
        for _ in range(claimed):
            length = records[place]  # as a varint, twice the number
            if length < 0x80:
                place += 1
            elif (high := records[place + 1]) < 0x80:  # a call would take as long as all the rest
                length, place = (length & 0x7F) | high << 7, place + 2
            else:
                number, place = get_varint(records, place)
                length = 2 * number
            if length & 1 or length < 2 * _LEAST:
                raise CorruptLog(where, f"a record's length is wrong (byte {place})")
            place += length >> 1
    except IndexError:
        place = end + 1
    if place != end:
        why = f"ends within {claimed} records" if place > end else f"has more than {claimed}"
        raise CorruptLog(where, f"{why}, as it claims")
    return records
