"""The topics of a retry pipeline: made as they have to be, and looked at before every start.

    orders                             main       yours
    orders.sexton-sink-billing.retry   compacted  messages that wait, by id
    orders.sexton-sink-billing.locks   compacted  which keys they hold, by id
    orders.sexton-sink-billing.dead    deleted    what nobody could handle, for 30 days

The names carry that of the sink's group, where the pipeline's positions are: `sexton retry` with
this group shows what waits, as it does for a service.

Main, retry and locks have as many partitions as each other: what is known of main-p is in partition
p of the two. We make what is missing, and change nothing that is there: a topic that would lose
what waits is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.base.errors import ConfigError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.admin import create_topic
from sexton.client.client import Client
from sexton.client.configs import topic_configs
from sexton.client.retrying import until_it_works
from sexton.machines.retry_settings import DEAD, HEADROOM_BYTES, WORKING, check_partitions
from sexton.spark.sink_topics import MOST_BYTES

_POLICY, _LARGEST = "cleanup.policy", "max.message.bytes"


@dataclass(frozen=True, slots=True)
class Topics:
    main: str
    output: str
    retry: str
    locks: str
    dead: str

    @property
    def beside(self) -> tuple[str, str, str]:
        return self.retry, self.locks, self.dead

    @property
    def written(self) -> tuple[str, str, str, str]:
        return self.output, *self.beside


async def prepare(client: Client, topics: Topics) -> int:
    """Makes what is missing, checks the rest; how many partitions the main topic has."""
    found = (await client.topology([topics.main, *topics.written])).topics
    for name in (topics.main, topics.output):
        if name not in found:
            raise ConfigError(f"topic {name}", "there is no such topic", "create it first")
    main = found[topics.main]
    partitions = len(main.partitions)
    replicas = min(len(place.replicas) for place in main.partitions.values())
    largest = (await topic_configs(client, [topics.main], [_LARGEST]))[topics.main]
    room = str(int(largest.get(_LARGEST) or MOST_BYTES) + HEADROOM_BYTES)
    for name in topics.beside:
        if name not in found:
            kind = DEAD if name == topics.dead else WORKING
            await _create(client, name, partitions, replicas, {**kind, _LARGEST: room})
    await until_it_works(lambda: _check(client, topics, partitions))
    return partitions


async def _create(
    client: Client, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
) -> None:
    try:
        await create_topic(client, name, partitions, replicas, configs)
    except Refused as error:
        if error.error is not KafkaError.TOPIC_ALREADY_EXISTS:
            raise


async def _check(client: Client, topics: Topics, partitions: int) -> None:
    found = (await client.topology(topics.beside)).topics
    for name in topics.beside:
        if name not in found:  # a broker that has not heard of it yet
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {name}")
    count = {name: len(found[name].partitions) for name in topics.beside}
    check_partitions(partitions, count[topics.retry], count[topics.locks])
    if count[topics.dead] < partitions:
        why = f"has {count[topics.dead]} partitions, and the main topic {partitions}"
        raise ConfigError(f"topic {topics.dead}", why, f"give it {partitions}")
    configs = await topic_configs(client, [topics.retry, topics.locks], [_POLICY])
    for name, told in configs.items():
        if (told.get(_POLICY) or "").strip() != "compact":
            why = f"has cleanup.policy={told.get(_POLICY)}: what waits would be deleted by its age"
            hint = "kafka-configs.sh --alter --add-config cleanup.policy=compact --topic " + name
            raise ConfigError(f"topic {name}", why, hint)
