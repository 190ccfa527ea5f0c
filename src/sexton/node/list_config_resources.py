"""ListConfigResources: whose options can be described (KIP-1142).

Versions 0 to 1. Topics and brokers; version 0 asks for client metrics only, and there are none.
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.node.describe_configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_KNOWN = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


class ListConfigResources:
    def __init__(self, site: Site) -> None:
        self._site = site

    def handle(self, caller: Caller, request: ListConfigResourcesRequest, version: int) -> None:
        wanted = [CLIENT_METRICS] if version == 0 else request.resource_types or list(_KNOWN)
        response = ListConfigResourcesResponse()
        if any(kind not in _KNOWN for kind in wanted):
            response.error_code = KafkaError.UNSUPPORTED_VERSION
        else:
            image = self._site.image
            names = {TOPIC: sorted(image.topics), BROKER: [str(n) for n in sorted(image.brokers)]}
            response.config_resources = [
                ConfigResource(name, kind) for kind in wanted for name in names.get(kind, ())
            ]
        self._site.outside.answer(caller, response)
