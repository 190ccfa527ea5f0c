"""How warm are an application's copies? Each instance says so where everybody can ask.

Only the instance knows how far a copy has come. It commits that, every few seconds, as the offsets
of a consumer group of its own in the changelogs it follows:

    word-counts-copies-host7    word-counts-counts-changelog-3    offset 88120    lag=12 at=...

So whoever watches the lag of consumer groups sees that of copies too. It is for people, and nothing
is decided by it: the lag is the one the copy saw at that moment, and the moment is told with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import Connection, refused
from sexton.client.retrying import PATIENT
from sexton.client.transacting import GROUP
from sexton.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sexton.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from sexton.stores.coordinators import Coordinator

_COMMIT = range(2, 10)  # from 10 on topics go by id
_FETCH = range(8, 10)
_SAID = re.compile(r"lag=(\d+) at=(\d+)")


@dataclass(frozen=True, slots=True)
class Warmth:
    """A copy as its instance last told of it."""

    position: int  # in the changelog
    lag: int  # records it was behind then
    told_ms: int


def copies_group(application_id: str, instance: str) -> str:
    return f"{application_id}-copies-{instance}"


class Telling:
    """An instance's own side of it."""

    def __init__(self, client: Client, application_id: str, instance: str) -> None:
        self._group = copies_group(application_id, instance)
        self._coordinator = Coordinator(client, GROUP, self._group)

    async def tell(self, copies: Iterable[tuple[TopicPartition, Warmth]]) -> None:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for at, each in copies:
            topic = topics.setdefault(at.topic, OffsetCommitRequestTopic(at.topic))
            said = f"lag={each.lag} at={each.told_ms}"
            topic.partitions.append(
                OffsetCommitRequestPartition(at.partition, each.position, committed_metadata=said)
            )
        if not topics:
            return
        request = OffsetCommitRequest(self._group, topics=list(topics.values()))

        async def ask(connection: Connection) -> None:
            answer = await connection.ask(request, _COMMIT)
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code:
                        raise refused(each.error_code, f"the group {self._group}")

        await self._coordinator.until_ready(ask, PATIENT)


async def told_by(
    client: Client, application_id: str, instance: str
) -> dict[TopicPartition, Warmth]:
    """What an instance has said of its copies; changelog partition -> how warm."""
    group = copies_group(application_id, instance)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    found: dict[TopicPartition, Warmth] = {}

    async def ask(connection: Connection) -> None:
        answer = (await connection.ask(request, _FETCH)).groups[0]
        if answer.error_code:
            raise refused(answer.error_code, f"offsets of the group {group}")
        for topic in answer.topics:
            for each in topic.partitions:
                said = _SAID.fullmatch(each.metadata or "")
                if said is not None:
                    at = TopicPartition(topic.name, each.partition_index)
                    found[at] = Warmth(each.committed_offset, int(said[1]), int(said[2]))

    await Coordinator(client, GROUP, group).until_ready(ask, PATIENT)
    return found
