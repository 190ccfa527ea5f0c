"""A message to bytes and back: `encode(message, version)`, `decode(FetchRequest, data, version)`.

Each pair of message class and version gets a reader and a writer, compiled when first used (in a
millisecond or two) and kept. Who is at fault says which exception to expect:

    PeerError     the bytes are no such message; it names the message, the version and the field
    Refused       UNSUPPORTED_VERSION: there is no such version, or it lacks a field that is set
    EncodeError   our own code built a message that no version could carry: a bug

Reading never copies the whole input. `records` are views of it, so they keep it alive, and a buffer
that is to be filled again must not be given here.
"""

from __future__ import annotations

from typing import TypeVar

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.protocol import reader, writer
from sexton.protocol.source import Compiled, has_records, title_of, view
from sexton.protocol.wire import Buffer, Message

M = TypeVar("M", bound=Message)

# A reader of bytes and one of memoryviews. What has records is always read from a view.
_READERS: dict[tuple[type[Message], int, bool], tuple[Compiled, bool]] = {}
_WRITERS: dict[tuple[type[Message], int], Compiled] = {}


class EncodeError(ValueError):
    """A field has a value that its type cannot hold."""


def encode(message: Message, version: int) -> bytes:
    """The bytes of a message, without any header."""
    return bytes(encode_into(bytearray(), message, version))


def encode_into(
    out: bytearray, message: Message, version: int, parts: list[Buffer] | None = None
) -> bytearray:
    """Append a message to `out`; given `parts`, keep large records out of it.

    With `parts`, what was written before the last large records is moved there, and the answer is
    the buffer with the rest: all parts and then the answer are the message. If it fails, `out` may
    hold the start of the message.
    """
    kind = type(message)
    write = _WRITERS.get((kind, version))
    if write is None:
        _check_version(kind, version)
        write = _WRITERS[kind, version] = writer.compile_writer(kind, version)
    try:
        written: bytearray = write.function(message, out, parts)
    except writer.NotInThisVersion as error:
        field = write.failed_at(error)[0][0].path
        why = f"{title_of(kind, version)} has no field {field}, but a value for it was given"
        raise Refused(KafkaError.UNSUPPORTED_VERSION, why) from None
    except writer.FAILURES as error:
        raise EncodeError(f"{title_of(kind, version)}: {writer.explain(error, write)}") from error
    return written


def decode(kind: type[M], data: Buffer, version: int, position: int = 0) -> M:
    """The message that starts at `position` and ends where `data` ends."""
    message, position = decode_from(kind, data, version, position)
    if position != len(data):
        more = len(data) - position
        raise PeerError(title_of(kind, version), f"{more} bytes follow the end of the message")
    return message


def decode_from(kind: type[M], data: Buffer, version: int, position: int) -> tuple[M, int]:
    """The message that starts at `position`, and where it ends."""
    given_bytes = type(data) is bytes
    found = _READERS.get((kind, version, given_bytes))
    if found is None:
        found = _READERS[kind, version, given_bytes] = _new_reader(kind, version, given_bytes)
    read, of_view = found
    if of_view:
        data = view(data)
    try:
        answer: tuple[M, int] = read.function(data, position)
    except reader.FAILURES as error:
        raise PeerError(title_of(kind, version), reader.explain(error, read, len(data))) from None
    return answer


def _new_reader(kind: type[Message], version: int, given_bytes: bool) -> tuple[Compiled, bool]:
    _check_version(kind, version)
    of_view = not given_bytes or has_records(kind)
    return reader.compile_reader(kind, version, of_view), of_view


def _check_version(kind: type[Message], version: int) -> None:
    if version not in kind.VALID_VERSIONS:
        first, last = kind.VALID_VERSIONS[0], kind.VALID_VERSIONS[-1]
        why = f"{kind.__name__} has versions {first} to {last}, not {version}"
        raise Refused(KafkaError.UNSUPPORTED_VERSION, why)
