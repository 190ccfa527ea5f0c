"""FindCoordinator: which broker to ask about a group or a transactional id.

Versions 0 to 6. Key type 2 (share groups) is refused. The first question has the internal topic
created, and waits for it.
"""

from __future__ import annotations

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.node.auto_create import AutoCreate
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE, Coordinators
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_SEVERAL_VERSION = 4  # from here on one asks for several at once
_TOPICS = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}


class FindCoordinator:
    def __init__(self, site: Site, coordinators: Coordinators, auto_create: AutoCreate) -> None:
        self._site = site
        self._coordinators = coordinators
        self._auto_create = auto_create

    def handle(self, caller: Caller, request: FindCoordinatorRequest, version: int) -> None:
        topic = _TOPICS.get(request.key_type)
        if topic is None or topic in self._site.image.topics:
            self._answer(caller, request, version)
        else:
            self._auto_create.create(topic, lambda: self._answer(caller, request, version))

    def _answer(self, caller: Caller, request: FindCoordinatorRequest, version: int) -> None:
        answer = self._site.outside.answer
        if version >= _SEVERAL_VERSION:
            found = [self._find(key, request.key_type) for key in request.coordinator_keys]
            answer(caller, FindCoordinatorResponse(coordinators=found))
            return
        one = self._find(request.key, request.key_type)
        response = FindCoordinatorResponse(
            error_code=one.error_code, error_message=one.error_message, node_id=one.node_id,
            host=one.host, port=one.port,
        )  # fmt: skip
        answer(caller, response)

    def _find(self, key: str, key_type: int) -> Coordinator:
        try:
            if key_type not in _TOPICS:
                raise Refused(KafkaError.INVALID_REQUEST, f"key type {key_type} is not known")
            partition = self._coordinators.partition_of(_TOPICS[key_type], key)
            leader = self._coordinators.leader_of(partition)
            if leader < 0:
                raise Refused(KafkaError.COORDINATOR_NOT_AVAILABLE, f"{partition} has no leader")
        except Refused as refused:
            return Coordinator(
                key=key, node_id=-1, port=-1, error_code=refused.error, error_message=refused.why
            )
        host, port = self._site.address_of(leader)
        return Coordinator(key=key, node_id=leader, host=host, port=port, error_message=None)
