"""CreatePartitions: a topic grows.

Versions 0 to 3. Gap: there are no quotas on how fast partitions are created (KIP-599).

Topics of coordinators do not grow. A group, or a transactional id, belongs to one of their
partitions by its hash and their number: with another number it would be looked for where nobody
knows of its offsets, or of the producers that it has fenced. Apache Kafka takes the request, and
its coordinators fail or go by the old number until they are restarted.
"""

from __future__ import annotations

from collections.abc import Sequence

from sexton.base.kafka_errors import KafkaError
from sexton.machines import controller_events as controller
from sexton.node.administration import Administration, outcome
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_FIXED = {
    name: f"coordinators go by the number of partitions of {name}: set {option} before it is made"
    for name, option in (
        (CONSUMER_OFFSETS, "offsets.topic.num.partitions"),
        (TRANSACTION_STATE, "transaction.state.log.num.partitions"),
    )
}


class CreatePartitions:
    def __init__(self, site: Site, administration: Administration) -> None:
        self._site = site
        self._administration = administration

    def handle(self, caller: Caller, request: CreatePartitionsRequest, _version: int) -> None:
        names = [topic.name for topic in request.topics]
        twice = dict.fromkeys(name for name in names if names.count(name) > 1)
        error, why = KafkaError.INVALID_REQUEST, "a topic is named once"
        results = [CreatePartitionsTopicResult(name, error, why) for name in twice]
        exist = [name for name in _FIXED if name in self._site.image.topics]
        fixed = [name for name in names if name in exist and name not in twice]
        error = KafkaError.INVALID_PARTITIONS
        results += [CreatePartitionsTopicResult(name, error, _FIXED[name]) for name in fixed]
        wanted = [topic for topic in request.topics if topic.name not in (*twice, *fixed)]

        def told(answers: Sequence[controller.AnswerBody]) -> None:
            for topic, answer in zip(wanted, answers, strict=True):
                results.append(CreatePartitionsTopicResult(topic.name, *outcome(answer)))
            self._site.outside.answer(caller, CreatePartitionsResponse(results=results))

        events = [_event(topic, request.validate_only) for topic in wanted]
        self._administration.ask(events, told, request.timeout_ms)


def _event(topic: CreatePartitionsTopic, validate_only: bool) -> controller.CreatePartitions:
    assignment = None
    if topic.assignments is not None:
        assignment = tuple(tuple(each.broker_ids) for each in topic.assignments)
    return controller.CreatePartitions(None, topic.name, topic.count, assignment, validate_only)
