"""Metadata: which brokers and topics there are, and who leads each partition.

Versions 0 to 13, by name and from 12 by id. A broker answers from what it has heard last, as
Kafka's do. Topics that do not exist are created if the request and `auto.create.topics.enable`
allow it; the answer waits for that.

Gaps: there is one listener and no authorizer, so every operation is allowed. The controller is not
a broker; a broker is named in its place, itself where it can be, which forwards what it is asked.
"""

from __future__ import annotations

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines.metadata import NO_LEADER, BrokerRecord, Image, PartitionRecord, TopicRecord
from sexton.machines.topics import check_spelling
from sexton.node.auto_create import AutoCreate
from sexton.node.coordinators import INTERNAL_TOPICS
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sexton.protocol.wire import ZERO_UUID

# Bits of Kafka's AclOperation, for all that can be done to a topic and to a cluster.
TOPIC_OPERATIONS = sum(1 << each for each in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << each for each in (5, 7, 8, 9, 10, 11, 12))
_IDS_VERSION = 12
_CREATION_VERSION = 4  # before it, to ask for a topic is to want it created


class Metadata:
    def __init__(self, site: Site, auto_create: AutoCreate) -> None:
        self._site = site
        self._auto_create = auto_create

    def handle(self, caller: Caller, request: MetadataRequest, version: int) -> None:
        missing = self._to_create(request, version)
        left = len(missing)
        if left == 0:
            self._site.outside.answer(caller, self._answer(request, version))
            return

        def created() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._site.outside.answer(caller, self._answer(request, version))

        for name in missing:
            self._auto_create.create(name, created)

    def _to_create(self, request: MetadataRequest, version: int) -> list[str]:
        allowed = request.allow_auto_topic_creation or version < _CREATION_VERSION
        if not allowed or not self._site.config.auto_create_topics_enable:
            return []
        named = (t for t in request.topics or () if t.name and t.topic_id == ZERO_UUID)
        names = dict.fromkeys(topic.name for topic in named if topic.name)
        return [n for n in names if n not in self._site.image.topics and _spelled_well(n)]

    def _answer(self, request: MetadataRequest, version: int) -> MetadataResponse:
        image = self._site.image
        response = MetadataResponse(
            brokers=[self._broker(broker) for broker in living(image)],
            cluster_id=image.cluster.cluster_id or None,
            controller_id=stand_in(self._site),
            topics=self._topics(request, version),
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if topic.error_code == KafkaError.NONE:
                    topic.topic_authorized_operations = TOPIC_OPERATIONS
        return response

    def _broker(self, broker: BrokerRecord) -> MetadataResponseBroker:
        host, port = self._site.address_of(broker.node)
        return MetadataResponseBroker(broker.node, host, port, broker.rack)

    def _topics(self, request: MetadataRequest, version: int) -> list[MetadataResponseTopic]:
        asked = request.topics
        if asked is None or (version == 0 and not asked):
            return [
                self._topic(topic, version) for _, topic in sorted(self._site.image.topics.items())
            ]
        return [self._asked(topic, version) for topic in asked]

    def _asked(self, asked: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
        image = self._site.image
        if version < _IDS_VERSION and (asked.name is None or asked.topic_id != ZERO_UUID):
            error = KafkaError.INVALID_REQUEST
            return MetadataResponseTopic(error_code=error, name=asked.name or "")
        if asked.name is None or asked.topic_id != ZERO_UUID:  # Java's clients say "" and an id
            found = image.topic_by_id(asked.topic_id.hex())
            if found is None:
                error = KafkaError.UNKNOWN_TOPIC_ID
                return MetadataResponseTopic(error_code=error, name=None, topic_id=asked.topic_id)
            return self._topic(found, version)
        topic = image.topics.get(asked.name)
        if topic is not None:
            return self._topic(topic, version)
        spelled_well = _spelled_well(asked.name)
        error = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponseTopic(
            error_code=error if spelled_well else KafkaError.INVALID_TOPIC_EXCEPTION,
            name=asked.name,
            is_internal=asked.name in INTERNAL_TOPICS,
        )

    def _topic(self, topic: TopicRecord, version: int) -> MetadataResponseTopic:
        image = self._site.image
        partitions = sorted(image.partitions_of(topic.name).items())
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=bytes.fromhex(topic.topic_id),
            is_internal=is_internal(topic),
            partitions=[_partition(image, partition, version) for _, partition in partitions],
        )


def _partition(image: Image, partition: PartitionRecord, version: int) -> MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    error = KafkaError.NONE
    if partition.leader == NO_LEADER or not is_living(image, partition.leader):
        error = KafkaError.LEADER_NOT_AVAILABLE
    elif version == 0 and offline(image, partition):
        error = KafkaError.REPLICA_NOT_AVAILABLE
    if version == 0:  # such a client connects to whatever it is told of
        replicas = [node for node in replicas if is_living(image, node)]
        isr = [node for node in isr if is_living(image, node)]
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline(image, partition),
    )


# ── what other answers about the cluster need, too ──


def living(image: Image) -> list[BrokerRecord]:
    """The brokers that clients are told of: also those about to leave."""
    return [broker for _, broker in sorted(image.brokers.items()) if not broker.fenced]


def is_living(image: Image, node: int) -> bool:
    broker = image.brokers.get(node)
    return broker is not None and not broker.fenced


def offline(image: Image, partition: PartitionRecord) -> list[int]:
    return [node for node in partition.replicas if not is_living(image, node)]


def is_internal(topic: TopicRecord) -> bool:
    return topic.internal or topic.name in INTERNAL_TOPICS


def stand_in(site: Site) -> int:
    """The broker that is named as the controller: any can forward, this one is at hand."""
    nodes = [broker.node for broker in living(site.image)]
    if site.node in nodes:
        return site.node
    return nodes[0] if nodes else -1


def _spelled_well(name: str) -> bool:
    try:
        check_spelling(name)
    except Refused:
        return False
    return True
