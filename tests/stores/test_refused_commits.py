"""The group's coordinator refuses a commit though the group has not gone on: the task does.

One that was replaced and has not heard of it knows an older generation, and not who joined since.
Heartbeats go to the one that replaced it, and find nothing wrong: nobody would ever say more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.node.group_offsets import GroupOffsets
from sexton.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from sexton.testing import EmbeddedCluster
from tests.stores.counting import app
from tests.stores.harness import make_topics, sums, wait_until_done, write

LEFT_BEHIND = [
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
]


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Codes with which commits are refused, each once."""
    codes: list[int] = []
    right = GroupOffsets.commit_in_transaction

    def commit(self: Any, caller: Any, request: TxnOffsetCommitRequest, version: int) -> None:
        if not codes:
            right(self, caller, request, version)
            return
        code = codes.pop()
        topics = [
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(each.partition_index, code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        self._site.outside.answer(caller, TxnOffsetCommitResponse(topics=topics))

    monkeypatch.setattr(GroupOffsets, "commit_in_transaction", commit)
    return codes


@pytest.mark.parametrize("code", LEFT_BEHIND, ids=lambda code: code.name)
def test_a_task_goes_on_though_its_commit_was_refused(
    refusing: list[int], tmp_path: Path, code: KafkaError
) -> None:
    with EmbeddedCluster(brokers=1) as kafka:
        servers = kafka.bootstrap_servers
        make_topics(kafka, 1)
        with app(servers, tmp_path / "a") as one:
            write(servers, [(0, "a")])
            wait_until_done(one, 1)
            refusing.append(int(code))
            write(servers, [(0, "a")])
            wait_until_done(one, 2)
        assert not refusing
        assert sums(servers, 0) == [("a", 1), ("a", 2)]
