"""Keys and values to bytes and back.

    "bytes"   as they are
    "str"     UTF-8
    "int"     8 bytes with the sign bit turned over, which sort as the numbers do: for stores, where
              a range of keys is then a range of numbers
    "int64"   8 bytes as Kafka's LongSerializer writes them: for topics that others read
    "json"    any value that JSON has

None is a null on the wire: a tombstone, as a value.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sexton.base.errors import ConfigError, CorruptLog

_INT = struct.Struct(">Q")
_INT64 = struct.Struct(">q")
_SIGN = 1 << 63
_BYTES = (bytes, bytearray, memoryview)


@dataclass(frozen=True, slots=True)
class Serde:
    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _bytes_in(value: Any) -> bytes:
    # Not all that bytes() takes: bytes(12) is twelve zeros, and nobody who writes 12 means them.
    if isinstance(value, _BYTES):
        return bytes(value)
    kind = type(value).__name__
    raise TypeError(
        f"the serde is 'bytes', and this is {kind}: name others for keys and values, as in "
        "store_serdes=('str', 'int') and output_serdes=('str', 'int64')"
    )


def _same(value: bytes) -> bytes:
    return value


def _text_in(value: str) -> bytes:
    return value.encode()


def _text_out(value: bytes) -> str:
    return value.decode()


def _int_in(value: int) -> bytes:
    return _INT.pack(value + _SIGN)


def _int_out(value: bytes) -> int:
    return _number(_INT, value) - _SIGN


def _int64_in(value: int) -> bytes:
    return _INT64.pack(value)


def _int64_out(value: bytes) -> int:
    return _number(_INT64, value)


def _number(form: struct.Struct, value: bytes) -> int:
    if len(value) != form.size:
        raise CorruptLog("an integer", f"has {len(value)} bytes, not {form.size}")
    number: int = form.unpack(value)[0]
    return number


def _json_in(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


SERDES: Final = {
    "bytes": Serde("bytes", _bytes_in, _same),
    "str": Serde("str", _text_in, _text_out),
    "int": Serde("int", _int_in, _int_out),
    "int64": Serde("int64", _int64_in, _int64_out),
    "json": Serde("json", _json_in, json.loads),
}


def serde_of(wanted: Serde | str) -> Serde:
    if isinstance(wanted, Serde):
        return wanted
    found = SERDES.get(wanted)
    if found is None:
        raise ConfigError("serde", f"there is no {wanted!r}", f"known: {', '.join(SERDES)}")
    return found
