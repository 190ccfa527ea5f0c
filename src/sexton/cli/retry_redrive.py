"""`sexton retry redrive`: again, from the first attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.retry_order import Chosen, choose, order
from sexton.cli.retry_reach import (
    ORDER_EXIT_CODES,
    ORDERS,
    WAIT,
    AllHeldOption,
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
    wait_s_of,
)
from sexton.cli.writers import Format

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.report.tables import Row
    from sexton.retry.commanding import Sent

EXAMPLES = (
    (
        "One message that holds its key, or was freed as a dead letter",
        "sexton retry redrive orders-3-17 -b localhost:9092 --topic orders --group billing",
    ),
    (
        "Everything that is held, now that the bug is fixed",
        "sexton retry redrive --all-held -b localhost:9092 --topic orders --group billing",
    ),
)
EXIT_CODES = ORDER_EXIT_CODES


def command(
    topic: TopicOption,
    group: GroupOption,
    messages: MessagesArgument = None,
    key: KeyOption = None,
    all_held: AllHeldOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = WAIT,
    retry_topic: RetryTopicOption = None,
    locks_topic: LocksTopicOption = None,
    dead_topic: DeadTopicOption = None,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Try messages again at once, attempts counted anew: those that wait, are held, or were freed.

    A message that waits or is held is tried in its place, before all later ones of its key. One
    that was freed has been overtaken already: it is taken from the dead letter topic and sent to
    the main topic as a new message.
    """
    names = names_of(topic, group, retry_topic, locks_topic, dead_topic)
    wait_s = wait_s_of(wait)
    reach = Reach(bootstrap, settings, command_config, data)

    async def work(client: Client) -> tuple[list[Row], list[Sent]]:
        from sexton.retry.commanding import until_done
        from sexton.retry.looking import look

        chosen = choose(names, await look(client, names, group), messages, key, all_held)
        waiting = [each for each in chosen if each.waits]
        rows = [await _freed(client, each) for each in chosen if not each.waits]
        if dry_run:
            return [*(each.row("redrive", "dry run") for each in waiting), *rows], []
        sent = await order(client, names, "redrive", waiting)
        left = await until_done(client, sent, wait_s)
        rows += [
            each.row("redrive", "sent" if told in left else "done")
            for each, told in zip(waiting, sent, strict=True)
        ]
        return rows, left

    async def _freed(client: Client, each: Chosen) -> Row:
        from sexton.retry.commanding import dead_letter, send_again

        letter = await dead_letter(client, names, each.name, each.id)
        if letter is None:
            return each.row("redrive", "neither waits nor is a dead letter")
        if dry_run:
            return each.row("send again", "dry run")
        offset = send_again(reach.client_settings(), each.name, letter)
        again = each.name.id_of(offset).decode()
        return each.row("send again", f"done: it is {again} now")

    with Output("retry redrive", format) as out:
        rows, left = reach.with_client(work)
        out.rows("orders", ORDERS, rows)
        for row in rows:
            if str(row[3]).startswith("neither"):
                out.incomplete(str(row[0]), str(row[3]))
        say_pending(out, left, wait_s)
        out.summarize(messages=len(rows), not_done=len(left))
