"""Files that appear under their names when they are complete: pages, and Parquet tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from sexton.base.errors import cannot_be_written
from sexton.base.extras import need


def write_text(target: Path, text: str) -> None:
    written_whole(target, lambda unfinished: _put(unfinished, text))


def write_table(
    target: Path, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]]
) -> None:
    """Without rows the file has its columns; each is a name and an Arrow type."""
    need("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        "string": pa.string(), "int32": pa.int32(), "int64": pa.int64(),
        "timestamp": pa.timestamp("ms", "UTC"),
    }  # fmt: skip
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns])
    found = [dict(zip(schema.names, row, strict=True)) for row in rows]
    table = pa.Table.from_pylist(found, schema=schema)
    written_whole(target, lambda unfinished: pq.write_table(table, unfinished, compression="zstd"))


def written_whole(target: Path, write: Callable[[Path], None]) -> None:
    """Where a link leads, the file there is replaced, and not the link."""
    place = target.resolve()
    if place.exists() and not place.is_file():  # a device would be replaced
        raise cannot_be_written(str(target), "it is not a regular file")
    unfinished = place.with_name(f"{place.name}.unfinished")
    try:
        write(unfinished)
        unfinished.replace(place)
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        raise cannot_be_written(str(target), why) from None
    finally:
        unfinished.unlink(missing_ok=True)


def _put(target: Path, text: str) -> None:
    target.write_text(text, encoding="utf-8")
