"""The topics of a retry pipeline: those of any ordered retry, and the one for its outputs.

    orders                             main       yours
    invoices                           outputs    yours
    orders.sexton-sink-billing.retry   compacted  messages that wait, by id
    orders.sexton-sink-billing.locks   compacted  which keys they hold, by id
    orders.sexton-sink-billing.dead    deleted    what nobody could handle, for 30 days

The names carry that of the sink's group, where the pipeline's positions are: `sexton retry` with
this group shows what waits, as it does for a service.
"""

from __future__ import annotations

from dataclasses import dataclass

from sexton.base.errors import ConfigError
from sexton.client import retry_topics
from sexton.client.client import Client
from sexton.client.retry_topics import Names
from sexton.client.retrying import Patience
from sexton.spark.asking import topics_by


@dataclass(frozen=True, slots=True)
class Topics:
    names: Names
    output: str

    @property
    def main(self) -> str:
        return self.names.main

    @property
    def retry(self) -> str:
        return self.names.retry

    @property
    def locks(self) -> str:
        return self.names.locks

    @property
    def dead(self) -> str:
        return self.names.dead

    @property
    def written(self) -> tuple[str, str, str, str]:
        return self.output, *self.names.beside


async def prepare(
    client: Client, topics: Topics, patience: Patience, replication: int | None = None
) -> int:
    """Makes what is missing, checks the rest; how many partitions the main topic has."""
    await _are_there(client, [topics.main, topics.output], patience)
    shape = await retry_topics.prepare(
        client, topics.names, replication=replication, patience=patience
    )
    return shape.partitions


async def check(client: Client, topics: Topics, patience: Patience) -> int:
    """The same for a query that runs: what was there at its beginning is not made again."""
    await _are_there(client, [topics.main], patience)
    return (await retry_topics.check(client, topics.names, patience)).partitions


async def _are_there(client: Client, names: list[str], patience: Patience) -> None:
    """A broker may not have heard of a topic yet; whoever is asked next is one that has."""
    found = (await topics_by(client, names, patience)).topics
    for name in names:
        if name not in found or not found[name].partitions:
            raise ConfigError(f"topic {name}", "there is no such topic", "create it first")
