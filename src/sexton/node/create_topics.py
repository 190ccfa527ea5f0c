"""CreateTopics: new topics, with numbers of partitions and replicas or with an assignment.

Versions 2 to 7. The controller decides; -1 asks for its defaults. From version 5 on the answer says
what the topic's options are.

Gap: there are no quotas on how fast partitions are created (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines import controller_events as controller
from sexton.node.administration import Administration, new_topic_id, outcome
from sexton.node.config_values import topic_values
from sexton.node.controller import METADATA
from sexton.node.coordinators import INTERNAL_TOPICS
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


class CreateTopics:
    def __init__(self, site: Site, administration: Administration) -> None:
        self._site = site
        self._administration = administration

    def handle(self, caller: Caller, request: CreateTopicsRequest, _version: int) -> None:
        response = CreateTopicsResponse()
        wanted: list[tuple[CreatableTopicResult, controller.CreateTopic]] = []
        counted = Counter(topic.name for topic in request.topics)
        for name, topic in {topic.name: topic for topic in request.topics}.items():
            result = CreatableTopicResult(name=name, error_message=None)
            response.topics.append(result)
            try:
                if counted[name] > 1:
                    raise Refused(KafkaError.INVALID_REQUEST, f"{name} is named twice")
                wanted.append((result, self._event(topic, request.validate_only)))
            except Refused as refused:
                result.error_code, result.error_message = refused.error, refused.why

        def told(answers: Sequence[controller.AnswerBody]) -> None:
            for (result, event), answer in zip(wanted, answers, strict=True):
                self._fill(result, event, answer)
            self._site.outside.answer(caller, response)

        self._administration.ask([event for _, event in wanted], told, request.timeout_ms)

    def _event(self, topic: CreatableTopic, validate_only: bool) -> controller.CreateTopic:
        if topic.name == METADATA.topic:
            why = f"{topic.name} is the controller's own log and cannot be created"
            raise Refused(KafkaError.INVALID_REQUEST, why)
        configs: list[tuple[str, str]] = []
        for config in topic.configs:
            if config.value is None:
                why = f"Null value not supported for topic configs: {config.name}"
                raise Refused(KafkaError.INVALID_CONFIG, why)
            configs.append((config.name, config.value))
        return controller.CreateTopic(
            None,
            topic.name,
            new_topic_id(self._site),
            topic.num_partitions,
            topic.replication_factor,
            _assignment(topic) if topic.assignments else None,
            tuple(configs),
            internal=topic.name in INTERNAL_TOPICS,
            validate_only=validate_only,
        )

    def _fill(
        self,
        result: CreatableTopicResult,
        event: controller.CreateTopic,
        answer: controller.AnswerBody,
    ) -> None:
        result.error_code, result.error_message = outcome(answer)
        if isinstance(answer, controller.TopicCreated):
            result.topic_id = bytes.fromhex(answer.topic_id)
            result.num_partitions = answer.partitions
            result.replication_factor = answer.replication_factor
            result.configs = [
                CreatableTopicConfigs(
                    value.name, value.value, value.read_only, value.source, value.sensitive
                )
                for value in topic_values(self._site, dict(event.configs))
            ]


def _assignment(topic: CreatableTopic) -> tuple[tuple[int, ...], ...]:
    """The replicas of partitions 0, 1 and so on."""
    chosen: dict[int, tuple[int, ...]] = {}
    for each in topic.assignments:
        if each.partition_index in chosen:
            why = f"partition {each.partition_index} of {topic.name} is assigned twice"
            raise Refused(KafkaError.INVALID_REPLICA_ASSIGNMENT, why)
        chosen[each.partition_index] = tuple(each.broker_ids)
    if sorted(chosen) != list(range(len(chosen))):
        why = f"the partitions of {topic.name} are to be 0 to {len(chosen) - 1}, each of them once"
        raise Refused(KafkaError.INVALID_REPLICA_ASSIGNMENT, why)
    return tuple(chosen[number] for number in range(len(chosen)))
