"""What clients did and what they saw, as far as they know it.

A write that was acknowledged has happened. One of an aborted transaction has not. Of all others
nobody can tell, and they may turn up, once, or not at all. So it is with transactions: what a
client was not told is open.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum


class Fate(Enum):
    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Write:
    topic: str
    partition: int
    key: bytes
    value: bytes | None  # None deletes the key
    name: str  # no two writes have the same; it is in a header
    fate: Fate = Fate.UNKNOWN
    offset: int = -1  # if it was told


@dataclass(slots=True)
class Transaction:
    writes: list[Write] = field(default_factory=list)
    fate: Fate = Fate.UNKNOWN  # NOT_DONE: aborted

    def ended(self, fate: Fate) -> None:
        self.fate = fate
        for write in self.writes:
            write.fate = fate


@dataclass(frozen=True, slots=True)
class Seen:
    """A record that a consumer was given."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes | None
    name: str


@dataclass(slots=True)
class History:
    writes: list[Write] = field(default_factory=list)  # in the order of each writer
    transactions: list[Transaction] = field(default_factory=list)
    # What each consumer saw, from its start to its end; the name says how it reads.
    consumers: dict[str, list[Seen]] = field(default_factory=dict)
    # What the group of copiers had committed, as one client asked again and again: by partition.
    committed: list[dict[int, int]] = field(default_factory=list)
    given_up: int = 0  # copies that were aborted, and left to whoever comes next
    refused: list[str] = field(default_factory=list)  # producers that could not go on
    unanswered: list[str] = field(default_factory=list)  # calls that brokers let hang
    left_behind: list[str] = field(default_factory=list)  # calls that a client let hang by itself
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def changing(self) -> Iterator[History]:
        with self._lock:
            yield self

    def all_writes(self) -> Iterator[Write]:
        yield from self.writes
        for transaction in self.transactions:
            yield from transaction.writes

    def ended(self, fate: Fate) -> int:
        """How many transactions have ended so."""
        return sum(1 for transaction in self.transactions if transaction.fate is fate)

    def summary(self) -> str:
        told = {fate: sum(1 for w in self.writes if w.fate is fate) for fate in Fate}
        ended = {fate: self.ended(fate) for fate in Fate}
        seen = sum(map(len, self.consumers.values()))
        copied = sum(self.committed[-1].values()) if self.committed else 0
        return (
            f"{told[Fate.DONE]} writes acknowledged, {told[Fate.UNKNOWN]} unknown; transactions:"
            f" {ended[Fate.DONE]} committed, {ended[Fate.NOT_DONE]} aborted,"
            f" {ended[Fate.UNKNOWN]} unknown; {seen} records seen, {copied} offsets copied,"
            f" {len(self.faults)} faults, {len(self.left_behind)} calls left behind"
        )
