"""`sexton retry skip`: the key goes on without this message."""

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
from sexton.cli.retry_order import choose, order
from sexton.cli.retry_reach import (
    ORDERS,
    DeadTopicOption,
    DryRunOption,
    GroupOption,
    KeyOption,
    LocksTopicOption,
    MessagesArgument,
    RetryTopicOption,
    TopicOption,
    WaitOption,
    names_of,
    say_pending,
)
from sexton.cli.writers import Format

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.machines.retry_records import Verb
    from sexton.report.tables import Row
    from sexton.retry.commanding import Sent

EXAMPLES = (
    (
        "One message; it goes to the dead letter topic",
        "sexton retry skip orders-3-17 -b localhost:9092 --topic orders --group billing",
    ),
    (
        "All that waits for a key, and no dead letters",
        "sexton retry skip --key order-123 --discard -b kafka:9092 --topic orders --group billing",
    ),
)


def command(
    messages: MessagesArgument = None,
    key: KeyOption = None,
    all_held: Annotated[
        bool, typer.Option("--all-held", help="Every message that has reached its ceiling.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Keep no dead letter of it either.")
    ] = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = 10.0,
    topic: TopicOption = None,
    group: GroupOption = None,
    retry_topic: RetryTopicOption = None,
    locks_topic: LocksTopicOption = None,
    dead_topic: DeadTopicOption = None,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Give up messages that wait, so that their keys go on: to the dead letter, or for good.

    A message that is held is a dead letter already; with --discard there is no second one.
    """
    names = names_of(topic, group, retry_topic, locks_topic, dead_topic)
    do: Verb = "discard" if discard else "skip"

    async def work(client: Client) -> tuple[list[Row], list[Sent]]:
        from sexton.retry.commanding import until_done
        from sexton.retry.looking import look

        chosen = choose(names, await look(client, names, group or ""), messages, key, all_held)
        rows = [each.row(do, "does not wait") for each in chosen if not each.waits]
        waiting = [each for each in chosen if each.waits]
        if dry_run:
            return [*(each.row(do, "dry run") for each in waiting), *rows], []
        sent = await order(client, names, do, waiting)
        left = await until_done(client, sent, wait)
        rows += [
            each.row(do, "sent" if told in left else "done")
            for each, told in zip(waiting, sent, strict=True)
        ]
        return rows, left

    with Output("retry skip", format) as out:
        rows, left = Reach(bootstrap, settings, command_config, data).with_client(work)
        out.rows("orders", ORDERS, rows)
        for row in rows:
            if row[3] == "does not wait":
                out.incomplete(str(row[0]), "does not wait: nothing was done")
        say_pending(out, left, wait)
        out.summarize(messages=len(rows), not_done=len(left))
