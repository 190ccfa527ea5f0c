"""What the `guard` commands share: options, and a guard to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from sexton.base.errors import ConfigError
from sexton.cli.cluster_reach import CONNECT_TIMEOUT_MS, Reach
from sexton.cli.durations import milliseconds
from sexton.cli.live import View
from sexton.cli.options import BOOTSTRAP_SERVERS
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.machines.guard_events import GuardConfig
from sexton.report.audit_words import many
from sexton.report.tables import Cell, Column, Row, number

if TYPE_CHECKING:
    from sexton.client.roving import RovingClient
    from sexton.guard.daemon import Daemon
    from sexton.guard.status import BrokerStatus, Status, TopicStatus

T = TypeVar("T")

TopicsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC", help="The topics; or give --all.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every compacted topic.")]
MemoryOption = Annotated[
    str,
    typer.Option(
        "--memory-topic",
        metavar="TOPIC",
        help="The topic in which guards note what they are about to change.",
    ),
]
HoldOption = Annotated[
    str,
    typer.Option(
        "--hold-down",
        metavar="SPAN",
        help="How long all replicas must have been in sync before a topic is thawed.",
    ),
]
TimeoutOption = Annotated[
    str,
    typer.Option(
        "--request-timeout", metavar="SPAN", help="How long to wait for an answer from a broker."
    ),
]
ReapplyOption = Annotated[
    bool,
    typer.Option(
        "--reapply", help="Freeze again what somebody else unfroze; a thaw restores their settings."
    ),
]
DoubtOption = Annotated[
    bool,
    typer.Option(
        "--thaw-in-doubt",
        help="Thaw topics even if a replica needs an audit because it was away too long, or was "
        "filled while the leader changed.",
    ),
]
DEFAULT_MEMORY = "_sexton_guard"
NOT_YET = "is not set back yet: a guard that announced it may be doing it; run it again in a minute"
TOPICS = (
    Column("topic"), Column("state"), Column("since"), Column("why"),
    Column("previous_min", spare=True), Column("previous_max", spare=True),
    Column("protected", spare=True), number("delete_retention_ms", spare=True),
    number("doubts"), number("held_back_bytes"),
)  # fmt: skip
_LEAST = (
    "delete_retention_ms", "protected", "previous_min", "previous_max", "held_back_bytes", "since",
    "why",
)  # fmt: skip
DISKS = (
    number("broker"), number("usable_bytes"), number("held_growth_bytes_per_s"),
    number("full_in_s"),
)  # fmt: skip
DISKS_FOR_PEOPLE = (
    number("broker"), number("usable"), number("held growth"), number("full in"),
)  # fmt: skip


def config_of(
    interval: str = "5s", hold: str = "60s", timeout: str = "10s", *, reapply: bool = False,
    thaw_in_doubt: bool = False,
) -> GuardConfig:  # fmt: skip
    interval_ms = more_than_none(interval, "--interval")
    timeout_ms = more_than_none(timeout, "--request-timeout")
    config = GuardConfig(
        interval_ms=interval_ms,
        request_timeout_ms=timeout_ms,
        hold_ms=milliseconds(hold, "--hold-down"),
        patience_ms=timeout_ms,
        reapply=reapply,
        thaw_in_doubt=thaw_in_doubt,
    )
    return replace(config, blind_ms=max(config.blind_ms, config.reaction_ms))


def more_than_none(span: str, option: str, example: str = "5s") -> int:
    found = milliseconds(span, option)
    if not found:
        raise ConfigError(f"{option} {span}", "is no time at all", f"as in {example}")
    return found


def with_client(reach: Reach, timeout_ms: int, work: Callable[[RovingClient], Awaitable[T]]) -> T:
    """Runs `work` with a client that goes round among the brokers."""
    from sexton.client.connection import ClientConfig
    from sexton.client.roving import RovingClient
    from sexton.client.settings import client_config

    settings = reach.client_settings()
    config = client_config(
        {"client.id": "sexton-guard", **settings},
        ClientConfig(
            request_timeout_ms=timeout_ms,
            socket_connection_setup_timeout_ms=min(timeout_ms, CONNECT_TIMEOUT_MS),
        ),
    )

    async def run() -> T:
        async with RovingClient(settings[BOOTSTRAP_SERVERS], config) as client:
            return await work(client)

    return asyncio.run(run())


def with_daemon(
    reach: Reach, config: GuardConfig, memory: str, work: Callable[[Daemon], Awaitable[T]]
) -> T:
    from sexton.guard.daemon import Daemon

    async def run(client: RovingClient) -> T:
        return await work(Daemon(client, config, memory))

    return with_client(reach, config.request_timeout_ms, run)


async def looked(daemon: Daemon) -> Status:
    """What there is to see, without touching it; an error if there is nothing."""
    daemon.acts = False
    return await done(daemon)


async def done(daemon: Daemon) -> Status:
    """What there is when all has been done that can be done now."""
    status = await daemon.once()
    if daemon.failure is not None:
        raise daemon.failure  # as it was met: it knows whose fault it is, and the remedy
    return status


def show(out: Output, status: Status, topics: list[TopicStatus] | None = None) -> None:
    """Topics, what people should know of, and figures."""
    shown = status.topics if topics is None else topics
    out.rows("topics", TOPICS, rows_of(status, shown))
    if any(topic.held_back_bytes is not None for topic in shown):
        people = out.format is Format.table
        rows = [disk_row(broker, people=people) for broker in status.brokers]
        out.rows("disks", DISKS_FOR_PEOPLE if people else DISKS, rows)
    out.findings(status.findings)
    out.summarize(
        cluster_id=status.cluster_id,
        topics=len(shown),
        held=_held(shown),
        held_back_bytes=sum(topic.held_back_bytes or 0 for topic in shown),
        reaction_ms=status.reaction_ms,
        maintenance_until_ms=status.maintenance_until_ms,
        panic=status.panic,
    )


def view_of(status: Status) -> View:
    """For --watch; findings have no room there, but are counted."""
    told = [f"topics {len(status.topics)}", f"held {_held(status.topics)}"]
    if status.findings:
        told.append(f"{many(len(status.findings), 'finding')} (run without --watch to see them)")
    rows = rows_of(status, status.topics)
    return View(", ".join(told), TOPICS, rows, keys=1, bad=_is_bad, least=_LEAST)


def _held(topics: Sequence[TopicStatus]) -> int:
    return sum(1 for topic in topics if topic.since_ms is not None)


def _is_bad(column: str, cell: Cell) -> bool:
    return column == "doubts" and bool(cell)


def rows_of(status: Status, topics: Sequence[TopicStatus]) -> list[Row]:
    return [_row_of(status, topic) for topic in topics]


def tell_unfinished(out: Output, status: Status) -> None:
    """After a command that sets topics back: somebody else may have said that they would."""
    out.incomplete_parts(
        (topic.topic, NOT_YET) for topic in status.topics if topic.state == "thawing"
    )


def _row_of(status: Status, topic: TopicStatus) -> Row:
    from sexton.guard.status import why_held
    from sexton.report.quantities import iso

    previous = topic.previous
    return (
        topic.topic,
        topic.state,
        iso(topic.since_ms),
        "; ".join(why_held(status, topic)) or None,
        None if previous is None else previous.min or "not set",
        None if previous is None else previous.max or "not set",
        topic.protected,
        topic.delete_retention_ms,
        topic.doubts,
        topic.held_back_bytes,
    )


def disk_row(broker: BrokerStatus, *, people: bool) -> Row:
    from sexton.guard.status import long, size

    left, usable = broker.seconds_left, broker.usable_bytes
    if people:
        return (
            broker.broker,
            None if usable is None else size(usable),
            f"{size(round(broker.bytes_per_s))}/s",
            None if left is None else long(left),
        )
    return (
        broker.broker,
        broker.usable_bytes,
        round(broker.bytes_per_s),
        None if left is None else round(left),
    )


def chosen(topics: list[str] | None, everything: bool) -> frozenset[str] | None:
    """None: all."""
    if bool(topics) == everything:
        raise ConfigError("TOPIC or --all", "one of them is needed, and not both", "as in orders")
    return None if everything else frozenset(topics or ())
