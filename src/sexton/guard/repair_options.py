"""Options that a repair sets for its time, and puts back exactly.

While a replica copies, no tombstone and no marker may go from the log that it copies: the topic is
not cleaned meanwhile. `min.compaction.lag.ms` at 2^63-1 says that no record is ever old enough;
`max.compaction.lag.ms` may not be below it, and is raised with it where it is set. Whoever wants
the copying to be slow gets Kafka's replication throttle.

Three rules, as in the guard: what was there is noted before it is changed; what is there already is
not ours and stays; and only what still has our value is put back, all else is somebody's new wish.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.config_changes import BROKER, TOPIC, OptionValue, Place, alter, described
from sexton.guard.repair_notes import Held, Notes
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG

CLEANUP_POLICY = "cleanup.policy"
THROTTLED_REPLICAS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
PATIENCE_S, PAUSE_S = 30.0, 0.1

Keep = Callable[[Notes], None]


@dataclass(slots=True)
class HeldOptions:
    """The options of one repair; `keep` makes notes durable."""

    client: Client
    notes: Notes
    keep: Keep

    # ── what is held ──

    async def freeze(self, nodes: Collection[int]) -> bool:
        """No cleaning of the topic from now on, on these brokers; False: it is not compacted.

        A guard that holds the topic may set it free between our look and our change: then all
        brokers come to say so, and it is frozen again.
        """
        place, deadline = (TOPIC, self.notes.topic), time.monotonic() + PATIENCE_S
        if not await self._freeze(place):
            return False
        while unaware := [node for node in nodes if not await self._is_frozen(node)]:
            if time.monotonic() > deadline:
                why = f"has not heard within {PATIENCE_S:g} s that the topic is not to be cleaned"
                hint = "run it again: what was set is noted"
                raise PeerError(f"broker {unaware[0]}", why, hint)
            await asyncio.sleep(PAUSE_S)
            if (await self._agreed(place, [MIN_LAG]))[MIN_LAG].value != FOREVER:
                await self._freeze(place)
        return True

    async def _freeze(self, place: Place) -> bool:
        found = await described(self.client, place, (CLEANUP_POLICY, MIN_LAG, MAX_LAG))
        if "compact" not in (found[CLEANUP_POLICY].value or ""):
            return False
        wanted = {MIN_LAG: FOREVER}
        limit = found.get(MAX_LAG)
        held = any(each.option == MAX_LAG for each in self.notes.options)
        if held or (limit is not None and int(limit.value or FOREVER) < int(FOREVER)):
            wanted[MAX_LAG] = FOREVER
        try:
            await self.hold(place, wanted)
        except Refused as error:
            if error.error is not KafkaError.INVALID_CONFIG:
                raise  # else the limit is back, and below it: `freeze` looks again
        return True

    async def _is_frozen(self, node: int) -> bool:
        found = await described(self.client, (TOPIC, self.notes.topic), (MIN_LAG,), node)
        return found[MIN_LAG].value == FOREVER

    async def throttle(self, nodes: Iterable[int], bytes_per_s: int) -> None:
        """Copies of this topic are made at most so fast by each of these brokers."""
        await self.hold((TOPIC, self.notes.topic), dict.fromkeys(THROTTLED_REPLICAS, "*"))
        for node in nodes:
            await self.hold((BROKER, str(node)), dict.fromkeys(THROTTLED_RATES, str(bytes_per_s)))

    async def hold(self, place: Place, wanted: Mapping[str, str]) -> None:
        found = await described(self.client, place, wanted)
        changes: list[tuple[str, str | None]] = []
        for option, value in wanted.items():
            own = found[option].own if option in found else None
            if own != value:
                self._note(Held(*place, option, own, value))
                changes.append((option, value))
        if changes:
            self.keep(self.notes)
            await alter(self.client, place, changes)

    def _note(self, held: Held) -> None:
        """What was there before; if it is ours and somebody has changed it, their wish counts."""
        others = [each for each in self.notes.options if _at(each) != _at(held)]
        self.notes = replace(self.notes, options=(*others, held))

    async def was_frozen(self) -> bool:
        """Had somebody else frozen the topic, so that it stays so? Ask before it is released."""
        place = (TOPIC, self.notes.topic)
        if any(
            (each.kind, each.name, each.option) == (*place, MIN_LAG) for each in self.notes.options
        ):
            return False
        try:
            found = await self._agreed(place, [MIN_LAG])
        except Refused as error:
            if error.error is not KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return False  # it is not there any more
        return MIN_LAG in found and found[MIN_LAG].own == FOREVER

    # ── putting it back ──

    async def release(self) -> list[str]:
        """All as it was; tells of what somebody else has changed meanwhile, and is left so."""
        theirs: list[str] = []
        places = dict.fromkeys((each.kind, each.name) for each in self.notes.options)
        for place in places:
            held = [each for each in self.notes.options if (each.kind, each.name) == place]
            theirs += await self._release(place, held)
            left = [each for each in self.notes.options if each not in held]
            self.notes = replace(self.notes, options=tuple(left))
            self.keep(self.notes)
        return theirs

    async def _release(self, place: Place, held: list[Held]) -> list[str]:
        try:
            found = await self._agreed(place, [each.option for each in held])
        except Refused as error:
            if error.error is not KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return [f"{place[1]} is not there any more"]
        ours = {
            each.option: each.previous
            for each in held
            if each.option in found and found[each.option].own == each.set
        }
        if ours:
            await alter(self.client, place, [*ours.items()])
        return [
            f"{each.option} of {place[1]} is {found[each.option].own or 'not set'} by now"
            for each in held
            if each.option in found
            and each.option not in ours
            and found[each.option].own != each.previous
        ]

    async def _agreed(self, place: Place, names: list[str]) -> dict[str, OptionValue]:
        """As all brokers know it: one that is behind would have us take our value for theirs."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            brokers = (await self.client.topology([])).brokers if place[0] == TOPIC else {0: None}
            seen = [await described(self.client, place, names, node) for node in sorted(brokers)]
            if all(each == seen[0] for each in seen):
                return seen[0]
            if time.monotonic() > deadline:
                raise PeerError(place[1], "brokers do not agree about its options", "run it again")
            await asyncio.sleep(PAUSE_S)


def _at(held: Held) -> tuple[int, str, str]:
    return held.kind, held.name, held.option
