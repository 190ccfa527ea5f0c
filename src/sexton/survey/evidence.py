"""A closer look: the same stretch of every replica of a partition, read now.

This is the third time that what a finding rests on is looked at, and what people are shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from sexton.audit.looking import window_of
from sexton.audit.window import Focus, LogWindow
from sexton.base.errors import SextonError
from sexton.client.replica import Chunk, ReplicaOffsets
from sexton.survey.places import Reader, aborted_of, open_place
from sexton.survey.plan import PartitionPlan

MOST_BYTES = 4 << 20  # of one replica for one finding; what lies further off is not looked at
MOST_TO_A_MARKER = 64 << 20  # a transaction may lie among the records of many others


@dataclass(frozen=True, slots=True)
class Bench:
    """The replicas of one partition, each opened once."""

    readers: Mapping[int, Reader]
    unreadable: dict[int, str]  # node, why; more may fail on the way

    async def windows(
        self, first: int, end: int, nodes: Iterable[int], focus: Focus | None = None
    ) -> dict[int, LogWindow]:
        """What these replicas hold of [first, end), or of as much of it as is looked at."""
        found: dict[int, LogWindow] = {}
        for node in nodes:
            if node not in self.readers or node in self.unreadable:
                continue
            try:
                found[node] = await _window(node, self.readers[node], first, end, focus)
            except SextonError as error:
                self.unreadable[node] = f"{error.subject}: {error.why}"
        return found


@asynccontextmanager
async def bench(plan: PartitionPlan) -> AsyncIterator[Bench]:
    unreadable: dict[int, str] = {}
    readers: dict[int, Reader] = {}
    async with AsyncExitStack() as stack:
        for node, place in plan.places.items():
            if node not in plan.stands:
                continue
            try:
                readers[node] = await stack.enter_async_context(open_place(place, plan.partition))
            except SextonError as error:
                unreadable[node] = f"{error.subject}: {error.why}"
        yield Bench(readers, unreadable)


async def _window(
    node: int, reader: Reader, first: int, end: int, focus: Focus | None
) -> LogWindow:
    stands = await reader.offsets()
    start = min(max(first, stands.log_start), stands.high_watermark)
    marker = -1 if focus is None else focus.marker
    upper = min(end, stands.high_watermark)
    chunks, reached = await _chunks(reader, start, upper, stands, marker)
    return window_of(
        node,
        start,
        reached,
        ((chunk.data, list(aborted_of(chunk))) for chunk in chunks),
        log_start=stands.log_start,
        last_stable=stands.last_stable,
        high_watermark=stands.high_watermark,
        focus=focus,
    )


async def _chunks(
    reader: Reader, start: int, end: int, stands: ReplicaOffsets, marker: int
) -> tuple[list[Chunk], int]:
    """What is decided, then what is not; and how far that is, up to the marker if possible."""
    taken: list[Chunk] = []
    position, read_bytes = start, 0
    for undecided in (False, True):
        upper = end if undecided else min(end, stands.last_stable)
        if position >= upper:
            continue
        async for chunk in reader.read(position, upper, undecided=undecided):
            taken.append(chunk)
            position = max(position, chunk.next_offset)
            read_bytes += len(chunk.data)
            if read_bytes >= (MOST_BYTES if position > marker else MOST_TO_A_MARKER):
                return taken, min(position, end)
    return taken, end
