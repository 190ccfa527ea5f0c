"""Transactions as Kafka's own producer writes them since 4.0, one record each.

With transaction protocol 2 (KIP-890) every transaction has an epoch of its own, and its marker the
next one. librdkafka still speaks protocol 1, in which the epoch stays. To a cleaner that makes a
difference: after a marker with a new epoch a log knows no sequence of the producer any more, so the
marker's batch is the only thing that remembers the producer, and is kept, emptied, for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import Connection, refused
from sexton.protocol.messages.end_txn import EndTxnRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sexton.records.few import few_batch
from sexton.testing.waiting import until

_TRANSACTION: Final = 1  # the kind of coordinator
_PRODUCE = range(12, 13)  # from 12 on a Produce adds its partition; from 13 on topics go by id
_END = range(5, 6)  # answered with the epoch of the next transaction
_TIMEOUT_MS: Final = 60_000
TRANSACTION_MS: Final = 900_000  # the most that Kafka allows: a person may look on meanwhile
_AGAIN = {
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.NOT_LEADER_OR_FOLLOWER,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS,
}

_Step = Callable[[Client], Awaitable[int]]  # gives one of Kafka's error codes


@dataclass(slots=True)
class Tv2Writer:
    bootstrap_servers: str
    partition: TopicPartition
    transactional_id: str
    producer_id: int = -1
    epoch: int = -1

    def write(self, key: str, value: str) -> None:
        """A transaction with one record, left open."""
        if self.producer_id < 0:
            self._retry("a producer id", self._init)
        self._retry("a record taken", lambda client: self._produce(client, key, value))

    def commit(self) -> None:
        self._retry("a commit", lambda client: self._end(client, committed=True))

    def abort(self) -> None:
        self._retry("an abort", lambda client: self._end(client, committed=False))

    def _retry(self, what: str, step: _Step) -> None:
        def attempt() -> bool:
            code = asyncio.run(self._run(step))
            if code and code not in _AGAIN:
                raise refused(code, f"{what} for {self.transactional_id}")
            return code == KafkaError.NONE

        until(attempt, what)

    async def _run(self, step: _Step) -> int:
        async with Client(self.bootstrap_servers) as client:
            return await step(client)

    async def _coordinator(self, client: Client) -> Connection | int:
        request = FindCoordinatorRequest(
            key_type=_TRANSACTION, coordinator_keys=[self.transactional_id]
        )
        found = (await client.ask(request, range(4, 7))).coordinators[0]
        return found.error_code or await client.broker(found.node_id)

    async def _init(self, client: Client) -> int:
        coordinator = await self._coordinator(client)
        if isinstance(coordinator, int):
            return coordinator
        request = InitProducerIdRequest(self.transactional_id, TRANSACTION_MS)
        answer = await coordinator.ask(request, range(2, 6))
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code

    async def _produce(self, client: Client, key: str, value: str) -> int:
        batch = few_batch(
            [(key.encode(), value.encode())],
            time.time_ns() // 1_000_000,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        data = PartitionProduceData(self.partition.partition, batch)
        topic = TopicProduceData(self.partition.topic, partition_data=[data])
        request = ProduceRequest(self.transactional_id, -1, _TIMEOUT_MS, [topic])
        leader = (await client.place(self.partition)).leader
        if leader < 0:
            return KafkaError.LEADER_NOT_AVAILABLE
        answer = await (await client.broker(leader)).ask(request, _PRODUCE)
        return answer.responses[0].partition_responses[0].error_code

    async def _end(self, client: Client, *, committed: bool) -> int:
        coordinator = await self._coordinator(client)
        if isinstance(coordinator, int):
            return coordinator
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, committed)
        answer = await coordinator.ask(request, _END)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code
