"""`sexton retry locks`: every message that waits."""

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
from sexton.cli.retry_reach import (
    LOCKS,
    MODE,
    DeadTopicOption,
    GroupOption,
    LocksTopicOption,
    ModeOption,
    RetryTopicOption,
    TopicOption,
    lock_row,
    names_of,
)
from sexton.cli.writers import Format

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.retry.looking import Lock

EXAMPLES = (
    ("All of them", "sexton retry locks -b localhost:9092 --topic orders --group billing"),
    (
        "List those that hold their key until somebody decides",
        "sexton retry locks -b localhost:9092 --topic orders --group billing --held",
    ),
    (
        "List only the first of each key, for which the others wait",
        "sexton retry locks -b localhost:9092 --topic orders --group billing --first",
    ),
)


def command(
    topic: TopicOption,
    group: GroupOption,
    held: Annotated[
        bool, typer.Option("--held", help="Only messages that have reached their ceiling.")
    ] = False,
    first: Annotated[
        bool,
        typer.Option("--first", help="Only the first message of each key, not those behind it."),
    ] = False,
    retry_topic: RetryTopicOption = None,
    locks_topic: LocksTopicOption = None,
    dead_topic: DeadTopicOption = None,
    mode: ModeOption = MODE,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """List waiting messages: the key each one holds, attempts so far, and why it failed."""
    names = names_of(topic, group, retry_topic, locks_topic, dead_topic)

    async def work(client: Client) -> list[Lock]:
        from sexton.retry.looking import locks_of, look, reasons

        found = []
        for seen in await look(client, names, group, mode):
            if len(seen.task.pending):
                found += locks_of(seen, await reasons(client, names, seen.name))
        return found

    with Output("retry locks", format) as out:
        locks = [
            lock
            for lock in Reach(bootstrap, settings, command_config, data).with_client(work)
            if (lock.held.dead or not held) and (lock.behind is None or not first)
        ]
        out.rows("locks", LOCKS, map(lock_row, locks))
        out.summarize(locks=len(locks))
