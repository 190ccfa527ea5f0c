"""What the transaction coordinators know: which transactions there are, and how far each is.

Each broker coordinates some of them, so all are asked. One that does not answer may know what we
look for: then nothing is said of absence (`complete` is False).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sexton.base.errors import PeerError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TransactionState,
)
from sexton.protocol.messages.list_transactions import ListTransactionsRequest

ONGOING = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction as its coordinator has it."""

    transactional_id: str
    coordinator: int
    state: str  # Kafka's name for it
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int  # -1: none is under way
    partitions: tuple[TopicPartition, ...]

    @property
    def is_open(self) -> bool:
        return self.state in ONGOING


@dataclass(frozen=True, slots=True)
class Transactions:
    by_producer: dict[int, Transaction]
    complete: bool  # every broker has answered


async def transactions(client: Client, producer_ids: Iterable[int]) -> Transactions:
    """Those of these producers, as far as a coordinator remembers them."""
    wanted = sorted(set(producer_ids))
    found: dict[int, Transaction] = {}
    complete = True
    for node in sorted((await client.topology([])).brokers):
        try:
            for each in await _of_broker(client, node, wanted):
                found[each.producer_id] = each
        except (PeerError, Refused):
            complete = False
    return Transactions(found, complete)


async def _of_broker(client: Client, node: int, producer_ids: list[int]) -> list[Transaction]:
    connection = await client.broker(node)
    listed = await connection.ask(ListTransactionsRequest(producer_id_filters=producer_ids))
    if listed.error_code:
        raise refused(listed.error_code, f"transactions of broker {node}")
    names = [each.transactional_id for each in listed.transaction_states]
    if not names:
        return []
    answer = await connection.ask(DescribeTransactionsRequest(names))
    return [transaction_of(each, node) for each in answer.transaction_states if not each.error_code]


def transaction_of(state: TransactionState, node: int) -> Transaction:
    partitions = [
        TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions
    ]
    return Transaction(
        state.transactional_id,
        node,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms,
        tuple(partitions),
    )
