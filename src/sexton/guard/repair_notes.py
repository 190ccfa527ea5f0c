"""What a repair has begun, kept in a file so that anybody can go on after a crash.

    {"sexton": "repair notes", "version": 1, "cluster_id": ..., "topic": "orders", ...
     "options": [{"kind": 2, "name": "orders", "option": "min.compaction.lag.ms",
                  "previous": null, "set": "9223372036854775807"}],
     "jobs": [{"partition": 3, "replicas": [1, 2, 3], "wrong": [3], "sources": [1, 2], ...}]}

A note is on disk before the act that it speaks of. The file is replaced as a whole, so it is either
the one before or the one after. One process at a time has it (`flock`). When the repair is over,
the file goes.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.machines.repair import Emptied, Job

KIND, VERSION = "repair notes", 1
STATE_VARIABLE = "XDG_STATE_HOME"
_UNFIT = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class Held:
    """An option that the repair has set, and what was set there before; None: nothing."""

    kind: int  # Kafka's ConfigResource.Type
    name: str
    option: str
    previous: str | None
    set: str


@dataclass(frozen=True, slots=True)
class Notes:
    cluster_id: str
    topic: str
    topic_id: str
    began_ms: int
    options: tuple[Held, ...] = ()
    jobs: tuple[Job, ...] = ()
    rounds: int = 1  # of rebuilding and auditing

    def with_job(self, job: Job) -> Notes:
        jobs = [job if each.partition == job.partition else each for each in self.jobs]
        return replace(self, jobs=tuple(jobs))


def default_path(cluster_id: str, topic: str) -> Path:
    """The same for everybody on this machine who has the same home."""
    base = os.environ.get(STATE_VARIABLE)
    home = Path(base) if base else Path.home() / ".local/state"
    return home / "sexton" / "repair" / f"{_UNFIT.sub('_', cluster_id)}-{topic}.json"


@dataclass(slots=True)
class NotesFile:
    """The notes of one topic's repair; held by one process."""

    path: Path
    _lock: IO[str] | None = field(default=None)

    def __enter__(self) -> NotesFile:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_suffix(".lock").open("a", encoding="ascii")
        except OSError as error:
            why = f"cannot be written: {(error.strerror or str(error)).lower()}"
            raise ConfigError(str(self.path), why, "choose another with --state") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            hint = "wait for it, or stop it"
            raise ConfigError(str(self.path), "another repair is at work", hint) from None
        self._lock = lock
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def read(self) -> Notes | None:
        """What an earlier repair has left; None: nothing is under way."""
        try:
            told: Any = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ConfigError(str(self.path), f"cannot be read: {error}") from error
        try:
            if told["sexton"] != KIND or told["version"] != VERSION:
                raise ValueError
            return _notes(told)
        except (KeyError, TypeError, ValueError):
            hint = "use the sexton that wrote it, or another --state"
            raise ConfigError(str(self.path), "is not the notes of a repair", hint) from None

    def write(self, notes: Notes) -> None:
        """Replaces the file, at once or not at all, and for good."""
        fresh = self.path.with_suffix(".new")
        text = json.dumps(_told(notes), indent=2)
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
        self._sync_directory()

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)
        self._sync_directory()

    def _sync_directory(self) -> None:
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def left_behind(cluster_id: str, but: str) -> list[str]:
    """Topics of this cluster whose repair was interrupted; `but` this one, which is being seen to.

    What a repair has set stays until somebody goes on with it: the topic frozen, and brokers
    throttled even if the topic is deleted by then.
    """
    place = default_path(cluster_id, "")
    found = []
    for path in sorted(place.parent.glob(f"{place.stem}*{place.suffix}")):
        try:
            with NotesFile(path) as file:  # whoever has it is at work
                notes = file.read()
        except ConfigError:
            continue
        if notes is not None and notes.cluster_id == cluster_id and notes.topic != but:
            found.append(notes.topic)
    return found


# ── as JSON ──


def _told(notes: Notes) -> dict[str, object]:
    told = asdict(notes)
    told["jobs"] = [_told_job(job) for job in notes.jobs]
    return {"sexton": KIND, "version": VERSION} | told


def _told_job(job: Job) -> dict[str, object]:
    return asdict(job) | {"partition": job.partition.partition}


def _notes(told: Mapping[str, Any]) -> Notes:
    topic = str(told["topic"])
    return Notes(
        told["cluster_id"],
        topic,
        told["topic_id"],
        told["began_ms"],
        tuple(Held(**each) for each in told["options"]),
        tuple(_job(topic, each) for each in told["jobs"]),
        told["rounds"],
    )


def _job(topic: str, told: Mapping[str, Any]) -> Job:
    values = dict(told)
    values["partition"] = TopicPartition(topic, values["partition"])
    for name in ("replicas", "wrong", "sources", "rebuilt"):
        values[name] = tuple(values[name])
    if values["emptied"] is not None:
        values["emptied"] = Emptied(**values["emptied"])
    return Job(**values)
