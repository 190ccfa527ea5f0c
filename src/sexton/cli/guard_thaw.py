"""`sexton guard thaw`: set topics back, as they were."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.errors import no_such_topic
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.guard_reach import (
    DEFAULT_MEMORY,
    AllOption,
    MemoryOption,
    TopicsArgument,
    chosen,
    config_of,
    done,
    looked,
    show,
    tell_unfinished,
    with_daemon,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format

if TYPE_CHECKING:
    from sexton.guard.daemon import Daemon
    from sexton.guard.status import Status
    from sexton.machines.guard_notes import Saying

EXAMPLES = (
    ("Let one topic be cleaned again", "sexton guard thaw orders -b kafka:9092"),
    (
        "After an audit of a replica that was in doubt",
        "sexton guard thaw orders --audited -b kafka:9092",
    ),
    ("Before the guard is uninstalled", "sexton guard thaw --all -b kafka:9092"),
)


def command(
    topics: TopicsArgument = None,
    everything: AllOption = False,
    audited: Annotated[
        bool,
        typer.Option(
            "--audited", help="State that replicas in doubt have been audited or rebuilt."
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Thaw even while a replica is away; it may then miss deletions."
        ),
    ] = False,
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    memory_topic: MemoryOption = DEFAULT_MEMORY,
    format: FormatOption = Format.table,
) -> None:
    """Restore exactly the settings that topics had before they were frozen.

    Ends `guard freeze`, and with --all also `guard maintenance`. A topic with a replica away stays
    frozen unless --force is given; a running guard would freeze it again.
    """
    only = chosen(topics, everything)
    reach = Reach(bootstrap, settings, command_config, data)
    with Output("guard thaw", format, reached=reach.options) as out:
        config = replace(
            config_of(hold="0s"), only=only, durable_hold=True, force=force, thaw_in_doubt=force
        )

        async def thaw(daemon: Daemon) -> tuple[Status, set[str]]:
            held = await release(daemon, only, audited=audited)
            if not await daemon.memory.exists():
                return await looked(daemon), held  # nobody has ever frozen anything
            return await done(daemon), held

        from sexton.guard.status import why_held

        status, held = with_daemon(reach, config, memory_topic, thaw)
        show(out, status)
        _tell_what_was_free(out, only, held)
        tell_unfinished(out, status)
        out.incomplete_parts(
            (topic.topic, f"stays frozen: {'; '.join(why_held(status, topic))}")
            for topic in status.topics
            if topic.state in ("frozen", "freezing")
        )


def _tell_what_was_free(out: Output, only: frozenset[str] | None, held: set[str]) -> None:
    """Nothing was to be done there, which looks the same as that it was done."""
    if only is None:
        free, who = "" if held else "no topic", "is held"
    else:
        names = sorted(only - held)
        free, who = ", ".join(names), "is not held" if len(names) == 1 else "are not held"
    if free:
        out.say(f"{free} {who}: there was nothing to set back.")


async def release(daemon: Daemon, only: frozenset[str] | None, *, audited: bool) -> set[str]:
    """Takes back what was asked for by hand; gives the topics that were held, by whomever."""
    from sexton.machines.guard_notes import Audited, Hold, Maintenance

    await daemon.round_of_looking()
    memory, now_ms = daemon.guard.memory, daemon.now_ms()
    unknown = sorted((only or frozenset()) - set(daemon.guard.topics) - set(memory.holds))
    if unknown:
        raise no_such_topic(*unknown)
    sayings: list[Saying] = [
        Hold(name, False, now_ms)
        for name, hold in memory.holds.items()
        if hold.held and (only is None or name in only)
    ]
    if only is None and memory.maintenance_until_ms > now_ms:
        sayings.append(Maintenance(0))
    if audited:
        sayings += [
            Audited(entry.note.topic, entry.note.cycle)
            for entry in memory.all_in_force()
            if only is None or entry.note.topic in only
        ]
    await daemon.memory.remember(sayings)
    by_hand = {name for name, hold in memory.holds.items() if hold.held}
    return by_hand | {entry.note.topic for entry in memory.all_in_force()}
