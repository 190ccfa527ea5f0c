"""`sexton retry status`: how much waits, where, and since when."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING

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
from sexton.cli.retry_reach import (
    MODE,
    DeadTopicOption,
    GroupOption,
    LocksTopicOption,
    ModeOption,
    RetryTopicOption,
    TopicOption,
    age,
    names_of,
)
from sexton.cli.writers import Format
from sexton.report.tables import Row, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.retry.looking import Seen

EXAMPLES = (
    (
        "Show the group `billing` on the topic `orders`",
        "sexton retry status -b localhost:9092 --topic orders --group billing",
    ),
    (
        "For a program",
        "sexton retry status -b localhost:9092 --topic orders --group billing --format json",
    ),
)
COLUMNS = (
    number("partition"), number("position"), number("lag"), number("locked_keys"), number("depth"),
    number("held"), number("oldest"), number("stale"), number("orphans"), number("freed"),
)  # fmt: skip


def command(
    topic: TopicOption,
    group: GroupOption,
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
    """Show what is waiting in each partition of an ordered retry, and for how long.

    depth counts the messages that wait; held, those of them that only an operator can release;
    stale, locks that the next start of their partition releases; orphans, messages without a lock,
    which nobody will handle unless they are redriven. With --mode compensating there are no
    orphans: a service without transactions treats them as messages that wait. freed counts dead
    letters that were not sent again since (see `retry dead`), among the newest 10,000 letters of
    each partition; older ones are counted as letters_not_read. Held messages are a finding.
    """
    names = names_of(topic, group, retry_topic, locks_topic, dead_topic)

    async def work(client: Client) -> tuple[list[tuple[Seen, int, int]], int]:
        import asyncio

        from sexton.retry.looking import NEWEST, lag_of, look_with_letters

        found = await look_with_letters(client, names, group, mode, NEWEST)
        lags = await asyncio.gather(*(lag_of(client, seen) for _letters, seen in found))
        rows = [
            (seen, lag, letters.freed(seen.task.pending))
            for (letters, seen), lag in zip(found, lags, strict=True)
        ]
        return rows, sum(letters.not_read for letters, _seen in found)

    with Output("retry status", format) as out:
        found, not_read = Reach(bootstrap, settings, command_config, data).with_client(work)
        seen = [each for each, _lag, _freed in found]
        out.rows("partitions", COLUMNS, starmap(_row, found))
        for each in seen:
            _tell_held(out, each)
        pending = [each.task.pending for each in seen]
        oldest = [ms for each in pending if (ms := each.oldest_since_ms()) is not None]
        out.summarize(
            lag=sum(lag for _seen, lag, _freed in found),
            locked_keys=sum(len(each.by_key) for each in pending),
            depth=sum(map(len, pending)),
            held=sum(map(_held, seen)),
            oldest=age(min(oldest, default=None)),
            stale=sum(len(each.task.stale.locks) for each in seen),
            orphans=sum(len(each.task.orders.orphans) for each in seen),
            freed=sum(freed for _seen, _lag, freed in found),
        )
        if not_read:
            out.summarize(letters_not_read=not_read)
            out.say(f"up to {not_read:,} older dead letters were not read; `retry dead` reads all")


def _held(seen: Seen) -> int:
    return sum(held.dead for held in seen.task.pending.held.values())


def _tell_held(out: Output, seen: Seen) -> None:
    """Nothing but a person moves these on. What is stale or an orphan may be one for a moment: a
    running instance commits between our looks at two topics."""
    count = _held(seen)
    if count:
        out.finding(
            Finding(
                "retry-held",
                "warning",
                str(seen.name),
                f"held until somebody decides, with all that waits behind: {count}",
                {"held": count},
                "`sexton retry locks --first` says why they failed; then redrive or skip them",
            )
        )


def _row(seen: Seen, lag: int, freed: int) -> Row:
    task, pending = seen.task, seen.task.pending
    return (
        seen.name.partition,
        task.position,
        lag,
        len(pending.by_key),
        len(pending),
        _held(seen),
        age(pending.oldest_since_ms()),
        len(task.stale.locks),
        len(task.orders.orphans),
        freed,
    )
