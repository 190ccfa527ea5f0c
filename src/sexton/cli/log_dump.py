"""`sexton log dump`: every record, and how its transaction ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sexton.base.errors import ConfigError, CorruptLog
from sexton.base.findings import Finding
from sexton.cli.log_files import PathsArgument, human_time, look_at
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.log.inspect.rendering import Renderer, Rendering, key_bytes
from sexton.report.tables import Cell, Column, Row, number

if TYPE_CHECKING:
    from sexton.log.inspect.blocks import Block
    from sexton.log.inspect.dump import DumpedBatch, DumpedRecord
    from sexton.log.inspect.paths import Found
    from sexton.log.inspect.selection import Selection

EXAMPLES = (
    ("Show a partition", "sexton log dump /var/lib/kafka/data/orders-3"),
    ("Follow one key, as JSON lines", "sexton log dump orders-3 --key user-17 --format jsonl"),
    (
        "Aborted records, values as digests",
        "sexton log dump orders-3 --outcome aborted --values digest",
    ),
    ("Batches instead of records", "sexton log dump orders-3/00000000000000000042.log --batches"),
    ("Everything into a Parquet file", "sexton log dump orders-3 --parquet orders-3.parquet"),
    ("An index, snapshot or checkpoint", "sexton log dump orders-3/00000000000000000042.snapshot"),
)
Shown = TypeVar("Shown")  # a record or a batch
SHORT_BYTES = 256  # of a key or value in a table on a terminal, unless one asks for more


class Outcome(StrEnum):
    committed = "committed"
    aborted = "aborted"
    open = "open"
    unknown = "unknown"
    plain = "plain"


def command(
    paths: PathsArgument,
    from_offset: Annotated[int | None, typer.Option(help="First offset to show.")] = None,
    to_offset: Annotated[int | None, typer.Option(help="Last offset to show.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Not before this time: 2026-11-15T20:19:13Z, or milliseconds."
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Not after this time.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Exactly this key, written as --keys would show it.")
    ] = None,
    producer_id: Annotated[int | None, typer.Option(help="Of this producer only.")] = None,
    outcome: Annotated[
        Outcome | None,
        typer.Option(
            help="How the record's transaction ended; unknown: damage hides it; plain: it was in"
            " none."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Stop after so many rows.")
    ] = None,
    keys: Annotated[Rendering, typer.Option(help="How to show keys.")] = Rendering.auto,
    values: Annotated[Rendering, typer.Option(help="How to show values.")] = Rendering.auto,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help=f"Cut longer keys and values (on a terminal: {SHORT_BYTES}); 0: show all.",
        ),
    ] = None,
    batches: Annotated[
        bool, typer.Option("--batches", help="A row for each batch instead of each record.")
    ] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Tables with all columns.")] = False,
    parquet: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the records to a Parquet file instead."),
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Show every record of logs on disk, with the outcome of its transaction.

    Control records are shown too: COMMIT and ABORT with the epoch of the coordinator that wrote
    them. Indexes, producer snapshots and checkpoints are shown if they are named as files.

    auto shows printable UTF-8 as text and other bytes as 0x and hex; digest shows size and hash.
    """
    with Output("log dump", format) as out, look_at(out, paths) as found:
        from sexton.log.inspect.selection import OUTCOMES, Selection

        selection = Selection(
            first_offset=from_offset,
            last_offset=to_offset,
            since_ms=_milliseconds("--since", since),
            until_ms=_milliseconds("--until", until),
            key=None if key is None else key_bytes(key, keys),
            producer=producer_id,
            outcome=None if outcome is None else OUTCOMES[outcome.value],
        )
        if from_offset is not None and to_offset is not None and to_offset < from_offset:
            raise ConfigError("--to-offset", "is before --from-offset")
        if parquet is not None and batches:
            raise ConfigError("--parquet", "holds records", "leave out --batches")
        dump = _Dump(out, found, selection, limit, wide, keys, values, max_bytes)
        if parquet is not None:
            dump.to_parquet(parquet)
        elif found.partitions:
            dump.show_batches() if batches else dump.show_records()
        dump.show_others()


def _milliseconds(option: str, typed: str | None) -> int | None:
    if typed is None:
        return None
    if typed.lstrip("-").isdigit():
        return int(typed)
    try:
        moment = datetime.fromisoformat(typed)
    except ValueError:
        hint = "as in 2026-11-15T20:19:13Z, 2026-11-15 (both UTC) or 1794773953428"
        raise ConfigError(option, f"{typed!r} is no time", hint) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


class _Dump:
    """One run: what was found, what is wanted of it, and how it is shown."""

    def __init__(
        self,
        out: Output,
        found: Found,
        selection: Selection,
        limit: int | None,
        wide: bool,
        keys: Rendering,
        values: Rendering,
        max_bytes: int | None,
    ) -> None:
        self.out, self.found, self.selection, self.limit = out, found, selection, limit
        self.keys, self.values = keys, values
        table = out.format is Format.table
        self.short = table and not wide
        if max_bytes is None:
            most = SHORT_BYTES if table and out.stdout.isatty() else None
        else:
            most = max_bytes or None
        parsed = out.format in (Format.json, Format.jsonl)
        self.parsed = parsed
        self.show_key = Renderer(keys, most, parsed, mark_empty=not parsed)
        self.show_value = Renderer(values, most, parsed, mark_empty=not parsed)
        self.show_header = Renderer(
            Rendering.auto if values in (Rendering.auto, Rendering.json) else values, most, parsed
        )
        self.findings: list[Finding] = []

    def _blocks(self, advance: Callable[[int], None]) -> Iterator[Block]:
        from sexton.log.inspect.blocks import blocks

        for partition in self.found.partitions:
            yield from blocks(
                partition,
                self.selection,
                self.findings.append,
                self.out.incomplete,
                advance=advance,
            )

    def _tell_findings(self) -> None:
        """After the rows: a table does not like to be interrupted."""
        for finding in self.findings:
            self.out.finding(finding)
        self.findings.clear()

    # ── records ──

    def show_records(self) -> None:
        from sexton.log.inspect.dump import records

        self._show("records", records, *self._record_table())

    def _show(
        self,
        name: str,
        read: Callable[[Block], Iterator[Shown]],
        columns: list[Column],
        row: Callable[[Shown], Row],
    ) -> None:
        with self.out.progress("reading", self.found.size, "bytes") as advance:
            chosen = (each for block in self._blocks(advance) for each in read(block))
            self.out.rows(name, columns, map(row, islice(chosen, self.limit)))
        self._tell_findings()

    def _record_table(self) -> tuple[list[Column], Callable[[DumpedRecord], Row]]:
        several = len({p.name.partition("/")[0] for p in self.found.partitions}) > 1
        if not self.short:
            names = [Column(name) for name in _RECORD_COLUMNS]
            return names, self._full_record
        # Times are aligned like numbers, so that a narrow terminal folds keys and values only.
        columns = [number("offset"), number("time_utc"), *map(Column, ("outcome", "key", "value"))]
        if not several:
            return columns, self._short_record
        return [Column("partition"), *columns], lambda r: [r.partition, *self._short_record(r)]

    def _short_record(self, record: DumpedRecord) -> list[Cell]:
        time = human_time(record.timestamp)
        if record.control is not None:
            key, value = self._control_cells(record)
            return [record.offset, time, "control", key, value]
        key, value = self.show_key(record.key), self.show_value(record.value)
        return [record.offset, time, record.outcome, key, value]

    def _control_cells(self, record: DumpedRecord) -> tuple[Cell, Cell]:
        control = record.control
        assert control is not None
        if control.coordinator_epoch is None:
            return control.name, None if control.value is None else f"0x{control.value.hex()}"
        who = f"producer {record.producer_id} epoch {record.producer_epoch}"
        return control.name, f"{who}, coordinator epoch {control.coordinator_epoch}"

    def _full_record(self, record: DumpedRecord) -> list[Any]:
        control = record.control
        raw = control is not None
        return [
            record.partition,
            record.segment,
            record.position,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            _hex(record.key) if raw else self.show_key(record.key),
            _hex(record.value) if raw else self.show_value(record.value),
            self._headers(record.headers),
            record.producer_id,
            record.producer_epoch,
            record.sequence,
            record.leader_epoch,
            record.codec,
            record.transactional,
            record.outcome,
            record.marker_offset,
            control.name if control is not None else None,
            control.coordinator_epoch if control is not None else None,
        ]

    def _headers(self, headers: tuple[tuple[str, bytes | None], ...]) -> Any:
        shown = [(name, self.show_header(value)) for name, value in headers]
        if self.parsed:
            return [{"name": name, "value": value} for name, value in shown]
        return " ".join(f"{name}={value}" for name, value in shown)

    # ── batches ──

    def show_batches(self) -> None:
        from sexton.log.inspect.dump import batches

        self._show("batches", batches, *self._batch_table())

    def _batch_table(self) -> tuple[list[Column], Callable[[DumpedBatch], Row]]:
        from sexton.log.inspect.dump import DumpedBatch

        if not self.short:
            return [Column(name) for name in DumpedBatch._fields], list
        columns = [
            number("segment"), number("position"), Column("offsets"), number("records"),
            number("size"), Column("codec"), Column("outcome"), number("producer"), number("epoch"),
            number("sequence"), number("horizon_utc"),
        ]  # fmt: skip
        several = len({p.name.partition("/")[0] for p in self.found.partitions}) > 1
        if not several:
            return columns, _short_batch
        return [Column("partition"), *columns], lambda b: [b.partition, *_short_batch(b)]

    # ── files ──

    def to_parquet(self, target: Path) -> None:
        from sexton.log.inspect.parquet import write_parquet

        with self.out.progress("writing", self.found.size, "bytes") as advance:
            count = write_parquet(target, self._blocks(advance), self.keys, self.values, self.limit)
        self._tell_findings()
        self.out.summarize(file=str(target), records=count, bytes=target.stat().st_size)

    def show_others(self) -> None:
        """Indexes, snapshots and checkpoints, those of one kind in one table."""
        from sexton.log.inspect.other_files import KINDS

        by_rows: dict[str, list[Any]] = {}
        for file in self.found.others:
            by_rows.setdefault(KINDS[file.kind].rows, []).append(file)
        for name, files in by_rows.items():
            kind = KINDS[files[0].kind]
            texts = ("file", "topic", "topic_id")
            columns = [Column(c) if c in texts else number(c) for c in ("file", *kind.columns)]
            self.out.rows(name, columns, islice(self._other_rows(files), self.limit))
        self._tell_findings()

    def _other_rows(self, files: list[Any]) -> Iterator[Row]:
        from sexton.log.inspect.other_files import rows_of

        for file in files:
            try:
                for row in rows_of(file):
                    yield [str(file.path), *row]
            except CorruptLog as error:
                self.findings.append(Finding("corrupt-file", "error", error.subject, error.why))
            except OSError as error:
                self.out.incomplete(str(file.path), error.strerror or str(error))


_RECORD_COLUMNS = (
    "partition",
    "segment",
    "position",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "producer_id",
    "producer_epoch",
    "sequence",
    "leader_epoch",
    "codec",
    "transactional",
    "outcome",
    "marker_offset",
    "control",
    "coordinator_epoch",
)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else f"0x{data.hex()}"


def _short_batch(batch: DumpedBatch) -> list[Cell]:
    offsets = f"{batch.base_offset} to {batch.last_offset}"
    if batch.base_offset == batch.last_offset:
        offsets = str(batch.base_offset)
    horizon = human_time(batch.delete_horizon)
    return [
        batch.segment.removesuffix(".log").lstrip("0") or "0",
        batch.position,
        offsets,
        batch.records,
        batch.size,
        batch.codec,
        "control" if batch.control else batch.outcome,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        None if horizon is None else horizon[:-4],
    ]
