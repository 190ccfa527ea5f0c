"""`sexton retry dead`: every dead letter, and what became of its message since."""

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
from sexton.cli.durations import moment_ms
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
    key_bytes,
    key_text,
    names_of,
)
from sexton.cli.txn_reach import when
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.retry.letters import Letter, Letters
    from sexton.retry.looking import Seen

EXAMPLES = (
    ("All of them", "sexton retry dead -b localhost:9092 --topic orders --group billing"),
    (
        "List those of the last day that nobody has handled",
        "sexton retry dead --open --since 1d -b localhost:9092 --topic orders --group billing",
    ),
    (
        "List those of one key, for a program",
        "sexton retry dead --key a -b kafka:9092 --topic orders --group billing --format json",
    ),
)
COLUMNS = (
    Column("id"), Column("key"), Column("state"), Column("sent_as"), number("attempts"),
    Column("written"), number("offset"), Column("reason"),
)  # fmt: skip


def command(
    topic: TopicOption,
    group: GroupOption,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Only letters for this key.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="AGE|TIME",
            help="Only letters written from then on: 6h, 2d, or 2026-11-01T00:00Z.",
        ),
    ] = None,
    only_open: Annotated[
        bool,
        typer.Option("--open", help="Only freed or held letters: nobody has handled them yet."),
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
    """List dead letters: what failed, when and why, and whether anybody has dealt with it.

    The state is that of the message now. freed: its key goes on without it, and nobody has sent it
    again. held: it holds its key until it is redriven or skipped. waits: it is tried again, in its
    place. sent again: as the message in sent_as. settled: it was held, and then handled, skipped or
    discarded. The offset is that of the letter, in the partition of the dead letter topic with the
    same number as the message's own. Letters that Kafka has deleted, usually after 30 days, are not
    shown.
    """
    names = names_of(topic, group, retry_topic, locks_topic, dead_topic)
    since_ms = None if since is None else moment_ms(since, "--since")
    wanted = None if key is None else key_bytes(key)

    async def work(client: Client) -> list[tuple[Letters, Seen]]:
        from sexton.retry.looking import look_with_letters

        return await look_with_letters(client, names, group, mode)

    with Output("retry dead", format) as out:
        from sexton.retry.letters import OPEN

        rows = [
            _row(letters, letter, state)
            for letters, seen in Reach(bootstrap, settings, command_config, data).with_client(work)
            for letter in letters.letters
            if (wanted is None or letter.key == wanted)
            and (since_ms is None or letter.written_ms >= since_ms)
            and ((state := letters.state(letter, seen.task.pending)) in OPEN or not only_open)
        ]
        out.rows("letters", COLUMNS, rows)
        out.summarize(letters=len(rows), open=sum(row[2] in OPEN for row in rows))


def _row(letters: Letters, letter: Letter, state: str) -> Row:
    return (
        letters.name.id_of(letter.id).decode(),
        key_text(letter.key),
        state,
        ", ".join(letters.sent_as(letter)) or None,
        letter.attempts,
        when(letter.written_ms),
        letter.offset,
        letter.reason or None,
    )
