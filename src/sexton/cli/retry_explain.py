"""`sexton retry explain`: why does this key wait?"""

from __future__ import annotations

import time
from shlex import quote
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
    key_bytes,
    key_text,
    lock_row,
    names_of,
)
from sexton.cli.txn_reach import ago, when
from sexton.cli.writers import Format

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.retry.looking import Lock

EXAMPLES = (
    (
        "Explain why order-123 is not handled",
        "sexton retry explain order-123 -b localhost:9092 --topic orders --group billing",
    ),
)


def command(
    key: Annotated[str, typer.Argument(help="The key, as text.")],
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
    """Explain why a key waits: its messages in order, what the first waits for, what to do."""
    names = names_of(topic, group, retry_topic, locks_topic, dead_topic)
    wanted = key_bytes(key)
    shown = key_text(wanted) or ""

    async def work(client: Client) -> list[Lock]:
        from sexton.retry.looking import locks_of, look, reasons

        found = []
        for seen in await look(client, names, group, mode):
            if seen.task.pending.of_key(wanted):
                why = await reasons(client, names, seen.name)
                found += [lock for lock in locks_of(seen, why) if lock.held.key == wanted]
        return found

    with Output("retry explain", format) as out:
        reach = Reach(bootstrap, settings, command_config, data)
        locks = reach.with_client(work)
        if locks or format is not Format.table:
            out.rows("locks", LOCKS, map(lock_row, locks))
            out.say("")
        named = {"--topic": topic, "--group": group, "--retry-topic": retry_topic}
        named |= {"--locks-topic": locks_topic, "--dead-topic": dead_topic}
        named |= {"--mode": None if mode == MODE else mode}
        with_options = _options(named, reach)
        for line in story(shown, locks, with_options):
            out.say(line)
        out.summarize(key=shown, locked=bool(locks), depth=len(locks))


def _options(named: dict[str, str | None], reach: Reach) -> str:
    """Those that were given, to be copied; but for -X, where there may be a password."""
    given = {**named, "-b": reach.bootstrap, "--data": reach.data}
    given |= {"--command-config": reach.command_config}
    told = [f"{option} {quote(str(value))}" for option, value in given.items() if value is not None]
    return " ".join([*told, "-X ..."] if reach.settings else told)


def story(key: str, locks: list[Lock], options: str) -> list[str]:
    if not locks:
        return [f"Nothing waits for {key}: its next message is handled when it is read."]
    first, behind = locks[0], len(locks) - 1
    held = first.held
    if held.since_ms:
        lines = [f"{key} has waited since {when(held.since_ms)} ({ago(held.since_ms)})."]
    else:
        lines = [f"{key} waits; since when is not known, because its lock was lost."]
    because = f" The last time: {first.reason}" if first.reason else ""
    times = "once" if held.attempts == 1 else f"{held.attempts} times"
    if held.dead:
        lines.append(f"{first.text} has failed {times} and holds its key.{because}")
        lines += ["To try it again:", f"  $ sexton retry redrive {first.text} {options}"]
        lines += ["To go on without it:", f"  $ sexton retry skip {first.text} {options}"]
    elif held.attempts:
        lines.append(f"{first.text} has failed {times}.{because}")
        if held.not_before_ms > time.time() * 1000:
            lines.append(f"It is tried again at {when(held.not_before_ms)}.")
        else:
            lines.append("It is due: a running instance tries it now.")
    else:
        lines.append(f"{first.text} has not been tried yet, and is due.")
    if behind:
        waits = "waits" if behind == 1 else "wait"
        lines.append(f"{behind} more of this key {waits} behind it, in this order.")
    return lines
