"""What topics are set to, as the cluster sees it: overrides, broker defaults and Kafka's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

TOPIC = 2  # Kafka's ConfigResource.Type
TOPICS_AT_ONCE = 200

Values = Mapping[str, str | None]


async def topic_configs(
    client: Client, topics: Iterable[str], names: Sequence[str]
) -> dict[str, Values]:
    """For each topic, the values that these options have there; Refused if one may not be seen."""
    asked = list(topics)
    found: dict[str, Values] = {}
    for at in range(0, len(asked), TOPICS_AT_ONCE):
        resources = [
            DescribeConfigsResource(TOPIC, topic, list(names))
            for topic in asked[at : at + TOPICS_AT_ONCE]
        ]
        for result in (await client.ask(DescribeConfigsRequest(resources))).results:
            if result.error_code:
                why = result.error_message or f"configuration of the topic {result.resource_name}"
                raise refused(result.error_code, why)
            found[result.resource_name] = {each.name: each.value for each in result.configs}
    return found
