"""Which batches are in a file, by their headers alone, some thousands at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sexton.base.errors import CorruptLog
from sexton.log import walk_kernels
from sexton.log.disk import File
from sexton.records import kernels
from sexton.records.decoder import fault_in_words, scan
from sexton.records.layout import HEADER_BYTES
from sexton.records.native import address
from sexton.records.tables import HEADER_TYPE, Array, HeaderTable, sizes

AT_ONCE = 1 << 16  # batches
WINDOW_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Walked:
    """Some batches of a file, at least one, without what is between their headers."""

    position: Array  # int64, in the file
    ends: Array
    headers: HeaderTable

    @classmethod
    def of(cls, position: Array, headers: HeaderTable) -> Walked:
        return cls(position, position + sizes(headers), headers)


def walk(file: File, size: int, where: str) -> Iterator[Walked]:
    """The batches in the first `size` bytes of a file; CorruptLog if there is anything else."""
    descriptor = file.fileno()
    if descriptor is not None:
        yield from _on_disk(file, descriptor, size, where)
        return
    data = file.read_at(0, size)
    if len(data) < size:
        raise CorruptLog(f"{where} at byte {len(data)}", f"ends before its {size} bytes")
    batches = scan(data)
    if batches.fault is not None:
        raise CorruptLog(f"{where} at byte {batches.end}", batches.fault)
    if len(batches):
        yield Walked.of(batches.position, batches.headers)


def _on_disk(file: File, descriptor: int, size: int, where: str) -> Iterator[Walked]:
    window = np.empty(WINDOW_BYTES, np.uint8)
    place, fault = 0, kernels.OK
    while place < size and fault == kernels.OK:
        room = min(AT_ONCE, (size - place) // HEADER_BYTES + 1)
        position, headers = np.empty(room, np.int64), np.empty(room, HEADER_TYPE)
        found, place, fault = walk_kernels.walk(
            descriptor, place, size, address(position), address(headers), room,
            address(window), len(window),
        )  # fmt: skip
        if found:
            yield Walked.of(position[:found], headers[:found])
    if fault != kernels.OK:
        header = file.read_at(place, min(HEADER_BYTES, size - place))
        if fault == walk_kernels.SHORT_READ or len(header) < min(HEADER_BYTES, size - place):
            raise CorruptLog(f"{where} at byte {place}", f"ends before its {size} bytes")
        raise CorruptLog(f"{where} at byte {place}", fault_in_words(fault, header, size - place))
