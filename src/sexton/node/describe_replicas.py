"""DescribeReplicas: what this broker knows of its own replicas, one of our own APIs.

Version 0. Whoever asks every broker sees MCCO, MTRO, MXFO and MXRO move, and where logs differ:
`sexton cluster offsets` does, and DeleteRecords waits with it for followers. A partition that was
asked for by number, and of which there is no replica here, is answered with an error.
"""

from __future__ import annotations

from sexton.base.errors import Refused
from sexton.base.partitions import TopicPartition
from sexton.node.outside import Caller
from sexton.node.replica import Following, Leading, Replica
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.protocol.own_messages import (
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    ReplicaOffsets,
    ReplicaTopic,
)


class DescribeReplicas:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas

    def handle(self, caller: Caller, request: DescribeReplicasRequest, _version: int) -> None:
        response = DescribeReplicasResponse(
            broker_id=self._site.node, broker_epoch=self._site.broker_epoch
        )
        topics: dict[str, ReplicaTopic] = {}
        for at in self._asked(request):
            topic = topics.setdefault(at.topic, ReplicaTopic(at.topic))
            try:
                topic.partitions.append(offsets_of(self._replicas.get(at)))
            except Refused as refused:
                topic.partitions.append(ReplicaOffsets(at.partition, refused.error))
        response.topics = list(topics.values())
        self._site.outside.answer(caller, response)

    def _asked(self, request: DescribeReplicasRequest) -> list[TopicPartition]:
        here = sorted(self._replicas.by_partition)
        if request.topics is None:
            return here
        asked: list[TopicPartition] = []
        for topic in request.topics:
            numbered = [TopicPartition(topic.name, number) for number in topic.partitions]
            asked += numbered or [at for at in here if at.topic == topic.name]
        return asked


def offsets_of(replica: Replica) -> ReplicaOffsets:
    """Where it stands; for whoever runs a broker, too."""
    log, record = replica.log, replica.record
    mine, group = replica.progress, replica.removable
    roles: dict[type, str] = {Leading: "leader", Following: "follower"}
    return ReplicaOffsets(
        partition_index=replica.partition.partition,
        role=roles.get(type(replica.role), "resting"),
        leader_id=record.leader,
        leader_epoch=record.leader_epoch,
        policy=log.config.compaction_policy,
        log_start=log.log_start_offset,
        log_end=log.end_offset,
        high_watermark=log.high_watermark,
        last_stable=log.last_stable_offset,
        mcco=mine.mcco,
        mtro=group.mtro,
        mxfo=mine.mxfo,
        mxro=group.mxro,
        size_bytes=log.size,
        segments=len(log.segments),
        uncleanable=replica.cleaning.uncleanable,
    )
