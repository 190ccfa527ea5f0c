"""DeleteTopics: topics go, by name or (from version 6) by id.

Versions 1 to 6. Replicas are deleted as soon as a broker hears of it; there is no delay as with
Kafka's `file.delete.delay.ms`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines import controller_events as controller
from sexton.node.administration import Administration, outcome
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from sexton.protocol.wire import ZERO_UUID

_IDS_VERSION = 6
_DISABLED_VERSION = 3  # clients know TOPIC_DELETION_DISABLED


class DeleteTopics:
    def __init__(self, site: Site, administration: Administration) -> None:
        self._site = site
        self._administration = administration

    def handle(self, caller: Caller, request: DeleteTopicsRequest, version: int) -> None:
        asked = request.topics if version >= _IDS_VERSION else []
        asked = asked or [DeleteTopicState(name=name) for name in request.topic_names]
        response = DeleteTopicsResponse()
        wanted: list[DeletableTopicResult] = []
        counted = Counter((topic.name, topic.topic_id) for topic in asked)
        for (name, topic_id), count in counted.items():
            result = DeletableTopicResult(name=name, topic_id=topic_id)
            response.responses.append(result)
            try:
                if count > 1:
                    raise Refused(KafkaError.INVALID_REQUEST, "a topic is named twice")
                self._resolve(result, version)
                wanted.append(result)
            except Refused as refused:
                result.error_code, result.error_message = refused.error, refused.why

        def told(answers: Sequence[controller.AnswerBody]) -> None:
            for result, answer in zip(wanted, answers, strict=True):
                result.error_code, result.error_message = outcome(answer)
            self._site.outside.answer(caller, response)

        events = [
            controller.DeleteTopic(None, result.name or "", result.topic_id.hex())
            for result in wanted
        ]
        self._administration.ask(events, told, request.timeout_ms)

    def _resolve(self, result: DeletableTopicResult, version: int) -> None:
        """Completes the result's name and id, or refuses."""
        if not self._site.config.delete_topic_enable:
            known = version >= _DISABLED_VERSION
            error = KafkaError.TOPIC_DELETION_DISABLED if known else KafkaError.INVALID_REQUEST
            raise Refused(error, "delete.topic.enable is false")
        if (result.name is None) == (result.topic_id == ZERO_UUID):
            why = "a topic is deleted by its name or by its id, one of the two"
            raise Refused(KafkaError.INVALID_REQUEST, why)
        image = self._site.image
        if result.name is None:
            found = image.topic_by_id(result.topic_id.hex())
            if found is None:
                raise Refused(KafkaError.UNKNOWN_TOPIC_ID, "there is no topic with this id")
        else:
            found = image.topics.get(result.name)
            if found is None:
                why = f"there is no topic {result.name}"
                raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, why)
        result.name, result.topic_id = found.name, bytes.fromhex(found.topic_id)
