"""Are the topics still those that the instance began with?

A key's state is where its records are. When an input grows, keys move to other partitions, whose
stores have never heard of them: counts would begin again at nothing. And another topic with the
same name has other records at the same offsets; of a changelog, none of the state at all. Nobody
is told of either, so an instance looks, and ends rather than go on with what is not so any more.
An output that grows ends nothing: keys go to its new partitions as well, as every producer sends
them; else an instance that was started later would send the same key elsewhere.
"""

from __future__ import annotations

import logging

from sexton.base.errors import ConfigError
from sexton.client.client import Client
from sexton.client.topology import Topic
from sexton.stores.partitioner import Partitioner

log = logging.getLogger("sexton.stores")

_GROWN = "keys have moved, and state cannot: take a new application id and process the input again"
_ANOTHER = "take a new application id, unless the old topic can be brought back"


class Watch:
    def __init__(self, client: Client, outputs: dict[str, Partitioner]) -> None:
        self._client = client
        self._outputs = outputs  # changed here when their topics do
        self._counts: dict[str, int] = {}  # partitions of inputs
        self._ids: dict[str, bytes] = {}
        self.is_changed = False  # what is processed may be of other records: not to be committed

    def input(self, topic: Topic) -> None:
        self._counts[topic.name] = len(topic.partitions)
        self._ids[topic.name] = topic.topic_id

    def changelog(self, name: str, topic_id: bytes) -> None:
        self._ids[name] = topic_id

    async def look(self) -> None:
        """ConfigError if one has changed; one that is not there now may come back."""
        try:
            await self._look()
        except ConfigError:
            self.is_changed = True
            raise

    async def _look(self) -> None:
        names = {**self._ids, **dict.fromkeys(self._outputs, b"")}
        for name, topic in (await self._client.topology(names)).topics.items():
            self._look_at_output(name, len(topic.partitions))
            if name not in self._ids:
                continue
            self._look_at_id(name, topic.topic_id)
            count = self._counts.get(name, 0)
            if len(topic.partitions) > count > 0:
                why = f"had {count} partitions and has {len(topic.partitions)}"
                raise ConfigError(name, why, _GROWN)

    def _look_at_id(self, name: str, topic_id: bytes) -> None:
        """An old Kafka says none; one that is being upgraded says it on some brokers only."""
        if not any(self._ids[name]):
            self._ids[name] = topic_id
        elif any(topic_id) and topic_id != self._ids[name]:
            why = "was deleted and made again while this instance ran"
            raise ConfigError(name, why, _ANOTHER)

    def _look_at_output(self, name: str, count: int) -> None:
        known = self._outputs.get(name)
        if known is None or count <= known.count:  # less: of a broker that has old news
            return
        why = f"had {known.count} partitions and has {count}: its keys go to other ones from now on"
        log.warning("%s: %s", name, why, extra={"topic": name, "why": why})
        self._outputs[name] = Partitioner(count)
