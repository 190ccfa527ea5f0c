"""A network that loses, delays, repeats and reorders messages, and can be cut in one direction.

Each message draws its own fate from one stream of chance. Nothing else about it is random, so that
the same seed makes the same run on any machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

Address = int  # a broker's id, -1 for the controller, -100 and below for clients
CLIENTS = -100


@dataclass(slots=True)
class Weather:
    """What the network does to messages right now."""

    delay_ms: tuple[int, int] = (1, 5)
    drop: float = 0.0
    duplicate: float = 0.0
    stray: float = 0.0  # delayed far beyond the others, and so out of order
    stray_ms: int = 60_000


@dataclass(slots=True)
class Network:
    random: Random
    weather: Weather = field(default_factory=Weather)
    cuts: dict[tuple[Address, Address], int] = field(default_factory=dict)  # how many cut it
    slow: dict[Address, int] = field(default_factory=dict)  # extra delay of a node's messages
    holds: dict[type, int] = field(default_factory=dict)  # extra delay of one kind of message
    lost: int = 0
    repeated: int = 0

    def cut(self, source: Address, target: Address) -> None:
        self.cuts[source, target] = self.cuts.get((source, target), 0) + 1

    def mend(self, source: Address, target: Address) -> None:
        left = self.cuts.get((source, target), 1) - 1
        if left:
            self.cuts[source, target] = left
        else:
            self.cuts.pop((source, target), None)

    def heal(self) -> None:
        """From now on nothing is lost, held up or out of order; what is under way still is."""
        self.weather = Weather()
        self.cuts.clear()
        self.slow.clear()
        self.holds.clear()

    def delays(self, source: Address, target: Address, kind: type) -> list[int]:
        """When the message arrives, in milliseconds from now: never, once, or more often."""
        if source == target:
            return [0]
        if (source, target) in self.cuts:
            self.lost += 1
            return []
        weather, random = self.weather, self.random
        if weather.drop and random.random() < weather.drop:
            self.lost += 1
            return []
        first = self._delay(source, target, kind)
        # Clients are on TCP: what they send arrives once or not at all.
        duplicate = weather.duplicate if min(source, target) > CLIENTS else 0
        if duplicate and random.random() < duplicate:
            self.repeated += 1
            return [first, self._delay(source, target, kind)]
        return [first]

    def _delay(self, source: Address, target: Address, kind: type) -> int:
        weather, random = self.weather, self.random
        delay = random.randint(*weather.delay_ms)
        if weather.stray and random.random() < weather.stray:
            delay += random.randint(0, weather.stray_ms)
        return delay + self.slow.get(source, 0) + self.slow.get(target, 0) + self.holds.get(kind, 0)
