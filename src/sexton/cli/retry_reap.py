"""`sexton retry reap`: are there locks that nobody will release?"""

from __future__ import annotations

import time
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
from sexton.cli.retry_reach import (
    WAIT,
    DeadTopicOption,
    DryRunOption,
    GroupOption,
    LocksTopicOption,
    RetryTopicOption,
    TopicOption,
    WaitOption,
    names_of,
    operator,
    say_pending,
    wait_s_of,
)
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.retry.commanding import Sent
    from sexton.retry.looking import Seen

EXAMPLES = (
    (
        "Show what would be released",
        "sexton retry reap -b localhost:9092 --topic orders --group billing --dry-run",
    ),
    ("Release stale locks", "sexton retry reap -b localhost:9092 --topic orders --group billing"),
)
EXIT_CODES = "0 done, 1 failed, 2 wrong usage, 3 no instance has done it yet."
COLUMNS = (number("partition"), Column("id"), Column("why"))


def command(
    topic: TopicOption,
    group: GroupOption,
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
    """Have the instances find and release stale locks, or show what they would find.

    A lock is stale only if its message provably does not wait: everything below it is settled, or
    the retry topic holds no record of it. Every start of a partition does this by itself; this
    command restarts the partitions that have stale locks, on the instances that own them.
    """
    names = names_of(topic, group, retry_topic, locks_topic, dead_topic)
    wait_s = wait_s_of(wait)

    async def work(client: Client) -> tuple[list[Seen], list[Sent], list[Sent]]:
        from sexton.machines.retry_records import Command
        from sexton.retry.commanding import send, until_done
        from sexton.retry.looking import look

        seen = await look(client, names, group)
        stale = [each for each in seen if each.task.stale.locks or each.task.stale.retries]
        if dry_run:
            return stale, [], []
        now_ms = time.time_ns() // 1_000_000
        order = Command("reap", by=operator(), at_ms=now_ms)
        sent = [await send(client, names, each.name, order) for each in stale]
        return stale, sent, await until_done(client, sent, wait_s)

    with Output("retry reap", format) as out:
        reach = Reach(bootstrap, settings, command_config, data)
        stale, sent, left = reach.with_client(work)
        rows = [
            (each.name.partition, each.name.id_of(report.id).decode(), report.text)
            for each in stale
            for report in each.task.reports
            if report.code == "stale-lock" and report.id is not None
        ]
        out.rows("locks", COLUMNS, rows)
        say_pending(out, left, wait_s)
        out.summarize(stale=len(rows), partitions=len(stale), done=len(sent) - len(left))
