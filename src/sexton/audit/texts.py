"""Values of any kind as bytes that are the same for the same value: for a comparison with a table.

110, "110"     ──▶ 110           digits, and text as it is
1.50, 1.5e0    ──▶ 8 bytes       fractions, where the expression says `float`
"""

from __future__ import annotations

import numpy as np

from sexton.audit import field_kernels as kernels
from sexton.audit.expressions import PLACES, Expression
from sexton.audit.fields import FOUND, UNREADABLE, Rows, numbers, slow_token, tokens_of
from sexton.records.columns import Spans
from sexton.records.tables import Array


def texts(expression: Expression, rows: Rows) -> tuple[Spans, Array]:
    """What an expression finds, in one form for each value whatever it was written as.

    Where there is nothing (null, no such member) the span is null; status says what is UNREADABLE.
    """
    if expression.source in PLACES or expression.kind != "text":
        read = numbers(expression, rows)
        whole = expression.kind not in ("float", "double")
        return number_spans(read.values, read.status == FOUND, whole=whole), read.status
    found = tokens_of(expression, rows)
    kind = found.kind
    if np.isin(kind, (kernels.ODD, kernels.ESCAPED)).any():
        items = [slow_token(expression, rows, row) for row in range(len(rows))]
        return Spans.from_list(items), np.zeros(len(rows), np.uint8)
    nothing = np.isin(kind, (kernels.NOTHING, kernels.NULL, kernels.ABSENT, kernels.BROKEN))
    length = np.where(nothing, -1, found.size).astype(np.int32)
    status = np.where(kind == kernels.BROKEN, UNREADABLE, FOUND).astype(np.uint8)
    return Spans(found.data, found.at, length), status


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
