"""`sexton retry redrive`: again, from the first attempt."""

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
from sexton.cli.retry_order import (
    DONE,
    DRY_RUN,
    NEITHER,
    SENT_BEFORE,
    SETTLED,
    Chosen,
    carried_out,
    choose,
    must_choose_one_way,
    tell,
)
from sexton.cli.retry_reach import (
    MODE,
    ORDER_EXIT_CODES,
    WAIT,
    AllHeldOption,
    DeadTopicOption,
    DryRunOption,
    GroupOption,
    KeyOption,
    LocksTopicOption,
    MessagesArgument,
    ModeOption,
    RetryTopicOption,
    TopicOption,
    WaitOption,
    names_of,
    wait_s_of,
)
from sexton.cli.writers import Format

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sexton.client.client import Client
    from sexton.machines.retry_records import TaskName
    from sexton.report.tables import Row
    from sexton.retry.redriving import Redrive, Redriven

EXAMPLES = (
    (
        "Retry one message that holds its key, or was freed as a dead letter",
        "sexton retry redrive orders-3-17 -b localhost:9092 --topic orders --group billing",
    ),
    (
        "Retry everything that is held, now that the bug is fixed",
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
    again: Annotated[
        bool,
        typer.Option("--again", help="Also dead letters that were already sent again or settled."),
    ] = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = WAIT,
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
    """Retry waiting, held or freed messages now, counting their attempts from zero.

    A message that waits or is held is retried in its place, before all later ones of its key. A
    freed one has already been overtaken: it is taken from the dead letter topic and sent to the
    main topic as a new message. A note beside its letter keeps the next call from sending it twice,
    unless --again is given.
    """
    names = names_of(topic, group, retry_topic, locks_topic, dead_topic)
    must_choose_one_way(names, messages, key, all_held)
    wait_s = wait_s_of(wait)
    reach = Reach(bootstrap, settings, command_config, data)

    async def work(client: Client) -> list[Row]:
        from sexton.retry.looking import look
        from sexton.retry.redriving import Redrive

        chosen = choose(names, await look(client, names, group, mode), messages, key, all_held)
        asked = Redrive(names, group, mode, again)
        settings = None if dry_run else reach.client_settings()
        freed = await _sent_again(client, asked, [e for e in chosen if not e.waits], settings)
        waiting = [each for each in chosen if each.waits]
        return [
            *freed,
            *await carried_out(client, names, "redrive", waiting, dry_run=dry_run, wait_s=wait_s),
        ]

    with Output("retry redrive", format) as out:
        tell(out, reach.with_client(work), wait_s)


async def _sent_again(
    client: Client, asked: Redrive, freed: list[Chosen], settings: Mapping[str, str] | None
) -> list[Row]:
    """Dead letters as new messages of the main topic; without `settings` nothing is sent."""
    from sexton.retry.redriving import redrive

    by_partition: dict[TaskName, list[Chosen]] = {}
    for each in freed:
        by_partition.setdefault(each.name, []).append(each)
    rows = []
    for name, those in by_partition.items():
        became = await redrive(client, asked, name, [each.id for each in those], settings)
        rows += [_row(each, became[each.id], asked.again) for each in those]
    return rows


def _row(freed: Chosen, became: Redriven, again: bool) -> Row:
    if became.state is None:
        return freed.row("redrive", NEITHER)
    if became.is_sent:
        return freed.row("send again", f"{DONE}: it is {became.sent_as[-1]} now")
    if not again and became.state == "sent again":
        return freed.row("send again", f"{SENT_BEFORE}, as {', '.join(became.sent_as)}")
    if not again and became.state == "settled":
        return freed.row("send again", SETTLED)
    return freed.row("send again", DRY_RUN)
