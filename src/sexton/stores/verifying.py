"""Is a local store what its changelog says?

A store at position p is the fold of the changelog below p. The changelog is compacted, so what
stood below p may be gone where a later record of the same key is there; then nothing can be said
about that key. Everything else must agree:

    changelog below p      after p       the store must have
    value                  whatever      that value
    tombstone              whatever      nothing
    nothing                a record      (cannot be said)
    nothing                nothing       nothing: a key that is there was deleted, or never was

A store that was never written to is the fold of an empty changelog; of one that has records it is
an unfinished copy, about which nothing can be said.

The store is opened read-only, beside the instance that uses it, if there is one. So the changelog
grows and is compacted while it is read, and the table is true of a log that stands still only:

- The record that took the place of another may be behind the end that we read to: what came
  meanwhile is read as well, and what came while that was.
- One may go in front of us after an older one of its key was read. But compaction goes from front
  to back: by then the older one is gone too. So keys that differ are looked at a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from sexton.base.errors import ConfigError, CorruptLog
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.retrying import PATIENT
from sexton.machines.stores_events import Checkpoint, Lineage
from sexton.stores import changelog as changelogs
from sexton.stores.disks import DamagedStore, RocksDisk
from sexton.stores.layout import (
    AFTER_DATA,
    CHECKPOINT,
    DATA,
    INPUT_EPOCH,
    INPUT_ID,
    POSITION,
    decode_checkpoint,
    decode_position,
)
from sexton.stores.rows import Rows

LOOKS = 3  # each reads what came during the one before: the last of them takes a moment
Kind = Literal["missing", "extra", "different", "position", "input", "epoch", "foreign", "beyond"]
_OURS: dict[bytes, Kind] = {POSITION: "position", INPUT_ID: "input", INPUT_EPOCH: "epoch"}


@dataclass(frozen=True, slots=True)
class Place:
    """What a directory is, by its name: STATE/APPLICATION/TASK-PARTITION."""

    path: Path
    application: str
    task: str
    partition: int

    @property
    def name(self) -> str:
        return f"{self.application}/{self.task}-{self.partition}"

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
        return Summary(place, *_positions(place, disk), keys, size)
    finally:
        disk.close()


def _positions(place: Place, disk: RocksDisk) -> tuple[Checkpoint | None, int | None]:
    """Of changelog and input; what is no position is damage, and its store is to be named."""
    try:
        return decode_checkpoint(disk.get(CHECKPOINT)), decode_position(disk.get(POSITION))
    except DamagedStore:
        raise
    except CorruptLog as error:
        raise DamagedStore(str(place.path), f"{error.subject} {error.why}") from None


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
    written, _ = _positions(place, disk)
    topology = await client.topology([place.changelog.topic])
    now = Lineage(topology.cluster_id or "", topology.topic(place.changelog.topic).topic_id)
    bounds = await changelogs.bounds(client, place.changelog)
    checkpoint = written or Checkpoint(now, 0, -1, 0)  # never written to: the fold of nothing
    if checkpoint.lineage != now:
        return _whole(place, checkpoint, "foreign")
    if checkpoint.position > bounds.log_end:
        return _whole(place, checkpoint, "beyond")
    fold = partial(_fold, client, place, checkpoint, advance)
    folded = await fold()
    if written is None and folded.after:
        why = "was never written to, and its changelog has records: no instance has restored it yet"
        raise CorruptLog(str(place.path), why)
    keys, unknown, found = _compare(_stored(disk, folded), folded)
    if found:  # or was a record compacted away in front of us, and an older one seen?
        doubted = {_key_of(each): None for each in found}
        again = await fold(doubted)
        _, more, found = _compare(((key, disk.get(key)) for key in doubted), again)
        unknown += more
    return Verified(place, checkpoint.position, keys, unknown, tuple(found))


def _whole(place: Place, checkpoint: Checkpoint, kind: Kind) -> Verified:
    about = Difference(kind, b"", None, None, checkpoint.position)
    return Verified(place, checkpoint.position, 0, 0, (about,))


# ── the changelog ──


@dataclass(frozen=True, slots=True)
class Folded:
    below: dict[bytes, tuple[int, bytes | None]]  # the last record of each key below the position
    after: set[bytes]  # keys that have one after it


async def _fold(
    client: Client,
    place: Place,
    checkpoint: Checkpoint,
    advance: Callable[[int], None],
    only: Container[bytes] | None = None,
) -> Folded:
    folded = Folded({}, set())
    bounds = await changelogs.bounds(client, place.changelog)
    start, end = bounds.log_start, bounds.high_watermark
    for _ in range(LOOKS):
        if start >= end:
            break
        topic_id = checkpoint.lineage.topic_id
        replayed = changelogs.replay(client, place.changelog, topic_id, start, end, PATIENT)
        async for rows in replayed:
            _add(folded, rows, checkpoint.position, only)
            advance(rows.size_bytes)
        start, end = end, (await changelogs.bounds(client, place.changelog)).high_watermark
    return folded


def _add(folded: Folded, rows: Rows, position: int, only: Container[bytes] | None) -> None:
    for offset, key, value in zip(rows.offsets, rows.keys, rows.values, strict=True):
        if key is None or (only is not None and key not in only):
            continue
        if offset < position:
            folded.below[key] = (offset, value)
        else:
            folded.after.add(key)


# ── the comparison ──


def _stored(disk: RocksDisk, folded: Folded) -> Iterator[tuple[bytes, bytes | None]]:
    """What the store has, and what it lacks though the changelog names it."""
    seen: set[bytes] = set()
    for key, value in disk.scan(DATA, AFTER_DATA):
        seen.add(key)
        yield key, value
    for key in folded.below:
        if key not in seen:
            yield key, disk.get(key)  # what is not the application's is in no scan


def _compare(
    stored: Iterable[tuple[bytes, bytes | None]], folded: Folded
) -> tuple[int, int, list[Difference]]:
    """How many keys the store has, of how many nothing can be said, and which differ."""
    keys = unknown = 0
    found: list[Difference] = []
    for key, value in stored:
        keys += value is not None and key not in _OURS
        offset, logged = folded.below.get(key, (None, None))
        if offset is None and key in folded.after:
            unknown += 1
        elif value != logged:
            kind = _kind(key, value, logged)
            shown = b"" if key in _OURS else key[len(DATA) :]
            found.append(Difference(kind, shown, value, logged, offset))
    return keys, unknown, found


def _kind(key: bytes, stored: bytes | None, logged: bytes | None) -> Kind:
    if key in _OURS:
        return _OURS[key]
    if logged is None:
        return "extra"
    return "missing" if stored is None else "different"


def _key_of(found: Difference) -> bytes:
    """As it is in the changelog."""
    ours = {kind: key for key, kind in _OURS.items()}
    return ours.get(found.kind, DATA + found.key)
