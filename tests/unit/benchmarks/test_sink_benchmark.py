"""The parts of the sink's and the source's benchmarks that need no Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from benchmarks import sink, sink_streams, source
from benchmarks.sink_rows import table_of, write_files


def test_files_are_the_same_whenever_they_are_made(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_files(tmp_path / name, 2, 100)
    one, other = (sorted((tmp_path / name).iterdir()) for name in ("one", "other"))
    assert [path.name for path in one] == ["00000.parquet", "00001.parquet"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    assert pq.read_table(one[0]).equals(table_of(100, seed=0))
    assert pq.ParquetFile(one[0]).num_row_groups > 2  # Spark splits between them


def test_rows_are_of_one_size_and_half_of_a_value_is_the_same_in_all() -> None:
    table = table_of(500, seed=3)
    keys, values = table["key"].to_pylist(), table["value"].to_pylist()
    assert {len(key) for key in keys} == {16}
    assert {len(value) for value in values} == {100}
    assert len({value[:50] for value in values}) == 1
    assert len({value[50:] for value in values}) == 500


def test_goals_are_for_both_ways_to_run_sparks_sink() -> None:
    assert {name: str(goal) for name, goal in sink.GOALS.items()} == {
        sink_streams.DEFAULT: "≥ 1.5×",
        sink_streams.TUNED: "≥ 1×",
    }
    assert list(sink_streams.starts("lz4")) == [
        sink_streams.OURS, sink_streams.DEFAULT, sink_streams.TUNED,
    ]  # fmt: skip


def test_no_name_would_break_the_table_of_the_page() -> None:
    names = [sink_streams.DEFAULT, sink_streams.TUNED, source.THEIRS, source.OURS, source.OUR_TWO]
    assert not [name for name in names if "|" in name]
