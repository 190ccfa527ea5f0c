"""What `retry redrive` and `retry skip` share: choose messages, write commands, wait for owners."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.cli.output import Output
from sexton.cli.retry_reach import ORDERS, key_bytes, key_text, not_yet, operator

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.machines.retry_records import TaskName, Verb
    from sexton.report.tables import Row
    from sexton.retry.commanding import Sent
    from sexton.retry.looking import Seen
    from sexton.retry.topics import Names


DONE, SENT, DRY_RUN = "done", "sent", "dry run"  # sent: no instance has carried it out so far
DOES_NOT_WAIT, NEITHER = "does not wait", "neither waits nor is a dead letter"
TOO_LATE = "does not wait any more"  # it did, when the command was written
SENT_BEFORE, SETTLED = "was sent again before", "was held, and was settled in its place"
NOTHING_DONE = (DOES_NOT_WAIT, TOO_LATE, NEITHER, SENT_BEFORE, SETTLED)
WITH_AGAIN = "; --again sends it all the same"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A message that is meant."""

    name: TaskName
    id: int
    key: bytes | None
    waits: bool  # or has a retry record without a lock; False: nobody waits for it any more
    orphan_at: int | None = None  # where that record is in the retry topic

    @property
    def text(self) -> str:
        return self.name.id_of(self.id).decode()

    def row(self, do: str, outcome: str) -> Row:
        return self.text, key_text(self.key), do, outcome


def must_choose_one_way(
    names: Names, texts: list[str] | None, key: str | None, all_held: bool
) -> None:
    """Said before any broker is asked."""
    from sexton.retry.looking import task_of

    if (bool(texts) + (key is not None) + all_held) != 1:
        hint = "as in orders-3-17, or --key order-123, or --all-held"
        raise ConfigError("ID, --key or --all-held", "exactly one of them is needed", hint)
    for text in texts or ():
        task_of(names, text)


def choose(
    names: Names, seen: list[Seen], texts: list[str] | None, key: str | None, all_held: bool
) -> list[Chosen]:
    """By id, by key, or all that are held, as `must_choose_one_way` has seen to."""
    from sexton.retry.looking import task_of

    by_partition = {each.name.partition: each for each in seen}
    wanted = None if key is None else key_bytes(key)
    chosen: list[Chosen] = []
    for text in dict.fromkeys(texts or ()):  # once, however often it is named
        name, message = task_of(names, text)
        at = by_partition.get(name.partition)
        if at is None:
            hint = "they are numbered from 0"
            raise ConfigError(text, f"the topic has {len(seen)} partitions", hint)
        held = at.task.pending.held.get(message)
        orphan_at = at.task.orders.orphans.get(message)
        waits = held is not None or orphan_at is not None
        chosen.append(Chosen(name, message, held.key if held else None, waits, orphan_at))
    for each in seen:
        for message, held in sorted(each.task.pending.held.items()):
            if (all_held and held.dead) or (wanted is not None and held.key == wanted):
                chosen.append(Chosen(each.name, message, held.key, waits=True))
    return chosen


async def carried_out(
    client: Client, names: Names, do: Verb, waiting: list[Chosen], *, dry_run: bool, wait_s: float
) -> list[Row]:
    """What became of messages that wait."""
    from sexton.retry.commanding import until_done

    if dry_run:
        return [each.row(do, DRY_RUN) for each in waiting]
    sent = await _order(client, names, do, waiting)
    left = await until_done(client, sent, wait_s)
    return [
        each.row(do, SENT if told in left else TOO_LATE if told.in_vain else DONE)
        for each, told in zip(waiting, sent, strict=True)
    ]


def tell(out: Output, rows: list[Row], wait_s: float) -> None:
    """What was done, and what was not."""
    out.rows("orders", ORDERS, rows)
    not_done = 0
    for message, _key, _do, outcome in rows:
        nothing = str(outcome).startswith(NOTHING_DONE)
        not_done += outcome == SENT or nothing
        if outcome == SENT and wait_s:
            out.incomplete(str(message), not_yet(wait_s))
        elif nothing:
            remedy = WITH_AGAIN if str(outcome).startswith((SENT_BEFORE, SETTLED)) else ""
            out.incomplete(str(message), f"{outcome}: nothing was done{remedy}")
    out.summarize(messages=len(rows), not_done=not_done)


async def _order(client: Client, names: Names, do: Verb, chosen: list[Chosen]) -> list[Sent]:
    from sexton.machines.retry_records import Command
    from sexton.retry.commanding import Sent, send

    now_ms, by, sent = time.time_ns() // 1_000_000, operator(), list[Sent]()
    for each in chosen:
        key = each.key if each.orphan_at is None else await _key_of(client, names, each)
        command = Command(do, each.id, key, by, now_ms)
        sent.append(await send(client, names, each.name, command))
    return sent


async def _key_of(client: Client, names: Names, orphan: Chosen) -> bytes | None:
    """Without a lock only the retry record knows which key it belongs to."""
    from sexton.retry.reading import retry_records

    assert orphan.orphan_at is not None
    at = TopicPartition(names.retry, orphan.name.partition)
    found = await retry_records(client, at, [orphan.orphan_at])
    return found[orphan.orphan_at][1].lock_key if orphan.orphan_at in found else None
