"""Transactions by state, age or name, and one by its transactional id (KIP-664).

Each broker lists those that it coordinates. One that does not answer is named, since what it would
have said is missing; so is one that coordinated what nobody does now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from sexton.base.errors import ConfigError, PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import error_name, refused
from sexton.client.retrying import until_it_works
from sexton.client.transactions import PATIENCE, STATE_TOPIC, Transaction, transaction_of
from sexton.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from sexton.protocol.messages.describe_transactions import DescribeTransactionsRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.list_transactions import ListTransactionsRequest

PARTITIONS_AT_ONCE = 500
STATES = (
    "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort,"
    " PrepareEpochFence or Dead, spelled like this"
)
_TRANSACTION = 1  # the kind of coordinator
_SEVERAL_KEYS = range(4, 1 << 15)  # of FindCoordinator
_WITH_DURATION, _WITH_PATTERN = range(1, 1 << 15), range(2, 1 << 15)


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class ListedTransactions:
    found: tuple[ListedTransaction, ...]
    unasked: tuple[tuple[int, str], ...]  # broker, why


async def list_transactions(
    client: Client,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int | None = None,
    pattern: str | None = None,
) -> ListedTransactions:
    """Of all brokers; each filter that is given must fit.

    ConfigError if they know no such state, or do not understand the pattern. A broker lists nothing
    for a state that it does not know: misspelt, it would look like none.
    """
    request = ListTransactionsRequest(
        list(states), list(producer_ids), -1 if duration_ms is None else duration_ms, pattern
    )
    versions = range(1 << 15) if duration_ms is None else _WITH_DURATION
    versions = versions if pattern is None else _WITH_PATTERN
    found: list[ListedTransaction] = []
    unasked: list[tuple[int, str]] = []

    async def ask(node: int) -> list[ListedTransaction]:
        answer = await (await client.broker(node)).ask(request, versions)
        if answer.error_code == KafkaError.INVALID_REGULAR_EXPRESSION:
            why = f"is not a regular expression that broker {node} understands"
            raise ConfigError(f"the pattern {pattern}", why, "as in 'orders-.*'")
        if answer.error_code:
            raise refused(answer.error_code, f"transactions of broker {node}")
        if answer.unknown_state_filters:
            unknown = f"the transaction state {', '.join(answer.unknown_state_filters)}"
            raise ConfigError(unknown, f"is none that broker {node} knows", STATES)
        return [
            ListedTransaction(each.transactional_id, node, each.producer_id, each.transaction_state)
            for each in answer.transaction_states
        ]

    for node in sorted((await client.topology([])).brokers):
        try:
            found += await until_it_works(partial(ask, node), PATIENCE)
        except (PeerError, Refused) as error:
            unasked.append((node, f"{error.subject}: {error.why}"))
    named = {node for node, _why in unasked}
    unasked += [each for each in await _left_behind(client) if each[0] not in named]
    found.sort(key=lambda each: each.transactional_id)
    return ListedTransactions(tuple(found), tuple(unasked))


async def _left_behind(client: Client) -> list[tuple[int, str]]:
    """Who coordinated what nobody does now; not everybody may know."""
    try:
        state = (await client.topology([STATE_TOPIC])).topics.get(STATE_TOPIC)
    except Refused:
        return []
    places = {} if state is None else state.partitions
    gone = {place.replicas[0] for place in places.values() if place.leader < 0 and place.replicas}
    return [(node, f"nobody leads what it had of {STATE_TOPIC}") for node in sorted(gone)]


async def producers_of(
    client: Client, node: int, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, list[ProducerState]], dict[TopicPartition, str]]:
    """What one broker knows of the producers of many partitions; and where it does not say, why."""
    found: dict[TopicPartition, list[ProducerState]] = {}
    failed: dict[TopicPartition, str] = {}
    connection = await client.broker(node)
    wanted = list(partitions)
    for at in range(0, len(wanted), PARTITIONS_AT_ONCE):
        topics: dict[str, TopicRequest] = {}
        for partition in wanted[at : at + PARTITIONS_AT_ONCE]:
            topic = topics.setdefault(partition.topic, TopicRequest(partition.topic))
            topic.partition_indexes.append(partition.partition)
        answer = await connection.ask(DescribeProducersRequest(list(topics.values())))
        for told in answer.topics:
            for each in told.partitions:
                place = TopicPartition(told.name, each.partition_index)
                if each.error_code:
                    failed[place] = each.error_message or error_name(each.error_code)
                else:
                    found[place] = each.active_producers
    return found, failed


async def describe_transaction(client: Client, transactional_id: str) -> Transaction:
    """As its coordinator has it; Refused if it knows nothing of it."""
    return await until_it_works(partial(_describe, client, transactional_id), PATIENCE)


async def _describe(client: Client, transactional_id: str) -> Transaction:
    node = await _coordinator(client, transactional_id)
    connection = await client.broker(node)
    answer = await connection.ask(DescribeTransactionsRequest([transactional_id]))
    try:
        state = answer.transaction_states[0]
    except IndexError:
        why = f"DescribeTransactions of {transactional_id} is answered without it"
        raise PeerError(connection.peer, why) from None
    if state.error_code:
        raise refused(state.error_code, f"the transactional id {transactional_id}")
    return transaction_of(state, node)


async def _coordinator(client: Client, transactional_id: str) -> int:
    asked = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id])
    answer = await client.ask(asked, _SEVERAL_KEYS)
    try:
        found = answer.coordinators[0]
    except IndexError:
        raise PeerError("FindCoordinator", f"is answered without {transactional_id}") from None
    if found.error_code:
        raise refused(found.error_code, f"the coordinator of {transactional_id}")
    return found.node_id
