"""Options that a repair sets for its time, and puts back exactly.

While a replica copies, no tombstone and no marker may go from the log that it copies: the topic is
not cleaned meanwhile. `min.compaction.lag.ms` at 2^63-1 says that no record is ever old enough;
`max.compaction.lag.ms` may not be below it, and is raised with it where it is set. Whoever wants
the copying to be slow gets Kafka's replication throttle.

Four rules, as in the guard: what was there is noted before it is changed; what is there already is
not ours and stays; only what still has our value is put back, all else is somebody's new wish; and
nobody is believed alone, for a broker that is behind shows a topic as it was before a guard froze
it, and to put that back would set the topic free.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.config_changes import BROKER, TOPIC, OptionValue, Place, alter, described
from sexton.guard.agreed_options import PATIENCE_S, PAUSE_S, agreed
from sexton.guard.repair_notes import Held, Notes
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Lags

CLEANUP_POLICY = "cleanup.policy"
THROTTLED_REPLICAS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

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
                why = f"did not learn within {PATIENCE_S:g} s that cleaning is to stop"
                hint = "run it again: what was set is noted"
                raise PeerError(f"broker {unaware[0]}", why, hint)
            await asyncio.sleep(PAUSE_S)
            if (await self._agreed(place, [MIN_LAG]))[MIN_LAG].value != FOREVER:
                await self._freeze(place)
        return True

    async def _freeze(self, place: Place) -> bool:
        found = await self._agreed(place, (CLEANUP_POLICY, MIN_LAG, MAX_LAG))
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
        found = await self._agreed(place, [*wanted])
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
        """What was there before; if it is ours and somebody has changed it, their wish counts.

        What we have set ourselves is no wish: a run with another --throttle finds the first one's.
        """
        others = [each for each in self.notes.options if _at(each) != _at(held)]
        for each in self.notes.options:
            if _at(each) == _at(held) and each.set == held.previous:
                held = replace(held, previous=each.previous)
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

    async def release(self, guards: Lags | None = None) -> list[str]:
        """All as it was; tells of what somebody else has changed meanwhile, and is left so.

        `guards`: what a guard will put back; that is left to it.
        """
        theirs: list[str] = []
        lags = (MIN_LAG, MAX_LAG) if self.are_left_to(guards) else ()
        for place, held in self._by_place().items():
            ours = [each for each in held if place[0] != TOPIC or each.option not in lags]
            if ours:
                theirs += await self._release_awaited(place, ours)
            left = [each for each in self.notes.options if each not in held]
            self.notes = replace(self.notes, options=tuple(left))
            self.keep(self.notes)
        return theirs

    def are_left_to(self, guards: Lags | None) -> bool:
        """Have we frozen the topic, and will a guard put back the very same?"""
        if guards is None:
            return False
        known = {MIN_LAG: guards.min, MAX_LAG: guards.max}
        found = [each for each in self.notes.options if each.kind == TOPIC and each.option in known]
        return bool(found) and all(each.previous == known[each.option] for each in found)

    async def release_brokers(self) -> list[str]:
        """Those of brokers alone; tells of what is left, on a broker that is no more, say."""
        left: list[str] = []
        for place, held in self._by_place().items():
            if place[0] == BROKER:
                try:
                    left += await self._release(place, held)
                except PeerError as error:
                    left.append(_left(place, held, error))
        return left

    def _by_place(self) -> dict[Place, list[Held]]:
        """The topic first: a broker that is down must not keep it frozen."""
        found: dict[Place, list[Held]] = {}
        for each in sorted(self.notes.options, key=lambda each: each.kind != TOPIC):
            found.setdefault((each.kind, each.name), []).append(each)
        return found

    async def _release_awaited(self, place: Place, held: list[Held]) -> list[str]:
        """What only a broker can tell that is down is left for later, unless it was replaced."""
        try:
            return await self._release(place, held)
        except PeerError as error:
            if place[0] == TOPIC or await self._is_awaited(int(place[1])):
                raise
            return [_left(place, held, error)]

    async def _is_awaited(self, node: int) -> bool:
        """Is that broker up, or has it a replica of the topic still?"""
        topology = await self.client.topology([self.notes.topic])
        topic = topology.topics.get(self.notes.topic)
        places = topic.partitions.values() if topic is not None else ()
        return node in topology.brokers or any(node in each.replicas for each in places)

    async def _release(self, place: Place, held: list[Held]) -> list[str]:
        try:
            found = await self._agreed(place, [each.option for each in held])
        except Refused as error:
            if error.error is not KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return [f"{place[1]} is gone"]
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

    async def _agreed(self, place: Place, names: Sequence[str]) -> dict[str, OptionValue]:
        """As brokers agree on it; what is set on one of them only that one can tell."""
        if place[0] == TOPIC:
            return await agreed(self.client, place, names)
        return await described(self.client, place, names)


async def check_throttle(client: Client, bytes_per_s: int) -> None:
    """Would a broker take it, from this user? Nothing is set."""
    node = min((await client.topology([])).brokers)
    rates = [(name, str(bytes_per_s)) for name in THROTTLED_RATES]
    await alter(client, (BROKER, str(node)), rates, validate_only=True)


def _left(place: Place, held: list[Held], error: PeerError) -> str:
    return f"{' and '.join(each.option for each in held)} of broker {place[1]}, which {error.why}"


def _at(held: Held) -> tuple[int, str, str]:
    return held.kind, held.name, held.option
