"""OffsetForLeaderEpoch: where an epoch ends in this log, so that others know where to cut theirs.

Versions 2 to 4. Our own followers learn it from Fetch (KIP-595); consumers ask to see whether what
they have read has been replaced.
"""

from __future__ import annotations

from sexton.base.errors import Refused
from sexton.base.partitions import TopicPartition
from sexton.node.fetch import check_epoch
from sexton.node.outside import Caller
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


class OffsetForLeaderEpoch:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas

    def handle(self, caller: Caller, request: OffsetForLeaderEpochRequest, _version: int) -> None:
        response = OffsetForLeaderEpochResponse()
        for topic in request.topics:
            answers = [
                self._answer(TopicPartition(topic.topic, asked.partition), asked)
                for asked in topic.partitions
            ]
            response.topics.append(OffsetForLeaderTopicResult(topic.topic, answers))
        self._site.outside.answer(caller, response)

    def _answer(self, partition: TopicPartition, asked: OffsetForLeaderPartition) -> EpochEndOffset:
        answer = EpochEndOffset(partition=asked.partition)
        try:
            replica, _role = self._replicas.led(partition)
            check_epoch(replica, asked.current_leader_epoch)
        except Refused as refused:
            answer.error_code = refused.error
            return answer
        found = replica.log.epochs.end_of(asked.leader_epoch, replica.log.end_offset)
        answer.leader_epoch, answer.end_offset = found.epoch, found.start_offset
        return answer
