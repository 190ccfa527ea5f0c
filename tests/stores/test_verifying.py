"""A store is compared with a changelog that is written to and compacted while it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sexton.base.errors import CorruptLog
from sexton.client.client import Client
from sexton.machines.stores_events import Bounds, Checkpoint, Lineage
from sexton.stores import changelog as changelogs
from sexton.stores.disks import RocksDisk
from sexton.stores.layout import (
    CHECKPOINT,
    DATA,
    INPUT_EPOCH,
    INPUT_ID,
    POSITION,
    encode_checkpoint,
)
from sexton.stores.rows import Rows
from sexton.stores.verifying import Verified, places_in, verify

A, B = DATA + b"a", DATA + b"b"


class Log:
    """A changelog, read one record at a time; `meanwhile` is what happens in front of an offset."""

    def __init__(self, *records: tuple[bytes, bytes | None]) -> None:
        self.records = dict(enumerate(records))
        self.end = len(records)
        self.meanwhile: dict[int, Callable[[], None]] = {}

    def append(self, key: bytes, value: bytes | None) -> None:
        self.records[self.end] = (key, value)
        self.end += 1

    def compact(self) -> None:
        last = {key: offset for offset, (key, _) in self.records.items()}
        self.records = {at: self.records[at] for at in sorted(last.values())}

    async def bounds(self, *asked: object) -> Bounds:
        del asked
        return Bounds(0, self.end, self.end)

    async def replay(
        self, client: object, at: object, topic_id: bytes, start: int, end: int, patience: object
    ) -> AsyncIterator[Rows]:
        del client, at, topic_id, patience
        for offset in range(start, end):
            self.meanwhile.pop(offset, lambda: None)()
            found = self.records.get(offset)
            if found is not None:
                key, value = found
                about = (self.end, 0, 1, 0, self.end)
                yield Rows(offset, offset + 1, [offset], [0], [key], [value], *about)


class World:
    """A store of which nothing is known but what a test puts into it."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.state, self.patch = path, patch

    def verified(self, log: Log, stored: dict[bytes, bytes], position: int | None) -> Verified:
        """At no position: without a checkpoint, as a store is before anything is written to it."""
        path = self.state / "counter" / "counts-0"
        path.parent.mkdir()
        disk = RocksDisk(path)
        if position is not None:
            checkpoint = Checkpoint(Lineage("cluster", b"topic"), position, 0, 0)
            stored = {CHECKPOINT: encode_checkpoint(checkpoint), **stored}
        disk.write({**stored})
        disk.close()
        self.patch.setattr(changelogs, "bounds", log.bounds)
        self.patch.setattr(changelogs, "replay", log.replay)
        [place] = places_in(self.state)
        return asyncio.run(verify(cast("Client", _OneTopic()), place))


class _OneTopic:
    async def topology(self, topics: object) -> Any:
        del topics
        topic = SimpleNamespace(topic_id=b"topic")
        return SimpleNamespace(cluster_id="cluster", topic=lambda _name: topic)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def kinds(verified: Verified) -> list[tuple[str, bytes]]:
    return [(each.kind, each.key) for each in verified.differences]


def test_a_key_that_is_written_behind_the_end_and_compacted_in_front_of_us(world: World) -> None:
    log = Log((A, b"1"), (B, b"1"))

    def rewritten() -> None:
        log.append(A, b"2")
        log.compact()

    log.meanwhile[0] = rewritten
    found = world.verified(log, {A: b"1", B: b"1"}, position=2)
    assert (kinds(found), found.unknown, found.keys) == ([], 1, 2)


@pytest.mark.parametrize(
    ("key", "now", "stored"),
    [(A, b"2", {A: b"2", B: b"1"}), (A, None, {B: b"1"}), (POSITION, b"2" * 8, {B: b"1"})],
    ids=["another value", "a tombstone", "the position"],
)
def test_a_record_that_goes_after_an_older_one_of_its_key_was_read(
    world: World, key: bytes, now: bytes | None, stored: dict[bytes, bytes]
) -> None:
    log = Log((key, b"1" * 8), (B, b"1"), (key, now))

    def rewritten() -> None:
        log.append(key, b"3" * 8)
        log.compact()

    log.meanwhile[1] = rewritten
    if key == POSITION and now is not None:
        stored = stored | {POSITION: now}
    found = world.verified(log, stored, position=3)
    assert (kinds(found), found.unknown) == ([], 1)


def test_what_differs_still_does_however_often_its_key_is_written(world: World) -> None:
    """The negative control."""
    ours = {POSITION: b"1" * 8, INPUT_ID: b"1" * 16, INPUT_EPOCH: b"1" * 4}
    log = Log((A, b"1"), (B, b"1"), (B, None), *ours.items())

    def rewritten() -> None:
        log.append(A, b"2")
        log.append(B, b"2")

    log.meanwhile[0] = rewritten
    never = DATA + b"never"
    theirs = {key: b"2" * len(value) for key, value in ours.items()}
    stored = {A: b"other", B: b"lives", never: b"x", **theirs}
    found = world.verified(log, stored, position=6)
    wanted = [
        ("different", b"a"), ("extra", b"b"), ("extra", b"never"), ("position", b""),
        ("input", b""), ("epoch", b""),
    ]  # fmt: skip
    assert (kinds(found), found.unknown, found.keys) == (wanted, 0, 3)


def test_a_store_that_was_never_written_to_is_the_fold_of_an_empty_changelog(world: World) -> None:
    found = world.verified(Log(), {}, position=None)
    assert (found.position, found.keys, kinds(found)) == (0, 0, [])


def test_keys_that_came_from_no_changelog_are_found_without_a_checkpoint(world: World) -> None:
    assert kinds(world.verified(Log(), {A: b"1"}, position=None)) == [("extra", b"a")]


def test_nothing_is_said_of_a_store_that_has_yet_to_be_restored(world: World) -> None:
    with pytest.raises(CorruptLog, match="no instance has restored it yet"):
        world.verified(Log((A, b"1")), {}, position=None)
