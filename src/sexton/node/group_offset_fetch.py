"""OffsetFetch: what groups have committed.

Versions 1 to 10. From 8 on it asks for several groups at once, from 9 on a member may say who it is
and hears whether it still is, and 10 names topics by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import offset_messages as machine
from sexton.node.group_offsets import GroupOffsets, id_of
from sexton.node.groups import Groups
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_ERROR_VERSION = 2  # there is an error for all of a group from here on
GROUPS_VERSION = 8  # and several groups
TOPIC_ID_VERSION = 10


class GroupOffsetFetch:
    def __init__(self, site: Site, groups: Groups, offsets: GroupOffsets) -> None:
        self._site = site
        self._groups = groups
        self._offsets = offsets

    def handle(self, caller: Caller, request: OffsetFetchRequest, version: int) -> None:
        response = OffsetFetchResponse()
        if version < GROUPS_VERSION:
            wanted = None
            if request.topics is not None:
                wanted = [(t.name, n) for t in request.topics for n in t.partition_indexes]

            def one(answer: machine.FetchAnswer) -> None:
                response.error_code = answer.error
                if answer.error and version < GROUP_ERROR_VERSION:
                    failed = [
                        machine.Fetched(TopicPartition(*at), None, answer.error)
                        for at in wanted or ()
                    ]
                    answer = machine.FetchAnswer(answer.error, tuple(failed))
                response.topics = _old_topics(answer)
                self._site.outside.answer(caller, response)

            self._fetch(request.group_id, wanted, request.require_stable, one)
            return
        left = len(request.groups)

        def settled() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._site.outside.answer(caller, response)

        if not request.groups:
            self._site.outside.answer(caller, response)
        for group in request.groups:
            self._fetch_group(group, request.require_stable, response, settled, version)

    def _fetch_group(
        self,
        group: OffsetFetchRequestGroup,
        stable: bool,
        response: OffsetFetchResponse,
        settled: Callable[[], None],
        version: int,
    ) -> None:
        result = OffsetFetchResponseGroup(group_id=group.group_id)
        response.groups.append(result)
        wanted = None
        unknown: list[OffsetFetchResponseTopics] = []
        if group.topics is not None:
            wanted = []
            for topic in group.topics:
                name = topic.name or self._site.topic_name(topic.topic_id)
                if name:
                    wanted += [(name, number) for number in topic.partition_indexes]
                else:
                    unknown.append(_unknown_topic(topic))

        def then(answer: machine.FetchAnswer) -> None:
            topics = _topics(answer)
            for topic in topics:
                topic.topic_id = id_of(self._site, topic.name) or machine.NO_TOPIC_ID
            if version >= TOPIC_ID_VERSION:  # what has no id, or none any more, cannot be said
                by_name = group.topics is not None and any(t.name for t in group.topics)
                topics = [t for t in topics if by_name or t.topic_id != machine.NO_TOPIC_ID]
            result.error_code = answer.error
            result.topics = [] if answer.error else [*unknown, *topics]
            settled()

        refused = KafkaError.NONE
        try:
            _, groups = self._groups.at(group.group_id)
            refused = groups.may_fetch(group.group_id, group.member_id, group.member_epoch)
        except Refused:
            pass  # the fetch itself will say so
        self._fetch(group.group_id, wanted, stable, then, refused)

    def _fetch(
        self,
        group: str,
        wanted: list[tuple[str, int]] | None,
        stable: bool,
        then: Callable[[machine.FetchAnswer], None],
        refused: KafkaError = KafkaError.NONE,
    ) -> None:
        partitions = None if wanted is None else tuple(TopicPartition(*w) for w in wanted)
        stable = stable and not self._site.config.lab_markers_acknowledged_before_offsets_ms

        def told(answer: machine.AnyAnswer) -> None:
            assert isinstance(answer, machine.FetchAnswer)
            then(answer)

        failed = self._offsets.request(
            group, machine.Fetch(told, group, partitions, stable, refused)
        )
        if failed:
            then(machine.FetchAnswer(failed))


def _unknown_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    error = KafkaError.UNKNOWN_TOPIC_ID
    partitions = [
        OffsetFetchResponsePartitions(number, -1, -1, "", error)
        for number in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions)


def _by_topic(answer: machine.FetchAnswer) -> dict[str, list[machine.Fetched]]:
    topics: dict[str, list[machine.Fetched]] = {}
    for one in answer.offsets:
        topics.setdefault(one.partition.topic, []).append(one)
    return topics


def _topics(answer: machine.FetchAnswer) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=name, partitions=[OffsetFetchResponsePartitions(*_fields(f)) for f in found]
        )
        for name, found in _by_topic(answer).items()
    ]


def _old_topics(answer: machine.FetchAnswer) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(name, [OffsetFetchResponsePartition(*_fields(f)) for f in found])
        for name, found in _by_topic(answer).items()
    ]


def _fields(found: machine.Fetched) -> Iterable:  # type: ignore[type-arg]
    """partition index, committed offset, leader epoch, metadata, error code"""
    number, kept = found.partition.partition, found.committed
    if kept is None:
        return number, -1, -1, "", int(found.error)
    return number, kept.offset, kept.leader_epoch, kept.metadata, int(found.error)
