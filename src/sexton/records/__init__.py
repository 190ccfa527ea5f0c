"""Record batches and control records, to and from bytes, exactly as Kafka writes them.

    columns = decode(data)              # arrays, no object per record
    for record in columns.records():    # objects, for people
    data = encode(columns)

The names below are imported when first used: numpy and kernels take a fifth of a second to load,
and a broker that only looks at batch headers never needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sexton.records.columns import Columns, Record, Spans
    from sexton.records.decoder import BadBatch, Batches, Decoder, decode, scan
    from sexton.records.encoder import encode, rows
    from sexton.records.layout import BatchHeader, Codec
    from sexton.records.warm import warmup

_HOME = {
    "BadBatch": "decoder",
    "BatchHeader": "layout",
    "Batches": "decoder",
    "Codec": "layout",
    "Columns": "columns",
    "Decoder": "decoder",
    "Record": "columns",
    "Spans": "columns",
    "decode": "decoder",
    "encode": "encoder",
    "rows": "encoder",
    "scan": "decoder",
    "warmup": "warm",
}

__all__ = [
    "BadBatch",
    "BatchHeader",
    "Batches",
    "Codec",
    "Columns",
    "Decoder",
    "Record",
    "Spans",
    "decode",
    "encode",
    "rows",
    "scan",
    "warmup",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
