"""Values of any kind as bytes that are the same for the same value: for a comparison with a table.

110, "110"     ──▶ 110           digits, and text as it is
true, [1, 2]   ──▶ true, [1, 2]  words, arrays and objects as they are written
1.50, 1.5e0    ──▶ 8 bytes       fractions, where the expression says `float`
"""

from __future__ import annotations

import numpy as np

from sexton.audit import field_kernels as kernels
from sexton.audit.expressions import PLACES, Expression
from sexton.audit.fields import FOUND, Rows, numbers, slow_token, tokens_of
from sexton.records.columns import Spans
from sexton.records.tables import Array


def texts(expression: Expression, rows: Rows) -> Spans:
    """What an expression finds, in one form for each value whatever it was written as.

    Where there is nothing (null, no such member) the span is null, and so is what is not JSON.
    """
    if expression.source in PLACES or expression.kind != "text":
        read = numbers(expression, rows)
        whole = expression.kind not in ("float", "double")
        return number_spans(read.values, read.status == FOUND, whole=whole)
    found = tokens_of(expression, rows)
    nothing = np.isin(found.kind, (kernels.NOTHING, kernels.NULL, kernels.ABSENT, kernels.BROKEN))
    plain = Spans(found.data, found.at, np.where(nothing, -1, found.size).astype(np.int32))
    odd = np.flatnonzero(np.isin(found.kind, (kernels.ODD, kernels.ESCAPED)))
    if not len(odd):
        return plain
    return _replaced(plain, odd, [slow_token(expression, rows, row) for row in odd.tolist()])


def _replaced(spans: Spans, rows: Array, items: list[bytes | None]) -> Spans:
    """The same with other bytes in some rows."""
    others = Spans.from_list(items)
    position, length = spans.position.copy(), spans.length.copy()
    position[rows] = others.position + len(spans.data)
    length[rows] = others.length
    return Spans(np.concatenate((spans.data, others.data)), position, length)


def number_spans(values: Array, there: Array, *, whole: bool) -> Spans:
    """Numbers as bytes: digits, or for fractions the eight bytes that sort as they do."""
    data = values.astype("S20") if whole else np.ascontiguousarray(values).view("S8")
    width = data.dtype.itemsize
    length = np.char.str_len(data) if whole else np.full(len(data), width)
    return Spans(
        np.ascontiguousarray(data).view(np.uint8).reshape(-1),
        (np.arange(len(data)) * width).astype(np.int32),
        np.where(there, length, -1).astype(np.int32),
    )
