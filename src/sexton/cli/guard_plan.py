"""`sexton guard plan`: what a guard would do now, and nothing of it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import TYPE_CHECKING

from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.guard_reach import (
    DEFAULT_MEMORY,
    HoldOption,
    MemoryOption,
    TimeoutOption,
    config_of,
    looked,
    with_daemon,
)
from sexton.cli.options import FormatOption, IntervalOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row

if TYPE_CHECKING:
    from sexton.guard.daemon import Daemon
    from sexton.guard.status import Status
    from sexton.machines.guard_events import Effect

EXAMPLES = (
    ("See what a guard would do before setting it up", "sexton guard plan -b kafka:9092"),
    (
        "See which topics it could not protect if it looked once a minute",
        "sexton guard plan -b kafka:9092 --interval 60s",
    ),
)
STEPS = (
    Column("topic"), Column("step"), Column("min_compaction_lag_ms"),
    Column("max_compaction_lag_ms"), Column("why"),
)  # fmt: skip


def command(
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    interval: IntervalOption = "5s",
    hold: HoldOption = "60s",
    request_timeout: TimeoutOption = "10s",
    memory_topic: MemoryOption = DEFAULT_MEMORY,
    format: FormatOption = Format.table,
) -> None:
    """Show what a guard would do now and what it could not protect, without changing anything.

    Steps are what it would note and set: a topic to freeze is first noted, then set.
    """
    reach = Reach(bootstrap, settings, command_config, data)
    with Output("guard plan", format, reached=reach.options) as out:
        config = replace(config_of(interval, hold, request_timeout), durable_hold=True)

        async def look(daemon: Daemon) -> tuple[Status, list[Effect]]:
            return await looked(daemon), daemon.told

        from sexton.guard.status import SET_BACK

        status, effects = with_daemon(reach, config, memory_topic, look)
        idle = {topic.topic for topic in status.topics if topic.state == SET_BACK}
        rows = [row for each in effects if (row := _row(each, idle)) is not None]
        out.rows("steps", STEPS, rows)
        if not rows:
            out.say("nothing to do")
        out.findings(status.findings)
        out.summarize(
            topics=len(status.topics),
            protected=sum(1 for topic in status.topics if topic.protected),
            reaction_ms=status.reaction_ms,
        )


def _row(effect: Effect, idle: Set[str]) -> Row | None:
    from sexton.machines.guard_events import Alter, Remember
    from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Note

    match effect:
        case Remember(Note(topic=topic, state=state) as note) if state == "planned" or (
            state == "frozen" and topic in idle
        ):
            now, then = note.previous, FOREVER if note.raised else None
            return (
                topic,
                "freeze",
                f"{now.min or 'not set'} → {FOREVER}",
                None if then is None else f"{now.max or 'not set'} → {then}",
                "; ".join(note.why),
            )
        case Remember(Note(topic=topic, state=state) as note):
            return topic, f"note that it is {state}", None, None, "; ".join(note.why)
        case Alter(topic, values, freezes):
            wanted = {name: value or "not set" for name, value in values}
            step = "freeze" if freezes else "set back"
            return topic, step, wanted.get(MIN_LAG), wanted.get(MAX_LAG), None
        case _:
            return None
