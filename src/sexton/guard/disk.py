"""What does a freeze cost, and for how long is there room for it?

A frozen topic is not compacted, so every byte written to it stays. What cleaning would have removed
nobody knows; the growth since the freeze is the most that it can be, and is what is shown as held
back. From how fast the frozen topics of a broker grow follows when its disk would be full:

    time left = bytes that can still be used / growth of its frozen topics per second

That is a forecast, made anew at every look. How large a topic was when it was frozen is noted in
the guard's memory, so that the next guard, and `guard status`, go on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sexton.base.errors import PeerError, Refused
from sexton.client.client import Client
from sexton.client.disk_room import LogDirectory, log_directories
from sexton.machines.guard_notes import Size

BROKERS_AT_ONCE = 32
Place = tuple[str, int]  # topic, broker


@dataclass(slots=True)
class Held:
    """One topic on one broker since it was frozen."""

    began_ms: int
    began_bytes: int
    at_ms: int
    bytes: int

    @property
    def growth_bytes(self) -> int:
        return max(self.bytes - self.began_bytes, 0)

    @property
    def bytes_per_s(self) -> float:
        seconds = (self.at_ms - self.began_ms) / 1000
        return self.growth_bytes / seconds if seconds > 0 else 0.0


@dataclass(slots=True)
class Costs:
    held: dict[Place, Held] = field(default_factory=dict)
    usable: dict[int, int] = field(default_factory=dict)  # bytes, by broker
    unknown: dict[int, str] = field(default_factory=dict)  # brokers that do not say, and why

    def add(
        self,
        now_ms: int,
        node: int,
        directories: Iterable[LogDirectory],
        frozen: Mapping[str, object],
    ) -> None:
        """A look at one broker's disks; `frozen` names the topics that are."""
        self.unknown.pop(node, None)
        sizes: dict[str, int] = {}
        usable: list[int] = []
        for directory in directories:
            for partition, size in directory.sizes.items():
                sizes[partition.topic] = sizes.get(partition.topic, 0) + size
            if directory.usable_bytes is not None:
                usable.append(directory.usable_bytes)
        self.usable.pop(node, None)
        if usable:
            self.usable[node] = min(usable)  # the fullest disk ends first
        for topic in frozen:
            if topic not in sizes:
                continue
            held = self.held.get((topic, node))
            if held is None:
                held = self.held[topic, node] = Held(now_ms, sizes[topic], now_ms, sizes[topic])
            held.at_ms, held.bytes = now_ms, sizes[topic]

    def begin(self, sizes: Iterable[Size]) -> None:
        """What somebody noted earlier than we could."""
        for size in sizes:
            held = self.held.get((size.topic, size.broker))
            if held is None:
                held = Held(size.at_ms, size.bytes, size.at_ms, size.bytes)
                self.held[size.topic, size.broker] = held
            elif size.at_ms < held.began_ms:
                held.began_ms, held.began_bytes = size.at_ms, size.bytes

    def keep_only(self, frozen: Mapping[str, object]) -> None:
        for place in [place for place in self.held if place[0] not in frozen]:
            del self.held[place]

    def start_over(self, topic: str, since_ms: int) -> None:
        """It was frozen then, again maybe: what it grew before that was not held back."""
        for place, held in [*self.held.items()]:
            if place[0] == topic and held.began_ms < since_ms:
                del self.held[place]

    def held_back(self, topic: str) -> int | None:
        """On all brokers together; None before anybody has looked."""
        found = [held.growth_bytes for (name, _), held in self.held.items() if name == topic]
        return sum(found) if found else None

    def size(self, topic: str) -> int | None:
        found = [held.bytes for (name, _), held in self.held.items() if name == topic]
        return sum(found) if found else None

    def bytes_per_s(self, node: int) -> float:
        return sum(held.bytes_per_s for (_, at), held in self.held.items() if at == node)

    def seconds_left(self, node: int) -> float | None:
        """Until the disk is full; None if it does not fill, or nobody knows."""
        usable, growth = self.usable.get(node), self.bytes_per_s(node)
        return usable / growth if usable is not None and growth > 0 else None

    async def look(
        self, client: Client, nodes: Iterable[int], frozen: Mapping[str, object], now_ms: int
    ) -> None:
        """Asks many at once: while the guard waits for disks, it does not see who goes away."""
        self.keep_only(frozen)
        gate = asyncio.Semaphore(BROKERS_AT_ONCE)

        async def one(node: int) -> None:
            async with gate:
                try:
                    self.add(now_ms, node, await log_directories(client, node), frozen)
                except (PeerError, Refused) as error:
                    self.unknown[node] = f"{error.subject}: {error.why}"

        await asyncio.gather(*map(one, sorted(nodes)))
