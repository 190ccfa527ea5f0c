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
from sexton.cli.retry_order import (
    DOES_NOT_WAIT,
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
    from sexton.client.client import Client
    from sexton.machines.retry_records import Verb
    from sexton.report.tables import Row

EXAMPLES = (
    (
        "Skip one message; it goes to the dead letter topic",
        "sexton retry skip orders-3-17 -b localhost:9092 --topic orders --group billing",
    ),
    (
        "Skip all that waits for a key, without dead letters",
        "sexton retry skip --key order-123 --discard -b kafka:9092 --topic orders --group billing",
    ),
)
EXIT_CODES = ORDER_EXIT_CODES


def command(
    topic: TopicOption,
    group: GroupOption,
    messages: MessagesArgument = None,
    key: KeyOption = None,
    all_held: AllHeldOption = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Do not keep a dead letter either.")
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
    """Give up on waiting messages so that their keys go on; keep dead letters, or discard them.

    A held message became a dead letter when it reached its ceiling. It becomes one again, because
    the first may have been deleted by now; with --discard it does not.
    """
    names = names_of(topic, group, retry_topic, locks_topic, dead_topic)
    must_choose_one_way(names, messages, key, all_held)
    wait_s = wait_s_of(wait)
    do: Verb = "discard" if discard else "skip"

    async def work(client: Client) -> list[Row]:
        from sexton.retry.looking import look

        chosen = choose(names, await look(client, names, group, mode), messages, key, all_held)
        waiting = [each for each in chosen if each.waits]
        return [
            *(each.row(do, DOES_NOT_WAIT) for each in chosen if not each.waits),
            *await carried_out(client, names, do, waiting, dry_run=dry_run, wait_s=wait_s),
        ]

    with Output("retry skip", format) as out:
        reach = Reach(bootstrap, settings, command_config, data)
        tell(out, reach.with_client(work), wait_s)
