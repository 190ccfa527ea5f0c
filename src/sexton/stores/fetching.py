"""Many partitions read side by side: one long Fetch to each broker, and a short queue for each.

    leader 1 ◀── Fetch: orders-0, orders-3, counts-changelog-1 ──▶  queue of orders-0
                                                                    queue of orders-3 ...
    leader 2 ◀── Fetch: ...

A broker answers a connection's requests one by one, so partitions that are asked for one by one
would wait for each other. Whoever reads `seek`s to an offset and takes `Rows` from there on, in
order and without gaps; a partition whose queue is full is left out until somebody takes from it.
Everything is read_committed. What cannot be read any more (`OFFSET_OUT_OF_RANGE`), may not be read,
or is of a topic that was deleted is told to the reader; anything else passes, and is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.client.replica import FROM_ANY_REPLICA, Chunk, Isolation
from sexton.client.topology import Topic
from sexton.client.whole_batches import whole_batches
from sexton.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from sexton.stores.producing import FOR_GOOD
from sexton.stores.rows import Rows, rows_of

MAX_WAIT_MS = 100
QUEUED = 2  # answers that wait to be taken
PAUSE_S = 0.1  # after an error
IDLE_S = 0.02  # while nobody wants anything
KNOWN_S = 30.0  # leaders are looked up again, whether or not somebody complains
DELETED_S = 30.0  # a topic that nobody has known for so long was deleted
_CONSUMER = -1

log = logging.getLogger("sexton.stores")


class Reader:
    """One partition, from where it was put."""

    def __init__(self, at: TopicPartition, offset: int) -> None:
        self.at = at
        self.offset = offset  # of the next Fetch
        self.high_watermark = -1
        self.failed: SextonError | None = None
        self.queue: deque[Rows] = deque()
        self.filled = asyncio.Event()
        self.seeks = 0  # answers to what was asked before the last one are thrown away
        self.unknown_s: float | None = None  # since when nobody knows the topic

    def seek(self, offset: int) -> None:
        self.offset, self.failed = offset, None
        self.seeks += 1
        self.queue.clear()
        self.filled.clear()

    def fail(self, error: SextonError) -> None:
        self.failed = error
        self.filled.set()

    async def take(self, timeout_s: float | None = None) -> Rows | None:
        """The next rows; None if there are none in time. Raises what cannot be read."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self.queue:
                    if self.failed is not None:
                        raise self.failed
                    self.filled.clear()
                    await self.filled.wait()
        except TimeoutError:
            return None
        return self.queue.popleft()

    @property
    def hungry(self) -> bool:
        return len(self.queue) < QUEUED and self.failed is None


class Fetcher:
    def __init__(self, client: Client, fetch_bytes: int) -> None:
        self._client = client
        self._fetch_bytes = fetch_bytes
        self._readers: dict[TopicPartition, Reader] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._looked_s = 0.0
        self._loops: dict[int, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._finder: asyncio.Task[None] | None = None
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def read(self, at: TopicPartition, offset: int) -> Reader:
        reader = self._readers.get(at)
        if reader is None:
            reader = self._readers[at] = Reader(at, offset)
        else:
            reader.seek(offset)
        if self._finder is None:
            self._finder = self._watched(self._find_leaders())
        self._news.set()
        return reader

    def reader(self, at: TopicPartition) -> Reader | None:
        return self._readers.get(at)

    def forget(self, at: TopicPartition) -> None:
        reader = self._readers.pop(at, None)
        if reader is not None:
            reader.seek(-1)

    def _watched(self, life: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Whoever reads would wait for ever if this ended, so that is told."""

        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None and not self.broken.done():
                self.broken.set_exception(error)

        task = asyncio.create_task(life)
        task.add_done_callback(ended)
        return task

    async def close(self) -> None:
        tasks = [*self._loops.values(), *([self._finder] if self._finder else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.broken.cancel()

    # ── who leads ──

    async def _find_leaders(self) -> None:
        while True:
            try:
                lost = [at for at in self._readers if at not in self._leaders]
                now_s = time.monotonic()
                if lost or (self._readers and now_s - self._looked_s > KNOWN_S):
                    await self._look()
                    lost = [at for at in self._readers if at not in self._leaders]
            except (PeerError, Refused) as error:
                why = str(error)
                log.info("leaders cannot be looked up: %s", why, extra={"why": why})
                self._client.look_elsewhere()
                lost = list(self._readers)
            if lost:
                await asyncio.sleep(PAUSE_S)
                continue
            self._news.clear()
            try:
                async with asyncio.timeout(KNOWN_S):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        topics = await self._topics(sorted({at.topic for at in self._readers}))
        now_s = self._looked_s = time.monotonic()
        for at, reader in list(self._readers.items()):
            topic = topics.get(at.topic)
            place = topic.partitions.get(at.partition) if topic else None
            if topic is not None:
                reader.unknown_s = None
            elif reader.unknown_s is None:
                reader.unknown_s = now_s
            elif now_s - reader.unknown_s > DELETED_S and reader.failed is None:
                why = f"there is no topic {at.topic} any more"
                reader.fail(Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, why))
            if place is None or place.leader < 0:
                self._leaders.pop(at, None)
                continue
            self._leaders[at] = place.leader
            if place.leader not in self._loops:
                self._loops[place.leader] = self._watched(self._fetch_from(place.leader))

    async def _topics(self, names: list[str]) -> dict[str, Topic]:
        """One that we may not see fails its readers, and nobody else's."""
        try:
            return (await self._client.topology(names)).topics
        except Refused as error:
            if error.error not in FOR_GOOD:
                raise
            if len(names) > 1:
                found = [await self._topics([name]) for name in names]
                return {name: topic for some in found for name, topic in some.items()}
            for at, reader in self._readers.items():
                if at.topic == names[0]:
                    reader.fail(error)
            return {}

    # ── reading ──

    async def _fetch_from(self, node: int) -> None:
        while True:
            wanted = [
                reader for at, reader in self._readers.items()
                if self._leaders.get(at) == node and reader.hungry
            ]  # fmt: skip
            if not wanted:
                await asyncio.sleep(IDLE_S)
                continue
            # Each in turn: the partition that was first is last next time.
            self._readers[wanted[0].at] = self._readers.pop(wanted[0].at)
            try:
                await self._fetch(node, wanted)
            except (PeerError, Refused) as error:
                about = {"broker": node, "why": str(error)}
                log.info("fetch from broker %d failed: %s", node, error, extra=about)
                self._lost([reader.at for reader in wanted])
                await asyncio.sleep(PAUSE_S)

    async def _fetch(self, node: int, wanted: list[Reader]) -> None:
        asked = {reader.at: (reader, reader.offset, reader.seeks) for reader in wanted}
        topics: dict[str, FetchTopic] = {}
        for reader in wanted:
            topic = topics.setdefault(reader.at.topic, FetchTopic(reader.at.topic, partitions=[]))
            topic.partitions.append(
                FetchPartition(
                    reader.at.partition,
                    fetch_offset=reader.offset,
                    partition_max_bytes=self._fetch_bytes,
                )
            )
        request = FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=max(self._fetch_bytes, 8 << 20),
            isolation_level=Isolation.READ_COMMITTED,
            session_epoch=-1,
            topics=list(topics.values()),
        )
        asked_ms = now_ms()
        answer = await (await self._client.broker(node)).ask(request, FROM_ANY_REPLICA)
        if answer.error_code:
            raise refused(answer.error_code, f"a Fetch from broker {node}")
        if answer.throttle_time_ms > 0:
            await asyncio.sleep(answer.throttle_time_ms / 1000)
        for response in answer.responses:
            for data in response.partitions:
                at = TopicPartition(response.topic, data.partition_index)
                if at in asked:
                    self._came(*asked[at], data, asked_ms)

    def _came(
        self, reader: Reader, offset: int, seeks: int, data: PartitionData, asked_ms: int
    ) -> None:
        # While leadership moves, the old leader and the new one may be asked for the same.
        if (reader.seeks, reader.offset) != (seeks, offset):
            return
        if data.error_code:
            self._troubled(reader, data.error_code)
            return
        records = memoryview(data.records or b"")
        position, after, fault = whole_batches(records, offset)
        if fault is not None or (len(records) and not position):
            reader.fail(PeerError(str(reader.at), f"offset {offset}: {fault or 'cut short'}"))
            return
        chunk = Chunk(
            records[:position], after, data.log_start_offset, data.high_watermark,
            data.last_stable_offset, tuple(data.aborted_transactions or ()),
        )  # fmt: skip
        reader.high_watermark = data.high_watermark
        rows = rows_of(reader.at, chunk, offset, None, asked_ms)
        reader.offset = after
        if position or not reader.queue:
            reader.queue.append(rows)
            reader.filled.set()

    def _troubled(self, reader: Reader, code: int) -> None:
        if code == KafkaError.OFFSET_OUT_OF_RANGE:
            why = f"{reader.at}: offset {reader.offset} is not there"
            reader.fail(Refused(KafkaError.OFFSET_OUT_OF_RANGE, why))
        elif code in FOR_GOOD:
            reader.fail(refused(code, f"records of {reader.at}"))
        else:
            self._lost([reader.at])

    def _lost(self, partitions: list[TopicPartition]) -> None:
        for at in partitions:
            self._leaders.pop(at, None)
        self._client.look_elsewhere()
        self._news.set()


def now_ms() -> int:
    return time.time_ns() // 1_000_000
