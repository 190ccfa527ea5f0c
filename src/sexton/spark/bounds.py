"""Where a read begins or ends, as the user may say it, and what it is for one partition.

earliest, latest                         the log's own bounds
{"orders": {"0": 23, "1": -2}}           offsets; -2 is earliest and -1 latest, as in Spark
1700000000000                            a time: the first record from then on
{"orders": {"0": 1700000000000}}         a time for each partition
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition


class Edge(Enum):
    EARLIEST = -2
    LATEST = -1


@dataclass(frozen=True, slots=True)
class At:
    offset: int


@dataclass(frozen=True, slots=True)
class From:
    """The first record from a time on; where the log ends if there is none and that is allowed."""

    time_ms: int
    or_latest: bool


Place = Edge | At | From


@dataclass(frozen=True, slots=True)
class Bound:
    option: str
    edge: Edge | None = None  # for every partition
    time_ms: int | None = None  # for every partition
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    times_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    allows_latest: bool = False

    def or_latest(self) -> Bound:
        return replace(self, allows_latest=True)

    def of(self, at: TopicPartition) -> Place:
        """Of one partition; ConfigError if the user has left it out."""
        if self.edge is not None:
            return self.edge
        if self.time_ms is not None:
            return From(self.time_ms, self.allows_latest)
        if at in self.times_ms:
            return From(self.times_ms[at], self.allows_latest)
        if at in self.offsets:
            offset = self.offsets[at]
            return Edge(offset) if offset < 0 else At(offset)
        raise ConfigError(self.option, f"does not say anything of {at}", "name all partitions")

    def named(self) -> list[TopicPartition]:
        return [*self.offsets, *self.times_ms]


def offsets_bound(option: str, text: str) -> Bound:
    if text.lower() in ("earliest", "latest"):
        return Bound(option, Edge[text.upper()])
    offsets = _by_partition(option, text, "earliest, latest or offsets")
    for at, offset in offsets.items():
        if offset < Edge.EARLIEST.value:
            hint = "-2 is earliest, -1 is latest"
            raise ConfigError(option, f"{offset} of {at} is not an offset", hint)
    return Bound(option, offsets=offsets)


def time_bound(option: str, text: str) -> Bound:
    if not text.isdecimal():
        raise ConfigError(option, f"is {text!r}", "milliseconds since 1970, as in 1700000000000")
    return Bound(option, time_ms=int(text))


def times_bound(option: str, text: str) -> Bound:
    times = _by_partition(option, text, "times in milliseconds")
    for at, time_ms in times.items():
        if time_ms < 0:
            raise ConfigError(option, f"{time_ms} of {at} is not a time", "milliseconds since 1970")
    return Bound(option, times_ms=times)


def _by_partition(option: str, text: str, what: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    try:
        for topic, partitions in json.loads(text).items():
            for number, value in partitions.items():
                if isinstance(value, bool) or not isinstance(value, int):
                    raise ValueError(value)
                found[TopicPartition(topic, int(number))] = value
    except (ValueError, TypeError, AttributeError):
        hint = f'{what}, as in {{"orders": {{"0": 23, "1": -2}}}}'
        raise ConfigError(option, f"{text!r} cannot be understood", hint) from None
    return found
