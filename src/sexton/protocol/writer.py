"""A message class and a version become a function that appends a message to a bytearray.

For `FetchRequest` v12 it has lines like these, P9 and P10 being `struct.Struct`s with and without
room for the one byte that a short length takes:

    v = o1.topics
    n = len(v) + 1
    if n < 128: out += P9(o1.replica_id, o1.max_wait_ms, ..., n)
    else:
        out += P10(o1.replica_id, o1.max_wait_ms, ...)
        put_varint(out, n)
    for o2 in v:
        ...

Kafka's rules for what a version has no place for: a field that is `ignorable` is left out; any
other must have its default, or the message cannot be sent in this version. A tagged field is left
out if it has its default.

A writer does not split a message, unless it is given a list of parts: then records of some size are
not copied but become a part of their own, for a socket that takes many buffers at once.
"""

from __future__ import annotations

import reprlib
import struct
from types import FrameType
from typing import Any, Final

from sexton.protocol.source import (
    FORMATS,
    LONGEST_STRING,
    NEW,
    PACKERS,
    Compiled,
    Item,
    Malformed,
    Member,
    Shape,
    Source,
    title_of,
    view,
)
from sexton.protocol.wire import Message, Wire

WORTH_A_PART: Final = 4096  # below that, copying is cheaper than another buffer in a system call

# What a writer raises when a value does not fit its field.
FAILURES: Final = (
    Malformed,
    struct.error,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    BufferError,
)


class NotInThisVersion(Exception):
    """A field has a value, and this version has no place for it."""


def compile_writer(kind: type[Message], version: int) -> Compiled:
    """`write(message, out, parts)` appends to `out`, and returns what `out` has become."""
    return _Writer(version, version in kind.FLEXIBLE_VERSIONS).message(kind)


def explain(error: BaseException, compiled: Compiled) -> str:
    """Which field has a value that cannot be written, and why."""
    items, frame = compiled.failed_at(error)
    values = [_value(item, frame) for item in items]
    for item, value in zip(items, values, strict=True):
        if isinstance(error, struct.error) and item.format not in ("", "x"):
            try:
                struct.pack(">" + item.format, value)
            except struct.error as why:
                return f"{item.path}: {why} (it is {reprlib.repr(value)})"
    return f"{items[0].path}: {error} (it is {reprlib.repr(values[0])})"


def _value(item: Item, frame: FrameType) -> object:
    owner, _, name = item.variable.partition(".")
    value = frame.f_locals.get(owner)
    return getattr(value, name, value) if name else value


class _Writer:
    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = Source("def write(o0, out, parts):", dict(_HELPERS))
        self.out = "out"
        self.run: list[Item] = []  # fields of fixed size that wait to be written together

    def message(self, kind: type[Message]) -> Compiled:
        self.object("o0", kind, "")
        self.flush()
        self.source.add("return out")
        return self.source.compile(f"{title_of(kind, self.version)} writer")

    def object(self, o: str, kind: type[Any], path: str) -> None:
        """Writes the message or struct that the variable `o` holds."""
        shape = Shape.of(kind, self.version, self.flexible)
        for member in shape.absent:
            if not member.wire.ignorable:
                item = Item(path + member.name, "", f"{o}.{member.name}")
                condition = self.differs(f"{o}.{member.name}", member)
                self.source.add(f"if {condition}: raise NotInThisVersion", item)
        for member in shape.present:
            self.member(f"{o}.{member.name}", member, path + member.name)
        if self.flexible:
            self.tags(o, shape, path)

    def differs(self, value: str, member: Member) -> str:
        """An expression for: the value is not the field's default."""
        wire = member.wire
        if member.default is None:
            return f"{value} is not None"
        if wire.kind == "struct":
            assert isinstance(wire.of, type)
            shape = Shape.of(wire.of, self.version, self.flexible)
            every = (*shape.present, *shape.tagged, *shape.absent)
            test = " or ".join(self.differs(f"{value}.{each.name}", each) for each in every)
            test = f"({test or False})"
        elif member.default is NEW or wire.kind == "bytes":
            test = f"len({value})"
        else:
            return f"{value} != {member.default!r}"
        return f"({value} is None or {test})" if wire.nullable != "none" else test

    def member(self, value: str, member: Member, path: str) -> None:
        nullable = member.nullable_in(self.version)
        match member.wire.kind:
            case "string" | "bytes" | "records":
                self.sized(value, member.wire, nullable, path)
            case "array":
                self.array(value, member.wire, nullable, path)
            case "struct":
                self.struct(value, member.wire, nullable, path)
            case kind:
                item = Item(path, FORMATS[kind], value)
                if kind == "uuid":  # a struct would pad or cut it silently
                    self.source.add(f"if len({value}) != 16: raise not_a_uuid()", item)
                self.run.append(item)

    def flush(self) -> None:
        """Write the fields that wait, with one call."""
        if self.run:
            items, self.run = tuple(self.run), []
            self.source.add(f"{self.out} += {self.packed(items)}", *items)

    def packed(self, items: tuple[Item, ...]) -> str:
        """An expression for the bytes of fields of fixed size."""
        packer = struct.Struct(">" + "".join(item.format for item in items))
        values = ", ".join(item.variable for item in items if item.variable)
        if not values:
            return self.source.constant("Z", bytes(packer.size))
        return f"{self.source.constant('P', packer.pack)}({values})"

    def length(self, wire: Wire, item: Item) -> None:
        """Writes the length or count in `n`, and the fields that wait before it."""
        if not (self.flexible and wire.compact):
            letter = "h" if wire.kind == "string" else "i"
            self.run.append(Item(item.path, letter, "n"))
            self.flush()
            return
        items, self.run = tuple(self.run), []
        put = "put_string_length" if wire.kind == "string" else "put_varint"
        if not items:
            self.source.add(f"if n < 128: {self.out}.append(n)", item)
            self.source.add(f"else: {put}({self.out}, n)", item)
        else:
            short = (*items, Item(item.path, "B", "n"))
            self.source.add(f"if n < 128: {self.out} += {self.packed(short)}", *short)
            with self.source.block("else:"):
                self.source.add(f"{self.out} += {self.packed(items)}", *items)
                self.source.add(f"{put}({self.out}, n)", item)

    def measure(self, wire: Wire, nullable: bool, empty: str, prepare: str, item: Item) -> None:
        """From `v` to its length in `n` as it is written: plus one if compact; null is 0 or -1."""
        compact = self.flexible and wire.compact
        value = f"{prepare}n = len(v){' + 1' if compact else ''}"
        if nullable:
            self.source.add(f"if v is None: v = {empty}; n = {0 if compact else -1}")
            self.source.add(f"else: {value}", item)
        else:
            self.source.add(value, item)

    def sized(self, value: str, wire: Wire, nullable: bool, path: str) -> None:
        item = Item(path, "", value)
        self.source.add(f"v = {value}", item)
        if wire.kind == "string":
            self.measure(wire, nullable, "b''", "v = v.encode(); ", item)
        else:
            self.measure(wire, nullable, "b''", "v = v if type(v) is bytes else view(v); ", item)
        self.length(wire, item)
        if wire.kind == "records":
            assert self.out == "out", "a tagged field must be in one piece"
            condition = f"parts is None or len(v) < {WORTH_A_PART}"
            self.source.add(f"if {condition}: out += v", item)
            self.source.add("else: parts.append(out); parts.append(v); out = bytearray()", item)
        else:
            self.source.add(f"{self.out} += v", item)

    def array(self, value: str, wire: Wire, nullable: bool, path: str) -> None:
        item = Item(path, "", value)
        self.source.add(f"v = {value}", item)
        self.measure(wire, nullable, "()", "", item)
        self.length(wire, item)
        if isinstance(wire.of, str) and wire.of in FORMATS:
            if wire.of == "uuid":
                self.source.add("if any(len(u) != 16 for u in v): raise not_a_uuid()", item)
            packers = self.source.constant("Q", PACKERS[wire.of])
            self.source.add(f"{self.out} += {packers}[len(v)](*v)", item)
            return
        o = self.source.variable("o")
        with self.source.block(f"for {o} in v:", item):
            if isinstance(wire.of, str):
                self.sized(o, Wire(wire.of), False, path)
            else:
                self.object(o, wire.of, path + ".")
                self.flush()

    def struct(self, value: str, wire: Wire, nullable: bool, path: str) -> None:
        assert isinstance(wire.of, type)
        o = self.source.variable("o")
        self.source.add(f"{o} = {value}", Item(path, "", value))
        if not nullable:
            self.object(o, wire.of, path + ".")
            return
        self.flush()
        null = 0 if wire.tag is not None else 255  # a varint if it has a tag, else the int8 -1
        self.source.add(f"if {o} is None: {self.out}.append({null})")
        with self.source.block("else:"):
            self.source.add(f"{self.out}.append(1)")
            self.object(o, wire.of, path + ".")
            self.flush()

    def tags(self, o: str, shape: Shape, path: str) -> None:
        """Writes the tagged fields that do not have their defaults."""
        if not shape.tagged:
            self.run.append(Item(path + "tagged fields", "x"))
            return
        self.flush()
        # In buffers of their own, for a field's size comes before it. Mostly there are none.
        tags, count, outer = self.source.variable("b"), self.source.variable("c"), self.out
        self.source.add(f"{tags} = bytearray(); {count} = 0")
        for each in shape.tagged:
            value, item = f"{o}.{each.name}", Item(path + each.name, "", f"{o}.{each.name}")
            with self.source.block(f"if {self.differs(value, each)}:", item):
                self.out = self.source.variable("b")
                self.source.add(f"{self.out} = bytearray(); {count} += 1")
                self.member(value, each, path + each.name)
                self.flush()
                self.source.add(f"put_tag({tags}, {each.wire.tag}, {self.out})", item)
                self.out = outer
        self.source.add(f"put_varint({outer}, {count}); {outer} += {tags}")


# What the compiled code calls.


def put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_tag(out: bytearray, tag: int, value: bytearray) -> None:
    put_varint(out, tag)
    put_varint(out, len(value))
    out += value


def put_string_length(out: bytearray, n: int) -> None:
    if n > LONGEST_STRING + 1:
        raise Malformed(f"a string of {n - 1} bytes, where Kafka allows {LONGEST_STRING}")
    put_varint(out, n)


def not_a_uuid() -> Malformed:
    return Malformed("a uuid has 16 bytes")


_HELPERS: Final = {
    "NotInThisVersion": NotInThisVersion,
    "put_varint": put_varint,
    "put_string_length": put_string_length,
    "put_tag": put_tag,
    "view": view,
    "not_a_uuid": not_a_uuid,
}
