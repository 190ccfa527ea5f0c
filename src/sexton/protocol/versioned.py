"""Messages that say themselves, in two bytes at the start, what they are.

    a value in an internal topic       version, message
    what consumers tell each other     version, message
    a key in an internal topic         which kind of record, message

(The kind of a key was once its version, which is why OffsetCommitKey has two numbers: 0, the legacy
one, and 1. Keys have one version only, by design: two encodings of a key would be two keys.)
"""

from __future__ import annotations

import struct
from functools import cache
from importlib import import_module
from typing import Final, TypeVar

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.protocol.codec import decode, decode_from, encode_into
from sexton.protocol.wire import Buffer, Message, StoredKey, StoredValue

M = TypeVar("M", bound=Message)

_TYPE = struct.Struct(">h")
_KEY_VERSION: Final = 0
_MODULES: Final = {
    "__consumer_offsets": "sexton.protocol.coordinator.consumer_offsets",
    "__transaction_state": "sexton.protocol.coordinator.transaction_state",
}


def encode_versioned(message: Message, version: int) -> bytes:
    """The version, then the message in it."""
    return bytes(encode_into(bytearray(_TYPE.pack(version)), message, version))


def decode_versioned(kind: type[M], data: Buffer, *, from_the_future: bool = False) -> M:
    """The message, in the version that it says it has.

    `from_the_future`: a version higher than we know is read as the highest that we know, and what
    follows is left alone. So it is agreed for ConsumerProtocolSubscription and -Assignment.
    """
    version = _start(kind.__name__, data)
    if version not in kind.VALID_VERSIONS:
        if not (from_the_future and version > kind.VALID_VERSIONS[-1]):
            why = f"{kind.__name__} has no version {version}"
            raise Refused(KafkaError.UNSUPPORTED_VERSION, why)
        return decode_from(kind, data, kind.VALID_VERSIONS[-1], _TYPE.size)[0]
    return decode(kind, data, version, _TYPE.size)


def encode_key(key: StoredKey) -> bytes:
    """The key of a record in an internal topic."""
    return bytes(encode_into(bytearray(_TYPE.pack(key.RECORD_TYPE)), key, _KEY_VERSION))


def decode_key(topic: str, data: Buffer) -> StoredKey | None:
    """The key of a record in `__consumer_offsets` or `__transaction_state`.

    None if it is of a kind that we do not know: a newer Kafka, or share and streams groups.
    """
    keys, _ = _kinds(topic)
    kind = keys.get(_start(f"a key in {topic}", data))
    return None if kind is None else decode(kind, data, _KEY_VERSION, _TYPE.size)


def decode_value(topic: str, key: StoredKey, data: Buffer) -> StoredValue:
    """The value that belongs to a key."""
    _, values = _kinds(topic)
    return decode_versioned(values[key.RECORD_TYPE], data)


@cache
def _kinds(topic: str) -> tuple[dict[int, type[StoredKey]], dict[int, type[StoredValue]]]:
    keys: dict[int, type[StoredKey]] = {}
    values: dict[int, type[StoredValue]] = {}
    for kind in vars(import_module(_MODULES[topic])).values():
        if isinstance(kind, type) and issubclass(kind, StoredKey):
            keys[kind.RECORD_TYPE] = kind
        elif isinstance(kind, type) and issubclass(kind, StoredValue):
            values[kind.RECORD_TYPE] = kind
    return keys, values


def _start(subject: str, data: Buffer) -> int:
    if len(data) < _TYPE.size:
        raise PeerError(subject, f"it starts with 2 bytes, but here are {len(data)}")
    found: int = _TYPE.unpack_from(data)[0]
    return found
