"""Many batch headers at once: the wire layout as a numpy type, one row a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from sexton.records.layout import HEADER_BYTES, LENGTH_END

# The fields of `layout.BatchHeader`, in wire order and packed: a row is a header's 61 bytes.
HEADER_TYPE = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("partition_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("records_count", ">i4"),
    ]
)
assert HEADER_TYPE.itemsize == HEADER_BYTES

Array = np.ndarray[Any, Any]
HeaderTable = np.ndarray[Any, Any]  # one-dimensional, of HEADER_TYPE


def field(headers: HeaderTable, name: str) -> Array:
    """One field of all headers, in the machine's byte order."""
    column = headers[name]
    return column.astype(column.dtype.newbyteorder("="))


def sizes(headers: HeaderTable) -> Array:
    """Bytes of each whole batch."""
    return field(headers, "batch_length").astype(np.int64) + LENGTH_END


def last_offsets(headers: HeaderTable) -> Array:
    return field(headers, "base_offset") + field(headers, "last_offset_delta")


def join(tables: list[HeaderTable]) -> HeaderTable:
    """One table after the other. (np.concatenate would change the rows to native byte order.)"""
    return np.concatenate([np.empty(0, np.uint8), *(t.view(np.uint8) for t in tables)]).view(
        HEADER_TYPE
    )
