"""What does the PATH mean that somebody typed?

    kafka-logs/                                    a data directory: every partition in it
    kafka-logs/orders-3/                           a partition
    kafka-logs/orders-3/00000000000000000042.log   one segment; several of one directory go together
    kafka-logs/orders-3/00000000000000000042.index a file of its own: an index, snapshot, checkpoint

A directory is a partition if there are segments in it, whatever its name: people rename copies.
Directories that Kafka has marked (`-delete`, `-future`, `-stray`) are named and left out. A path
that cannot be used becomes a `ConfigError` in the answer, and the others are still looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sexton.base.errors import ConfigError, CorruptLog
from sexton.base.partitions import TopicPartition
from sexton.log import names
from sexton.log.checkpoints import parse_offsets
from sexton.log.inspect.reporting import os_fault

# A folder of data directories, or of backups of them, is deeper than this only by accident.
DEEPEST = 4
WHAT_TO_NAME = "name a data directory (log.dirs), a partition's directory or a segment file"

_MARKED = re.compile(r"(?P<partition>.+-\d+)\.[0-9a-f]{32}-(?P<mark>delete|future|stray)")
_MARKS = {
    "delete": "the broker is about to delete it",
    "future": "a copy that is being moved here from another log directory",
    "stray": "the broker does not know whose it is",
}
_KRAFT_SNAPSHOT = ".checkpoint"  # a snapshot of KRaft's metadata: record batches, like a segment
_OFFSET_FILES = (
    names.RECOVERY_POINTS,
    names.LOG_STARTS,
    names.HIGH_WATERMARKS,
    names.CLEANER_OFFSETS,
)


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A `.log` file; the other files of the segment stand beside it under the same number."""

    path: Path
    base_offset: int | None  # None: a KRaft snapshot, whose name says something else
    size: int

    def beside(self, suffix: str) -> Path:
        return self.path.with_suffix(suffix)


def _place(segment: SegmentFile) -> tuple[int, str]:
    return segment.base_offset or 0, segment.path.name


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """Segments of one log, in order, and what is known about them from outside."""

    name: str  # topic-partition, or what its directory is called
    directory: Path
    segments: tuple[SegmentFile, ...]
    whole: bool  # all segments there are; else some that were named one by one
    # After the first of them, not asked for; but they may say how a transaction ended.
    later: tuple[SegmentFile, ...] = ()
    cleaned_to: int | None = None  # from the cleaner's checkpoint of this data directory, if any

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def onwards(self, first: SegmentFile) -> list[SegmentFile]:
        """All segments from this one on, asked for or not, in order."""
        known = sorted([*self.segments, *self.later], key=_place)
        return known[known.index(first) :]

    def is_active(self, segment: SegmentFile) -> bool:
        """Is it the segment that a broker would append to?"""
        return self.onwards(segment) == [segment]

    def snapshots(self) -> list[tuple[int, Path]]:
        """(offset, file) of every producer snapshot, in order."""
        found = []
        for path in self.directory.iterdir():
            parsed = names.parse_segment_file(path.name)
            if parsed is not None and parsed[1] == names.SNAPSHOT:
                found.append((parsed[0], path))
        return sorted(found)


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that holds no records: an index, a snapshot, a checkpoint."""

    path: Path
    kind: str  # its suffix (`.index`), or its whole name (`leader-epoch-checkpoint`)

    @property
    def base_offset(self) -> int:
        parsed = names.parse_segment_file(self.path.name)
        return parsed[0] if parsed else 0


@dataclass(slots=True)
class Found:
    """All that the paths stand for."""

    partitions: list[PartitionFiles] = field(default_factory=list)
    others: list[OtherFile] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)  # (path, why), on purpose
    unreadable: list[tuple[str, str]] = field(default_factory=list)  # (path, why), found on the way
    wrong: list[ConfigError] = field(default_factory=list)  # paths that were typed and mean nothing

    @property
    def size(self) -> int:
        return sum(partition.size for partition in self.partitions)

    def with_logs_of_others(self) -> list[PartitionFiles]:
        """An index or snapshot that was named alone stands for the log that it belongs to."""
        logs = []
        for other in self.others:
            log = other.path.with_suffix(names.LOG)
            try:
                found = find([log if log.exists() else other.path.parent])
            except OSError:
                found = Found()
            if not found.partitions:
                hint = "name the partition's directory"
                self.wrong.append(ConfigError(str(other.path), "there is no log beside it", hint))
            logs += found.partitions
        return _without_repeats([*self.partitions, *logs])


def find(paths: Iterable[str | Path]) -> Found:
    """What these paths stand for; nothing is read yet but names, sizes and checkpoints."""
    found = Found()
    chosen: dict[Path, list[SegmentFile]] = {}
    for typed in paths:
        path = Path(typed)
        try:
            if path.is_dir():
                _add_directory(path, found)
            else:
                _add_file(path, found, chosen)
        except ConfigError as error:
            found.wrong.append(error)
        except PermissionError as error:
            found.unreadable.append((str(path), os_fault(error)))
        except OSError as error:
            found.wrong.append(ConfigError(str(path), os_fault(error), WHAT_TO_NAME))
    for directory, segments in chosen.items():
        found.partitions.append(_some_of(directory, segments, found))
    found.partitions = _without_repeats(found.partitions)
    return found


# ── one file ──


def _add_file(path: Path, found: Found, chosen: dict[Path, list[SegmentFile]]) -> None:
    size = path.stat().st_size  # a missing file says so here
    with path.open("rb"):
        pass
    segment = _as_segment(path, size)
    if segment is not None:
        chosen.setdefault(path.parent, []).append(segment)
        return
    kind = _other_kind(path.name)
    if kind is None:
        raise ConfigError(
            str(path),
            "is not a file of a Kafka log",
            "expected a .log, .index, .timeindex, .txnindex, .snapshot or checkpoint file,"
            " or a directory",
        )
    found.others.append(OtherFile(path, kind))


def _as_segment(path: Path, size: int) -> SegmentFile | None:
    parsed = names.parse_segment_file(path.name)
    if parsed is not None and parsed[1] == names.LOG:
        return SegmentFile(path, parsed[0], size)
    if path.suffix == _KRAFT_SNAPSHOT:
        return SegmentFile(path, None, size)
    if path.suffix == names.LOG:  # renamed: readable, but its name no longer tells an offset
        return SegmentFile(path, None, size)
    return None


def _other_kind(name: str) -> str | None:
    parsed = names.parse_segment_file(name)
    if parsed is not None:
        return parsed[1]
    if name in (names.EPOCHS, names.METADATA, *_OFFSET_FILES):
        return name
    return None


def _some_of(directory: Path, segments: list[SegmentFile], found: Found) -> PartitionFiles:
    ordered = sorted(set(segments), key=_place)
    first = ordered[0].base_offset
    later: list[SegmentFile] = []
    if first is not None:
        try:
            siblings, _ = _segments_in(directory)
        except OSError:
            siblings = []
        later = [s for s in siblings if (s.base_offset or 0) > first and s not in ordered]
    name = _name_of(directory)
    cleaned_to = _cleaned_to(directory, name, found)
    label = f"{name}/{ordered[0].path.name}" if len(ordered) == 1 else name
    return PartitionFiles(label, directory, tuple(ordered), False, tuple(later), cleaned_to)


# ── directories ──


def _add_directory(path: Path, found: Found) -> None:
    before = len(found.partitions), len(found.left_out), len(found.unreadable)
    _walk(path, found, DEEPEST, typed=True)
    if before == (len(found.partitions), len(found.left_out), len(found.unreadable)):
        raise ConfigError(
            str(path),
            "there is no Kafka log in it",
            WHAT_TO_NAME,
        )


def _walk(directory: Path, found: Found, depth: int, *, typed: bool = False) -> None:
    marked = _MARKED.fullmatch(directory.name)
    if marked is not None and not typed:
        found.left_out.append((str(directory), _MARKS[marked["mark"]]))
        return
    try:
        segments, folders = _segments_in(directory)
    except OSError as error:
        if typed:
            raise
        found.unreadable.append((str(directory), os_fault(error)))
        return
    if segments:
        name = _name_of(directory)
        cleaned_to = _cleaned_to(directory, name, found)
        found.partitions.append(
            PartitionFiles(name, directory, tuple(segments), True, (), cleaned_to)
        )
    elif depth:
        for folder in folders:
            _walk(folder, found, depth - 1)


def _segments_in(directory: Path) -> tuple[list[SegmentFile], list[Path]]:
    """Its segments in order of their offsets, and its folders by name."""
    segments, folders = [], []
    with os.scandir(directory) as entries:
        for entry in entries:
            parsed = names.parse_segment_file(entry.name)
            if parsed is not None and parsed[1] == names.LOG:
                segments.append(SegmentFile(Path(entry.path), parsed[0], entry.stat().st_size))
            elif entry.is_dir():
                folders.append(Path(entry.path))
    segments.sort(key=lambda segment: segment.base_offset or 0)
    return segments, sorted(folders)


def _name_of(directory: Path) -> str:
    name = directory.name or directory.resolve().name
    marked = _MARKED.fullmatch(name)
    return marked["partition"] if marked else name


def _cleaned_to(directory: Path, name: str, found: Found) -> int | None:
    """Up to where the cleaner of this broker has come, if it says so."""
    path = directory.resolve().parent / names.CLEANER_OFFSETS
    try:
        offsets = parse_offsets(path.read_bytes(), str(path))
        return offsets.get(TopicPartition.from_directory(name))
    except FileNotFoundError:
        return None
    except ConfigError:  # the directory was renamed: nobody knows which partition it was
        return None
    except CorruptLog as error:
        _note_once(found, str(path), error.why)
    except OSError as error:
        _note_once(found, str(path), os_fault(error))
    return None


def _note_once(found: Found, path: str, why: str) -> None:
    if (path, why) not in found.unreadable:
        found.unreadable.append((path, why))


def _without_repeats(partitions: list[PartitionFiles]) -> list[PartitionFiles]:
    """The same log reached by two paths is looked at once, as a whole if one of them says so."""
    kept: dict[tuple[Path, bool], PartitionFiles] = {}
    whole = {p.directory.resolve() for p in partitions if p.whole}
    for partition in partitions:
        place = partition.directory.resolve()
        if partition.whole or place not in whole:
            kept.setdefault((place, partition.whole), partition)
    return list(kept.values())
