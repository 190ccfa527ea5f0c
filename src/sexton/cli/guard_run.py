"""`sexton guard run`: watch a cluster until Ctrl-C, or look once."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.cli.announcing import announce
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.guard_reach import (
    DEFAULT_MEMORY,
    DoubtOption,
    HoldOption,
    MemoryOption,
    ReapplyOption,
    TimeoutOption,
    config_of,
    done,
    show,
    with_daemon,
)
from sexton.cli.options import FormatOption, IntervalOption
from sexton.cli.output import Output
from sexton.cli.up_options import LogFormat, LogFormatOption, LogLevel, LogLevelOption
from sexton.cli.writers import Ending, Format

if TYPE_CHECKING:
    from sexton.guard.daemon import Daemon
    from sexton.machines.guard_events import GuardConfig

EXAMPLES = (
    ("Watch the cluster that `sexton up` runs", "sexton guard run"),
    (
        "Watch any Kafka cluster, with a status page and metrics",
        "sexton guard run -b kafka:9092 --http-port 9808 --log-format json",
    ),
    ("From cron: look once, do what is needed, exit", "sexton guard run -b kafka:9092 --once"),
    (
        "With TLS and a password, configured as for Kafka's own tools",
        "sexton guard run --command-config client.properties",
    ),
)
INTERRUPTED = 128 + signal.SIGINT


def command(
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="Do what is needed now, and exit: for cron.")
    ] = False,
    interval: IntervalOption = "5s",
    hold: HoldOption = "60s",
    request_timeout: TimeoutOption = "10s",
    reapply: ReapplyOption = False,
    thaw_in_doubt: DoubtOption = False,
    memory_topic: MemoryOption = DEFAULT_MEMORY,
    http_port: Annotated[
        int | None,
        typer.Option(
            "--http-port",
            help="Serve a status page, /metrics and /healthz on this port; 0: any free one.",
            min=0,
            max=65535,
        ),
    ] = None,
    http_host: Annotated[
        str, typer.Option("--http-host", metavar="ADDRESS", help="The address for --http-port.")
    ] = "127.0.0.1",
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Allow anybody beyond this machine to see the status page."
        ),
    ] = False,
    log_format: LogFormatOption = LogFormat.text,
    log_level: LogLevelOption = LogLevel.info,
    format: FormatOption = Format.table,
) -> None:
    """Freeze compacted topics while a replica is away, and thaw them when all are back.

    It notes every change in a topic of its own before making it, so it can be killed at any time
    and several can run at once. It leaves nothing behind but frozen topics.
    """
    from sexton.broker import logs
    from sexton.broker.exposure import refuse_exposure

    config = config_of(
        interval, hold, request_timeout, reapply=reapply, thaw_in_doubt=thaw_in_doubt
    )
    # A line for each note and change, of hundreds of topics if need be: see `guard.memory`.
    logs.configure(log_level.value, as_json=log_format is LogFormat.json, throttled=False)
    reach = Reach(bootstrap, settings, command_config, data)
    if once:
        _once(reach, replace(config, durable_hold=True), memory_topic, format)
        return
    if http_port is not None:
        refuse_exposure(http_host, authenticated=False, insecure=insecure, option="--http-host")

    async def watch(daemon: Daemon) -> None:
        await _watch(daemon, http_host, http_port, format)

    with_daemon(reach, config, memory_topic, watch)


def _once(reach: Reach, config: GuardConfig, memory_topic: str, said: Format) -> None:
    with Output("guard run", said, reached=reach.options) as out:
        status = with_daemon(reach, config, memory_topic, done)
        show(out, status)
        out.incomplete_parts(
            (topic.topic, f"is {topic.state}, and a replica is away")
            for topic in status.topics
            if topic.bare
        )


async def _watch(daemon: Daemon, host: str, port: int | None, said: Format) -> None:
    from sexton.guard.web import Web

    stopping = asyncio.Event()
    _stop_on_signals(asyncio.get_running_loop(), stopping)
    web = None if port is None else Web(daemon, host, port)
    if web is not None:
        await web.start()
    if said is not Format.table:
        announce("guard run", said, Ending({"http": None if web is None else web.address}))
    elif web is not None:
        typer.echo(f"status page  {web.address}")
    try:
        await daemon.run(stopping)
    finally:
        if web is not None:
            await web.stop()


def _stop_on_signals(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    """The first one ends the round in good order, the second one everything: nothing is lost."""
    told = False

    def tell() -> None:
        nonlocal told
        if told:
            os._exit(INTERRUPTED)
        told = True
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, tell)
