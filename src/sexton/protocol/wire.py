"""How does a field go on the wire? A message class says so itself, one specifier a field.

    @dataclass(slots=True)
    class CollectRequest(wire.Request["CollectResponse"]):
        API_KEY = 20_001
        VALID_VERSIONS = range(2)
        FLEXIBLE_VERSIONS = range(1, 2)

        leader_epoch: int = wire.int32(default=-1)
        reason: str | None = wire.string(default=None, versions="1+", nullable="1+")
        partitions: list[CollectPartition] = wire.array(CollectPartition)

A specifier carries what Kafka's schema files (`common/message/*.json`) say of a field: its type,
its default, the versions that have it, the versions in which it may be null, its tag (KIP-482), and
whether it may be left out silently when a version has no place for it (`ignorable`). It gives the
dataclass the default, and the codec the rest. The generated classes in `messages/` and any class
written by hand are the same thing to the codec.

Versions are written as in the schemas: `3` is one version, `3-5` and `3+` are ranges, `none` is no
version. A uuid is 16 bytes, as on the wire: it is hashed and compared on every fetch, and making a
`uuid.UUID` would take longer than reading all else about a topic. Bytes and records may be any
buffer when they are written; when they are read, bytes are `bytes`, and records are a view of the
frame they came in, not a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, field, fields
from functools import cache
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar, cast, overload

from sexton.base.lazy_dataclass import dataclass

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound="Response")

Buffer = bytes | bytearray | memoryview
ZERO_UUID: Final = bytes(16)


class Message:
    """Anything that is encoded in a version: requests, responses, headers, stored records."""

    __slots__ = ()

    VALID_VERSIONS: ClassVar[range]
    FLEXIBLE_VERSIONS: ClassVar[range]  # those with compact lengths and tagged fields (KIP-482)


class Request(Message, Generic[ResponseT]):
    """A request; its parameter is the class of the answer, so that a client's `send` has a type."""

    __slots__ = ()

    API_KEY: ClassVar[int]


class Response(Message):
    __slots__ = ()

    API_KEY: ClassVar[int]


class StoredKey(Message):
    """The key of a record in an internal topic: an int16 that says which kind, then the message."""

    __slots__ = ()

    RECORD_TYPE: ClassVar[int]


class StoredValue(Message):
    """The value of a record in an internal topic: an int16 version, then the message."""

    __slots__ = ()

    RECORD_TYPE: ClassVar[int]


class Versions(NamedTuple):
    """The versions `first` to `last`, both included; empty if `last` is lower."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSIONS: Final = Versions(0, -1)
_HIGHEST = 32767


@cache
def parse_versions(text: str) -> Versions:
    """`3`, `3-5`, `3+` or `none`."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), _HIGHEST)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


@dataclass(frozen=True, slots=True)
class Wire:
    """What the codec knows of a field. `of` is what an array or a struct consists of."""

    kind: str
    versions: str = "0+"
    nullable: str = "none"
    tag: int | None = None
    ignorable: bool = False
    compact: bool = True  # whether its length is compact in flexible versions
    of: str | type[Any] = ""


_KEY = "wire"
_EMPTY: Any = object()  # "the default is whatever is empty": a new list, a new struct


def _field(default: Any, wire: Wire) -> Any:
    # Typed as the value, as `dataclasses.field` itself is: a class body assigns it to `name: int`.
    if default is _EMPTY:
        factory = list if wire.kind == "array" else cast("type[Any]", wire.of)
        return field(default_factory=factory, metadata={_KEY: wire})
    return field(default=default, metadata={_KEY: wire})


def wire_fields(kind: type[Any]) -> list[tuple[Field[Any], Wire]]:
    """The fields of a message or struct, in wire order."""
    return [(each, each.metadata[_KEY]) for each in fields(kind)]


class Fixed(Generic[T]):
    """The specifier of a type with a fixed size, which is never null."""

    __slots__ = ("empty", "kind")

    def __init__(self, kind: str, empty: T) -> None:
        self.kind = kind
        self.empty = empty

    def __call__(
        self,
        default: T | None = None,
        *,
        versions: str = "0+",
        tag: int | None = None,
        ignorable: bool = False,
    ) -> T:
        wire = Wire(self.kind, versions, "none", tag, ignorable)
        return cast("T", _field(self.empty if default is None else default, wire))


class Sized(Generic[T]):
    """The specifier of a type with a length in front, which may be null."""

    __slots__ = ("empty", "kind")

    def __init__(self, kind: str, empty: T) -> None:
        self.kind = kind
        self.empty = empty

    @overload
    def __call__(
        self,
        default: T = ...,
        *,
        versions: str = ...,
        tag: int | None = ...,
        ignorable: bool = ...,
    ) -> T: ...
    @overload
    def __call__(
        self,
        default: T | None = ...,
        *,
        versions: str = ...,
        nullable: str,
        tag: int | None = ...,
        ignorable: bool = ...,
        compact: bool = ...,
    ) -> T | None: ...
    def __call__(
        self,
        default: Any = _EMPTY,
        *,
        versions: str = "0+",
        nullable: str = "none",
        tag: int | None = None,
        ignorable: bool = False,
        compact: bool = True,
    ) -> T | None:
        wire = Wire(self.kind, versions, nullable, tag, ignorable, compact)
        return cast("T | None", _field(self.empty if default is _EMPTY else default, wire))


bool_: Final = Fixed[bool]("bool", False)
int8: Final = Fixed[int]("int8", 0)
int16: Final = Fixed[int]("int16", 0)
int32: Final = Fixed[int]("int32", 0)
int64: Final = Fixed[int]("int64", 0)
uint16: Final = Fixed[int]("uint16", 0)
uint32: Final = Fixed[int]("uint32", 0)
float64: Final = Fixed[float]("float64", 0.0)
uuid: Final = Fixed[bytes]("uuid", ZERO_UUID)
string: Final = Sized[str]("string", "")
bytes_: Final = Sized[bytes]("bytes", b"")


def records(
    default: Buffer | None = None,
    *,
    versions: str = "0+",
    nullable: str = "none",
    ignorable: bool = False,
) -> Buffer | None:
    """Record batches, as `sexton.records` reads and writes them. Kafka's default is always null."""
    wire = Wire("records", versions, nullable, None, ignorable)
    return cast("Buffer | None", _field(default, wire))


@overload
def struct(
    of: type[T], *, versions: str = ..., tag: int | None = ..., ignorable: bool = ...
) -> T: ...
@overload
def struct(
    of: type[T],
    default: None = ...,
    *,
    versions: str = ...,
    nullable: str,
    tag: int | None = ...,
    ignorable: bool = ...,
) -> T | None: ...
def struct(
    of: type[T],
    default: Any = _EMPTY,
    *,
    versions: str = "0+",
    nullable: str = "none",
    tag: int | None = None,
    ignorable: bool = False,
) -> T | None:
    wire = Wire("struct", versions, nullable, tag, ignorable, of=of)
    return cast("T | None", _field(default, wire))


@overload
def array(
    of: Callable[..., T], *, versions: str = ..., tag: int | None = ..., ignorable: bool = ...
) -> list[T]: ...
@overload
def array(
    of: Callable[..., T],
    default: None = ...,
    *,
    versions: str = ...,
    nullable: str,
    tag: int | None = ...,
    ignorable: bool = ...,
) -> list[T] | None: ...
def array(
    of: Callable[..., T],
    default: Any = _EMPTY,
    *,
    versions: str = "0+",
    nullable: str = "none",
    tag: int | None = None,
    ignorable: bool = False,
) -> list[T] | None:
    """A list of structs, or of what another specifier describes: `wire.array(wire.int32)`."""
    element = of.kind if isinstance(of, Fixed | Sized) else cast("type[Any]", of)
    wire = Wire("array", versions, nullable, tag, ignorable, of=element)
    return cast("list[T] | None", _field(default, wire))
