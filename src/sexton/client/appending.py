"""A few records at the end of a partition, acknowledged by every replica in sync.

Not for streams of records: each call is one batch, and nothing is retried. When no answer comes the
records may be in the log or not; whoever appends must be able to live with both.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sexton.records.few import KeyAndValue, few_batch

_ALL = -1  # acks
_BY_NAME = range(3, 13)  # from 13 on topics go by id


async def append(
    client: Client,
    partition: TopicPartition,
    records: Sequence[KeyAndValue],
    timeout_ms: int = 10_000,
) -> int:
    """The offset that the first record was given."""
    batch = few_batch(records, time.time_ns() // 1_000_000)
    return await append_batch(client, partition, batch, timeout_ms)


async def append_batch(
    client: Client, partition: TopicPartition, batch: bytes, timeout_ms: int = 10_000
) -> int:
    """The same for a batch that somebody has made, of records with headers say."""
    topic = TopicProduceData(
        partition.topic, partition_data=[PartitionProduceData(partition.partition, batch)]
    )
    leader = (await client.place(partition)).leader
    if leader < 0:
        raise Refused(KafkaError.LEADER_NOT_AVAILABLE, f"nobody leads {partition}")
    connection = await client.broker(leader)
    most_ms = min(timeout_ms, client.broker_timeout_ms)
    answer = await connection.ask(ProduceRequest(None, _ALL, most_ms, [topic]), _BY_NAME)
    try:
        result = answer.responses[0].partition_responses[0]
    except IndexError:
        why = f"a Produce to {partition} is answered without it"
        raise PeerError(connection.peer, why) from None
    if result.error_code:
        raise refused(result.error_code, f"a record for {partition}", result.error_message)
    return result.base_offset
