"""An API of our own, as one would write it: plain dataclasses, and a call that makes it known."""

from __future__ import annotations

from dataclasses import dataclass

from sexton.protocol import registry, wire


@dataclass(slots=True)
class CollectPartition:
    topic_id: bytes = wire.uuid()
    partition: int = wire.int32()
    leader_epoch: int = wire.int32(default=-1)


@dataclass(slots=True)
class CollectRequest(wire.Request["CollectResponse"]):
    API_KEY = 20_999
    VALID_VERSIONS = range(2)
    FLEXIBLE_VERSIONS = range(2)

    node_id: int = wire.int32(default=-1)
    partitions: list[CollectPartition] = wire.array(CollectPartition)
    reason: str | None = wire.string(default=None, versions="1+", nullable="1+")
    urgent: bool = wire.bool_(versions="1+", tag=0, ignorable=True)


@dataclass(slots=True)
class CollectResponse(wire.Response):
    API_KEY = 20_999
    VALID_VERSIONS = range(2)
    FLEXIBLE_VERSIONS = range(2)

    error_code: int = wire.int16()
    clean_offsets: list[int] = wire.array(wire.int64)


registry.register(CollectRequest, CollectResponse)
