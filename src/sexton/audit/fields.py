"""Columns of records to columns of numbers and fingerprints, as expressions say.

    Columns ──rows──▶ where each field is, what it looks like ──▶ numbers      int64, or why not
                         (`field_kernels`)                    ──▶ fingerprints 128 bits, or why not

A number that is a fraction becomes an integer that sorts as it does (`as_sortable`), so everything
that compares numbers compares integers. What a kernel leaves to Python is few and slow, and right.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from sexton.audit import field_kernels as kernels
from sexton.audit.expressions import PLACES, Expression
from sexton.base.partitions import TopicPartition
from sexton.records.columns import Columns, Spans, read_headers
from sexton.records.native import address
from sexton.records.tables import Array

FOUND, EMPTY, UNREADABLE = kernels.FOUND, kernels.EMPTY, kernels.UNREADABLE
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_WIDTHS = {"int32": 4, "int64": 8, "double": 8}
_DECODER = json.JSONDecoder()
MOST_SHOWN = 60  # characters of a value that somebody has to look at


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of decoded records of one partition, in log order."""

    columns: Columns
    rows: Array  # int64
    partition: TopicPartition

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def offsets(self) -> Array:
        return np.ascontiguousarray(self.columns.offset[self.rows])


@dataclass(frozen=True, slots=True)
class Read:
    """What an expression gives for each row."""

    values: Array  # int64; or (rows, 2) uint64: fingerprints
    status: Array  # uint8: FOUND, EMPTY (a null) or UNREADABLE


@dataclass(frozen=True, slots=True)
class Tokens:
    """Where the field of each row is, and what it looks like (`field_kernels`)."""

    data: Array
    at: Array
    size: Array
    kind: Array

    def text(self, row: int) -> bytes:
        at = int(self.at[row])
        return self.data[at : at + int(self.size[row])].tobytes()


# ── numbers ──


def numbers(expression: Expression, rows: Rows) -> Read:
    if expression.source in PLACES:
        return Read(_place(expression, rows), np.zeros(len(rows), np.uint8))
    found = tokens_of(expression, rows)
    values = np.empty(len(rows), np.int64)
    status = np.empty(len(rows), np.uint8)
    places = (address(found.data), address(found.at), address(found.size), address(found.kind))
    to = (address(values), address(status))
    match expression.kind:
        case "int32" | "int64" | "double":
            width = _WIDTHS[expression.kind]
            wrong = kernels.fixed(*places, len(rows), width, *to)
            if expression.kind == "double":
                fractions = values.view(np.float64)
                status[np.isnan(fractions) & (status == FOUND)] = UNREADABLE
                values = sortable(fractions)
        case "int":
            wrong = kernels.digits(*places, len(rows), *to)
        case _:
            _floats(found, values, status)
            wrong = 1
    if wrong and expression.kind in ("int", "float"):
        for row in np.flatnonzero(status == UNREADABLE).tolist():
            value = _slow_number(expression, rows, row)
            if value is not None:
                values[row], status[row] = value, FOUND
    return Read(values, status)


def _place(expression: Expression, rows: Rows) -> Array:
    match expression.source:
        case "timestamp":
            return np.ascontiguousarray(rows.columns.timestamp[rows.rows])
        case "offset":
            return rows.offsets
        case _:
            return np.full(len(rows), rows.partition.partition, np.int64)


def _floats(found: Tokens, values: Array, status: Array) -> None:
    """Decimal numbers, by numpy's own reading of them."""
    plain = (found.kind == kernels.NUMBER) | (found.kind == kernels.STRING)
    status[:] = np.where(found.kind == kernels.NOTHING, EMPTY, UNREADABLE)
    chosen = np.flatnonzero(plain & (found.size > 0) & (found.size <= 32))
    if not len(chosen):
        return
    width = int(found.size[chosen].max())
    places = found.at[chosen][:, None] + np.arange(width, dtype=np.int64)
    inside = np.arange(width) < found.size[chosen][:, None]
    text = np.where(inside, found.data[np.minimum(places, len(found.data) - 1)], 0)
    try:
        read = np.ascontiguousarray(text.astype(np.uint8)).view(f"S{width}")[:, 0].astype(float)
    except ValueError:
        return  # one by one
    fine = np.isfinite(read)
    values[chosen[fine]] = sortable(read[fine])
    status[chosen[fine]] = FOUND


def _slow_number(expression: Expression, rows: Rows, row: int) -> int | None:
    """One by one: 1e3, "12", twenty digits, a name with an escape in it."""
    token = slow_token(expression, rows, row)
    if token is None:
        return None
    try:
        value = Decimal(token.decode("ascii").strip())
        if not value.is_finite():
            return None
        if expression.kind == "float":
            return as_sortable(float(value))
        if value != value.to_integral_value() or not _LEAST <= value <= _MOST:
            return None
        return int(value)
    except (UnicodeDecodeError, InvalidOperation):
        return None


def as_sortable(value: float) -> int:
    """An integer for a fraction, such that the larger fraction has the larger integer."""
    return int(sortable(np.array([value], np.float64))[0])


def from_sortable(number: int) -> float:
    bits = number if number >= 0 else number ^ _MOST
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def sortable(values: Array) -> Array:
    """The same for many."""
    # -0.0 is 0.0
    bits = (np.ascontiguousarray(values, np.float64) + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(_MOST), bits)


# ── fingerprints ──


def fingerprints(expressions: Sequence[Expression], rows: Rows, seed: int) -> Read:
    """128 bits of an id, made up of one part or several; EMPTY if one of them is null."""
    count = len(rows)
    values = np.zeros((count, 2), np.uint64)
    empty, wrong, odd = (np.zeros(count, bool) for _ in range(3))
    for number_of_part, expression in enumerate(expressions):
        found = _id_tokens(expression, rows)
        status = np.zeros(count, np.uint8)
        kernels.fingerprints(
            address(found.data), address(found.at), address(found.size), address(found.kind),
            count, int(number_of_part == 0), seed, address(values), address(status),
        )  # fmt: skip
        unusual = (found.kind == kernels.ODD) | (found.kind == kernels.ESCAPED)
        empty |= status == EMPTY
        odd |= unusual
        wrong |= (status == UNREADABLE) & ~unusual
    status = np.where(empty, EMPTY, np.where(wrong, UNREADABLE, FOUND)).astype(np.uint8)
    for row in np.flatnonzero(odd & (status == FOUND)).tolist():
        _slow_fingerprint(expressions, rows, row, seed, values, status)
    return Read(values, status)


def fingerprints_of(spans: Spans, seed: int) -> Read:
    """Of a column that is there already."""
    count = len(spans)
    found = _whole(spans, np.arange(count, dtype=np.int64))
    values, status = np.zeros((count, 2), np.uint64), np.zeros(count, np.uint8)
    kernels.fingerprints(
        address(found.data), address(found.at), address(found.size), address(found.kind),
        count, 1, seed, address(values), address(status),
    )  # fmt: skip
    return Read(values, status)


def _id_tokens(expression: Expression, rows: Rows) -> Tokens:
    if expression.source not in PLACES:
        return tokens_of(expression, rows)
    places = np.ascontiguousarray(_place(expression, rows), ">i8").view(np.uint8)
    count = len(rows)
    at = np.arange(count, dtype=np.int32) * 8
    return Tokens(places, at, np.full(count, 8, np.int32), np.full(count, kernels.NUMBER, np.uint8))


def _slow_fingerprint(
    expressions: Sequence[Expression], rows: Rows, row: int, seed: int, values: Array, status: Array
) -> None:
    tokens = []
    for expression in expressions:
        if expression.source in PLACES:
            one = Rows(rows.columns, rows.rows[row : row + 1], rows.partition)
            token: bytes | None = _id_tokens(expression, one).data.tobytes()
        else:
            token = slow_token(expression, rows, row)
        if token is None:
            status[row] = UNREADABLE
            return
        tokens.append(token)
    for number_of_part, token in enumerate(tokens):
        spans = Spans.from_list([token])
        found = _whole(spans, np.zeros(1, np.int64))
        one_value, one_status = values[row : row + 1], np.zeros(1, np.uint8)
        kernels.fingerprints(
            address(found.data), address(found.at), address(found.size), address(found.kind),
            1, int(number_of_part == 0), seed, address(one_value), address(one_status),
        )  # fmt: skip
    status[row] = FOUND


# ── where a field is ──


def tokens_of(expression: Expression, rows: Rows) -> Tokens:
    if expression.source == "header":
        tokens = _headers(expression.header, rows)
        if not expression.path:
            return tokens
        nulls = tokens.kind != kernels.STRING
        spans = Spans(tokens.data, tokens.at, np.where(nulls, -1, tokens.size).astype(np.int32))
        found = _json(expression.path, spans, np.arange(len(rows), dtype=np.int64))
        found.kind[nulls] = tokens.kind[nulls]
        return found
    spans = rows.columns.key if expression.source == "key" else rows.columns.value
    if expression.path:
        return _json(expression.path, spans, rows.rows)
    return _whole(spans, rows.rows)


def _whole(spans: Spans, rows: Array) -> Tokens:
    at, size, kind = _places(len(rows))
    kernels.take_spans(
        address(np.ascontiguousarray(spans.position)), address(np.ascontiguousarray(spans.length)),
        address(rows), len(rows), address(at), address(size), address(kind), kernels.STRING,
    )  # fmt: skip
    return Tokens(spans.data, at, size, kind)


def _json(path: Sequence[str], spans: Spans, rows: Array) -> Tokens:
    names = [name.encode() for name in path]
    packed = np.frombuffer(
        b"".join(len(name).to_bytes(4, "little") + name for name in names), np.uint8
    )
    at, size, kind = _places(len(rows))
    kernels.find_json(
        address(spans.data), address(np.ascontiguousarray(spans.position)),
        address(np.ascontiguousarray(spans.length)), address(rows), len(rows),
        address(packed), len(names), address(at), address(size), address(kind),
    )  # fmt: skip
    return Tokens(spans.data, at, size, kind)


def _headers(name: str, rows: Rows) -> Tokens:
    sections = rows.columns.headers
    wanted = np.frombuffer(name.encode() or b"\0", np.uint8)
    at, size, kind = _places(len(rows))
    kernels.find_header(
        address(sections.data), address(sections.position), address(sections.length),
        address(rows.rows), len(rows), address(wanted), len(name.encode()),
        address(at), address(size), address(kind),
    )  # fmt: skip
    return Tokens(sections.data, at, size, kind)


def _places(count: int) -> tuple[Array, Array, Array]:
    return np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.uint8)


# ── one row, for people and for what is unusual ──


def raw_field(expression: Expression, rows: Rows, row: int) -> bytes | None:
    """The source of an expression in one row, whole."""
    columns, at = rows.columns, int(rows.rows[row])
    match expression.source:
        case "key":
            return columns.key[at]
        case "value":
            return columns.value[at]
        case "header":
            named = dict(read_headers(columns.headers[at]))  # the last of equal names
            return named.get(expression.header)
        case _:
            one = Rows(columns, rows.rows[row : row + 1], rows.partition)
            return b"%d" % int(_place(expression, one)[0])


def slow_token(expression: Expression, rows: Rows, row: int) -> bytes | None:
    """The bytes that an expression means, or None if there are none; as a kernel finds them."""
    raw = raw_field(expression, rows, row)
    if raw is None or not expression.path:
        return raw
    try:
        text = raw.decode(json.detect_encoding(raw), "surrogatepass")
        value: Any = json.loads(text, object_pairs_hook=_first_of_equals, parse_float=_Written,
                                parse_int=_Written)  # fmt: skip
        for name in expression.path:
            value = value[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if isinstance(value, bool | dict | list):
        value = _as_written(text, expression.path)
    if isinstance(value, str):  # a number as it was written is one, too
        return value.encode("utf-8", "surrogatepass")
    return None


def _as_written(text: str, path: Sequence[str]) -> str:
    """A member of JSON that is known to be sound, and to have it."""
    at = _past_blank(text, 0)
    for name in path:
        at = _past_blank(text, at + 1)
        while True:
            other, at = _DECODER.raw_decode(text, at)
            at = _past_blank(text, _past_blank(text, at) + 1)  # and past the colon
            if other == name:
                break
            _value, at = _DECODER.raw_decode(text, at)
            at = _past_blank(text, _past_blank(text, at) + 1)  # and past the comma
    _value, end = _DECODER.raw_decode(text, at)
    return text[at:end]


def _past_blank(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def together(expressions: Sequence[Expression], rows: Rows, row: int) -> bytes | None:
    """All parts of an id or key, for people; None if one of them is null."""
    tokens = [slow_token(each, rows, row) for each in expressions]
    if any(token is None for token in tokens):
        return None
    return b", ".join(token for token in tokens if token is not None)


class _Written(str):
    """A number as it was written."""

    __slots__ = ()


def _first_of_equals(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def why_unreadable(expression: Expression, rows: Rows, row: int) -> str:
    """What is wrong with one row, in words."""
    raw = raw_field(expression, rows, row)
    if raw is None:
        if expression.source == "header":
            return f"there is no header {expression.header}"
        return f"the {expression.source} is null"
    token = slow_token(expression, rows, row)
    named = expression.source == "header"
    what = f"the header {expression.header}" if named else f"the {expression.source}"
    if expression.path:
        name = ".".join(expression.path)
        if token is None:
            return f"{what} has no member {name} that is a number or text"
        what = name
    if expression.kind in _WIDTHS and len(token or b"") != _WIDTHS[expression.kind]:
        size = _WIDTHS[expression.kind]
        return f"{what} has {len(token or b'')} bytes, and {expression.kind} has {size}"
    noun = "a whole number" if expression.kind == "int" else "a number"
    return f"{what} is {shown(token or b'')}, which is not {noun}"


def shown(data: bytes) -> str:
    text = repr(data.decode("utf-8", "backslashreplace"))
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"
