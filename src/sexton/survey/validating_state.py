"""What a stream's validation knows, on disk: all of it or the step before, never half a step.

    checkpoint/
      committed.json                  the truth: how far, which files, what was found so far
      counts-17/
        00000000000000000000-00000000000000004711-5f0c.npz     keys that this stretch has changed
        00000000000000004711-00000000000000009000-81be.npz

A step writes, for each partition, a file with the keys that it has changed, and syncs it; then
`committed.json` is replaced, which is the moment when the step has happened. Files that it does not
name are of a step that was never finished, and go. When the changes have grown larger than what
they change, the whole state is written instead.

A task that is run twice writes two files, of which one is named in the end. But two validations
would sweep each other's files away: so one at a time has the directory (`held`), by the kernel's
lock, which goes with its process. Spark sees to that itself for streams of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from sexton.audit.checks import MOST_SIGHTINGS
from sexton.audit.plain import Plain
from sexton.audit.state_table import Entries
from sexton.audit.validation import PartitionFacts, Rules
from sexton.base.errors import ConfigError, CorruptLog
from sexton.base.partitions import TopicPartition

KIND, VERSION = "validation checkpoint", 1
COMMITTED = "committed.json"
LEAST_REWRITE = 32 << 20  # bytes of changes, before the whole state is written anew
MOST_FILES = 64  # of one partition; small steps make small files


@dataclass(frozen=True, slots=True)
class Kept(Plain):
    """One partition, as far as it was judged."""

    next: int  # the first offset that was not
    files: tuple[str, ...]  # in this order; the later one counts
    facts: PartitionFacts  # of all of it


@dataclass(slots=True)
class Checkpoint:
    """The directory, as the driver sees it."""

    directory: Path
    question: str  # digest of what is asked; another question has another checkpoint
    rules: Rules
    seed: int = 0
    topic_id: str = ""
    kept: dict[TopicPartition, Kept] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)
    batch: int | None = None  # of Spark: the last one that was judged; None: nobody has said

    @classmethod
    def open(cls, directory: Path, topic: str, rules: Rules) -> Checkpoint:
        """As it was left, or new."""
        told = rules.to_json()
        del told["complete"]  # never with a checkpoint; those of 0.1.0 do not have it
        asked = hashlib.sha256(repr((topic, sorted(told.items()))).encode())
        found = cls(directory, asked.hexdigest()[:16], rules)
        directory.mkdir(parents=True, exist_ok=True)
        if (directory / COMMITTED).exists():
            found._load()
        else:
            found.seed = secrets.randbits(63)
        found.sweep()
        return found

    @classmethod
    def look(cls, directory: Path) -> Checkpoint:
        """As it was left, whatever was asked; nothing in it is changed."""
        told = _told(directory / COMMITTED)
        found = cls(directory, str(told["question"]), Rules.from_json(told["rules"]))
        found._take(told)
        return found

    def _load(self) -> None:
        told = _told(self.directory / COMMITTED)
        if told["question"] != self.question:
            hint = "ask the same as before, or name another directory"
            raise ConfigError(str(self.directory), "is the checkpoint of another question", hint)
        self._take(told)

    def _take(self, told: Mapping[str, Any]) -> None:
        self.seed, self.topic_id = int(told["seed"]), str(told["topic_id"])
        self.limits = [str(each) for each in told["limits"]]
        self.batch = told.get("batch")
        for each in told["partitions"]:
            kept = Kept.from_json(each)
            self.kept[kept.facts.partition] = kept

    def commit(self, steps: Mapping[TopicPartition, Kept]) -> None:
        """From here on these steps have happened."""
        self.kept.update(steps)
        told = {
            "sexton": KIND,
            "version": VERSION,
            "question": self.question,
            "rules": self.rules.to_json(),
            "seed": self.seed,
            "topic_id": self.topic_id,
            "limits": self.limits,
            "batch": self.batch,
            "partitions": [each.to_json() for _at, each in sorted(self.kept.items())],
        }
        draft = self.directory / f"{COMMITTED}.new"
        with draft.open("w", encoding="utf-8") as file:
            json.dump(told, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.directory / COMMITTED)
        _sync(self.directory)
        self.sweep()

    def sweep(self) -> None:
        """What no finished step names goes."""
        named = {name for kept in self.kept.values() for name in kept.files}
        for path in self.directory.glob("*/*.npz*"):
            if str(path.relative_to(self.directory)) not in named:
                path.unlink(missing_ok=True)


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Nobody else goes on with this checkpoint meanwhile; ConfigError if somebody does already."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            why, hint = "another validation is at work there", "wait for it, or stop it"
            raise ConfigError(str(directory), why, hint) from None
        yield


def _told(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        hint = "has the validation begun?"
        raise ConfigError(str(path.parent), "holds no checkpoint", hint) from None
    except ValueError:
        raise ConfigError(str(path), "is not a checkpoint", "name another directory") from None
    if told.get("sexton") != KIND or told.get("version") != VERSION:
        raise ConfigError(str(path), "is not a checkpoint of ours", "name another directory")
    return dict(told)


# ── files of one partition, read and written where its task runs ──


def load_entries(directory: Path, files: tuple[str, ...]) -> list[dict[str, Entries]]:
    """What the files hold, in order; CorruptLog if one of them is not whole."""
    found = []
    for name in files:
        try:
            with np.load(directory / name, allow_pickle=False) as arrays:
                found.append({each: arrays[each] for each in arrays.files})
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            hint = "begin anew with another checkpoint"
            raise CorruptLog(str(directory / name), f"cannot be read: {error}", hint) from None
    return found


def write_entries(
    directory: Path, at: TopicPartition, start: int, end: int, entries: Mapping[str, Entries]
) -> str:
    """Writes a file, whole and synced; returns its name below the directory."""
    place = directory / str(at)
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{start:020}-{end:020}-{secrets.token_hex(4)}.npz"
    draft = path.with_name(f"{path.name}.new")
    with draft.open("wb") as file:
        np.savez(file, **entries)  # type: ignore[arg-type]  # the names are ours
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    _sync(place)
    return str(path.relative_to(directory))


def sizes(directory: Path, files: tuple[str, ...]) -> list[int]:
    return [(directory / name).stat().st_size for name in files]


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ── facts of one stretch after another ──


def added(before: PartitionFacts | None, more: PartitionFacts) -> PartitionFacts:
    if before is None:
        return more
    sightings = list(before.sightings)
    for each in more.sightings:
        if sum(other.code == each.code for other in sightings) < MOST_SIGHTINGS:
            sightings.append(each)
    first = before.first_unreadable
    return replace(
        more,
        start=before.start,
        records=before.records + more.records,
        bytes=before.bytes + more.bytes,
        hidden=before.hidden + more.hidden,
        without_key=before.without_key + more.without_key,
        unreadable=before.unreadable + more.unreadable,
        first_unreadable=first if first >= 0 else more.first_unreadable,
        counts=_sum(before.counts, more.counts),
        sightings=tuple(sightings),
        damage=before.damage + more.damage,
        of_sequence=before.of_sequence + more.of_sequence,
        passed_over=before.passed_over + more.passed_over,
        judged=_sum(before.judged, more.judged),
    )


def _sum(before: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: before.get(name, 0) + more.get(name, 0) for name in {**before, **more}}
