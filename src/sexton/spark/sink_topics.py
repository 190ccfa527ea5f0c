"""What must be known of a topic before records for it are encoded: partitions, and how large."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sexton.base.errors import ConfigError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.configs import topic_configs
from sexton.client.connection import ClientConfig
from sexton.client.retrying import Patience, until_it_works
from sexton.client.settings import client_config
from sexton.spark.asking import topics_by

MOST_BYTES = 1_048_588  # Kafka's own max.message.bytes
_OPTION = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class TopicLimits:
    partitions: int
    most_bytes: int  # of one batch
    leaders: Mapping[int, int] = field(default_factory=dict)  # by partition, a moment ago


def client_for(kafka: Mapping[str, str]) -> Client:
    """Made where it is used: a TLS context cannot travel to an executor."""
    return Client(kafka["bootstrap.servers"], client_config(kafka, ClientConfig()))


async def topic_limits(
    kafka: Mapping[str, str], topics: Iterable[str], patience: Patience
) -> dict[str, TopicLimits]:
    """Of each topic; ConfigError for one that is not there."""
    async with client_for(kafka) as client:
        return await limits_by(client, topics, patience)


async def limits_by(
    client: Client, topics: Iterable[str], patience: Patience
) -> dict[str, TopicLimits]:
    """The same, by a client that is there."""
    names = list(topics)
    found = await topics_by(client, names, patience)
    for name in names:
        if name not in found.topics or not found.topics[name].partitions:
            why = "there is no such topic"
            raise ConfigError(f"topic {name}", why, "create it first; writing does not")
    try:
        configs = await until_it_works(lambda: topic_configs(client, names, [_OPTION]), patience)
    except Refused:  # whoever may write need not be allowed to see the configuration
        configs = {}
    return {
        name: TopicLimits(
            len(found.topics[name].partitions),
            int(configs.get(name, {}).get(_OPTION) or MOST_BYTES),
            {at: place.leader for at, place in found.topics[name].partitions.items()},
        )
        for name in names
    }


def leaders_of(topics: Mapping[str, TopicLimits]) -> dict[TopicPartition, int]:
    """Of all partitions that had one."""
    return {
        TopicPartition(name, number): leader
        for name, limits in topics.items()
        for number, leader in limits.leaders.items()
        if leader >= 0
    }
