"""`sexton log stats`: how large, how many keys, how dirty?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexton.cli.log_files import PathsArgument, holding_findings, look_at
from sexton.cli.options import FormatOption, JobsOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.quantities import exact_moment, size
from sexton.report.tables import Cell, Column, number

if TYPE_CHECKING:
    from sexton.log.inspect.paths import SegmentFile
    from sexton.log.inspect.stats import LogStats, Totals

EXAMPLES = (
    ("See what is in a partition", "sexton log stats /var/lib/kafka/data/orders-3"),
    ("Compare all partitions of a broker", "sexton log stats /var/lib/kafka/data"),
    (
        "Find the dirtiest partitions",
        "sexton log stats data --format json | jq '.partitions | sort_by(-.dirty_ratio)[:5]'",
    ),
)


def command(
    paths: PathsArgument, jobs: JobsOption = None, format: FormatOption = Format.table
) -> None:
    """Count bytes, records, keys, tombstones and transactions in logs on disk.

    One partition is shown in full, with its segments; several in a table. Keys are counted exactly
    up to four million, and beyond that estimated from a sample of their hashes.
    """
    with Output("log stats", format) as out, look_at(out, paths) as found:
        from sexton.base.errors import ConfigError
        from sexton.log.inspect.stats import stats

        for other in found.others:
            found.wrong.append(ConfigError(str(other.path), "holds no records", "name a .log file"))
        all_stats: list[LogStats] = []
        with (
            holding_findings(out) as report,
            out.progress("counting", found.size, "bytes") as advance,
        ):
            for partition in found.partitions:
                counted = stats(partition, report, out.incomplete, advance=advance, workers=jobs)
                all_stats.append(counted)
        if found.partitions:
            _show(out, all_stats)


def _show(out: Output, all_stats: list[LogStats]) -> None:
    if out.format is Format.table:
        if len(all_stats) == 1:
            facts = [Column("what"), Column("value")]
            out.rows("facts", facts, _facts(all_stats[0]))
            out.rows("segments", _SEGMENT_COLUMNS, map(_segment_short, all_stats[0].segments))
        else:
            out.rows("partitions", _SHORT_COLUMNS, map(_partition_short, all_stats))
    else:
        names = [Column(name) for name in _full(all_stats[0])]
        out.rows("partitions", names, (list(_full(s).values()) for s in all_stats))
        segments = [(s.partition, file, totals) for s in all_stats for file, totals in s.segments]
        rows = [_segment_full(*segment) for segment in segments]
        if rows:
            columns = [Column(name) for name in rows[0]]
            out.rows("segments", columns, (list(row.values()) for row in rows))
    if len(all_stats) > 1 or out.format is not Format.table:
        out.summarize(
            partitions=len(all_stats),
            segments=sum(len(s.segments) for s in all_stats),
            bytes=sum(s.totals.bytes for s in all_stats),
            batches=sum(s.totals.batches for s in all_stats),
            records=sum(s.totals.records for s in all_stats),
        )


# ── for programs ──


def _totals(totals: Totals) -> dict[str, Cell]:
    return {
        "bytes": totals.bytes,
        "batches": totals.batches,
        "records": totals.records,
        "bytes_per_record": totals.bytes_per_record,
        "control_records": totals.control_records,
        "emptied_batches": totals.emptied_batches,
        "tombstones": totals.tombstones,
        "null_keys": totals.null_keys,
        "key_bytes": totals.key_bytes,
        "value_bytes": totals.value_bytes,
        "codecs": _codecs(totals),
        "compression_ratio": totals.compression_ratio,
        "first_offset": totals.least.get("offset"),
        "last_offset": totals.largest.get("offset"),
        "first_timestamp": totals.least.get("timestamp"),
        "last_timestamp": totals.largest.get("timestamp"),
        "delete_horizons": totals.horizons,
        "first_delete_horizon": totals.least.get("horizon"),
        "last_delete_horizon": totals.largest.get("horizon"),
        "largest_batch": totals.largest.get("batch"),
        "largest_record": totals.largest.get("record"),
    }


def _full(stats: LogStats) -> dict[str, Cell]:
    return {
        "partition": stats.partition,
        "segments": len(stats.segments),
        **_totals(stats.totals),
        "keys": stats.keys,
        "keys_exact": stats.keys_exact,
        "records_per_key": stats.records_per_key,
        "producers": stats.producers,
        "committed": stats.committed,
        "aborted": stats.aborted,
        "open_transactions": stats.open_transactions,
        "transactions_in_doubt": stats.transactions_in_doubt,
        "last_stable_offset": stats.last_stable_offset,
        "dirty_ratio": stats.dirty_ratio,
        "dirty_by": stats.dirty_by,
    }


def _segment_full(partition: str, file: SegmentFile, totals: Totals) -> dict[str, Cell]:
    return {"partition": partition, "segment": file.path.name, **_totals(totals)}


# ── for people ──

_SHORT_COLUMNS = (
    Column("partition"),
    number("size"),
    number("records"),
    number("keys"),
    number("per_key"),
    number("tombstones"),
    number("dirty"),
    number("open"),
)
_SEGMENT_COLUMNS = (
    Column("segment"),
    number("size"),
    number("batches"),
    number("records"),
    Column("offsets"),
    number("last_time_utc"),
)


def _codecs(totals: Totals) -> str | None:
    parts = (f"{name} {count}" for name, count in sorted(totals.codecs.items()))
    return ", ".join(parts) or None


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"


def _offsets(totals: Totals) -> str:
    if "offset" not in totals.least:
        return "empty"
    return f"{totals.least['offset']} to {totals.largest['offset']}"


def _partition_short(stats: LogStats) -> list[Cell]:
    totals = stats.totals
    return [
        stats.partition,
        size(totals.bytes),
        totals.records,
        _keys(stats),
        stats.records_per_key,
        totals.tombstones,
        _percent(stats.dirty_ratio),
        stats.open_transactions,
    ]


def _keys(stats: LogStats) -> str:
    return str(stats.keys) if stats.keys_exact else f"about {stats.keys}"


def _segment_short(segment: tuple[SegmentFile, Totals]) -> list[Cell]:
    file, totals = segment
    return [
        file.path.name,
        size(totals.bytes),
        totals.batches,
        totals.records,
        _offsets(totals),
        exact_moment(totals.largest.get("timestamp")),
    ]


def _many(count: int, one: str, more: str | None = None) -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def _facts(stats: LogStats) -> list[tuple[str, Cell]]:
    totals = stats.totals
    span = None
    if "timestamp" in totals.least:
        first, last = totals.least["timestamp"], totals.largest["timestamp"]
        span = f"{exact_moment(first)} to {exact_moment(last)} UTC"
    compression = _codecs(totals)
    if totals.compression_ratio is not None:
        compression = f"{compression} (ratio {totals.compression_ratio})"
    horizons: Cell = totals.horizons
    if totals.horizons:
        horizons = f"{totals.horizons}, the next at {exact_moment(totals.least['horizon'])} UTC"
    dirty = _percent(stats.dirty_ratio)
    if stats.dirty_by is not None:
        dirty = f"{dirty} (by {stats.dirty_by})"
    repeated = "" if stats.records_per_key is None else f" ({stats.records_per_key} records a key)"
    transactions = (
        f"{stats.committed} committed, {stats.aborted} aborted, {stats.open_transactions} open"
    )
    if stats.transactions_in_doubt:
        transactions += f", {stats.transactions_in_doubt} in doubt"
    return [
        ("partition", stats.partition),
        ("size", f"{size(totals.bytes)} in {_many(len(stats.segments), 'segment')}"),
        ("offsets", _offsets(totals)),
        ("last stable offset", stats.last_stable_offset),
        ("times", span),
        ("records", f"{totals.records} in {_many(totals.batches, 'batch', 'batches')}"),
        ("bytes a record", totals.bytes_per_record),
        ("compression (batches)", compression),
        ("keys", f"{_keys(stats)}{repeated}"),
        ("null keys", totals.null_keys),
        ("tombstones", totals.tombstones),
        ("dirty", dirty),
        ("delete horizons", horizons),
        ("emptied batches", totals.emptied_batches),
        ("transactions", transactions),
        ("control records", totals.control_records),
        ("producers", stats.producers),
        ("largest batch", None if not totals.batches else size(totals.largest["batch"])),
        ("largest record", None if not totals.records else size(totals.largest["record"])),
    ]
