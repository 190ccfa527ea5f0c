"""Does an id turn up in two partitions?

Each partition is folded on its own, and no driver can hold every id. So each task sets a bit for
every id it meets, in a field that is large for that many ids, and the driver keeps the bits that
two partitions have set. Nearly all ids are out of question then:

    partition 0   ·█··█···█···      first round: bits
    partition 1   ··█·█····█··
    both          ····█·······      second round: ids behind these bits, with all 128 bits

The second round reads again and names the few ids behind those bits; the driver compares them
exactly. Bits can only ever suspect too much, never too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sexton.audit import state_kernels as kernels
from sexton.audit.expressions import parts
from sexton.audit.fields import FOUND, Read, Rows, fingerprints
from sexton.audit.validation import DUPLICATE, INCONSISTENT, Rules, Sighting
from sexton.base.partitions import TopicPartition
from sexton.records.native import address
from sexton.records.tables import Array

LEAST_BITS, MOST_BITS = 1 << 16, 1 << 28  # 32 MB of a task's answer, at the most
BITS_AN_ID = 16


def sketch_bits(ids: int) -> int:
    bits = LEAST_BITS
    while bits < min(ids * BITS_AN_ID, MOST_BITS):
        bits *= 2
    return bits


def empty_sketch(bits: int) -> Array:
    return np.zeros(bits // 64, np.uint64)


def mark(sketch: Array, ids: Read) -> None:
    kernels.mark(
        address(ids.values), address(ids.status), len(ids.status), address(sketch),
        len(sketch) * 64 - 1,
    )  # fmt: skip


def marked(sketch: Array, ids: Read) -> Array:
    """The rows whose ids the sketch may have."""
    chosen: Array = np.empty(len(ids.status), np.int64)
    count = kernels.marked(
        address(ids.values), address(ids.status), len(ids.status), address(sketch),
        len(sketch) * 64 - 1, address(chosen),
    )  # fmt: skip
    return chosen[:count]


class Overlap:
    """Bits that more than one partition has set."""

    def __init__(self, bits: int) -> None:
        self._once, self.twice = empty_sketch(bits), empty_sketch(bits)

    def add(self, sketch: Array) -> None:
        self.twice |= self._once & sketch
        self._once |= sketch

    def __bool__(self) -> bool:
        return bool(self.twice.any())


@dataclass(frozen=True, slots=True)
class Candidates:
    """Ids of one partition behind bits that another one has set, too; the first of each."""

    partition: TopicPartition
    prints: Array  # (n, 2)
    offsets: Array
    contents: Array  # 64 bits
    timestamps: Array


class CandidateFold:
    """The second round, for one partition."""

    def __init__(self, partition: TopicPartition, rules: Rules, sketch: Array, seed: int) -> None:
        self._partition, self._sketch, self._seed = partition, sketch, seed
        self._id, self._content = parts(rules.id or "key", "--id"), parts(rules.content, "content")
        self._found: list[tuple[Array, Array, Array, Array]] = []

    def take_rows(self, rows: Rows) -> None:
        ids = fingerprints(self._id, rows, self._seed)
        chosen = marked(self._sketch, ids)
        if not len(chosen):
            return
        few = Rows(rows.columns, rows.rows[chosen], rows.partition)
        content = fingerprints(self._content, few, self._seed)
        digests = np.where(content.status == FOUND, content.values[:, 0], 0)
        self._found.append(
            (
                ids.values[chosen],
                few.offsets,
                digests,
                np.asarray(rows.columns.timestamp[few.rows]),
            )
        )

    def candidates(self) -> Candidates:
        if not self._found:
            none = np.empty(0, np.int64)
            return Candidates(self._partition, np.empty((0, 2), np.uint64), none, none, none)
        prints, offsets, contents, times = (
            np.concatenate(column) for column in zip(*self._found, strict=True)
        )
        # The first of each id: the others were found when the partition was folded.
        order = np.lexsort((offsets, prints[:, 1], prints[:, 0]))
        sorted_prints = prints[order]
        first = np.ones(len(order), bool)
        first[1:] = (sorted_prints[1:] != sorted_prints[:-1]).any(axis=1)
        kept = np.sort(order[first])
        return Candidates(self._partition, prints[kept], offsets[kept], contents[kept], times[kept])


def repeated(found: Sequence[Candidates], most: int) -> tuple[list[Sighting], dict[str, int]]:
    """Ids that several partitions have; the record with the lowest timestamp counts as the first.

    Sightings have neither key nor id yet: whoever tells them reads the records again.
    """
    prints = np.concatenate([each.prints for each in found])
    numbers = np.concatenate(
        [np.full(len(each.offsets), at, np.int64) for at, each in enumerate(found)]
    )
    offsets = np.concatenate([each.offsets for each in found])
    times = np.concatenate([each.timestamps for each in found])
    contents = np.concatenate([each.contents for each in found])
    order = np.lexsort((offsets, numbers, times, prints[:, 1], prints[:, 0]))
    same = np.zeros(len(order), bool)
    ordered = prints[order]
    same[1:] = (ordered[1:] == ordered[:-1]).all(axis=1)
    sightings: list[Sighting] = []
    counts: dict[str, int] = {}
    first = 0
    for place in np.flatnonzero(same).tolist():
        if not same[place - 1]:
            first = place - 1
        was, now = order[first], order[place]
        code = DUPLICATE if contents[was] == contents[now] else INCONSISTENT
        counts[code] = counts.get(code, 0) + 1
        if len(sightings) < most:
            sightings.append(_sighting(code, found, numbers, offsets, times, int(was), int(now)))
    return sightings, counts


def _sighting(
    code: str, found: Sequence[Candidates], numbers: Array, offsets: Array, times: Array, was: int,
    now: int,
) -> Sighting:  # fmt: skip
    return Sighting(
        code=code,
        partition=found[int(numbers[now])].partition,
        key=None,
        id=None,
        last_value="",
        value="",
        last_offset=int(offsets[was]),
        offset=int(offsets[now]),
        last_partition=found[int(numbers[was])].partition.partition,
        timestamp_ms=int(times[now]),
        last_timestamp_ms=int(times[was]),
    )
