"""`sexton log verify`: is every byte what a broker would have written?"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.log_files import PathsArgument, holding_findings, look_at
from sexton.cli.options import FormatOption, JobsOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.quantities import size
from sexton.report.tables import Cell, Column, number

if TYPE_CHECKING:
    from sexton.log.inspect.verify import Verdict

EXAMPLES = (
    ("Check everything a broker has on disk", "sexton log verify /var/lib/kafka/data"),
    ("Check one partition", "sexton log verify /var/lib/kafka/data/orders-3"),
    ("Count what is wrong", "sexton log verify data --format jsonl | jq -r .code | sort | uniq -c"),
)


class CleanupPolicy(StrEnum):
    auto = "auto"
    compact = "compact"
    delete = "delete"


def command(
    paths: PathsArgument,
    cleanup_policy: Annotated[
        CleanupPolicy,
        typer.Option(
            help="The topic's cleanup.policy. auto looks for traces of compaction; with delete, a"
            " gap that a producer's sequence jumps across counts as lost records.",
        ),
    ] = CleanupPolicy.auto,
    jobs: JobsOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Check that segments, indexes and snapshots are what a broker would have written.

    Every batch's CRC and every record are read; offsets, leader epochs, producer sequences and
    transactions are followed through the whole log; indexes, transaction indexes, producer
    snapshots and the leader epoch checkpoint are compared with it. Every offset without a record is
    explained.

    Nothing is changed, and the broker may be running: then the end of a log may look torn.
    """
    with Output("log verify", format) as out, look_at(out, paths) as found:
        from sexton.log.inspect.verify import verify

        partitions = found.with_logs_of_others()
        verdicts: list[Verdict] = []
        with (
            holding_findings(out) as report,
            out.progress("verifying", sum(p.size for p in partitions), "bytes") as advance,
        ):
            for partition in partitions:
                verdict = verify(
                    partition,
                    report,
                    out.incomplete,
                    policy=cleanup_policy.value,
                    advance=advance,
                    workers=jobs,
                )
                verdicts.append(verdict)
        if partitions:
            _show(out, verdicts)


def _show(out: Output, verdicts: list[Verdict]) -> None:
    from sexton.log.inspect.gaps import REASONS

    if out.format is Format.table:
        columns = (
            Column("partition"), number("segments"), number("size"), number("records"),
            Column("offsets"), Column("without_a_record"), Column("found"),
        )  # fmt: skip
        out.rows("partitions", columns, map(_short, verdicts))
        out.say("")
        out.say_findings()
        if len(verdicts) == 1:
            return  # its line has said it all
    else:
        reasons = [f"missing_{reason.replace('-', '_')}" for reason in REASONS]
        names = (*_FIELDS, *reasons, "errors", "warnings", "notes")
        out.rows("partitions", [Column(name) for name in names], map(_full, verdicts))
    missing = {reason: sum(v.missing.get(reason, 0) for v in verdicts) for reason in REASONS}
    out.summarize(
        partitions=len(verdicts),
        segments=sum(v.segments for v in verdicts),
        bytes=sum(v.bytes for v in verdicts),
        batches=sum(v.batches for v in verdicts),
        records=sum(v.records for v in verdicts),
        offsets_without_a_record=sum(missing.values()),
        **{f"of_them_{reason}".replace("-", "_"): n for reason, n in missing.items() if n},
    )


_FIELDS = (
    "partition",
    "segments",
    "bytes",
    "batches",
    "records",
    "first_offset",
    "next_offset",
    "last_stable_offset",
    "committed",
    "aborted",
    "open_transactions",
    "transactions_in_doubt",
)


def _full(verdict: Verdict) -> list[Cell]:
    from sexton.log.inspect.gaps import REASONS

    row: list[Cell] = [getattr(verdict, name) for name in _FIELDS]
    row += [verdict.missing.get(reason, 0) for reason in REASONS]
    return [*row, *(verdict.findings[severity] for severity in ("error", "warning", "note"))]


def _short(verdict: Verdict) -> list[Cell]:
    from sexton.report.findings import describe_counts

    offsets = "-" if verdict.batches else "empty"
    if verdict.next_offset is not None:
        offsets = f"{verdict.first_offset} to {verdict.next_offset - 1}"
    missing = ", ".join(f"{count} {reason}" for reason, count in verdict.missing.items())
    found = describe_counts(verdict.findings) if verdict.findings else "nothing"
    return [
        verdict.partition,
        verdict.segments,
        size(verdict.bytes),
        verdict.records,
        offsets,
        missing,
        found,
    ]
