"""`sexton stores status`: who works on which task, and how warm the copies are."""

from __future__ import annotations

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
    from sexton.stores.described import Application, Described

EXAMPLES = (
    ("Of one application", "sexton stores status word-counts -b localhost:9092"),
    ("For a program", "sexton stores status word-counts -b localhost:9092 --format json"),
)
COLUMNS = (
    Column("task"), Column("owner"), number("offset"), number("lag"), number("changelog"),
    Column("copies"),
)  # fmt: skip


def command(
    application: Annotated[str, typer.Argument(help="The application id.")],
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Show the tasks of an application: who works on each, how far it is, and who has copies.

    `lag` is how many inputs are not committed yet, `changelog` where the changelog ends. A copy
    that is warming up is there to become the owner. A task without one is waiting for it.
    """

    async def work(client: Client) -> Application:
        from sexton.stores.described import describe

        return await describe(client, application)

    with Output("stores status", format) as out:
        found = Reach(bootstrap, settings, command_config, data).with_client(work)
        out.rows("tasks", COLUMNS, [_row(task) for task in found.tasks])
        if not found.instances:
            out.incomplete(application, "no instance of it runs now")
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
    copies = [f"{name} (warming up)" if name in task.warming else name for name in task.copies]
    return (
        f"{task.task}-{task.partition}", task.owner, task.offset, task.input_lag,
        task.changelog_end, ", ".join(copies),
    )  # fmt: skip
