"""DescribeLogDirs: how large the logs on this broker are.

Versions 1 to 5. There is one log directory, and none is ever cordoned. Gap: how large the disk is,
and how much of it is free, is not known to a node (-1).
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
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
        directory = DescribeLogDirsResult(
            KafkaError.NONE, self._site.config.log_dir, list(topics.values())
        )
        self._site.outside.answer(caller, DescribeLogDirsResponse(results=[directory]))
