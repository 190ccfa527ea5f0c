"""Finished record batches to their leaders, inside one transaction, several under way at once.

    stamp(batch, transaction, sequence) ──▶ queue ──▶ a request for each leader, up to IN_FLIGHT
                                                      └─ one batch of each of its partitions
                                                ◀── answers, in order

A batch comes whole: encoded, compressed, without a producer. Here it gets the producer's fields,
and the checksum that covers them; its records are not looked at. Sequences count from 0 in every
partition, since every transaction here has an epoch of its own. Batches wait until there are enough
for a request of some size: what a broker does for a request it need not do for each partition.

The first batch of a partition goes ahead of all others. A broker that has to add the partition to
the transaction may not be ready for it, the leader may just be moving: it is sent again until it is
taken, which is safe, as it is the same batch under the same sequence. That takes a while, in which
later batches are queued and those of other partitions go on. Any error after that fails the whole
send. Whoever sends begins again with a new epoch then; to repair a pipeline of which some
batches may have arrived is more than this needs.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Final

import numpy as np

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.client.retrying import Patience
from sexton.client.transacting import ANNOUNCED, PROMPT, Transaction, add_partitions, until_ready
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sexton.records.layout import TRANSACTIONAL, sequence_after

IN_FLIGHT: Final = 5  # the batches of a producer that a broker remembers, to know a second one
REQUEST_BYTES: Final = 1 << 20  # what makes a request worth its while
HELD: Final = 8  # requests' worth of batches at most wait for the first ones to be taken
_ALL: Final = -1  # acks
_VERSIONS = {ANNOUNCED: range(3, 12), 2: range(12, 13)}  # from 13 on topics go by id
_TAKEN = (KafkaError.NONE, KafkaError.DUPLICATE_SEQUENCE_NUMBER)
# Where things are in a batch: see `records.layout`.
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_PRODUCER = struct.Struct(">qhi")  # id, epoch, base sequence
_PRODUCER_AT = 43
_COUNT = struct.Struct(">i")
_COUNT_AT = 57

Batches = dict[TopicPartition, bytearray]


def stamp(batch: bytearray, producer_id: int, epoch: int, sequence: int) -> int:
    """Makes a finished batch a producer's, part of its transaction; returns how many records."""
    from sexton.records import kernels
    from sexton.records.native import address

    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | TRANSACTIONAL)
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, epoch, sequence)
    kernels.seal(address(np.frombuffer(batch, np.uint8)), len(batch))
    (count,) = _COUNT.unpack_from(batch, _COUNT_AT)
    return int(count)


class BatchSender:
    """Sends batches of one transaction, each partition's in the order of the calls."""

    def __init__(
        self,
        client: Client,
        transaction: Transaction,
        patience: Patience = PROMPT,
        request_bytes: int = REQUEST_BYTES,
        leaders: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """`leaders` are those that are known already; one that moved costs a second request."""
        self._client = client
        self._transaction = transaction
        self._patience = patience
        self._request_bytes = request_bytes
        self._told = leaders or {}
        self._sequences: dict[TopicPartition, int] = {}
        self._leaders: dict[TopicPartition, int] = {}  # of partitions whose first batch is taken
        self._queue: dict[TopicPartition, deque[bytearray]] = {}
        self._queued = 0  # bytes
        self._beginning: asyncio.Task[None] | None = None  # sends first batches
        self._first_bytes = 0  # of those
        self._under_way: dict[int, deque[asyncio.Task[None]]] = {}  # by leader, in order
        self.records = 0  # of all batches given so far
        self.size = 0  # of them, in bytes

    async def send(self, at: TopicPartition, batch: bytearray) -> None:
        """Returns when it is queued or on its way; raises what became of an earlier one."""
        if self.takes(at, batch):
            await self.go_on()

    def takes(self, at: TopicPartition, batch: bytearray) -> bool:
        """Queues it; True: it is time to `go_on`. Any thread may, while nothing else is called.

        `batch` is changed, and belongs to the sender.
        """
        sequence = self._sequences.get(at, 0)
        count = stamp(batch, self._transaction.producer_id, self._transaction.epoch, sequence)
        self._sequences[at] = sequence_after(sequence, count)
        self.records += count
        self.size += len(batch)
        self._queue.setdefault(at, deque()).append(batch)
        self._queued += len(batch)
        return self._queued >= self._request_bytes

    async def go_on(self) -> None:
        """Sends one batch of each partition that may get one; raises what became of others."""
        if self._beginning is not None and self._beginning.done():
            await self._begun()
        batches = self._next()
        new = {at: batch for at, batch in batches.items() if at not in self._leaders}
        known = {at: batch for at, batch in batches.items() if at not in new}
        if new:
            self._beginning = asyncio.create_task(self._begin(new))
            self._first_bytes = sum(map(len, new.values()))
        for leader, some in _by_leader(known, self._leaders).items():
            under_way = self._under_way.setdefault(leader, deque())
            while len(under_way) >= IN_FLIGHT:
                await self._or_all_end(under_way.popleft())
            under_way.append(asyncio.create_task(self._produce(leader, some)))
        await asyncio.sleep(0)  # they are written now, before any later one
        if self._queued + self._first_bytes >= HELD * self._request_bytes:
            await self._begun()

    async def flush(self) -> None:
        """Returns when every batch is taken; raises the first thing that went wrong."""
        while self._queue or self._beginning is not None:
            await self._begun()
            await self.go_on()
        for under_way in self._under_way.values():
            while under_way:
                await self._or_all_end(under_way.popleft())

    def _next(self) -> Batches:
        """One of each partition, but for those whose first batch is, or would be, under way."""
        may = [at for at in self._queue if at in self._leaders or self._beginning is None]
        batches = {at: self._queue[at].popleft() for at in may}
        self._queue = {at: waiting for at, waiting in self._queue.items() if waiting}
        self._queued -= sum(map(len, batches.values()))
        return batches

    async def _begun(self) -> None:
        """Returns when no first batch is under way."""
        if self._beginning is not None:
            await self._or_all_end(self._beginning)
            self._beginning, self._first_bytes = None, 0

    async def _or_all_end(self, task: asyncio.Task[None]) -> None:
        """Waits for it; if it fails, whatever else is under way is ended."""
        try:
            await task
        except BaseException:
            others = [task for tasks in self._under_way.values() for task in tasks]
            others += [] if self._beginning is None else [self._beginning]
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            raise

    # ── first batches ──

    async def _begin(self, batches: Batches) -> None:
        """Returns when all of them are taken."""
        if self._transaction.version == ANNOUNCED:
            await add_partitions(self._client, self._transaction, batches, self._patience)
        try:
            leaders = await self._find_leaders(batches)
        except (PeerError, Refused):
            leaders = {}
        together = {at: batch for at, batch in batches.items() if leaders.get(at, -1) >= 0}
        await _all(
            *(self._first_of(*each) for each in _by_leader(together, leaders).items()),
            *(self._first(*each) for each in batches.items() if each[0] not in together),
        )

    async def _find_leaders(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        if all(at in self._told for at in partitions):
            return {at: self._told[at] for at in partitions}
        topology = await self._client.topology(sorted({at.topic for at in partitions}))
        return {at: topology.place(at).leader for at in partitions}

    async def _first_of(self, leader: int, batches: Batches) -> None:
        """All to one leader at once; what that does not take goes again, each by itself."""
        again: Iterable[TopicPartition] = batches
        with suppress(PeerError, Refused):
            again = await self._ask(leader, batches)
            self._leaders.update((at, leader) for at in batches if at not in again)
        await _all(*(self._first(at, batches[at]) for at in again))

    async def _first(self, at: TopicPartition, batch: bytearray) -> None:
        async def ask() -> None:
            leader = (await self._client.place(at)).leader
            if leader < 0:
                self._client.look_elsewhere()
                raise Refused(KafkaError.LEADER_NOT_AVAILABLE, f"nobody leads {at}")
            try:
                await self._produce(leader, {at: batch})
            except (PeerError, Refused):
                self._client.look_elsewhere()
                raise
            self._leaders[at] = leader

        await until_ready(ask, self._patience)

    # ── requests ──

    async def _produce(self, leader: int, batches: Batches) -> None:
        for refusal in (await self._ask(leader, batches)).values():
            raise refusal

    async def _ask(
        self, leader: int, batches: Batches
    ) -> dict[TopicPartition, Refused | PeerError]:
        """What the leader did not take, and why."""
        topics: dict[str, TopicProduceData] = {}
        for at, batch in batches.items():
            topic = topics.setdefault(at.topic, TopicProduceData(at.topic))
            topic.partition_data.append(PartitionProduceData(at.partition, batch))
        most_ms = min(self._patience.timeout_ms, self._client.broker_timeout_ms)
        request = ProduceRequest(
            self._transaction.transactional_id, _ALL, most_ms, list(topics.values())
        )
        connection = await self._client.broker(leader)
        answer = await connection.ask(request, _VERSIONS[self._transaction.version])
        told = {
            TopicPartition(topic.name, result.index): result
            for topic in answer.responses
            for result in topic.partition_responses
        }
        refusals: dict[TopicPartition, Refused | PeerError] = {}
        for at in batches:
            if at not in told:
                why = f"a Produce to {at} is answered without it"
                refusals[at] = PeerError(connection.peer, why)
            elif told[at].error_code not in _TAKEN:
                code, said = told[at].error_code, told[at].error_message
                refusals[at] = refused(code, f"records for {at}", said)
        return refusals


async def _all(*work: Coroutine[None, None, None]) -> None:
    """Side by side; when one fails, the others are ended."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _by_leader(batches: Batches, leaders: Mapping[TopicPartition, int]) -> dict[int, Batches]:
    found: dict[int, Batches] = {}
    for at, batch in batches.items():
        found.setdefault(leaders[at], {})[at] = batch
    return found
