"""What topics are set to, as the cluster sees it: overrides, broker defaults and Kafka's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sexton.client.client import Client
from sexton.client.config_changes import DescribedOptions, describe_topics
from sexton.client.retrying import Patience, until_it_works

PATIENCE = Patience(timeout_ms=15_000)

Values = Mapping[str, str | None]


async def topic_configs(
    client: Client, topics: Iterable[str], names: Sequence[str]
) -> dict[str, Values]:
    """For each topic, the values that these options have there; Refused if one may not be seen."""
    asked = list(topics)

    async def ask() -> DescribedOptions:
        found = await describe_topics(client, asked, names)
        for error in found.failed.values():
            raise error
        return found

    return values_of(await until_it_works(ask, PATIENCE))


def values_of(described: DescribedOptions) -> dict[str, Values]:
    return {
        topic: {name: option.value for name, option in options.items()}
        for topic, options in described.found.items()
    }
