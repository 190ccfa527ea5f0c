"""A transaction as a producer talks about it with its coordinators.

    init_producer_id ──▶ who we are: a producer id, and an epoch that nobody had before
    stable_offset    ──▶ what a group has committed, once no transaction hangs over it
    group_offsets    ──▶ all that it has committed
    commit_offset    ──▶ an offset that becomes the group's when the transaction commits
    replace_offset   ──▶ the same, and all that the group has committed until then
    end_transaction  ──▶ all of it, or nothing

Each call asks a coordinator, and asks again while the answer is that somebody is not ready: a
coordinator moves or reads its log, an earlier transaction is still being ended. Who coordinates is
looked up for the first two, which say what is so. The others go to the one that was found last:
whoever is not the coordinator any more can only refuse them. But it can be asked: what
`stable_offset` says may be old, if its broker was replaced and is cut off from those who know. What
`replace_offset` says is not: it asks whoever has taken the offset.

A new epoch ends whatever the same transactional id had open, and fences whoever wrote there: every
later word of theirs is refused. A call says what it means by `Transaction`, so that one process may
write and another commit.

Brokers since Kafka 4.0 speak transaction version 2 (KIP-890): partitions and groups join a
transaction by being written to. Before, they are announced (AddPartitionsToTxn, AddOffsetsToTxn).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from sexton.base.errors import ConfigError, PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import Connection, refused
from sexton.client.retrying import Patience, Trying
from sexton.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sexton.protocol.messages.end_txn import EndTxnRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

T = TypeVar("T")

ANNOUNCED: Final = 1  # transaction.version: partitions are announced before they are written to
IMPLIED: Final = 2  # a Produce announces its partition by itself
FEATURE: Final = "transaction.version"

GROUP, TRANSACTION = 0, 1  # kinds of coordinators
_FIND = range(4, 7)  # several keys; the answer names the broker
_INIT = range(2, 6)  # from 6 on there are prepared transactions
_ADD_PARTITIONS = range(4)  # later ones are for brokers
_FETCH = range(8, 10)  # from 10 on topics go by id
_COMMIT = {ANNOUNCED: range(3, 5), IMPLIED: range(5, 6)}
_END = {ANNOUNCED: range(5), IMPLIED: range(5, 6)}

# Transactions take a moment to end; a first pause of 100 ms would be most of a small one.
PROMPT = Patience(backoff_ms=20)
NOT_YET = frozenset(
    {
        KafkaError.CONCURRENT_TRANSACTIONS,  # the one before is still being ended
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
NOT_TRIED = KafkaError.OPERATION_NOT_ATTEMPTED
FENCED = frozenset(
    {
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,  # timed out, and ended by the coordinator
    }
)


@dataclass(frozen=True, slots=True)
class Transaction:
    """Whose it is; everything that is written or ended by it carries these."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: int  # ANNOUNCED or IMPLIED


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group has committed for a partition."""

    offset: int
    metadata: str
    # Of the last record before it; -1: nobody has said so. It is the same commit without it.
    leader_epoch: int = field(default=-1, compare=False)


class _TryingTransactions(Trying):
    """Waits for earlier transactions as well."""

    async def pause(self, error: SextonError) -> None:
        if not isinstance(error, Refused) or error.error not in NOT_YET:
            await super().pause(error)
            return
        try:
            await super().pause(PeerError(error.subject, error.why))
        except PeerError:
            raise error from None


async def until_ready(ask: Callable[[], Awaitable[T]], patience: Patience = PROMPT) -> T:
    """As `until_it_works`, and what is `NOT_YET` passes, too."""
    trying = _TryingTransactions(patience)
    while True:
        try:
            return await ask()
        except (PeerError, Refused) as error:
            await trying.pause(error)


async def init_producer_id(
    client: Client,
    transactional_id: str,
    timeout_ms: int,
    patience: Patience = PROMPT,
    version: int | None = None,
) -> Transaction:
    """A fresh epoch. `version` None takes what the cluster has agreed on."""

    async def ask() -> Transaction:
        coordinator = await _found(client, TRANSACTION, transactional_id)
        answer = await coordinator.ask(InitProducerIdRequest(transactional_id, timeout_ms), _INIT)
        if answer.error_code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            hint = "choose less, or raise transaction.max.timeout.ms of the brokers"
            why = f"{timeout_ms} ms is more than the brokers allow"
            raise ConfigError("transaction.timeout.ms", why, hint)
        if answer.error_code:
            raise refused(answer.error_code, f"a producer id for {transactional_id}")
        spoken = version or (
            IMPLIED if coordinator.features.get(FEATURE, 0) >= IMPLIED else ANNOUNCED
        )
        return Transaction(transactional_id, answer.producer_id, answer.producer_epoch, spoken)

    return await _until_ready(client, (TRANSACTION, transactional_id), ask, patience)


async def add_partitions(
    client: Client,
    transaction: Transaction,
    partitions: Iterable[TopicPartition],
    patience: Patience = PROMPT,
) -> None:
    """Announces that these will be written to."""
    announced = list(partitions)
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for at in announced:
        topics.setdefault(at.topic, AddPartitionsToTxnTopic(at.topic)).partitions.append(
            at.partition
        )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.epoch,
        v3_and_below_topics=list(topics.values()),
    )

    async def ask() -> None:
        coordinator = await _coordinator(client, TRANSACTION, transaction.transactional_id)
        answer = await coordinator.ask(request, _ADD_PARTITIONS)
        told = {
            TopicPartition(topic.name, result.partition_index): result.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        # One that is refused keeps the others from being tried: say the one that was.
        for at in sorted(announced, key=lambda at: told.get(at) == NOT_TRIED):
            if at not in told:
                raise PeerError(coordinator.peer, f"a transaction is answered without {at}")
            if told[at]:
                raise refused(told[at], f"{at} in a transaction")

    await _until_ready(client, (TRANSACTION, transaction.transactional_id), ask, patience)


async def stable_offset(
    client: Client, group: str, at: TopicPartition, patience: Patience = PROMPT
) -> Committed | None:
    """What the group has committed; None: nothing. Waits for a transaction that would change it."""

    async def ask() -> Committed | None:
        return await _offset_of(await _found(client, GROUP, group), group, at)

    return await _until_ready(client, (GROUP, group), ask, patience)


async def commit_offset(
    client: Client,
    transaction: Transaction,
    group: str,
    at: TopicPartition,
    committed: Committed,
    patience: Patience = PROMPT,
) -> None:
    """Makes an offset part of the transaction."""
    await _join(client, transaction, group, patience)

    async def ask() -> None:
        await _offset_taken(client, transaction, group, at, committed)

    await _until_ready(client, (GROUP, group), ask, patience)


async def replace_offset(
    client: Client,
    transaction: Transaction,
    group: str,
    at: TopicPartition,
    committed: Committed,
    patience: Patience = PROMPT,
) -> dict[TopicPartition, Committed]:
    """The same. Says what is committed now, there and elsewhere, by the coordinator that took it.

    A coordinator that was replaced takes nothing, so this one knew all that had been committed; and
    it has forgotten nothing since, on a connection that has lasted.
    """
    await _join(client, transaction, group, patience)

    async def ask() -> dict[TopicPartition, Committed]:
        return await _all_of(await _offset_taken(client, transaction, group, at, committed), group)

    return await _until_ready(client, (GROUP, group), ask, patience)


async def group_offsets(
    client: Client, group: str, patience: Patience = PROMPT
) -> dict[TopicPartition, Committed]:
    """All that a group has committed; what is in an open transaction is not among it."""

    async def ask() -> dict[TopicPartition, Committed]:
        return await _all_of(await _found(client, GROUP, group), group)

    return await _until_ready(client, (GROUP, group), ask, patience)


async def _offset_of(coordinator: Connection, group: str, at: TopicPartition) -> Committed | None:
    asked = OffsetFetchRequestTopics(at.topic, partition_indexes=[at.partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group, topics=[asked])], require_stable=True
    )
    return (await _told(coordinator, group, request, [at]))[at]


async def _all_of(coordinator: Connection, group: str) -> dict[TopicPartition, Committed]:
    """Also what a transaction is about to replace: that is not stable, but it is what there is."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    told = await _told(coordinator, group, request)
    return {at: committed for at, committed in told.items() if committed is not None}


async def _told(
    coordinator: Connection,
    group: str,
    request: OffsetFetchRequest,
    wanted: Iterable[TopicPartition] = (),
) -> dict[TopicPartition, Committed | None]:
    """None: nothing is committed there."""
    answer = await coordinator.ask(request, _FETCH)
    told: dict[TopicPartition, Committed | None] = {}
    for found in answer.groups:
        if found.error_code:
            raise refused(found.error_code, f"offsets of the group {group}")
        for topic in found.topics:
            for result in topic.partitions:
                at = TopicPartition(topic.name, result.partition_index)
                if result.error_code:
                    raise refused(result.error_code, f"the offset of the group {group} for {at}")
                is_there = result.committed_offset >= 0
                epoch = result.committed_leader_epoch
                committed = Committed(result.committed_offset, result.metadata or "", epoch)
                told[at] = committed if is_there else None
    if not answer.groups or any(at not in told for at in wanted):
        raise PeerError(coordinator.peer, f"OffsetFetch of {group} is answered without it")
    return told


async def _offset_taken(
    client: Client, transaction: Transaction, group: str, at: TopicPartition, committed: Committed
) -> Connection:
    """By whom it was."""
    entry = TxnOffsetCommitRequestPartition(
        at.partition, committed.offset, committed.leader_epoch, committed.metadata
    )
    request = TxnOffsetCommitRequest(
        transaction.transactional_id, group, transaction.producer_id, transaction.epoch,
        topics=[TxnOffsetCommitRequestTopic(at.topic, [entry])],
    )  # fmt: skip
    coordinator = await _coordinator(client, GROUP, group)
    answer = await coordinator.ask(request, _COMMIT[transaction.version])
    told = {
        TopicPartition(topic.name, result.partition_index): result.error_code
        for topic in answer.topics
        for result in topic.partitions
    }
    if at not in told:
        why = f"an offset of the group {group} is answered without {at}"
        raise PeerError(coordinator.peer, why)
    if told[at]:
        raise refused(told[at], f"an offset of the group {group} for {at}")
    return coordinator


async def _join(client: Client, transaction: Transaction, group: str, patience: Patience) -> None:
    """Announces the group, where that is asked for."""
    if transaction.version == ANNOUNCED:
        key = (TRANSACTION, transaction.transactional_id)
        await _until_ready(client, key, lambda: _add_offsets(client, transaction, group), patience)


async def _add_offsets(client: Client, transaction: Transaction, group: str) -> None:
    coordinator = await _coordinator(client, TRANSACTION, transaction.transactional_id)
    request = AddOffsetsToTxnRequest(
        transaction.transactional_id, transaction.producer_id, transaction.epoch, group
    )
    answer = await coordinator.ask(request)
    if answer.error_code:
        raise refused(answer.error_code, f"the group {group} in a transaction")


async def end_transaction(
    client: Client, transaction: Transaction, *, committed: bool, patience: Patience = PROMPT
) -> None:
    """Returns when it is decided. An error that is raised leaves open how it ended."""
    request = EndTxnRequest(
        transaction.transactional_id, transaction.producer_id, transaction.epoch, committed
    )

    async def ask() -> None:
        coordinator = await _coordinator(client, TRANSACTION, transaction.transactional_id)
        answer = await coordinator.ask(request, _END[transaction.version])
        if answer.error_code:
            raise refused(answer.error_code, f"the end of {transaction.transactional_id}")

    await _until_ready(client, (TRANSACTION, transaction.transactional_id), ask, patience)


# ── coordinators ──


async def _until_ready(
    client: Client, asked: tuple[int, str], ask: Callable[[], Awaitable[T]], patience: Patience
) -> T:
    """Of a coordinator, `asked` by kind and key: after any error it is looked up again.

    Elsewhere, and all others with it, unless it has only not finished yet: a broker that is cut off
    from the others names who coordinated before, itself perhaps, for as long as it is asked.
    """

    async def once() -> T:
        try:
            return await ask()
        except (PeerError, Refused) as error:
            if isinstance(error, Refused) and error.error in NOT_YET:
                client.coordinators.pop(asked, None)
            else:
                client.coordinators.clear()
                client.look_elsewhere()
            raise

    return await until_ready(once, patience)


async def _coordinator(client: Client, kind: int, key: str) -> Connection:
    """The one that was found last, if any was."""
    node = client.coordinators.get((kind, key))
    return await (_found(client, kind, key) if node is None else client.broker(node))


async def _found(client: Client, kind: int, key: str) -> Connection:
    """Looked up now."""
    answer = await client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), _FIND)
    try:
        found = answer.coordinators[0]
    except IndexError:
        raise PeerError("FindCoordinator", f"is answered without {key}") from None
    if found.error_code:
        raise refused(found.error_code, f"the coordinator of {key}")
    client.coordinators[kind, key] = found.node_id
    return await client.broker(found.node_id)
