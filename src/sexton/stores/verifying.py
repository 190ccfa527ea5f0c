"""Is a local store what its changelog says?

A store at position p is the fold of the changelog below p. The changelog is compacted, so what
stood below p may be gone where a later record of the same key is there; then nothing can be said
about that key. Everything else must agree:

    changelog below p      after p       the store must have
    value                  whatever      that value
    tombstone              whatever      nothing
    nothing                a record      (cannot be said)
    nothing                nothing       nothing: a key that is there was deleted, or never was

The store is opened read-only, beside the instance that uses it, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sexton.base.errors import ConfigError, CorruptLog
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.retrying import PATIENT
from sexton.machines.stores_events import Checkpoint, Lineage
from sexton.stores import changelog as changelogs
from sexton.stores.disks import RocksDisk
from sexton.stores.layout import (
    AFTER_DATA,
    CHECKPOINT,
    DATA,
    POSITION,
    decode_checkpoint,
    decode_position,
)

Kind = Literal["missing", "extra", "different", "position", "foreign", "beyond"]


@dataclass(frozen=True, slots=True)
class Place:
    """What a directory is, by its name: STATE/APPLICATION/TASK-PARTITION."""

    path: Path
    application: str
    task: str
    partition: int

    @property
    def changelog(self) -> TopicPartition:
        return TopicPartition(f"{self.application}-{self.task}-changelog", self.partition)


def places_in(path: Path) -> list[Place]:
    """The stores at a path: one, those of an application, or all of a state directory."""
    found = [
        _place(each.parent)
        for pattern in ("CURRENT", "*/CURRENT", "*/*/CURRENT")
        for each in sorted(path.glob(pattern))
    ]
    if not found:
        hint = "name a state directory, or STATE/APPLICATION/TASK-PARTITION in it"
        raise ConfigError(str(path), "there is no store", hint)
    return found


def _place(path: Path) -> Place:
    whole = path.resolve()
    task, dash, number = whole.name.rpartition("-")
    if not dash or not number.isdecimal():
        why = f"{whole.name} is not TASK-PARTITION"
        raise ConfigError(str(path), why, "stores are named by their task and partition")
    return Place(path, whole.parent.name, task, int(number))


@dataclass(frozen=True, slots=True)
class Summary:
    place: Place
    checkpoint: Checkpoint | None
    input_position: int | None
    keys: int
    size_bytes: int  # of keys and values


def summarize(place: Place) -> Summary:
    disk = RocksDisk(place.path, read_only=True)
    try:
        keys = size = 0
        for key, value in disk.scan(DATA, AFTER_DATA):
            keys += 1
            size += len(key) - len(DATA) + len(value)
        checkpoint = decode_checkpoint(disk.get(CHECKPOINT))
        return Summary(place, checkpoint, decode_position(disk.get(POSITION)), keys, size)
    finally:
        disk.close()


def entries(place: Place) -> Iterator[tuple[bytes, bytes]]:
    disk = RocksDisk(place.path, read_only=True)
    try:
        for key, value in disk.scan(DATA, AFTER_DATA):
            yield key[len(DATA) :], value
    finally:
        disk.close()


@dataclass(frozen=True, slots=True)
class Difference:
    kind: Kind
    key: bytes
    stored: bytes | None
    logged: bytes | None
    offset: int | None  # of the changelog record


@dataclass(frozen=True, slots=True)
class Verified:
    place: Place
    position: int
    keys: int  # compared
    unknown: int  # keys about which the changelog below the position says nothing any more
    differences: tuple[Difference, ...]


async def verify(
    client: Client, place: Place, advance: Callable[[int], None] = lambda _: None
) -> Verified:
    disk = RocksDisk(place.path, read_only=True)
    try:
        return await _verify(client, place, disk, advance)
    finally:
        disk.close()


async def _verify(
    client: Client, place: Place, disk: RocksDisk, advance: Callable[[int], None]
) -> Verified:
    checkpoint = decode_checkpoint(disk.get(CHECKPOINT))
    if checkpoint is None:
        raise CorruptLog(str(place.path), "has no checkpoint: it was never written to")
    topology = await client.topology([place.changelog.topic])
    now = Lineage(topology.cluster_id or "", topology.topic(place.changelog.topic).topic_id)
    bounds = await changelogs.bounds(client, place.changelog)
    if checkpoint.lineage != now:
        return _whole(place, checkpoint, "foreign")
    if checkpoint.position > bounds.log_end:
        return _whole(place, checkpoint, "beyond")
    below, after = await _fold(client, place, checkpoint, bounds.log_start, advance)
    return _compare(place, checkpoint.position, disk, below, after)


def _whole(place: Place, checkpoint: Checkpoint, kind: Kind) -> Verified:
    about = Difference(kind, b"", None, None, checkpoint.position)
    return Verified(place, checkpoint.position, 0, 0, (about,))


Folded = dict[bytes, tuple[int, bytes | None]]


async def _fold(
    client: Client,
    place: Place,
    checkpoint: Checkpoint,
    start: int,
    advance: Callable[[int], None],
) -> tuple[Folded, set[bytes]]:
    """The last record of each key below the position, and the keys that have one after it."""
    below: Folded = {}
    after: set[bytes] = set()
    end = (await changelogs.bounds(client, place.changelog)).high_watermark
    topic_id = checkpoint.lineage.topic_id
    replayed = changelogs.replay(client, place.changelog, topic_id, start, end, PATIENT)
    async for rows in replayed:
        for offset, key, value in zip(rows.offsets, rows.keys, rows.values, strict=True):
            if key is None:
                continue
            if offset < checkpoint.position:
                below[key] = (offset, value)
            else:
                after.add(key)
        advance(rows.size_bytes)
    return below, after


def _compare(
    place: Place, position: int, disk: RocksDisk, below: Folded, after: set[bytes]
) -> Verified:
    differences: list[Difference] = []
    keys = unknown = 0
    stored_keys: set[bytes] = set()
    for key, stored in disk.scan(DATA, AFTER_DATA):
        keys += 1
        stored_keys.add(key)
        offset, logged = below.get(key, (None, None))
        if offset is None and key in after:
            unknown += 1
        elif stored != logged:
            kind: Kind = "extra" if logged is None else "different"
            differences.append(Difference(kind, key[1:], stored, logged, offset))
    for key, (offset, logged) in below.items():
        if key == POSITION:
            if disk.get(POSITION) != logged:
                found = disk.get(POSITION)
                differences.append(Difference("position", b"", found, logged, offset))
        elif logged is not None and key not in stored_keys:
            differences.append(Difference("missing", key[1:], None, logged, offset))
    return Verified(place, position, keys, unknown, tuple(differences))
