"""Which files are a table made of, and what do they hold?

A Parquet file is one; a directory is all Parquet files below it, but for names that begin with `_`
or `.`, as Spark reads it. A directory with a `_delta_log` is a Delta table: its log says which
files count now. The log is read as far as its newest version needs: the last checkpoint, and the
commits after it. What would make us read something else than Delta does (deletion vectors, mapped
columns, a version that is missing) is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from sexton.audit.fields import sortable
from sexton.audit.texts import number_spans
from sexton.base.errors import ConfigError
from sexton.base.extras import need
from sexton.records.columns import Spans

DELTA_LOG = "_delta_log"
ROWS_AT_ONCE = 1 << 17
_READ_WITH_SPARK = "write the table's current state to Parquet, and compare that"


@dataclass(frozen=True, slots=True)
class TableColumns:
    key: str
    value: str | None
    fraction: bool = False  # is the value a number with a fraction?


def pyarrow() -> Any:
    need("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as _parquet  # noqa: F401  so that pa.parquet is there

    return pa


def table_files(path: Path) -> list[Path]:
    """The files that hold the table's rows now."""
    if path.is_file():
        return [path]
    if (path / DELTA_LOG).is_dir():
        return _delta_files(path)
    found = sorted(
        file
        for file in path.rglob("*.parquet")
        if not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
    )
    if not found:
        hint = "name a Parquet file, a directory of them, or a Delta table"
        raise ConfigError(str(path), "holds no Parquet file", hint)
    return found


def rows_of(file: Path, columns: TableColumns) -> Iterator[tuple[Spans, Spans | None]]:
    """Keys and values of a file, as bytes to be compared."""
    pa = pyarrow()
    try:
        yield from _rows(pa.parquet.ParquetFile(file), file, columns)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(str(file), f"cannot be read as Parquet: {error}") from None


def _rows(opened: Any, file: Path, columns: TableColumns) -> Iterator[tuple[Spans, Spans | None]]:
    with opened:
        wanted = [columns.key, *([columns.value] if columns.value else [])]
        there = opened.schema_arrow.names
        for name in wanted:
            if name not in there:
                hint = f"there are {', '.join(there)}"
                raise ConfigError(str(file), f"has no column {name}", hint)
        for batch in opened.iter_batches(ROWS_AT_ONCE, columns=wanted):
            key = _spans(batch.column(columns.key), columns.key, fraction=False)
            value = None
            if columns.value is not None:
                column = batch.column(columns.value)
                value = _spans(column, columns.value, fraction=columns.fraction)
            yield key, value


def _spans(column: Any, name: str, *, fraction: bool) -> Spans:
    pa = pyarrow()
    kind = column.type
    there = column.is_valid().to_numpy(zero_copy_only=False)
    if fraction:
        numbers = column.cast(pa.float64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
        return number_spans(sortable(numbers), there, whole=False)
    if pa.types.is_floating(kind):
        hint = "say how the topic's is read: --value 'json:price float'"
        raise ConfigError(name, f"is a column of {kind}", hint)
    if pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.binary())
    elif not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        try:
            column = column.cast(pa.string())
        except pa.ArrowException:
            hint = "write a column of text, bytes or whole numbers, and compare that"
            raise ConfigError(name, f"is a column of {kind}", hint) from None
    column = column.cast(pa.large_binary())
    buffers = column.buffers()
    count = len(column)
    offsets = np.frombuffer(buffers[1], np.int64)[column.offset : column.offset + count + 1]
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.zeros(1, np.uint8)
    return Spans.from_offsets(data if len(data) else np.zeros(1, np.uint8), offsets, there)


# ── Delta ──


def _delta_files(path: Path) -> list[Path]:
    log = path / DELTA_LOG
    version, found = _checkpoint(log)
    commits = {int(each.stem): each for each in log.glob("*.json") if each.stem.isdecimal()}
    last = max((version, *commits))
    if last < 0:
        raise ConfigError(str(path), "has no version in its log", _READ_WITH_SPARK)
    for number in range(version + 1, last + 1):
        if number not in commits:
            why = f"its log lacks version {number}, and has version {last}"
            raise ConfigError(str(path), why, _READ_WITH_SPARK)
        with commits[number].open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    _apply(json.loads(line), found, path)
    return [path / unquote(name) for name in sorted(found)]


def _checkpoint(log: Path) -> tuple[int, dict[str, None]]:
    """The version of the last checkpoint, and the files that counted then."""
    found: dict[str, None] = {}
    pointer = log / "_last_checkpoint"
    if not pointer.exists():
        return -1, found
    told = json.loads(pointer.read_text(encoding="utf-8"))
    version, parts = int(told["version"]), told.get("parts")
    names = [f"{version:020}.checkpoint.parquet"]
    if parts:
        names = [
            f"{version:020}.checkpoint.{part:010}.{parts:010}.parquet"
            for part in range(1, int(parts) + 1)
        ]
    for name in names:
        file = log / name
        if not file.exists():
            why = f"has a checkpoint of a kind that is not read here: {name} is missing"
            raise ConfigError(str(log.parent), why, _READ_WITH_SPARK)
        for action in pyarrow().parquet.read_table(file).to_pylist():
            _apply(action, found, log.parent)
    return version, found


def _apply(action: dict[str, Any], found: dict[str, None], table: Path) -> None:
    metadata = action.get("metaData")
    if metadata:
        settings = dict(metadata.get("configuration") or {})
        if settings.get("delta.columnMapping.mode", "none") != "none":
            raise ConfigError(str(table), "maps its columns to other names", _READ_WITH_SPARK)
    added, removed = action.get("add"), action.get("remove")
    if added:
        if added.get("deletionVector"):
            why = "has deletion vectors: rows are deleted beside its files"
            raise ConfigError(str(table), why, "run REORG TABLE ... APPLY (PURGE), then compare")
        found[added["path"]] = None
    elif removed:
        found.pop(removed["path"], None)
