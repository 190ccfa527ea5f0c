"""Are the topics still those that the instance began with?

A key's state is where its records are. When an input grows, keys move to other partitions, whose
stores have never heard of them: counts would begin again at nothing. And another topic with the
same name has other records at the same offsets; of a changelog, none of the state at all. Nobody
is told of either, so an instance looks, and ends rather than go on with what is not so any more.
"""

from __future__ import annotations

from sexton.base.errors import ConfigError
from sexton.client.client import Client
from sexton.client.topology import Topic

_GROWN = "keys have moved, and state cannot: take a new application id and process the input again"
_ANOTHER = "take a new application id, unless the old topic can be brought back"


class Watch:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._counts: dict[str, int] = {}  # partitions of inputs
        self._ids: dict[str, bytes] = {}

    def input(self, topic: Topic) -> None:
        self._counts[topic.name] = len(topic.partitions)
        self._ids[topic.name] = topic.topic_id

    def changelog(self, name: str, topic_id: bytes) -> None:
        self._ids[name] = topic_id

    async def look(self) -> None:
        """ConfigError if one has changed; one that is not there now may come back."""
        for name, topic in (await self._client.topology(self._ids)).topics.items():
            if topic.topic_id != self._ids[name]:
                why = "was deleted and made again while this instance ran"
                raise ConfigError(name, why, _ANOTHER)
            count = self._counts.get(name, 0)
            if len(topic.partitions) > count > 0:
                why = f"had {count} partitions and has {len(topic.partitions)}"
                raise ConfigError(name, why, _GROWN)
