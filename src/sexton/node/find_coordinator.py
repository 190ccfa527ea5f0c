"""FindCoordinator: which broker to ask about a group or a transactional id.

Versions 0 to 6. Key type 2 (share groups) is refused.
"""

from __future__ import annotations

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE, Coordinators
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_TOPICS = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}


class FindCoordinator:
    def __init__(self, site: Site, coordinators: Coordinators) -> None:
        self._site = site
        self._coordinators = coordinators

    def handle(self, caller: Caller, request: FindCoordinatorRequest, _version: int) -> None:
        keys = request.coordinator_keys or [request.key]
        found = [self._find(key, request.key_type) for key in keys]
        response = FindCoordinatorResponse(coordinators=found)
        first = found[0]
        response.error_code, response.error_message = first.error_code, first.error_message
        response.node_id, response.host, response.port = first.node_id, first.host, first.port
        self._site.outside.answer(caller, response)

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
