"""`sexton log dump`: every record, and how its transaction ended."""

from __future__ import annotations

from sexton.base.errors import ConfigError
from sexton.cli.durations import moment_ms
from sexton.cli.log_dump_options import (
    BatchesOption,
    FromOption,
    KeyOption,
    KeysOption,
    LimitOption,
    MaxBytesOption,
    OutcomeOption,
    ParquetOption,
    ProducerOption,
    SinceOption,
    ToOption,
    UntilOption,
    ValuesOption,
    WideOption,
)
from sexton.cli.log_dumping import Dump, Looks
from sexton.cli.log_files import PathsArgument, look_at
from sexton.cli.options import FormatOption, must_be_writable
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.log.inspect.rendering import Rendering, key_bytes

EXAMPLES = (
    ("Show a partition", "sexton log dump /var/lib/kafka/data/orders-3"),
    ("Follow one key, as JSON lines", "sexton log dump orders-3 --key user-17 --format jsonl"),
    (
        "Show aborted records, values as digests",
        "sexton log dump orders-3 --outcome aborted --values digest",
    ),
    (
        "Show batches instead of records",
        "sexton log dump orders-3/00000000000000000042.log --batches",
    ),
    ("Write everything to a Parquet file", "sexton log dump orders-3 --parquet orders-3.parquet"),
    (
        "Show an index, snapshot or checkpoint",
        "sexton log dump orders-3/00000000000000000042.snapshot",
    ),
)


def command(
    paths: PathsArgument,
    from_offset: FromOption = None,
    to_offset: ToOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    key: KeyOption = None,
    producer_id: ProducerOption = None,
    outcome: OutcomeOption = None,
    limit: LimitOption = None,
    keys: KeysOption = Rendering.auto,
    values: ValuesOption = Rendering.auto,
    max_bytes: MaxBytesOption = None,
    batches: BatchesOption = False,
    wide: WideOption = False,
    parquet: ParquetOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Show every record of logs on disk, with the outcome of its transaction.

    Control records are shown too: COMMIT and ABORT with the epoch of the coordinator that wrote
    them. Indexes, producer snapshots and checkpoints are shown if they are named as files.

    auto shows printable UTF-8 as text and other bytes as 0x and hex; digest shows size and hash.
    """
    with Output("log dump", format) as out, look_at(out, paths) as found:
        must_be_writable(parquet)
        from sexton.log.inspect.selection import OUTCOMES, Selection

        if from_offset is not None and to_offset is not None and to_offset < from_offset:
            raise ConfigError("--to-offset", "is before --from-offset", "nothing lies between them")
        if parquet is not None and batches:
            raise ConfigError("--parquet", "holds records", "leave out --batches")
        selection = Selection(
            first_offset=from_offset,
            last_offset=to_offset,
            since_ms=None if since is None else moment_ms(since, "--since"),
            until_ms=None if until is None else moment_ms(until, "--until"),
            key=None if key is None else key_bytes(key, keys),
            producer=producer_id,
            outcome=None if outcome is None else OUTCOMES[outcome.value],
        )
        dump = Dump(out, found, selection, Looks(keys, values, max_bytes, wide, limit))
        if parquet is not None:
            dump.to_parquet(parquet)
        elif found.partitions:
            dump.show_batches() if batches else dump.show_records()
        dump.show_others()
