"""Rows for the sink's benchmark, in Parquet files: one file is one micro-batch.

Keys of 16 bytes out of a million, values of 100 bytes of which half is the same in all and half is
random, as in a log of events: lz4 makes half of them. The files are written once, without
compression, and are in the page cache when they are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "key binary, value binary"
_KEYS, _KEY_BYTES, _VALUE_BYTES = 1_000_000, 16, 100
_GROUPS = 8  # row groups of a file: Spark splits between them
_SAME = b'{"user": "u", "event": "page_view", "token": "'.ljust(_VALUE_BYTES // 2, b"_")
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def write_file(path: Path, rows: int, seed: int) -> None:
    """Appears whole or not at all."""
    draft = path.with_name(f".{path.name}")
    pq.write_table(
        table_of(rows, seed), draft, compression="none", use_dictionary=False,
        row_group_size=max(1, rows // _GROUPS),
    )  # fmt: skip
    draft.rename(path)


def write_files(directory: Path, files: int, rows: int) -> None:
    directory.mkdir()
    for number in range(files):
        write_file(directory / f"{number:05}.parquet", rows, number)


def table_of(rows: int, seed: int) -> Any:
    random = np.random.default_rng(seed)
    numbers = random.integers(0, _KEYS, rows)
    keys = np.char.zfill(numbers.astype(f"S{_KEY_BYTES}"), _KEY_BYTES)
    values = np.empty((rows, _VALUE_BYTES), np.uint8)
    values[:, : len(_SAME)] = np.frombuffer(_SAME, np.uint8)
    values[:, len(_SAME) :] = _HEX[random.integers(0, 16, (rows, _VALUE_BYTES - len(_SAME)))]
    columns = {
        "key": _binary(keys.tobytes(), rows, _KEY_BYTES),
        "value": _binary(values.tobytes(), rows, _VALUE_BYTES),
    }
    return pa.table(columns)


def _binary(data: bytes, rows: int, size: int) -> Any:
    ends = np.arange(rows + 1, dtype=np.int32) * size
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(data)])
