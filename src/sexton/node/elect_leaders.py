"""ElectLeaders: the preferred replica leads again, or any replica if records may be lost.

Versions 0 to 2. The answer to a call for all partitions (null) leaves out those where nothing was
to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import controller_events as controller
from sexton.node.administration import Administration, outcome
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED, _UNCLEAN = 0, 1  # Kafka's ElectionType


class ElectLeaders:
    def __init__(self, site: Site, administration: Administration) -> None:
        self._site = site
        self._administration = administration

    def handle(self, caller: Caller, request: ElectLeadersRequest, _version: int) -> None:
        if request.election_type not in (_PREFERRED, _UNCLEAN):
            refused = ElectLeadersResponse(error_code=KafkaError.INVALID_REQUEST)
            self._site.outside.answer(caller, refused)
            return
        asked = request.topic_partitions
        wanted = (
            sorted(self._site.image.partitions)
            if asked is None
            else [TopicPartition(topic.topic, n) for topic in asked for n in topic.partitions]
        )

        def told(answers: Sequence[controller.AnswerBody]) -> None:
            results: dict[str, ReplicaElectionResult] = {}
            for partition, answer in zip(wanted, answers, strict=True):
                error, message = outcome(answer)
                topic = results.setdefault(partition.topic, ReplicaElectionResult(partition.topic))
                if asked is None and error is KafkaError.ELECTION_NOT_NEEDED:
                    continue
                topic.partition_result.append(PartitionResult(partition.partition, error, message))
            response = ElectLeadersResponse(replica_election_results=list(results.values()))
            self._site.outside.answer(caller, response)

        unclean = request.election_type == _UNCLEAN
        events = [controller.Elect(None, *partition, unclean) for partition in wanted]
        self._administration.ask(events, told, request.timeout_ms)
