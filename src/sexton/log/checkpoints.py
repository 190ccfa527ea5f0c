"""Kafka's small text files: a version, a count, and a line each.

    leader-epoch-checkpoint              epoch start-offset          in a partition's directory
    recovery-point-offset-checkpoint ... topic partition offset      in the data directory
    partition.metadata                   version: 0, topic_id: ...   in a partition's directory

Each is replaced as a whole, so a reader sees the old one or the new one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sexton.base.errors import CorruptLog
from sexton.base.partitions import TopicPartition
from sexton.protocol.uuids import parse_uuid, uuid_text


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


def pack_epochs(entries: Iterable[EpochStart]) -> bytes:
    return _pack(f"{epoch} {start}" for epoch, start in entries)


def parse_epochs(data: bytes, where: str) -> list[EpochStart]:
    return [EpochStart(*_integers(line.split(), 2, where)) for line in _lines(data, where)]


def pack_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _pack(f"{p.topic} {p.partition} {offset}" for p, offset in sorted(offsets.items()))


def parse_offsets(data: bytes, where: str) -> dict[TopicPartition, int]:
    offsets = {}
    for line in _lines(data, where):
        topic, *rest = line.split()
        partition, offset = _integers(rest, 2, where)
        offsets[TopicPartition(topic, partition)] = offset
    return offsets


def pack_metadata(topic_id: uuid.UUID) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id.bytes)}".encode()


def parse_metadata(data: bytes, where: str) -> uuid.UUID:
    fields = dict(
        line.partition(": ")[::2] for line in data.decode("utf-8", "replace").splitlines()
    )
    try:
        topic_id = uuid.UUID(bytes=parse_uuid(fields.get("topic_id", "")))
    except ValueError:
        topic_id = None
    if fields.get("version") != "0" or topic_id is None:
        raise CorruptLog(where, "is not partition metadata of version 0")
    return topic_id


def _pack(lines: Iterable[str]) -> bytes:
    body = list(lines)
    return "".join(f"{line}\n" for line in ["0", str(len(body)), *body]).encode()


def _lines(data: bytes, where: str) -> list[str]:
    if not data:
        return []  # Kafka makes the file before it has anything to write
    lines = data.decode("utf-8", "replace").split("\n")
    if len(lines) < 2 or lines[0] != "0":
        raise CorruptLog(where, f"is not a checkpoint of version 0 (it begins {lines[0][:20]!r})")
    if lines[-1]:
        raise CorruptLog(where, "ends within a line")  # half a number is a number, too
    (count,) = _integers(lines[1:2], 1, where)
    body = [line for line in lines[2:] if line]
    if len(body) != count:
        raise CorruptLog(where, f"claims {count} entries and has {len(body)}")
    return body


def _integers(words: list[str], count: int, where: str) -> list[int]:
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise CorruptLog(where, f"expected {count} numbers, found {' '.join(words)[:40]!r}")
    return numbers
