"""The panic button: no topic of the cluster is cleaned any more, by one change.

`log.cleaner.min.compaction.lag.ms` is the default of `min.compaction.lag.ms`, and can be set for
all brokers while they run. It does not reach a topic that has an option of its own, nor a broker on
which the default is set for it alone; those are named, and those that nobody could look at. What
was set before is noted first, as for topics, and `end` sets it back. One broker alone is not
believed in either: a panic that it has not heard of would be called over, and the cluster would
stay as it is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from sexton.base.errors import ConfigError, PeerError
from sexton.client.client import Client
from sexton.client.config_changes import (
    ALL_BROKERS,
    BROKER,
    Changes,
    OptionValue,
    alter,
    describe_topics,
    described,
)
from sexton.guard.agreed_options import agreed
from sexton.guard.eyes import NAMES, all_options
from sexton.guard.memory import MemoryTopic
from sexton.guard.permissions import CLUSTER, needing
from sexton.machines.guard_notes import FOREVER, Lags, Memory, Panic

EVERYWHERE = (BROKER, ALL_BROKERS)
DEFAULT_MIN, DEFAULT_MAX = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"


@dataclass(frozen=True, slots=True)
class Panicked:
    on: bool
    previous: Lags
    not_reached: dict[str, str]  # compacted topics with an option of their own, and its value
    not_seen: dict[str, str]  # topics and brokers that could not be looked at, and why
    brokers: dict[int, str]  # those with a default of their own, and its value


async def recalled(memory: MemoryTopic) -> Memory:
    found, now_ms = Memory(), time.time_ns() // 1_000_000
    for offset, key, value in await memory.recall():
        found.apply(offset, key, value, now_ms)
    return found


async def begin(client: Client, memory: MemoryTopic) -> Panicked:
    """Notes what is set, then sets it."""
    await memory.ensure()
    known = (await recalled(memory)).panic
    if known is not None and known.on:
        previous = known.previous  # the first one's: what is set now is ours
    else:
        values = await _defaults(client)
        previous = Lags(*(_own(values, name) for name in (DEFAULT_MIN, DEFAULT_MAX)))
        if previous.min == FOREVER:
            raise ConfigError(DEFAULT_MIN, "is frozen already, and no note says by whom")
        await memory.remember([Panic(True, previous, time.time_ns() // 1_000_000)])
    await _change(client, [(DEFAULT_MIN, FOREVER), (DEFAULT_MAX, FOREVER)])
    topics, not_seen = await not_reached(client)
    brokers, silent = await _brokers_not_reached(client)
    return Panicked(True, previous, topics, not_seen | silent, brokers)


async def end(client: Client, memory: MemoryTopic) -> Panicked:
    """Sets back what still is as `begin` set it."""
    known = (await recalled(memory)).panic if await memory.exists() else None
    if known is None or not known.on:
        raise ConfigError("guard panic --off", "there is no panic to end")
    values = await _defaults(client)
    changes: Changes = [
        (name, before)
        for name, before in ((DEFAULT_MIN, known.previous.min), (DEFAULT_MAX, known.previous.max))
        if _own(values, name) == FOREVER
    ]
    if changes:
        await _change(client, changes)
    await memory.remember([Panic(False, known.previous, time.time_ns() // 1_000_000)])
    return Panicked(False, known.previous, {}, {}, {})


async def _defaults(client: Client) -> dict[str, OptionValue]:
    with needing("DescribeConfigs", CLUSTER):
        return await agreed(client, EVERYWHERE, [DEFAULT_MIN, DEFAULT_MAX])


async def _change(client: Client, changes: Changes) -> None:
    with needing("AlterConfigs", CLUSTER):
        await alter(client, EVERYWHERE, changes)


def _own(values: dict[str, OptionValue], name: str) -> str | None:
    return values[name].own if name in values else None


async def not_reached(client: Client) -> tuple[dict[str, str], dict[str, str]]:
    """Compacted topics that are cleaned all the same; and those of which nobody knows."""
    topics = (await client.topology()).topics
    options, untold = all_options(await describe_topics(client, topics, NAMES))
    failed = {f"options of {topic}": why for topic, why in untold.items()}
    found = {}
    for topic, each in sorted(options.items()):
        if each.compacted and each.own.min not in (None, FOREVER):
            found[topic] = each.own.min or ""
    return found, failed


async def _brokers_not_reached(client: Client) -> tuple[dict[int, str], dict[str, str]]:
    """What is set on one broker goes before what is set on all; only it can tell."""
    found: dict[int, str] = {}
    failed: dict[str, str] = {}
    for node in sorted((await client.topology([])).brokers):
        try:
            values = await described(client, (BROKER, str(node)), [DEFAULT_MIN])
        except PeerError as error:
            failed[f"options of broker {node}"] = error.why
            continue
        own = _own(values, DEFAULT_MIN)
        if own not in (None, FOREVER):
            found[node] = own or ""
    return found, failed
