"""May a large Produce be decoded?

Produce is the one request that may be large, because of its records. But a hundred megabytes of
empty topics would also be one, and take everybody a minute and gigabytes to decode. So before a
large one is decoded somebody walks over it, from topic to topic and past the records, and stops
where there are more parts than any client sends.

What is malformed is left to the decoder, which fails where this walk ends.
"""

from __future__ import annotations

import struct

from sexton.protocol.messages.produce import ProduceRequest
from sexton.protocol.wire import Buffer

MOST_PARTS = 20_000  # topics, partitions and tagged fields; each costs a microsecond or two
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_HEADER_BYTES = 8  # key, version, correlation id
_NAMES_UNTIL = 12  # after that, topics have ids


class _TooMany(Exception):
    pass


class _Walk:
    def __init__(self, data: Buffer) -> None:
        self.data = memoryview(data)
        self.at = _HEADER_BYTES
        self.version: int = _INT16.unpack_from(data, _INT16.size)[0]
        self.flexible = self.version in ProduceRequest.FLEXIBLE_VERSIONS
        self.left = MOST_PARTS

    def request(self) -> None:
        self._skip(self._int16())  # client id, which is never compact
        self._tags()
        self._skip(self._length(_INT16))  # transactional id
        self.at += 6  # acks, timeout
        for _ in range(self._count()):
            if self.version > _NAMES_UNTIL:
                self.at += 16
            else:
                self._skip(self._length(_INT16))
            for _ in range(self._count()):
                self.at += 4  # the partition
                self._skip(self._length(_INT32))  # its records
                self._tags()
            self._tags()

    def _skip(self, count: int) -> None:
        self.at += max(count, 0)

    def _int16(self) -> int:
        value: int = _INT16.unpack_from(self.data, self.at)[0]
        self.at += _INT16.size
        return value

    def _length(self, fixed: struct.Struct) -> int:
        if self.flexible:
            return self._varint() - 1
        value: int = fixed.unpack_from(self.data, self.at)[0]
        self.at += fixed.size
        return value

    def _count(self) -> int:
        return self._spend(self._length(_INT32))

    def _tags(self) -> None:
        if self.flexible:
            for _ in range(self._spend(self._varint())):
                self._varint()
                self._skip(self._varint())

    def _spend(self, count: int) -> int:
        self.left -= max(count, 0)
        if self.left < 0:
            raise _TooMany
        return count

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80 or shift > 28:
                return value
            shift += 7


def is_bearable(payload: Buffer) -> bool:
    """Whether a large Produce has so few parts that it is decoded soon."""
    try:
        _Walk(payload).request()
    except _TooMany:
        return False
    except (struct.error, IndexError):
        pass
    return True
