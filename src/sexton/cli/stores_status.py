"""`sexton stores status`: who works on which task, and how warm the copies are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.stores.described import Application, Copy, Described
    from sexton.stores.warmth import Warmth

EXAMPLES = (
    ("Show one application", "sexton stores status word-counts -b localhost:9092"),
    ("For a program", "sexton stores status word-counts -b localhost:9092 --format json"),
)
COLUMNS = (
    Column("task"), Column("owner"), number("offset"), number("lag"), number("changelog"),
    Column("copies"), number("behind"),
)  # fmt: skip
COPIES = (
    Column("task"), Column("instance"), number("position"), number("behind"), number("seconds_ago"),
    Column("warming"),
)  # fmt: skip
_OLD_S = 60  # instances tell every few seconds


def command(
    application: Annotated[str, typer.Argument(help="The application id.")],
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Show an application's tasks: who runs each one, how far it is, and who has copies.

    `lag` is how many inputs are not committed yet, `changelog` where the changelog ends, `behind`
    how many changelog records the nearest copy lacked when its instance last reported, which it
    does every few seconds. A copy that is warming up is to become the owner. A task without an
    owner is waiting for one.
    """

    async def work(client: Client) -> Application:
        from sexton.stores.described import describe

        return await describe(client, application)

    with Output("stores status", format) as out:
        found = Reach(bootstrap, settings, command_config, data).with_client(work)
        out.rows("tasks", COLUMNS, [_row(task) for task in found.tasks])
        if format is not Format.table:
            out.rows("copies", COPIES, [row for task in found.tasks for row in _copies(task)])
        if not found.instances:
            out.incomplete(application, "no instance of it runs now")
        for group, why in found.unread:
            out.incomplete(group, f"how warm its copies are cannot be read: {why}")
        for task in found.tasks:
            if task.owner is None:
                out.incomplete(f"{task.task}-{task.partition}", "nobody works on it now")
        out.summarize(
            state=found.state,
            instances=len(found.instances),
            tasks=len(found.tasks),
            lag=sum(task.input_lag for task in found.tasks),
        )


def _row(task: Described) -> Row:
    told = [copy.warmth.lag for copy in task.copies if copy.warmth is not None]
    return (
        _name(task), task.owner, task.offset, task.input_lag, task.changelog_end,
        ", ".join(map(in_words, task.copies)), min(told, default=None),
    )  # fmt: skip


def in_words(copy: Copy) -> str:
    """Who has it, and how far it is."""
    about = ["warming up"] if copy.warming else []
    if copy.warmth is None:
        about.append("has not said how far it is")
    else:
        ago_s = _seconds_ago(copy.warmth)
        when = f" {ago_s} s ago" if ago_s > _OLD_S else ""
        about.append(f"{copy.warmth.lag} behind{when}")
    return f"{copy.instance} ({', '.join(about)})"


def _copies(task: Described) -> Iterator[Row]:
    for copy in task.copies:
        told = copy.warmth
        known = (None,) * 3 if told is None else (told.position, told.lag, _seconds_ago(told))
        yield (_name(task), copy.instance, *known, copy.warming)


def _name(task: Described) -> str:
    return f"{task.task}-{task.partition}"


def _seconds_ago(told: Warmth) -> int:
    return max(0, round(time.time() - told.told_ms / 1000))
