"""`sexton log clean`: compaction without a broker, or what it would do."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError, CorruptLog, SextonError
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.base.findings import Finding
    from sexton.log.disk import Disk
    from sexton.log.partition import PartitionLog
    from sexton.log.recovery import Opened

EXAMPLES = (
    ("See what a pass would remove, and why", "sexton log clean --dry-run orders-0"),
    ("Compact a partition of a stopped broker, as Kafka would", "sexton log clean orders-0"),
    (
        "Judge delete horizons by another clock",
        "sexton log clean --dry-run --now 1767225600000 orders-0",
    ),
)
WOULD_BE_MENDED = "nothing: it is put right when the log is cleaned"
UNTOUCHED = (
    "nothing may be cleaned: it is all in the last segment, or after an open transaction,"
    " or above the high watermark"
)
COLUMNS = (
    Column("partition"),
    number("up_to"),
    number("read_bytes"),
    number("kept_bytes"),
    number("superseded"),
    number("aborted"),
    number("tombstones"),
    number("markers"),
    number("without_key"),
    number("empty_batches"),
)


def command(
    paths: Annotated[
        list[Path], typer.Argument(help="Partition directories (TOPIC-N).", metavar="DIR...")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and change nothing.")
    ] = False,
    delete_retention_ms: Annotated[
        int,
        typer.Option(
            "--delete-retention-ms",
            help="How long to keep a tombstone or marker that becomes removable now.",
            min=0,
        ),
    ] = 24 * 60 * 60 * 1000,
    now: Annotated[
        int | None,
        typer.Option(
            "--now", help="The time to judge by, in milliseconds since 1970. Default: now."
        ),
    ] = None,
    set_bytes: Annotated[
        int,
        typer.Option(
            "--dedupe-buffer-bytes",
            help="Memory for the set of keys, at 10 bytes per key.",
            min=512,
        ),
    ] = 128 << 20,
    format: FormatOption = Format.table,
) -> None:
    """Compact logs on disk as Apache Kafka's cleaner would, or show what it would remove.

    The broker must be stopped, except with --dry-run. Everything in the last segment, and at or
    after an open transaction, stays as it is; so does everything above the high watermark, if its
    checkpoint file is there, and a log whose end is damaged. Tombstones and markers go when their
    delete horizon has passed: on a cluster with a replica that is behind, that is how replicas come
    to disagree.
    """
    now_ms = int(time.time() * 1000) if now is None else now
    with Output("log clean", format) as out:
        rows = []
        for path in paths:
            try:
                rows.append(_clean(out, path, now_ms, delete_retention_ms, set_bytes, dry_run))
            except ConfigError:
                raise
            except SextonError as error:
                out.skipped(error)
        out.rows("partitions", COLUMNS, rows)
        for name, _, read_bytes, *_ in rows:
            if not read_bytes:
                out.say(f"{name}: {UNTOUCHED}")
        if dry_run:
            out.say("nothing was changed")


def _clean(
    out: Output, path: Path, now_ms: int, delete_retention_ms: int, set_bytes: int, dry_run: bool
) -> tuple[str | int, ...]:
    from sexton.base.partitions import TopicPartition

    directory = path.resolve()
    if not directory.is_dir():
        raise ConfigError(str(path), "is not a directory", "name a partition's directory, TOPIC-N")
    TopicPartition.from_directory(directory.name)
    alone = contextlib.nullcontext() if dry_run else _brokers_kept_out(directory.parent)
    with alone:
        return _passed(out, directory, now_ms, delete_retention_ms, set_bytes, dry_run)


@contextlib.contextmanager
def _brokers_kept_out(data_directory: Path) -> Iterator[None]:
    """Holds the locks that a broker takes; refuses if one has them.

    Apache Kafka's is in its data directory, that of `sexton up` one above, in the cluster's home;
    and to Linux they are locks of different kinds, which do not see each other.
    """
    home = data_directory.parent
    with _locked(data_directory, fcntl.lockf), _locked(home, fcntl.flock):
        yield


@contextlib.contextmanager
def _locked(directory: Path, lock: Callable[[IO[bytes], int], None]) -> Iterator[None]:
    path = directory / ".lock"
    if not path.exists():
        yield  # no broker has ever run here
        return
    with path.open("r+b") as file:
        try:
            lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            why = "is in use by a running broker"
            raise ConfigError(str(directory), why, "stop it first, or use --dry-run") from None
        yield


def _passed(
    out: Output,
    directory: Path,
    now_ms: int,
    delete_retention_ms: int,
    set_bytes: int,
    dry_run: bool,
) -> tuple[str | int, ...]:
    from sexton.log.cleaner import CleanerOptions, clean
    from sexton.log.cleaner_bounds import Bounds

    log = _opened(out, directory, now_ms, dry_run)
    end = min(log.last_stable_offset, log.active.base_offset)
    seed = int.from_bytes(os.urandom(8), "big")
    options = CleanerOptions(delete_retention_ms, set_bytes, seed, dry_run)
    tally = clean(log, Bounds.independent(now_ms, end), options).tally
    if not dry_run:
        log.close(now_ms)
    return (
        directory.name,
        end,
        tally.bytes_read,
        tally.bytes_written,
        tally.superseded,
        tally.aborted,
        tally.tombstones,
        tally.markers,
        tally.without_key,
        tally.empty_batches,
    )


def _opened(out: Output, directory: Path, now_ms: int, dry_run: bool) -> PartitionLog:
    """The log, its last segment verified; a rehearsal writes to memory only.

    Opening a log cuts it where it is damaged, for a broker that has replicas to fill up from. Here
    nobody has, so every log is opened in rehearsal first, and left alone if it would be cut.
    """
    from sexton.log.overlay_disk import OverlayDisk
    from sexton.log.real_disk import RealDisk

    opened = _opened_on(OverlayDisk(directory.parent), directory, now_ms)
    _must_lose_nothing(opened.findings)
    if not dry_run:
        opened = _opened_on(RealDisk(directory.parent), directory, now_ms)
    for finding in opened.findings:
        out.finding(replace(finding, remedy=WOULD_BE_MENDED) if dry_run else finding)
    return opened.log


def _must_lose_nothing(findings: Sequence[Finding]) -> None:
    for finding in findings:
        lost = finding.evidence.get("bytes_dropped")
        if lost:
            why = f"{finding.message}: {lost} bytes would be cut, so nothing was cleaned"
            raise CorruptLog(finding.where, f"{why}; see `sexton log verify`")


def _opened_on(disk: Disk, directory: Path, now_ms: int) -> Opened:
    from sexton.base.partitions import TopicPartition
    from sexton.log.checkpoints import parse_offsets
    from sexton.log.config import LogConfig
    from sexton.log.names import HIGH_WATERMARKS, LOG
    from sexton.log.recovery import open_log

    bases = [int(path.stem) for path in directory.glob(f"*{LOG}")]
    if not bases:
        raise ConfigError(str(directory), "holds no segments", "name a partition's directory")
    checkpoint = directory.parent / HIGH_WATERMARKS
    known = parse_offsets(checkpoint.read_bytes(), str(checkpoint)) if checkpoint.exists() else {}
    partition = TopicPartition.from_directory(directory.name)
    return open_log(
        disk,
        directory.name,
        LogConfig(),
        now_ms=now_ms,
        recovery_point=max(bases),
        high_watermark=known.get(partition, 1 << 62),
    )
