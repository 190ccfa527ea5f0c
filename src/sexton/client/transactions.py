"""What the transaction coordinators know: which transactions there are, and how far each is.

Each broker coordinates some of them, so all are asked. One that does not answer may know what we
look for, and so may one that is still to take over a part of the coordinators' log: then nothing is
said of absence (`complete` is False). Nor if a part was taken over while we went round: its new
coordinator may have been asked before, and its old one after.

A broker that is cut off from the others takes itself for the coordinator for as long as it is
asked, and tells what was so. So each is asked who coordinates, too: unless all say the same, what
is told may be old, and a transaction that is under way not among it. Of two that tell of one
producer, the one that has a transaction under way is heard.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.base.kafka_options import TRANSACTION_MAX_TIMEOUT, TRANSACTION_MAX_TIMEOUT_MS
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.config_changes import BROKER, described
from sexton.client.connection import refused
from sexton.client.retrying import NEWS_MS, Patience, until_it_works
from sexton.client.topology import Topology
from sexton.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TransactionState,
)
from sexton.protocol.messages.list_transactions import ListTransactionsRequest

STATE_TOPIC = "__transaction_state"
PATIENCE = Patience(timeout_ms=5_000)  # with one coordinator that reads its log, say
NEWS = Patience(timeout_ms=NEWS_MS)  # with brokers that have not heard of a new leader yet
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
    complete: bool  # every broker has answered, and all agree on who coordinates


async def transactions(client: Client, producer_ids: Iterable[int]) -> Transactions:
    """Those of these producers, as far as a coordinator remembers them."""
    wanted = sorted(set(producer_ids))
    found: dict[int, Transaction] = {}
    agreed = await _agreed(client)
    nodes = _nodes(await client.topology([]))
    complete = agreed is not None and agreed.nodes == nodes and agreed.is_led
    for node in nodes:
        ask = partial(_of_broker, client, node, wanted)
        try:
            told = await until_it_works(ask, PATIENCE)
        except (PeerError, Refused):
            complete = False
            continue
        for each in told:
            other = found.get(each.producer_id)
            complete = complete and other is None
            if other is None or not other.is_open:
                found[each.producer_id] = each
    complete = complete and await _agreed(client) == agreed
    return Transactions(found, complete)


# ── who coordinates ──


@dataclass(frozen=True, slots=True)
class _Coordinators:
    """As one broker knows them."""

    nodes: list[int]
    parts: dict[int, tuple[int, int]]  # of their log: who leads each, and in which epoch

    @property
    def is_led(self) -> bool:
        return all(leader >= 0 for leader, _epoch in self.parts.values())


async def _agreed(client: Client) -> _Coordinators | None:
    """As all brokers know them; None: some know others, and not only for a moment."""

    async def ask() -> _Coordinators:
        nodes = _nodes(await client.topology([]))
        known = [await _known_to(client, node) for node in nodes]
        for each in known:
            if each != _Coordinators(nodes, known[0].parts):
                raise PeerError(STATE_TOPIC, "brokers do not agree on who leads it")
        return known[0] if known else _Coordinators([], {})

    try:
        return await until_it_works(ask, NEWS)
    except (PeerError, Refused):
        return None


async def _known_to(client: Client, node: int) -> _Coordinators:
    try:
        told = await client.topology_by(node, [STATE_TOPIC])
    except Refused:  # not everybody may know
        told = await client.topology_by(node, [])
    state = told.topics.get(STATE_TOPIC)
    places = {} if state is None else state.partitions
    parts = {part: (place.leader, place.leader_epoch) for part, place in places.items()}
    return _Coordinators(_nodes(told), parts)


def _nodes(topology: Topology) -> list[int]:
    return sorted(topology.brokers)


# ── what they say ──


async def _of_broker(client: Client, node: int, producer_ids: list[int]) -> list[Transaction]:
    connection = await client.broker(node)
    listed = await connection.ask(ListTransactionsRequest(producer_id_filters=producer_ids))
    if listed.error_code:
        raise refused(listed.error_code, f"transactions of broker {node}")
    names = [each.transactional_id for each in listed.transaction_states]
    if not names:
        return []
    answer = await connection.ask(DescribeTransactionsRequest(names))
    missing = set(names) - {each.transactional_id for each in answer.transaction_states}
    if missing:
        why = f"DescribeTransactions is answered without {min(missing)}"
        raise PeerError(connection.peer, why)
    found = []
    for each in answer.transaction_states:
        if each.error_code == KafkaError.TRANSACTIONAL_ID_NOT_FOUND:
            continue  # forgotten since it was listed
        if each.error_code:
            raise refused(each.error_code, f"the transactional id {each.transactional_id}")
        found.append(transaction_of(each, node))
    return found


async def longest_transaction_ms(client: Client) -> int:
    """How long the cluster lets a transaction take; Kafka's default if we may not know."""
    try:
        node = min((await client.topology([])).brokers)
        found = await described(client, (BROKER, str(node)), [TRANSACTION_MAX_TIMEOUT])
        return int(found[TRANSACTION_MAX_TIMEOUT].value or TRANSACTION_MAX_TIMEOUT_MS)
    except (SextonError, KeyError, ValueError):
        return TRANSACTION_MAX_TIMEOUT_MS


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
