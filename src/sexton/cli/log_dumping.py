"""How is a log shown, record by record or batch by batch?

On a terminal in few columns, with long values cut; with `--wide`, in a pipe and for programs in all
columns. What is wrong with a log is told after its rows: a table does not like to be interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sexton.base.errors import CorruptLog
from sexton.base.findings import Finding
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.log.inspect.rendering import Renderer, Rendering
from sexton.report.quantities import exact_moment
from sexton.report.tables import Cell, Column, Row, number

if TYPE_CHECKING:
    from sexton.log.inspect.blocks import Block
    from sexton.log.inspect.dump import DumpedBatch, DumpedRecord
    from sexton.log.inspect.paths import Found
    from sexton.log.inspect.selection import Selection

Shown = TypeVar("Shown")  # a record or a batch
SHORT_BYTES = 256  # of a key or value in a table on a terminal, unless one asks for more


@dataclass(frozen=True, slots=True)
class Looks:
    """How it is to be shown."""

    keys: Rendering
    values: Rendering
    max_bytes: int | None
    wide: bool
    limit: int | None


class Dump:
    """One run: what was found, what is wanted of it, and how it is shown."""

    def __init__(self, out: Output, found: Found, selection: Selection, looks: Looks) -> None:
        self.out, self.found, self.selection, self.looks = out, found, selection, looks
        table = out.format is Format.table
        self.short = table and not looks.wide
        most = looks.max_bytes or None
        if looks.max_bytes is None and table and out.stdout.isatty():
            most = SHORT_BYTES
        self.parsed = parsed = out.format in (Format.json, Format.jsonl)
        self.show_key = Renderer(looks.keys, most, parsed, mark_empty=not parsed)
        self.show_value = Renderer(looks.values, most, parsed, mark_empty=not parsed)
        plain = looks.values in (Rendering.auto, Rendering.json)
        self.show_header = Renderer(Rendering.auto if plain else looks.values, most, parsed)
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
        shown = 0

        def rows(advance: Callable[[int], None]) -> Iterator[Row]:
            nonlocal shown
            chosen = (each for block in self._blocks(advance) for each in read(block))
            for each in islice(chosen, self.looks.limit):
                shown += 1
                yield row(each)

        with self.out.progress("reading", self.found.size, "bytes") as advance:
            self.out.rows(name, columns, rows(advance))
        if not shown:
            self.out.say(f"There is no such {'batch' if name == 'batches' else 'record'}.")
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
        time = exact_moment(record.timestamp)
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
            looks, blocks = self.looks, self._blocks(advance)
            count = write_parquet(target, blocks, looks.keys, looks.values, looks.limit)
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
            self.out.rows(name, columns, islice(self._other_rows(files), self.looks.limit))
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
    horizon = exact_moment(batch.delete_horizon)
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
