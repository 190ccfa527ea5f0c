"""Python that writes Python, and afterwards knows which field each line was about.

A reader or writer is one function without calls for each field: a run of fixed-size fields is one
`struct.Struct`, a nested struct is inlined, an array is a loop. It is compiled on first use, as
`dataclasses` compiles its `__init__`. Here is what the two compilers share:

    Shape      the fields of a class in one version, sorted into those that are there and those not
    Source     lines of code, each with the field that it reads or writes
    Compiled   the function, which can tell from a traceback's line number what went wrong where

That last is why the code needs no bookkeeping while all goes well: `topics.partitions.offset` is
looked up in a list of lines when a read has already failed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, field
from types import FrameType
from typing import Any, Final

from sexton.base.lazy_dataclass import dataclass
from sexton.protocol.wire import Message, Wire, parse_versions, wire_fields

# The letter of `struct` for each type of fixed size.
FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
LONGEST_STRING: Final = 0x7FFF  # what fits the length of old; Kafka keeps to it in compact strings
_FEW = 256


class Malformed(Exception):
    """What is wrong with one field; whoever knows the message makes a better error of it."""


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a message or struct."""

    name: str
    wire: Wire
    default: Any  # a value; for a list or a struct that is made anew each time, NEW

    def nullable_in(self, version: int) -> bool:
        return version in parse_versions(self.wire.nullable)


NEW: Final = object()


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a class in one version."""

    present: tuple[Member, ...]  # in wire order
    tagged: tuple[Member, ...]  # by tag
    absent: tuple[Member, ...]

    @classmethod
    def of(cls, kind: type[Any], version: int, flexible: bool) -> Shape:
        present, tagged, absent = [], [], []
        for member in _members(kind):
            if version not in parse_versions(member.wire.versions):
                absent.append(member)
            elif member.wire.tag is None:
                present.append(member)
            else:
                assert flexible, f"{kind.__name__}.{member.name} has a tag, v{version} has none"
                tagged.append(member)
        tagged.sort(key=lambda member: member.wire.tag or 0)
        return cls(tuple(present), tuple(tagged), tuple(absent))


def _members(kind: type[Any]) -> list[Member]:
    return [
        Member(each.name, wire, NEW if each.default is MISSING else each.default)
        for each, wire in wire_fields(kind)
    ]


def has_records(kind: type[Any]) -> bool:
    """Whether there are record batches anywhere in it."""
    return any(
        member.wire.kind == "records"
        or (isinstance(member.wire.of, type) and has_records(member.wire.of))
        for member in _members(kind)
    )


@dataclass(frozen=True, slots=True)
class Item:
    """One of the fields that a line reads or writes at once."""

    path: str
    format: str
    variable: str = ""  # where it is: `n`, or `o3.error_code`


@dataclass(slots=True)
class Source:
    """The text of a function as it grows, and the names that it uses."""

    head: str
    names: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    about: list[tuple[Item, ...]] = field(default_factory=list)  # by line
    depth: int = 1
    variables: int = 0

    def __post_init__(self) -> None:
        self.lines.append(self.head)
        self.about.append(())

    def add(self, text: str, *items: Item) -> None:
        self.lines.append("    " * self.depth + text)
        self.about.append(items)

    @contextmanager
    def block(self, text: str, *items: Item) -> Iterator[None]:
        self.add(text, *items)
        self.depth += 1
        yield
        self.depth -= 1

    def variable(self, prefix: str) -> str:
        self.variables += 1
        return f"{prefix}{self.variables}"

    def constant(self, prefix: str, value: Any) -> str:
        """A global name of the function for `value`."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def compile(self, title: str) -> Compiled:
        code = compile("\n".join(self.lines), f"<{title}>", "exec")
        # Made of field names that `dataclass` has checked, and of nothing that came over the wire.
        exec(code, self.names)  # noqa: S102
        name = self.head.partition("(")[0].removeprefix("def ")
        return Compiled(self.names[name], "\n".join(self.lines), [(), *self.about])


@dataclass(frozen=True, slots=True)
class Compiled:
    function: Callable[..., Any]
    text: str
    about: list[tuple[Item, ...]]  # by line number

    def failed_at(self, error: BaseException) -> tuple[tuple[Item, ...], FrameType]:
        """What the function was about when it raised `error`, and its variables then."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code is not self.function.__code__:
            trace = trace.tb_next
        assert trace is not None, f"not raised here: {error!r}"
        return self.about[trace.tb_lineno], trace.tb_frame


def view(value: Any) -> memoryview:
    """Any buffer as one of bytes, so that its length is its length in bytes."""
    whole = memoryview(value)
    return whole if whole.format == "B" and whole.ndim == 1 else whole.cast("B")


def title_of(kind: type[Message], version: int) -> str:
    return f"{kind.__name__} v{version}"


class Structs(dict[int, Callable[..., Any]]):
    """`structs[n]` packs or unpacks n values of one format; those for small n are kept."""

    __slots__ = ("_format", "_method")

    def __init__(self, letter: str, method: str) -> None:
        self._format = letter
        self._method = method

    def __missing__(self, count: int) -> Callable[..., Any]:
        packer = struct.Struct(">" + _repeated(self._format, count))
        method: Callable[..., Any] = getattr(packer, self._method)
        if count < _FEW:
            self[count] = method
        return method


def _repeated(letter: str, count: int) -> str:
    return letter * count if letter[0].isdigit() else f"{count}{letter}"


UNPACKERS: Final = {name: Structs(letter, "unpack_from") for name, letter in FORMATS.items()}
PACKERS: Final = {name: Structs(letter, "pack") for name, letter in FORMATS.items()}
