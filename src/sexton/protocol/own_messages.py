"""APIs of our own that go over a connection as Kafka's do.

DescribeReplicas (20000): what one broker knows of its own replicas, leader or not. Ask every broker
to see where replicas differ; Kafka has nothing like it. All offsets are exclusive upper bounds but
the log start, and -1 where there is none.

    mcco, mxfo    how far this replica's log is clean, and free of transactions
    mtro, mxro    below which it may forget tombstones, and markers

Whoever shows where a replica stands shows it in these words: `sexton cluster offsets` and the
embedded cluster do.
"""

from __future__ import annotations

from sexton.base.lazy_dataclass import dataclass
from sexton.protocol import wire
from sexton.protocol.registry import register


@dataclass(slots=True)
class AskedTopic:
    name: str = wire.string()
    partitions: list[int] = wire.array(wire.int32)  # empty: all of them


@dataclass(slots=True)
class DescribeReplicasRequest(wire.Request["DescribeReplicasResponse"]):
    API_KEY = 20_000
    VALID_VERSIONS = range(1)
    FLEXIBLE_VERSIONS = range(1)

    topics: list[AskedTopic] | None = wire.array(AskedTopic, default=None, nullable="0+")


@dataclass(slots=True)
class ReplicaOffsets:
    partition_index: int = wire.int32()
    error_code: int = wire.int16()
    role: str = wire.string()  # leader, follower or resting
    leader_id: int = wire.int32(default=-1)
    leader_epoch: int = wire.int32(default=-1)
    policy: str = wire.string()  # coordinated or independent
    log_start: int = wire.int64(default=-1)
    log_end: int = wire.int64(default=-1)
    high_watermark: int = wire.int64(default=-1)
    last_stable: int = wire.int64(default=-1)
    mcco: int = wire.int64(default=-1)
    mtro: int = wire.int64(default=-1)
    mxfo: int = wire.int64(default=-1)
    mxro: int = wire.int64(default=-1)
    size_bytes: int = wire.int64(default=-1)
    segments: int = wire.int32()
    uncleanable: str | None = wire.string(default=None, nullable="0+")  # why the cleaner fails


@dataclass(slots=True)
class ReplicaTopic:
    name: str = wire.string()
    partitions: list[ReplicaOffsets] = wire.array(ReplicaOffsets)


@dataclass(slots=True)
class DescribeReplicasResponse(wire.Response):
    API_KEY = 20_000
    VALID_VERSIONS = range(1)
    FLEXIBLE_VERSIONS = range(1)

    throttle_time_ms: int = wire.int32()
    error_code: int = wire.int16()
    broker_id: int = wire.int32()
    broker_epoch: int = wire.int64(default=-1)
    topics: list[ReplicaTopic] = wire.array(ReplicaTopic)


register(DescribeReplicasRequest, DescribeReplicasResponse)
