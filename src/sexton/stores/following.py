"""The changelog, read for one task: bit by bit as it grows, or in one go up to an end.

    tail(start)            a standby: with all other partitions in one long Fetch
    stretch(start, end)    a promotion: some megabytes at a time, the next ones on their way

Either gives the next `Rows` after those it gave before, or begins anew where it is asked to.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from sexton.base.partitions import TopicPartition
from sexton.client.retrying import Patience
from sexton.machines.stores_events import Read
from sexton.stores import changelog as changelogs
from sexton.stores.changelog import Changelog
from sexton.stores.layout import POSITION, decode_position
from sexton.stores.local import Local
from sexton.stores.numbers import Progress
from sexton.stores.rows import Rows
from sexton.stores.surroundings import Surroundings

_SHORT = Patience(timeout_ms=5_000, backoff_ms=20, most_backoff_ms=500)


class Following:
    def __init__(self, changelog: Changelog, at: TopicPartition, around: Surroundings) -> None:
        self._changelog, self._at, self._around = changelog, at, around
        self._replaying: AsyncGenerator[Rows, None] | None = None
        self._next = -1  # where the rows begin that come next
        self.restore: Progress | None = None
        self.lag = -1  # records that it saw it had not read yet; -1: it does not know

    async def read(self, start: int, end: int | None, local: Local) -> Read | None:
        """The next rows are at `local`'s hand; None: ask again."""
        rows = await (self._tail(start) if end is None else self._stretch(start, end))
        if rows is None:
            return None
        changes: dict[bytes, bytes | None] = {}
        if rows.keys:
            changes = dict(zip(rows.keys, rows.values, strict=True))  # type: ignore[arg-type]
        position = decode_position(changes.pop(POSITION, None))
        local.hand = changes
        self.lag = max(0, (rows.last_stable if end is None else end) - rows.next_offset)
        return Read(
            rows.asked_ms, rows.start, rows.next_offset, rows.high_watermark, rows.leader_epoch,
            position, first_epoch=rows.first_epoch,
        )  # fmt: skip

    async def _tail(self, start: int) -> Rows | None:
        fetcher = self._around.fetcher
        reader = fetcher.reader(self._at)
        if reader is None or self._next != start:
            reader = fetcher.read(self._at, start)
        rows = await reader.take()
        self._next = start if rows is None else rows.next_offset
        return rows

    async def _stretch(self, start: int, end: int) -> Rows | None:
        if self._replaying is None or self._next != start:
            await self.drop()
            if self.restore is None or self.restore.end != end:
                self.restore = Progress(start, end)
            self._replaying = changelogs.replay(
                self._around.client, self._at, self._changelog.lineage.topic_id, start, end, _SHORT
            )
        try:
            rows = await anext(self._replaying)
        except StopAsyncIteration:
            self._replaying = None
            return None
        self._next = rows.next_offset
        assert self.restore is not None
        self.restore.add(rows.size_bytes, len(rows), rows.next_offset)
        self._around.numbers.restored_records += len(rows)
        self._around.numbers.restored_bytes += rows.size_bytes
        return rows

    async def drop(self) -> None:
        replaying, self._replaying = self._replaying, None
        if replaying is not None:
            await replaying.aclose()
        self._around.fetcher.forget(self._at)
        self._next = self.lag = -1
