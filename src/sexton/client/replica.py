"""One replica's log, read straight from its broker, whoever leads.

Every other client reads from the leader, so nobody sees what a follower holds until it leads. But a
broker serves a consumer that asks it in so many words (KIP-392), if the request is

    Fetch v11 or v12       up to v10 only leaders answer; from v13 on topics go by id, not name
    replica id -1          a consumer; its answer ends at the replica's own high watermark,
                           with read_committed at its own last stable offset
    session epoch -1       no fetch session: every answer is whole

and answers with its own batches, high watermark, last stable offset, log start and list of aborted
transactions. That holds for a replica outside the ISR, too. Where the log ends, past the high
watermark, is what ListOffsets says to replica id -2, Kafka's "debugging consumer".

A log is read in chunks of whole batches, as they are on disk. The next chunk is asked for while the
caller is still busy with this one, so two of them are in memory at any time, however long the log.

An answer without records is the end of what can be read, unless the broker says in the same answer
that it goes on. Then it means one of two things, which no field of it tells apart:

    nothing is there       all of it was compacted away; seldom, since a cleaner keeps the last
                           record of each key: tombstones and markers that have expired at the
                           end of what is stable, or a log that was truncated inside such a gap
    nothing has come yet   with tiered storage (KIP-405) the broker reads what is old from
                           elsewhere, and answers without it when that takes more than
                           remote.fetch.max.wait.ms (before Kafka 3.8: max_wait_ms of the Fetch),
                           or when it reads too much there

What is in the local log comes at once. So the broker is asked where that begins, which only ever
moves up: from there on a second answer without records is believed, and below it none is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.connection import Connection, refused
from sexton.client.quota import ReadQuota
from sexton.client.whole_batches import whole_batches
from sexton.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from sexton.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from sexton.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from sexton.records.few import FewRecord, few_records
from sexton.records.layout import BatchHeader

CHUNK_BYTES = 4 << 20
FROM_ANY_REPLICA = range(11, 13)
_CONSUMER, _DEBUGGER = -1, -2
_LATEST, _EARLIEST, _EARLIEST_LOCAL = -1, -2, -4
_ANY_VERSION, _WITH_LOCAL_START = range(1 << 15), range(8, 1 << 15)  # of ListOffsets
REMOTE_WAIT_MS = 500  # Kafka's fetch.max.wait.ms and remote.fetch.max.wait.ms
MOST_LOOKS = 5  # at a log whose start moves while we ask for it
MOST_THROTTLED_MS = 600_000  # with a broker that says again and again that we read too much


class Isolation(IntEnum):
    """Which records a fetch is given: all, or none of an open or aborted transaction."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class RawBatch:
    """One record batch as the broker has it."""

    header: BatchHeader
    data: memoryview  # the whole batch, header included

    def records(self) -> Iterator[FewRecord]:
        """One by one, for people; whoever has millions gives `Chunk.data` to `records.decode`."""
        return few_records(self.data, f"batch at offset {self.header.base_offset}")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some whole batches of a replica, and what it said of itself when it sent them."""

    data: memoryview  # batches one after the other; the first may begin below what was asked for
    next_offset: int  # where the next chunk begins; up to there nothing else is in the log
    log_start: int
    high_watermark: int
    last_stable: int
    aborted: tuple[AbortedTransaction, ...]  # with records in here; empty without read_committed

    def batches(self) -> Iterator[RawBatch]:
        """One after the other, without decoding their records."""
        position = 0
        while position < len(self.data):
            header = BatchHeader.unpack(self.data, position)
            yield RawBatch(header, self.data[position : position + header.size])
            position += header.size

    def readable_to(self, isolation: Isolation) -> int:
        """Where the replica said that it can be read to."""
        committed = isolation is Isolation.READ_COMMITTED
        return self.last_stable if committed else self.high_watermark


@dataclass(frozen=True, slots=True)
class ReplicaOffsets:
    """Where one replica stands, by its own account."""

    node: int
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int  # as far as a broker tells; at least the high watermark


@dataclass(frozen=True, slots=True)
class Replica:
    connected: Callable[[], Awaitable[Connection]]
    partition: TopicPartition
    node: int
    leader_epoch: int = -1  # if given: only a broker that believes in this epoch answers
    quota: ReadQuota | None = None

    # ── records ──

    async def read(
        self,
        start: int | None = None,
        *,
        end: int | None = None,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> AsyncGenerator[Chunk, None]:
        """Every batch from `start` (or where the log begins) to `end` (or all that can be read).

        The last chunk may be without batches: it says where the replica stood at the end.
        """
        offset = await self._list_offset(_EARLIEST) if start is None else start
        asking = self._ask_ahead(offset, isolation, chunk_bytes)
        try:
            while True:
                chunk = await asking
                done = not chunk.data or (end is not None and chunk.next_offset >= end)
                if not done:
                    asking = self._ask_ahead(chunk.next_offset, isolation, chunk_bytes)
                    await asyncio.sleep(0)  # it goes out now, not when the caller is done
                yield chunk
                if done:
                    return
        finally:
            asking.cancel()

    def _ask_ahead(
        self, offset: int, isolation: Isolation, chunk_bytes: int
    ) -> asyncio.Task[Chunk]:
        task = asyncio.create_task(self._chunk(offset, isolation, chunk_bytes))
        # Whoever stops reading early does not want to hear what became of the next chunk.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _chunk(self, offset: int, isolation: Isolation, chunk_bytes: int) -> Chunk:
        chunk = await self._asked(offset, isolation, chunk_bytes)
        if chunk.data or offset >= chunk.readable_to(isolation):
            return chunk
        is_local = await self._is_local(offset)
        wait_ms = 0 if is_local else REMOTE_WAIT_MS
        chunk = await self._asked(offset, isolation, chunk_bytes, wait_ms)
        if chunk.data or offset >= chunk.readable_to(isolation):
            return chunk
        if is_local:
            return replace(chunk, next_offset=chunk.readable_to(isolation))
        why = f"{self}, offset {offset}: is in tiered storage, from where it has not come in time"
        hint = "remote.fetch.max.wait.ms of the brokers says how long they wait for it"
        raise Refused(KafkaError.OFFSET_NOT_AVAILABLE, why, hint)

    async def _is_local(self, offset: int) -> bool:
        """Is it in the broker's own log, so that it would have come at once?"""
        try:
            start = await self._list_offset(_EARLIEST_LOCAL, _WITH_LOCAL_START)
        except Refused as error:
            if error.error is not KafkaError.UNSUPPORTED_VERSION:
                raise
            return True  # older than tiered storage
        return 0 <= start <= offset

    async def _asked(
        self, offset: int, isolation: Isolation, chunk_bytes: int, wait_ms: int = 0
    ) -> Chunk:
        if self.quota is not None:
            await self.quota.wait()
        data = await self._fetch(offset, isolation, chunk_bytes, wait_ms)
        if self.quota is not None:
            self.quota.pay(len(data.records or b""))
        return self._whole(data, offset)

    async def _fetch(
        self, offset: int, isolation: Isolation, most_bytes: int, wait_ms: int = 0
    ) -> PartitionData:
        """The broker's answer; one that throttles us answers without the partition at first."""
        waited_ms = 0
        while True:
            data, throttled_ms = await self._fetch_once(offset, isolation, most_bytes, wait_ms)
            if data is not None:
                return data
            if waited_ms > MOST_THROTTLED_MS:
                why = f"has throttled us for {waited_ms // 1000} s without one record"
                raise PeerError(f"broker {self.node}", why, "raise consumer_byte_rate for us")
            waited_ms += throttled_ms
            await asyncio.sleep(throttled_ms / 1000)

    async def _fetch_once(
        self, offset: int, isolation: Isolation, most_bytes: int, wait_ms: int
    ) -> tuple[PartitionData | None, int]:
        connection = await self.connected()
        asked = FetchPartition(
            self.partition.partition,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=most_bytes,
        )
        request = FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=most_bytes,
            isolation_level=isolation,
            session_epoch=-1,
            topics=[FetchTopic(self.partition.topic, partitions=[asked])],
        )
        response = await connection.ask(request, FROM_ANY_REPLICA)
        if response.error_code:
            raise refused(response.error_code, f"{self} from offset {offset}")
        if not response.responses and response.throttle_time_ms > 0:
            return None, response.throttle_time_ms
        try:
            data = response.responses[0].partitions[0]
        except IndexError:
            raise PeerError(connection.peer, f"a Fetch of {self} is answered without it") from None
        if data.error_code:
            raise refused(data.error_code, f"{self} from offset {offset}")
        if data.preferred_read_replica >= 0 and not data.records:
            why = f"wants {self} to be read from broker {data.preferred_read_replica}"
            hint = "its replica.selector.class must leave clients without a rack at the leader"
            raise PeerError(connection.peer, why, hint)
        return data, 0

    def _whole(self, data: PartitionData, offset: int) -> Chunk:
        """What there is in whole batches: a broker may cut the last one."""
        records = memoryview(data.records or b"")
        position, after, fault = whole_batches(records, offset)
        if fault is not None:
            raise PeerError(f"broker {self.node}", f"{self}, after offset {after}: {fault}")
        if not position and len(records):
            # Nothing here would mean that the log ends, which it does not.
            why = f"{self}, offset {offset}: sends {len(records)} bytes, not even one whole batch"
            raise PeerError(f"broker {self.node}", why)
        return Chunk(
            records[:position],
            after,
            data.log_start_offset,
            data.high_watermark,
            data.last_stable_offset,
            tuple(data.aborted_transactions or ()),
        )

    # ── offsets and producers ──

    async def offsets(self) -> ReplicaOffsets:
        """Where it stands now."""
        data, end = await self._look()
        return ReplicaOffsets(
            self.node,
            data.log_start_offset,
            data.last_stable_offset,
            data.high_watermark,
            max(end, data.high_watermark),
        )

    async def _look(self) -> tuple[PartitionData, int]:
        """What comes with a Fetch, and the log's end; asked again where the log is cut meanwhile.

        A log that was cut at its end still has its start, and a follower may know its end before
        it may show it; one that retention cuts at its start has its end.
        """
        for looks_left in reversed(range(MOST_LOOKS)):
            start, end = await self._list_offset(_EARLIEST), await self._list_offset(_LATEST)
            for offset, others_left in ((end, 1), (start, looks_left)):
                try:
                    return await self._fetch(offset, Isolation.READ_UNCOMMITTED, 1), end
                except Refused as error:
                    if error.error is not KafkaError.OFFSET_OUT_OF_RANGE or not others_left:
                        raise
        raise AssertionError("the last look raises what it meets")

    async def offset_at(self, time_ms: int) -> int:
        """Of the first record from this time on; where the log ends if there is none."""
        found = await self._list_offset(time_ms)
        return found if found >= 0 else await self._list_offset(_LATEST)

    async def _list_offset(self, timestamp: int, versions: range = _ANY_VERSION) -> int:
        connection = await self.connected()
        asked = ListOffsetsPartition(self.partition.partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=_DEBUGGER, topics=[ListOffsetsTopic(self.partition.topic, [asked])]
        )
        response = await connection.ask(request, versions)
        try:
            answer = response.topics[0].partitions[0]
        except IndexError:
            why = f"ListOffsets of {self} is answered without it"
            raise PeerError(connection.peer, why) from None
        if answer.error_code:
            raise refused(answer.error_code, f"offsets of {self}")
        return answer.offset

    async def producers(self) -> list[ProducerState]:
        """The producers that this replica remembers, and where their open transactions begin."""
        connection = await self.connected()
        asked = TopicRequest(self.partition.topic, [self.partition.partition])
        response = await connection.ask(DescribeProducersRequest([asked]))
        try:
            answer = response.topics[0].partitions[0]
        except IndexError:
            why = f"DescribeProducers of {self} is answered without it"
            raise PeerError(connection.peer, why) from None
        if answer.error_code:
            raise refused(answer.error_code, f"producers of {self}", answer.error_message)
        return sorted(answer.active_producers, key=lambda producer: producer.producer_id)

    def __str__(self) -> str:
        return f"{self.partition} on broker {self.node}"
