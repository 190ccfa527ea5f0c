"""DescribeLogDirs: how large the logs on this broker are, and how much room is left for them.

Versions 1 to 5. There is one log directory, and it is never cordoned. A disk that does not tell how
large it is is -1, as with Kafka.
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.disk import Room
from sexton.node.outside import Caller
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

UNKNOWN = Room(-1, -1)


class DescribeLogDirs:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas

    def handle(self, caller: Caller, request: DescribeLogDirsRequest, _version: int) -> None:
        asked = sorted(self._replicas.by_partition)
        if request.topics is not None:
            named = [TopicPartition(t.topic, n) for t in request.topics for n in t.partitions]
            asked = [at for at in named if at in self._replicas.by_partition]
        topics: dict[str, DescribeLogDirsTopic] = {}
        for at in asked:
            log = self._replicas.by_partition[at].log
            topic = topics.setdefault(at.topic, DescribeLogDirsTopic(at.topic))
            lag = max(log.high_watermark - log.end_offset, 0)
            topic.partitions.append(DescribeLogDirsPartition(at.partition, log.size, lag, False))
        room = self._site.directory.disk.room() or UNKNOWN
        directory = DescribeLogDirsResult(
            KafkaError.NONE, self._site.config.log_dir, list(topics.values()), *room
        )
        self._site.outside.answer(caller, DescribeLogDirsResponse(results=[directory]))
