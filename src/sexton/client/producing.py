"""Finished record batches to their leaders, inside one transaction, several under way at once.

    stamp(batch, transaction, sequence) ──▶ BatchSender.send ──▶ leader    up to IN_FLIGHT each
                                                                ◀── answers, in order

A batch comes whole: encoded, compressed, without a producer. Here it gets the producer's fields,
and the checksum that covers them; its records are not looked at. Sequences count from 0 in every
partition, since every transaction here has an epoch of its own.

The first batch of a partition goes alone. A broker that has to add the partition to the transaction
may not be ready for it, the leader may just be moving: it is sent again until it is taken, which is
safe, as it is the same batch under the same sequence. Any error after that fails the whole send.
Whoever sends begins again with a new epoch then; to repair a pipeline of which some batches may
have arrived is more than this needs.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable
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
        self, client: Client, transaction: Transaction, patience: Patience = PROMPT
    ) -> None:
        self._client = client
        self._transaction = transaction
        self._patience = patience
        self._sequences: dict[TopicPartition, int] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._under_way: dict[int, deque[asyncio.Task[None]]] = {}  # by leader, in order
        self.records = 0  # of all batches given so far

    async def send(self, at: TopicPartition, batch: bytearray) -> None:
        """Returns when the batch is on its way, and with the first of a partition when it is taken.

        Raises what became of an earlier one. `batch` is changed, and belongs to the sender.
        """
        begun = at in self._sequences
        sequence = self._sequences.get(at, 0)
        count = stamp(batch, self._transaction.producer_id, self._transaction.epoch, sequence)
        self._sequences[at] = sequence_after(sequence, count)
        self.records += count
        if not begun:
            await self.flush()
            await self._first(at, batch)
            return
        leader = self._leaders[at]
        under_way = self._under_way.setdefault(leader, deque())
        while len(under_way) >= IN_FLIGHT:
            await self._oldest(under_way)
        under_way.append(asyncio.create_task(self._produce(at, leader, batch)))
        await asyncio.sleep(0)  # it is written now, before any later one

    async def flush(self) -> None:
        """Returns when every batch is taken; raises the first thing that went wrong."""
        for under_way in self._under_way.values():
            while under_way:
                await self._oldest(under_way)

    async def _oldest(self, under_way: deque[asyncio.Task[None]]) -> None:
        try:
            await under_way.popleft()
        except BaseException:
            others = [task for tasks in self._under_way.values() for task in tasks]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            raise

    async def _first(self, at: TopicPartition, batch: bytearray) -> None:
        if self._transaction.version == ANNOUNCED:
            await add_partitions(self._client, self._transaction, [at], self._patience)
        await until_ready(self._to_leader(at, batch), self._patience)

    def _to_leader(self, at: TopicPartition, batch: bytearray) -> Callable[[], Awaitable[None]]:
        async def ask() -> None:
            leader = (await self._client.place(at)).leader
            if leader < 0:
                self._client.look_elsewhere()
                raise Refused(KafkaError.LEADER_NOT_AVAILABLE, f"nobody leads {at}")
            try:
                await self._produce(at, leader, batch)
            except (PeerError, Refused):
                self._client.look_elsewhere()
                raise
            self._leaders[at] = leader

        return ask

    async def _produce(self, at: TopicPartition, leader: int, batch: bytearray) -> None:
        data = TopicProduceData(
            at.topic, partition_data=[PartitionProduceData(at.partition, batch)]
        )
        timeout_ms = self._patience.timeout_ms
        request = ProduceRequest(self._transaction.transactional_id, _ALL, timeout_ms, [data])
        connection = await self._client.broker(leader)
        answer = await connection.ask(request, _VERSIONS[self._transaction.version])
        try:
            result = answer.responses[0].partition_responses[0]
        except IndexError:
            why = f"a Produce to {at} is answered without it"
            raise PeerError(connection.peer, why) from None
        if result.error_code not in _TAKEN:
            raise refused(result.error_code, result.error_message or f"records for {at}")
