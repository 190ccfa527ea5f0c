"""DescribeCluster: the cluster's id and its brokers.

Versions 0 to 2. There is no endpoint of the controller to ask for: endpoint type 2 is refused, as a
Kafka broker refuses it.
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.node.metadata import CLUSTER_OPERATIONS, living, stand_in
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2


class DescribeCluster:
    def __init__(self, site: Site) -> None:
        self._site = site

    def handle(self, caller: Caller, request: DescribeClusterRequest, _version: int) -> None:
        self._site.outside.answer(caller, self._answer(request))

    def _answer(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        if request.endpoint_type != _BROKERS:
            known = request.endpoint_type == _CONTROLLERS
            return DescribeClusterResponse(
                error_code=KafkaError.MISMATCHED_ENDPOINT_TYPE
                if known
                else KafkaError.UNSUPPORTED_ENDPOINT_TYPE,
                error_message=f"this is a broker: endpoint type {_BROKERS} can be asked for, "
                f"not {request.endpoint_type}",
            )
        image = self._site.image
        brokers = living(image)
        if request.include_fenced_brokers:
            brokers = [broker for _, broker in sorted(image.brokers.items())]
        response = DescribeClusterResponse(
            cluster_id=image.cluster.cluster_id,
            controller_id=stand_in(self._site),
            brokers=[
                DescribeClusterBroker(
                    each.node, *self._site.address_of(each.node), each.rack, each.fenced
                )
                for each in brokers
            ],
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        return response
