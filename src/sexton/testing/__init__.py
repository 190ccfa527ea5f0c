"""Clusters to test against: one in this process, and Apache Kafka from its own jars.

    from sexton.testing import EmbeddedCluster

    with EmbeddedCluster(brokers=3) as kafka:
        ...

The names below are imported when first used: whoever wants one kind does not pay for the other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
    from sexton.testing.cluster import Cluster, PartitionState
    from sexton.testing.embedded import AsyncEmbeddedCluster, EmbeddedCluster

_HOME = {
    "ApacheKafka": "apache_kafka",
    "AsyncEmbeddedCluster": "embedded",
    "Cluster": "cluster",
    "EmbeddedCluster": "embedded",
    "KafkaConfig": "apache_kafka",
    "PartitionState": "cluster",
}

__all__ = [
    "ApacheKafka",
    "AsyncEmbeddedCluster",
    "Cluster",
    "EmbeddedCluster",
    "KafkaConfig",
    "PartitionState",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
