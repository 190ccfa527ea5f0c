"""What the `retry` commands share: whose topics are meant, and a message as people see it."""

from __future__ import annotations

import getpass
import time
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sexton.cli.durations import milliseconds
from sexton.cli.output import Output
from sexton.cli.txn_reach import ago, when
from sexton.machines.retry_settings import Mode
from sexton.report.tables import Column, Row, number

if TYPE_CHECKING:
    from sexton.retry.commanding import Sent
    from sexton.retry.looking import Lock
    from sexton.retry.topics import Names

T = TypeVar("T")

TopicOption = Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The main topic.")]
GroupOption = Annotated[
    str, typer.Option("--group", metavar="GROUP", help="The consumer group that handles it.")
]
RetryTopicOption = Annotated[
    str | None,
    typer.Option("--retry-topic", metavar="TOPIC", help="Retry topic, if not TOPIC.GROUP.retry."),
]
LocksTopicOption = Annotated[
    str | None,
    typer.Option("--locks-topic", metavar="TOPIC", help="Locks topic, if not TOPIC.GROUP.locks."),
]
DeadTopicOption = Annotated[
    str | None,
    typer.Option(
        "--dead-topic", metavar="TOPIC", help="Dead letter topic, if not TOPIC.GROUP.dead."
    ),
]
ModeOption = Annotated[
    Mode,
    typer.Option("--mode", help="Mode of the service; one without transactions adopts orphans."),
]
MODE: Mode = "transactional"
MessagesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Message ids as `retry locks` shows them: orders-3-17."),
]
KeyOption = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="Every waiting message of this key.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, without doing it.")
]
AllHeldOption = Annotated[
    bool, typer.Option("--all-held", help="Every message that has reached its ceiling.")
]
WaitOption = Annotated[
    str,
    typer.Option("--wait", metavar="SPAN", help="How long to wait for an instance to do it."),
]
WAIT = "10s"
LOCKS = (
    Column("id"), Column("key"), Column("state"), number("attempts"), Column("locked_since"),
    Column("not_before"), Column("behind"), Column("reason"),
)  # fmt: skip
ORDER_EXIT_CODES = (
    "0 done, 1 failed, 2 wrong usage, 3 no instance has done it yet, or a message is not waiting."
)
ORDERS = (Column("id"), Column("key"), Column("do"), Column("outcome"))


def names_of(
    topic: str, group: str, retry: str | None, locks: str | None, dead: str | None
) -> Names:
    from sexton.retry.topics import Names

    return Names.of(topic, group, retry, locks, dead)


def key_bytes(typed: str) -> bytes:
    """A key as the shell passed it on, also if it is not UTF-8."""
    return typed.encode("utf-8", "surrogateescape")


def key_text(key: bytes | None) -> str | None:
    return None if key is None else key.decode(errors="backslashreplace")


def lock_row(lock: Lock) -> Row:
    held = lock.held
    if held.dead:
        state = "held"
    elif lock.behind is not None:
        state = "behind"
    else:
        state = "due" if held.not_before_ms <= time.time() * 1000 else "waits"
    return (
        lock.text,
        key_text(held.key),
        state,
        held.attempts,
        when(held.since_ms) if held.since_ms else None,
        when(held.not_before_ms) if held.not_before_ms else None,
        None if lock.behind is None else lock.name.id_of(lock.behind).decode(),
        lock.reason or None,
    )


def age(since_ms: int | None) -> str | None:
    return None if since_ms is None else ago(since_ms)


def operator() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def wait_s_of(wait: str) -> float:
    return milliseconds(wait, "--wait") / 1000


def say_pending(out: Output, left: list[Sent], wait_s: float) -> None:
    """A command that nobody has taken is not lost, but it is not done either."""
    if not left or not wait_s:
        return
    for each in left:
        out.incomplete(f"{each.at}, offset {each.offset}", not_yet(wait_s))


def not_yet(wait_s: float) -> str:
    return (
        f"not carried out within {wait_s:g} s: it stays in the retry topic until an instance runs"
    )
