"""Is an offset or a partition part of a transaction? Only if the coordinator has said so."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.retrying import Patience
from sexton.client.transacting import (
    ANNOUNCED,
    GROUP,
    IMPLIED,
    TRANSACTION,
    Committed,
    Transaction,
    add_partitions,
    commit_offset,
)
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

AT = TopicPartition("t", 0)
AT_ONCE = Patience(timeout_ms=0)


class Coordinator:
    """Answers with what it was given, whatever is asked."""

    peer = "broker 1"

    def __init__(self, *told: tuple[str, int, KafkaError]) -> None:
        self.asked: list[Any] = []
        self.coordinators = {(GROUP, "g"): 1, (TRANSACTION, "x"): 1}
        self._told = told

    async def broker(self, _node: int) -> Coordinator:
        return self

    def look_elsewhere(self) -> None:
        """There is nobody else."""

    async def ask(self, request: Any, _versions: Any) -> Any:
        self.asked.append(request)
        if isinstance(request, AddPartitionsToTxnRequest):
            return AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=[
                    AddPartitionsToTxnTopicResult(
                        name, [AddPartitionsToTxnPartitionResult(number, code)]
                    )
                    for name, number, code in self._told
                ]
            )
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(name, [TxnOffsetCommitResponsePartition(number, code)])
                for name, number, code in self._told
            ]
        )


def commit(*told: tuple[str, int, KafkaError]) -> None:
    client = cast("Client", Coordinator(*told))
    transaction = Transaction("x", 7, 0, IMPLIED)
    asyncio.run(commit_offset(client, transaction, "g", AT, Committed(5, ""), AT_ONCE))


def test_an_offset_is_committed_if_that_is_said() -> None:
    commit(("t", 0, KafkaError.NONE))
    with pytest.raises(Refused) as raised:
        commit(("t", 0, KafkaError.PRODUCER_FENCED))
    assert raised.value.error is KafkaError.PRODUCER_FENCED


def test_it_goes_with_the_leader_epoch_of_the_last_record_before_it() -> None:
    coordinator = Coordinator(("t", 0, KafkaError.NONE))
    committed, transaction = Committed(5, "said", 3), Transaction("x", 7, 0, IMPLIED)
    client = cast("Client", coordinator)
    asyncio.run(commit_offset(client, transaction, "g", AT, committed, AT_ONCE))
    [request] = coordinator.asked
    [sent] = request.topics[0].partitions
    assert (sent.committed_offset, sent.committed_leader_epoch) == (5, 3)
    assert sent.committed_metadata == "said"


@pytest.mark.parametrize("told", [(), (("t", 1, KafkaError.NONE),), (("u", 0, KafkaError.NONE),)])
def test_an_answer_without_the_partition_is_none(told: tuple[Any, ...]) -> None:
    with pytest.raises(PeerError, match="is answered without t-0"):
        commit(*told)


def announce(*told: tuple[str, int, KafkaError]) -> None:
    client = cast("Client", Coordinator(*told))
    transaction = Transaction("x", 7, 0, ANNOUNCED)
    asyncio.run(add_partitions(client, transaction, [AT, TopicPartition("t", 1)], AT_ONCE))


def test_a_partition_is_announced_if_that_is_said() -> None:
    announce(("t", 0, KafkaError.NONE), ("t", 1, KafkaError.NONE))
    with pytest.raises(PeerError, match="is answered without t-1"):
        announce(("t", 0, KafkaError.NONE))


def test_what_is_said_is_why_not_what_was_given_up_for_it() -> None:
    with pytest.raises(Refused, match="t-1") as raised:
        announce(
            ("t", 0, KafkaError.OPERATION_NOT_ATTEMPTED),
            ("t", 1, KafkaError.TOPIC_AUTHORIZATION_FAILED),
        )
    assert raised.value.error is KafkaError.TOPIC_AUTHORIZATION_FAILED
