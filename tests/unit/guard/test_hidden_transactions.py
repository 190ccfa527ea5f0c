"""No coordinator tells us of a producer: is there none, or may we only not see it?

The transaction in question is alive. Its producer replays events of last month and dates them so,
and its transactional id is one that our user may not DESCRIBE. An abort would take away what it is
about to commit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.hidden_transactions import hidden_by
from sexton.client.replica import ReplicaOffsets
from sexton.client.transactions import STATE_TOPIC
from sexton.guard.repair_outcomes import ReplicaView, open_transactions
from sexton.machines.repair_transactions import Ending
from sexton.protocol.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from sexton.protocol.messages.describe_producers import ProducerState
from sexton.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from sexton.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from sexton.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sexton.protocol.wire import Response
from sexton.testing.embedded import EmbeddedCluster
from tests.wire_broker import Offers, wire_broker

OFFERS = {3: (4, 12), 29: (1, 3), 65: (0, 0), 66: (0, 1)}
LITERAL, PREFIXED = 3, 4
MONTH_MS = 30 * 24 * 3_600_000
AT = TopicPartition("orders", 0)


@dataclass(slots=True)
class Rights:
    """What a broker with an authorizer lets us do; it coordinates nothing that we may see."""

    may_describe: Callable[[str], bool] = lambda _name: True
    acls: tuple[tuple[str, int], ...] = ()  # of transactional ids: name and kind of pattern
    acls_error: KafkaError = KafkaError.NONE
    state_error: KafkaError = KafkaError.NONE  # of the topic of the coordinators
    address: tuple[str, int] = ("", 0)

    def answer(self, request: Any) -> Response:
        match request:
            case ListTransactionsRequest():
                return ListTransactionsResponse()
            case DescribeAclsRequest():
                found = [DescribeAclsResource(5, name, kind) for name, kind in self.acls]
                return DescribeAclsResponse(error_code=self.acls_error, resources=found)
            case DescribeTransactionsRequest(names):
                return DescribeTransactionsResponse(
                    transaction_states=[TransactionState(self._code(n), n) for n in names]
                )
        part = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=1)
        state = MetadataResponseTopic(self.state_error, name=STATE_TOPIC, partitions=[part])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(1, *self.address)],
            topics=[state] if request.topics else [],
        )

    def _code(self, name: str) -> KafkaError:
        if self.may_describe(name):
            return KafkaError.TRANSACTIONAL_ID_NOT_FOUND
        return KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def judged(rights: Rights, offers: Offers = OFFERS) -> Ending:
    """A transaction that is open on the only replica, with records of last month."""

    async def run() -> Ending:
        last_month_ms = time.time_ns() // 1_000_000 - MONTH_MS
        producer = ProducerState(7, 0, 3, last_month_ms, 0, 100)
        view = ReplicaView(1, ReplicaOffsets(1, 0, 100, 120, 120), (producer,))
        async with (
            wire_broker(rights.answer, offers) as rights.address,
            Client("{}:{}".format(*rights.address)) as client,
        ):
            (found,) = await open_transactions(client, AT, [view], 15 * 60_000)
        return found.ending

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("rights", "named"),
    [
        # No right at all to transactional ids.
        (Rights(lambda _name: False), "transactional id"),
        # To most of them: by allow.everyone.if.no.acl.found, which holds for what has no ACL, or
        # because somebody denies it for one.
        (Rights(lambda name: name != "app", (("app", LITERAL),)), "app"),
        (Rights(lambda name: not name.startswith("app-"), (("app-", PREFIXED),)), "app-"),
        # The name of a prefix may be allowed as such, and what it stands for not.
        (
            Rights(
                lambda name: name == "app-" or not name.startswith("app-"),
                (("app-", LITERAL), ("app-", PREFIXED)),
            ),
            "app-",
        ),
        # Which ACLs there are is not for us to know.
        (Rights(acls_error=KafkaError.CLUSTER_AUTHORIZATION_FAILED), "ACLs"),
        # Nor whether all parts of the coordinators' log are led.
        (Rights(state_error=KafkaError.TOPIC_AUTHORIZATION_FAILED), STATE_TOPIC),
    ],
)
def test_what_may_be_hidden_from_us_is_not_aborted_however_old_its_records_are(
    rights: Rights, named: str
) -> None:
    ending = judged(rights)
    assert (ending.ended, ending.may_abort, ending.complete) == ("not asked", False, False)
    assert named in ending.because
    assert ending.loss and "--force" in ending.advice


@pytest.mark.parametrize(
    "rights",
    [
        Rights(),
        Rights(acls=(("*", LITERAL), ("app-", PREFIXED), ("app-7", LITERAL))),
        # Without an authorizer nothing is hidden from anybody.
        Rights(acls_error=KafkaError.SECURITY_DISABLED),
    ],
)
def test_what_nobody_can_hide_from_us_hangs(rights: Rights) -> None:
    """The control: the same transaction, and we may see every transactional id."""
    ending = judged(rights)
    assert (ending.ended, ending.may_abort) == ("hanging", True)


def test_a_broker_that_does_not_tell_of_acls_proves_nothing() -> None:
    ending = judged(Rights(), {key: some for key, some in OFFERS.items() if key != 29})
    assert (ending.ended, ending.may_abort) == ("not asked", False)
    assert "cannot be known" in ending.because and "--force" in ending.advice


def test_the_embedded_cluster_hides_nothing_from_anybody() -> None:
    """It has no authorizer, and, before the first transaction, no coordinators' log."""

    async def ask(servers: str) -> str | None:
        async with Client(servers) as client:
            return await hidden_by(client)

    with EmbeddedCluster(brokers=1) as cluster:
        assert asyncio.run(ask(cluster.bootstrap_servers)) is None
