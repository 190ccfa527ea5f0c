"""A group's coordinator moves between the answer to a join and the question for its offsets.

librdkafka does not ask again for offsets that a broker refused for not being the coordinator (its
issue 5586): a partition that was assigned without an offset is never fetched. Ordered retry finds
out by itself where to begin, and asks again.
"""

from __future__ import annotations

from typing import Any

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.node.group_offset_fetch import GroupOffsetFetch
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from sexton.retry import OrderedRetry
from sexton.testing import EmbeddedCluster
from tests.retry.harness import OUT, Flaky, committed, send

MOVED = int(KafkaError.NOT_COORDINATOR)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Connections on which offsets were asked for: the first question of each is refused."""
    told: list[Any] = []
    fetch = GroupOffsetFetch.handle

    def handle(self: Any, caller: Any, request: OffsetFetchRequest, version: int) -> None:
        if caller.connection in told:
            fetch(self, caller, request, version)
            return
        told.append(caller.connection)
        (group,) = request.groups
        answer = OffsetFetchResponseGroup(group_id=group.group_id, error_code=MOVED)
        self._site.outside.answer(caller, OffsetFetchResponse(groups=[answer]))

    monkeypatch.setattr(GroupOffsetFetch, "handle", handle)
    return told


@pytest.mark.parametrize("settings", [{}, {"partition.assignment.strategy": "range"},
    {"group.protocol": "consumer"}], ids=["cooperative", "eager", "KIP-848"])  # fmt: skip
def test_an_instance_goes_on_though_its_coordinator_moved(
    refused: list[Any], settings: dict[str, Any]
) -> None:
    with EmbeddedCluster(brokers=1) as kafka:
        servers = kafka.bootstrap_servers
        for topic in ("orders", OUT):
            kafka.create_topic(topic, 1)
        count = send(servers, "orders", keys=3, numbers=range(4))
        with OrderedRetry(
            Flaky(frozenset()), topic="orders", group="g", bootstrap_servers=servers,
            settings=settings,
        ), committed(servers, OUT) as outputs:  # fmt: skip
            assert len(outputs.until(count)) == count
    assert refused
