"""A message class and a version become a function from bytes to a message.

For `FetchRequest` v4 it begins like this, `p` being the position and U9 a `struct.Struct`:

    o1 = new(FetchRequest)
    o1.replica_id, o1.max_wait_ms, o1.min_bytes, o1.max_bytes, o1.isolation_level, n = U9(data, p)
    p += 21
    if n < 0: raise is_null()
    if n * 6 > end - p: raise too_many(n, 6, end - p)
    a2 = o1.topics = []
    for _ in range(n):
        o3 = new(FetchTopic)
        ...

Nothing that the other side says is believed before it is compared with the bytes that are there: a
length with what is left, a count with the least that so many elements can take. So a message takes
no more memory than a small multiple of its bytes, and a bad one fails before it has taken much.
`struct` and indexing check their own bounds: running out of bytes is their exception.

Attributes are set one by one on a new object, which is faster than calling its `__init__`; a
message class has no `__post_init__` that would be missed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sexton.protocol.source import (
    FORMATS,
    LONGEST_STRING,
    NEW,
    UNPACKERS,
    Compiled,
    Item,
    Malformed,
    Member,
    Shape,
    Source,
    title_of,
)
from sexton.protocol.wire import Message, Wire

# What a reader raises when bytes are not a message.
FAILURES: Final = (Malformed, struct.error, IndexError, UnicodeDecodeError)


def compile_reader(kind: type[Message], version: int, view: bool) -> Compiled:
    """`read(data, position)` returns the message and where it ended; `view`: of a memoryview."""
    reader = _Reader(version, version in kind.FLEXIBLE_VERSIONS, view)
    return reader.message(kind)


def explain(error: BaseException, compiled: Compiled, end: int) -> str:
    """Which field was wrong, and how."""
    items, frame = compiled.failed_at(error)
    if isinstance(error, struct.error):
        left = end - frame.f_locals["p"]
        for item in items:
            size = struct.calcsize(">" + item.format)
            if size > left:
                return f"{item.path}: the message ends after {left} of its {size} bytes"
            left -= size
    path = items[0].path
    if isinstance(error, UnicodeDecodeError):
        return f"{path}: not UTF-8: {error.reason} at byte {error.start}"
    if isinstance(error, IndexError):
        return f"{path}: the message ends before it"
    return f"{path}: {error}"


class _Reader:
    def __init__(self, version: int, flexible: bool, view: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.bytes = "data[p:q].tobytes()" if view else "data[p:q]"
        self.source = Source("def read(data, p):", dict(_HELPERS))
        self.run: list[Item] = []  # fields of fixed size that wait to be read together

    def message(self, kind: type[Message]) -> Compiled:
        self.source.add("end = len(data)")
        o = self.object(kind, "")
        self.flush()
        self.source.add(f"return {o}, p")
        return self.source.compile(f"{title_of(kind, self.version)} reader")

    def object(self, kind: type[Any], path: str) -> str:
        """Reads a message or struct; the variable that then holds it."""
        o = self.source.variable("o")
        self.source.add(f"{o} = new({self.source.constant('C', kind)})")
        shape = Shape.of(kind, self.version, self.flexible)
        for member in (*shape.absent, *shape.tagged):
            self.default(f"{o}.{member.name}", member)
        for member in shape.present:
            self.member(f"{o}.{member.name}", member, path + member.name)
        if self.flexible:
            self.tags(o, shape, path)
        return o

    def default(self, target: str, member: Member) -> None:
        if member.default is not NEW:
            self.source.add(f"{target} = {member.default!r}")
        elif member.wire.kind == "array":
            self.source.add(f"{target} = []")
        else:
            kind = member.wire.of
            assert isinstance(kind, type)
            o = self.source.variable("o")
            self.source.add(f"{o} = {target} = new({self.source.constant('C', kind)})")
            shape = Shape.of(kind, self.version, self.flexible)
            for each in (*shape.absent, *shape.tagged, *shape.present):
                self.default(f"{o}.{each.name}", each)

    def member(self, target: str, member: Member, path: str) -> None:
        nullable = member.nullable_in(self.version)
        match member.wire.kind:
            case "string" | "bytes" | "records":
                self.sized(target, member.wire, nullable, path)
            case "array":
                self.array(target, member.wire, nullable, path)
            case "struct":
                self.struct(target, member.wire, nullable, path)
            case kind:
                self.run.append(Item(path, FORMATS[kind], target))

    def flush(self) -> None:
        """Read the fields that wait, with one call."""
        if not self.run:
            return
        items, self.run = tuple(self.run), []
        packer = struct.Struct(">" + "".join(item.format for item in items))
        if [item.format for item in items] == ["B"]:
            self.source.add(f"{items[0].variable} = data[p]", *items)
        else:
            targets = "".join(item.variable + ", " for item in items)
            unpack = self.source.constant("U", packer.unpack_from)
            self.source.add(f"{targets.rstrip()} = {unpack}(data, p)", *items)
        self.source.add(f"p += {packer.size}")

    def length(self, wire: Wire, path: str) -> Item:
        """Reads a length or count into `n`, where null is -1."""
        if self.flexible and wire.compact:
            item = Item(path, "B", "n")
            self.run.append(item)
            self.flush()
            self.long_varint(item, "long_string" if wire.kind == "string" else "long_varint")
            self.source.add("n -= 1")
        else:
            item = Item(path, "h" if wire.kind == "string" else "i", "n")
            self.run.append(item)
            self.flush()
            self.source.add("if n < -1: raise negative(n)", item)
        return item

    def long_varint(self, item: Item, helper: str = "long_varint") -> None:
        n = item.variable
        self.source.add(f"if {n} > 127: {n}, p = {helper}(data, p, {n})", item)

    @contextmanager
    def unless_null(self, nullable: bool, target: str, item: Item) -> Iterator[None]:
        """What follows is read if `n` is not -1."""
        if nullable:
            self.source.add(f"if n < 0: {target} = None")
            with self.source.block("else:"):
                yield
                self.flush()
        else:
            self.source.add("if n < 0: raise is_null()", item)
            yield

    def sized(self, target: str, wire: Wire, nullable: bool, path: str) -> None:
        item = self.length(wire, path)
        with self.unless_null(nullable, target, item):
            self.source.add("q = p + n")
            self.source.add("if q > end: raise too_short(n, end - p)", item)
            value = {"string": f"{self.bytes}.decode()", "bytes": self.bytes}
            self.source.add(f"{target} = {value.get(wire.kind, 'data[p:q]')}", item)
            self.source.add("p = q")

    def array(self, target: str, wire: Wire, nullable: bool, path: str) -> None:
        item = self.length(wire, path)
        with self.unless_null(nullable, target, item):
            smallest = max(1, self.smallest(wire.of))
            self.source.add(
                f"if n * {smallest} > end - p: raise too_many(n, {smallest}, end - p)", item
            )
            if isinstance(wire.of, str) and wire.of in FORMATS:
                unpackers = self.source.constant("V", UNPACKERS[wire.of])
                self.source.add(f"{target} = [*{unpackers}[n](data, p)]", item)
                self.source.add(f"p += n * {smallest}")
                return
            a = self.source.variable("a")
            self.source.add(f"{a} = {target} = []")
            with self.source.block("for _ in range(n):"):
                if isinstance(wire.of, str):
                    self.sized("v", Wire(wire.of), False, path)
                    self.source.add(f"{a}.append(v)")
                else:
                    o = self.object(wire.of, path + ".")
                    self.flush()
                    self.source.add(f"{a}.append({o})")

    def struct(self, target: str, wire: Wire, nullable: bool, path: str) -> None:
        assert isinstance(wire.of, type)
        if not nullable:
            o = self.object(wire.of, path + ".")
            self.source.add(f"{target} = {o}")
            return
        # What says whether it is null is an int8 if the struct has no tag, and a varint if it has.
        item = Item(path, "b" if wire.tag is None else "B", "n")
        null = -1 if wire.tag is None else 0
        self.run.append(item)
        self.flush()
        self.source.add(f"if n == {null}: n = -1")
        self.source.add(f"elif n != 1: raise neither({null}, n)", item)
        with self.unless_null(True, target, item):
            o = self.object(wire.of, path + ".")
            self.flush()
            self.source.add(f"{target} = {o}")

    def tags(self, o: str, shape: Shape, path: str) -> None:
        """Reads tagged fields; those it does not know are passed over."""
        item = Item(path + "tagged fields", "B", "t")
        self.run.append(item)
        self.flush()
        if not shape.tagged:
            self.source.add("if t: p = skip_tags(data, p, t, end)", item)
            return
        tag, tag_end = self.source.variable("g"), self.source.variable("e")
        with self.source.block("if t:"):
            self.long_varint(item)
            with self.source.block("for _ in range(t):"):
                self.source.add(f"{tag}, {tag_end}, p = next_tag(data, p, end)", item)
                branch = "if"
                for each in shape.tagged:
                    with self.source.block(f"{branch} {tag} == {each.wire.tag}:"):
                        self.member(f"{o}.{each.name}", each, path + each.name)
                        self.flush()
                        place = Item(path + each.name, "")
                        self.source.add(
                            f"if p != {tag_end}: raise wrong_size({tag_end} - p)", place
                        )
                    branch = "elif"
                self.source.add(f"else: p = {tag_end}")

    def smallest(self, of: str | type[Any]) -> int:
        """The fewest bytes that a value can take."""
        if isinstance(of, str):
            if of in FORMATS:
                return struct.calcsize(">" + FORMATS[of])
            return 1 if self.flexible else 2 if of == "string" else 4
        shape = Shape.of(of, self.version, self.flexible)
        return int(self.flexible) + sum(map(self.smallest_member, shape.present))

    def smallest_member(self, member: Member) -> int:
        wire = member.wire
        if wire.kind == "struct":
            return 1 if member.nullable_in(self.version) else self.smallest(wire.of)
        return self.smallest(wire.kind)


# What the compiled code calls, mostly when things have gone wrong.


def long_varint(data: bytes | memoryview, p: int, low: int) -> tuple[int, int]:
    """The rest of an unsigned varint of up to 32 bits, whose first byte was `low`."""
    value = low & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, p
    raise Malformed("its varint has more than 32 bits")


def long_string(data: bytes | memoryview, p: int, low: int) -> tuple[int, int]:
    """As `long_varint`, for the length of a compact string (and one)."""
    n, p = long_varint(data, p, low)
    if n > LONGEST_STRING + 1:
        raise Malformed(f"a string of {n - 1} bytes, where Kafka allows {LONGEST_STRING}")
    return n, p


def next_tag(data: bytes | memoryview, p: int, end: int) -> tuple[int, int, int]:
    """A tag, where its field must end, and where it starts."""
    tag = data[p]
    p += 1
    if tag > 127:
        tag, p = long_varint(data, p, tag)
    size = data[p]
    p += 1
    if size > 127:
        size, p = long_varint(data, p, size)
    if p + size > end:
        raise Malformed(f"tag {tag} is to have {size} bytes, but {end - p} are left")
    return tag, p + size, p


def skip_tags(data: bytes | memoryview, p: int, count: int, end: int) -> int:
    if count > 127:
        count, p = long_varint(data, p, count)
    for _ in range(count):
        _, p, _ = next_tag(data, p, end)
    return p


def too_short(length: int, left: int) -> Malformed:
    return Malformed(f"it is to have {length} bytes, but {left} are left")


def too_many(count: int, smallest: int, left: int) -> Malformed:
    least = f"at least {smallest} bytes" if smallest > 1 else "a byte"
    return Malformed(f"{count} elements of {least} cannot be in the {left} bytes that are left")


def negative(length: int) -> Malformed:
    return Malformed(f"its length is {length}")


def is_null() -> Malformed:
    return Malformed("it is null, which this version does not allow")


def neither(null: int, marker: int) -> Malformed:
    return Malformed(f"before it is a 1, or {null} if it is null, but here is {marker}")


def wrong_size(left: int) -> Malformed:
    if left < 0:
        return Malformed(f"it is {-left} bytes longer than its tag says")
    return Malformed(f"it is {left} bytes shorter than its tag says")


_HELPERS: Final = {
    "new": object.__new__,
    "long_varint": long_varint,
    "long_string": long_string,
    "next_tag": next_tag,
    "skip_tags": skip_tags,
    "too_short": too_short,
    "too_many": too_many,
    "negative": negative,
    "is_null": is_null,
    "neither": neither,
    "wrong_size": wrong_size,
}
