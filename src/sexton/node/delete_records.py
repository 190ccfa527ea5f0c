"""DeleteRecords: a partition forgets everything below an offset.

Versions 0 to 2. Only where `cleanup.policy` has `delete`, as in Kafka. The answer comes when every
living replica has moved its log start there: a follower that had not could lead next, and what was
deleted would be back. Followers hear of it with their next fetch; we ask them how far they are
until all are there, or time is up. Files go when retention is looked at next, as in Kafka.
"""

from __future__ import annotations

from dataclasses import field
from functools import partial

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.node.coordinators import INTERNAL_TOPICS
from sexton.node.metadata import is_living
from sexton.node.outside import Caller
from sexton.node.replica import Replica
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from sexton.protocol.own_messages import (
    AskedTopic,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)

TO_THE_END = -1
NO_WATERMARK = -1
ASK_AGAIN_MS = 50


@dataclass(slots=True, eq=False)
class _Waiting:
    caller: Caller
    response: DeleteRecordsResponse
    deadline_ms: int
    # What is not yet so on all replicas: the result, and the offset it waits for.
    left: dict[TopicPartition, tuple[DeleteRecordsPartitionResult, int]] = field(
        default_factory=dict
    )


class DeleteRecords:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas

    def handle(self, caller: Caller, request: DeleteRecordsRequest, _version: int) -> None:
        response = DeleteRecordsResponse()
        waiting = _Waiting(caller, response, self._site.clock_ms + request.timeout_ms)
        for topic in request.topics:
            results = DeleteRecordsTopicResult(topic.name)
            response.topics.append(results)
            for asked in topic.partitions:
                at = TopicPartition(topic.name, asked.partition_index)
                result = DeleteRecordsPartitionResult(asked.partition_index, NO_WATERMARK)
                results.partitions.append(result)
                try:
                    waiting.left[at] = (result, self._delete(at, asked.offset))
                except Refused as refused:
                    result.error_code = refused.error
        self._look(waiting)

    def _delete(self, at: TopicPartition, offset: int) -> int:
        """Forgets on this broker; the offset that all replicas are to start at."""
        if at.topic in INTERNAL_TOPICS:
            why = f"records of the internal topic {at.topic} are not deleted"
            raise Refused(KafkaError.INVALID_TOPIC_EXCEPTION, why)
        replica, _role = self._replicas.led(at)
        log = replica.log
        if not log.config.deletes:
            why = f"the cleanup.policy of {at.topic} is {log.config.cleanup_policy}"
            raise Refused(KafkaError.POLICY_VIOLATION, f"{why}: its records are not deleted")
        before = log.high_watermark if offset == TO_THE_END else offset
        if before < 0:
            raise Refused(KafkaError.OFFSET_OUT_OF_RANGE, f"there is no offset {offset}")
        log.delete_records(before)
        replica.notify()
        return before

    # ── until all have it ──

    def _look(self, waiting: _Waiting) -> None:
        """Asks all followers once, and answers or looks again."""
        starts: dict[TopicPartition, list[int]] = {}
        by_peer: dict[int, list[TopicPartition]] = {}
        for at, (result, _before) in list(waiting.left.items()):
            try:
                replica, _role = self._replicas.led(at)
            except Refused as refused:
                result.error_code = refused.error
                del waiting.left[at]
                continue
            starts[at] = [replica.log.log_start_offset]
            for peer in self._living_followers(replica):
                by_peer.setdefault(peer, []).append(at)
        missing = len(by_peer)

        def heard() -> None:
            self._settle(waiting, starts)

        if missing == 0:
            heard()
            return

        def answered(asked: list[TopicPartition], answer: object | None) -> None:
            nonlocal missing
            missing -= 1
            found = _starts(answer)
            for at in asked:
                starts[at].append(found.get(at, NO_WATERMARK))
            if missing == 0:
                heard()

        left_ms = max(waiting.deadline_ms - self._site.clock_ms, 1)
        for peer, asked in sorted(by_peer.items()):
            self._site.outside.ask(peer, _question(asked), partial(answered, asked), left_ms)

    def _settle(self, waiting: _Waiting, starts: dict[TopicPartition, list[int]]) -> None:
        for at, (result, before) in list(waiting.left.items()):
            lowest = min(starts[at])
            if lowest >= before:
                result.low_watermark = lowest
                del waiting.left[at]
        if waiting.left and self._site.clock_ms < waiting.deadline_ms:
            self._site.outside.after(ASK_AGAIN_MS, lambda: self._look(waiting))
            return
        for result, _before in waiting.left.values():
            result.error_code = KafkaError.REQUEST_TIMED_OUT
        self._site.outside.answer(waiting.caller, waiting.response)

    def _living_followers(self, replica: Replica) -> list[int]:
        image = self._site.image
        others = [node for node in replica.record.replicas if node != self._site.node]
        return [node for node in others if is_living(image, node)]


def _question(asked: list[TopicPartition]) -> DescribeReplicasRequest:
    topics: dict[str, AskedTopic] = {}
    for at in asked:
        topics.setdefault(at.topic, AskedTopic(at.topic)).partitions.append(at.partition)
    return DescribeReplicasRequest(list(topics.values()))


def _starts(answer: object | None) -> dict[TopicPartition, int]:
    if not isinstance(answer, DescribeReplicasResponse):
        return {}
    return {
        TopicPartition(topic.name, each.partition_index): each.log_start
        for topic in answer.topics
        for each in topic.partitions
    }
