"""`sexton sink doctor`: exactly-once pipelines, what they have left open, and how they go on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import ConfigError
from sexton.base.findings import Finding
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.txn_reach import ago, when
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.spark.sink_doctor import Checkpoint, Checkup

EXAMPLES = (
    ("Show every pipeline of a cluster", "sexton sink doctor -b localhost:9092"),
    (
        "Show one by its checkpoint, and whether it may go on",
        "sexton sink doctor -b localhost:9092 --checkpoint /data/checkpoints/orders",
    ),
    (
        "Abort what a job that will not come back has left open, so that readers need not wait",
        "sexton sink doctor -b localhost:9092 --job-id orders-2024-06 --end",
    ),
)
EXIT_CODES = (
    "0 all is well, 1 something needs attention, 2 wrong usage, 3 a broker could not be asked."
)
COLUMNS = (
    Column("pipeline"), Column("transaction"), number("producer_id"), Column("open_since"),
    number("last_batch"), number("rows"), Column("written"), Column("marker_expires"),
    Column("query_id"),
)  # fmt: skip
SOON_MS = 24 * 3600 * 1000


NameOption = Annotated[
    list[str] | None,
    typer.Option("--name", metavar="NAME", help="A pipeline with this name."),
]
QueryOption = Annotated[
    list[str] | None,
    typer.Option("--query-id", metavar="ID", help="An unnamed pipeline, by the id of its query."),
]
JobOption = Annotated[
    list[str] | None, typer.Option("--job-id", metavar="ID", help="A job, by its id.")
]
CheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="A stream, by its checkpoint on this machine; with --name, if it has one.",
    ),
]
EndOption = Annotated[
    bool, typer.Option("--end", help="Abort what these have open; their drivers run it again.")
]


def command(
    names: NameOption = None,
    query_ids: QueryOption = None,
    job_ids: JobOption = None,
    checkpoint: CheckpointOption = None,
    end: EndOption = False,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Show where exactly-once pipelines stand and what they left open; with --end, end it.

    An open transaction belongs to a driver at work, or to one that has died: then Kafka ends it
    after its timeout, and readers of committed records wait until it does. With --end it is ended
    now. That loses nothing even if the driver is alive: the batch is not visible yet, and is run
    again.
    """
    from sexton.spark.sink_doctor import read_checkpoint
    from sexton.spark.sink_protocol import JOB

    place = None if checkpoint is None else read_checkpoint(checkpoint)
    chosen = [*(names or ()), *(query_ids or ()), *(JOB + each for each in job_ids or ())]
    if place is not None and not names:
        chosen.append(place.query)
    _check(chosen, place, end)
    reach = Reach(bootstrap, settings, command_config, data)
    with Output("sink doctor", format) as out:
        found, unasked = reach.with_client(lambda client: _look(client, chosen))
        ended = _end(reach, found, out) if end else []
        if ended:
            found, unasked = reach.with_client(lambda client: _look(client, chosen))
        _show(out, found, place)
        if not found and not unasked:
            out.say("There is no exactly-once pipeline yet.")
        for what, why in unasked:
            out.incomplete(what, why)
        for pipeline in ended:
            out.say(f"{pipeline}: its open transaction is aborted; its batch will be run again")
        if end:
            out.summarize(ended=len(ended))


def _check(chosen: list[str], place: Checkpoint | None, end: bool) -> None:
    if place is not None and len(chosen) != 1:
        raise ConfigError("--checkpoint", "is that of one pipeline", "name no other")
    if end and not chosen:
        hint = "say which, with --name, --query-id, --job-id or --checkpoint"
        raise ConfigError("--end", "would end those of pipelines at work, too", hint)


def _show(out: Output, found: list[Checkup], place: Checkpoint | None) -> None:
    out.rows("pipelines", COLUMNS, [_row(each) for each in found])
    for each in found:
        for finding in _findings(each, place):
            out.finding(finding)
    out.summarize(pipelines=len(found), open=sum(each.is_open for each in found))


async def _look(client: Client, chosen: list[str]) -> tuple[list[Checkup], list[tuple[str, str]]]:
    from sexton.spark.sink_doctor import all_pipelines, check_up

    if chosen:
        return await check_up(client, chosen), []
    names, unasked = await all_pipelines(client)
    return await check_up(client, names), unasked


def _end(reach: Reach, found: list[Checkup], out: Output) -> list[str]:
    from sexton.client.retrying import Patience
    from sexton.spark.sink_doctor import ONGOING, end_open

    ended = []
    for each in found:
        transaction = each.transaction
        if transaction is not None and transaction.state == ONGOING:
            reach.with_client(
                lambda client, each=each: end_open(client, each, Patience())  # type: ignore[misc]
            )
            ended.append(each.pipeline)
    if not ended:
        out.say("nothing is open that could be ended")
    return ended


def _row(found: Checkup) -> Row:
    transaction, marker = found.transaction, found.marker
    return (
        found.pipeline,
        None if transaction is None else transaction.state,
        None if transaction is None else transaction.producer_id,
        when(transaction.started_ms) if transaction is not None and found.is_open else None,
        None if marker is None else marker.batch,
        None if marker is None else marker.rows,
        None if marker is None else when(marker.at_ms),
        None if found.expires_ms is None else when(found.expires_ms),
        None if marker is None else marker.query,
    )


# ── what needs attention ──


def _findings(found: Checkup, checkpoint: Checkpoint | None) -> list[Finding]:
    said = [_open(found), _foreign(found), _expires(found)]
    if checkpoint is None and found.is_unknown:
        message = "Kafka knows nothing of it: it has not written here, or was forgotten since"
        remedy = "`sexton sink doctor` without a name lists those that are known"
        said.append(Finding("unknown-pipeline", "warning", found.pipeline, message, {}, remedy))
    if checkpoint is not None and found.foreign is None:
        said.append(_next(found, checkpoint))
    return [each for each in said if each is not None]


def _open(found: Checkup) -> Finding | None:
    transaction = found.transaction
    if transaction is None or not found.is_open:
        return None
    from sexton.spark.sink_doctor import ONGOING

    started_ms, now_ms = transaction.started_ms, int(time.time() * 1000)
    late = now_ms - started_ms > transaction.timeout_ms
    where = ", ".join(map(str, transaction.partitions[:5])) or "no partition yet"
    if len(transaction.partitions) > 5:
        where += f" and {len(transaction.partitions) - 5} more"
    evidence = {
        "producer_id": transaction.producer_id, "producer_epoch": transaction.epoch,
        "open_ms": now_ms - started_ms, "timeout_ms": transaction.timeout_ms,
    }  # fmt: skip
    if transaction.state != ONGOING:
        message = f"a transaction is being ended ({transaction.state}), in {where}"
        return Finding("open-transaction", "note", found.pipeline, message, evidence)
    message = f"a transaction has been open for {ago(started_ms)}, in {where}"
    if late:
        message += "; Kafka should have ended it by now"
    remedy = (
        "its driver is at work, or has died: then start it again, or give --end; else Kafka ends "
        f"it at {when(started_ms + transaction.timeout_ms)}"
    )
    return Finding(
        "open-transaction", "warning" if late else "note", found.pipeline, message, evidence, remedy
    )


def _foreign(found: Checkup) -> Finding | None:
    if found.foreign is None:
        return None
    return Finding(
        "foreign-offset", "error", found.pipeline,
        f"{found.foreign.subject} {found.foreign.why}", {}, found.foreign.hint,
    )  # fmt: skip


def _expires(found: Checkup) -> Finding | None:
    if found.expires_ms is None or found.retention_ms is None:
        return None
    left_ms = found.expires_ms - int(time.time() * 1000)
    if left_ms > min(SOON_MS, found.retention_ms // 2):
        return None
    message = (
        f"nothing was written since {when(found.marker.at_ms) if found.marker else '-'}, and Kafka "
        f"may forget the marker from {when(found.expires_ms)} on"
    )
    remedy = (
        "a job's id may be used again then; a stream would be refused, and wants the number of its "
        "last batch (after_batch): let it write before then, or raise offsets.retention.minutes"
    )
    return Finding("marker-expires", "warning", found.pipeline, message, {}, remedy)


def _next(found: Checkup, checkpoint: Checkpoint) -> Finding | None:
    from sexton.spark.sink_doctor import next_step
    from sexton.spark.sink_marker import SinkRefused

    evidence = {
        "next_batch": checkpoint.next_batch,
        "last_batch": found.marker.batch if found.marker else None,
    }
    try:
        written = next_step(checkpoint, found)
    except SinkRefused as error:
        return Finding("pipeline-refused", "error", found.pipeline, error.why, evidence, error.hint)
    message = f"Spark goes on with batch {checkpoint.next_batch}, and the topic waits for it"
    if not written:
        message = (
            f"Spark runs batch {checkpoint.next_batch} again, which is in the topic: nothing will "
            "be written twice"
        )
    return Finding("pipeline-agrees", "note", found.pipeline, message, evidence)
