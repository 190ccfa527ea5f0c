"""A broker that leaves out what it was asked for has broken the protocol: that is its error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

import pytest

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client import config_changes, transaction_lists, transactions
from sexton.client.client import Client
from sexton.client.epochs import ends_at
from sexton.client.reading import PartitionReader
from sexton.client.replica import Chunk, Replica
from sexton.client.retrying import Patience
from sexton.client.topology import PartitionPlace
from sexton.client.transacting import IMPLIED, Transaction
from sexton.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from sexton.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from sexton.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sexton.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from sexton.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from sexton.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from sexton.protocol.messages.list_transactions import TransactionState as ListedState
from sexton.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from sexton.stores import changelog, producing
from tests.log_text import Writer, at_offset

AT = TopicPartition("t", 0)
AT_ONCE = Patience(timeout_ms=0)


class Broker:
    """A client, and the only broker that it knows: answers by the kind of request."""

    peer = "broker 1"

    def __init__(self, *answers: tuple[type, object]) -> None:
        self._answers = dict(answers)

    async def broker(self, _node: int) -> Broker:
        return self

    def look_elsewhere(self) -> None:
        """There is nobody else."""

    async def ask(self, request: Any, _versions: range = range(1)) -> Any:
        return self._answers[type(request)]


def told(awaitable: Awaitable[object]) -> str:
    """What the error says that comes of it."""

    async def wait() -> object:
        return await awaitable

    with pytest.raises(PeerError) as raised:
        asyncio.run(wait())
    return f"{raised.value.subject}: {raised.value.why}"


@pytest.mark.parametrize("topics", [[], [OffsetForLeaderTopicResult("t")]])
def test_epochs_without_the_partition(topics: list[OffsetForLeaderTopicResult]) -> None:
    broker = Broker((OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse(topics=topics)))
    client = cast("Client", broker)
    leader = Replica(cast("Any", lambda: broker.broker(1)), AT, 1, leader_epoch=3)
    last = Chunk(memoryview(at_offset(Writer().batch("a=1"), 4)), 5, 0, 5, 5, ())
    found = told(PartitionReader(client, AT)._goes_on(leader, last, 5))
    assert found == "broker 1: OffsetForLeaderEpoch of t-0 is answered without it"


def describe(monkeypatch: pytest.MonkeyPatch, *answers: tuple[type, object]) -> str:
    monkeypatch.setattr(transaction_lists, "PATIENCE", AT_ONCE)
    return told(transaction_lists.describe_transaction(cast("Client", Broker(*answers)), "x"))


def test_no_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    found = describe(monkeypatch, (FindCoordinatorRequest, FindCoordinatorResponse()))
    assert found == "FindCoordinator: is answered without x"


def test_no_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    found = describe(
        monkeypatch,
        (FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[Coordinator("x", 1)])),
        (DescribeTransactionsRequest, DescribeTransactionsResponse()),
    )
    assert found == "broker 1: DescribeTransactions of x is answered without it"


def test_no_options() -> None:
    client = cast("Client", Broker((DescribeConfigsRequest, DescribeConfigsResponse())))
    found = told(config_changes.described(client, (config_changes.TOPIC, "t"), ["retention.ms"]))
    assert found == "DescribeConfigs: is answered without the topic t"


def test_no_word_about_changed_options() -> None:
    answer = IncrementalAlterConfigsResponse()
    client = cast("Client", Broker((IncrementalAlterConfigsRequest, answer)))
    changes = [("retention.ms", "1000")]
    found = told(config_changes.alter(client, (config_changes.TOPIC, "t"), changes))
    assert found == "IncrementalAlterConfigs: is answered without the topic t"


def test_no_options_of_one_topic_among_others() -> None:
    answer = DescribeConfigsResponse(results=[DescribeConfigsResult(resource_name="t")])
    client = cast("Client", Broker((DescribeConfigsRequest, answer)))
    found = asyncio.run(config_changes.describe_topics(client, ["t", "u"], ["retention.ms"]))
    assert (list(found.found), list(found.failed)) == (["t"], ["u"])


def test_no_word_about_a_listed_transaction() -> None:
    listed = ListTransactionsResponse(transaction_states=[ListedState("x", 7, "Ongoing")])
    broker = Broker(
        (ListTransactionsRequest, listed),
        (DescribeTransactionsRequest, DescribeTransactionsResponse()),
    )
    found = told(transactions._of_broker(cast("Client", broker), 1, [7]))
    assert found == "broker 1: DescribeTransactions is answered without x"


# ── what stores ask ──


def test_no_word_about_the_offset_of_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing, "PATIENCE", AT_ONCE)
    broker = Broker(
        (FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[Coordinator("g", 1)])),
        (TxnOffsetCommitRequest, TxnOffsetCommitResponse()),
    )
    producer = producing.TaskProducer(cast("Client", broker), "x", "g", 60_000)
    producer._transaction = Transaction("x", 7, 0, IMPLIED)
    found = told(producer.send_offset(producing.Membership("g", "m", 1), AT, 5))
    assert found == "broker 1: the offset 5 of t-0 is answered without it"


@pytest.mark.parametrize(
    ("request_", "answer", "ask"),
    [
        (ListOffsetsRequest, ListOffsetsResponse(), changelog._high_watermark),
        (
            OffsetForLeaderEpochRequest,
            OffsetForLeaderEpochResponse(),
            lambda client, place: ends_at(client, place, 3),
        ),
    ],
)
def test_no_word_about_a_changelog(request_: type, answer: object, ask: Any) -> None:
    place = PartitionPlace(AT, 1, 3, (1,), (1,), ())
    assert told(ask(Broker((request_, answer)), place)).endswith("of t-0 is answered without it")
