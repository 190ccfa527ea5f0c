"""WriteTxnMarkers: a transaction coordinator says how a transaction ended.

Versions 1 and 2. The answer for a partition comes when its marker is below the high watermark; for
one of `__consumer_offsets` when, besides, the offsets it commits can be fetched (KAFKA-17507).

Our own coordinators stamp their markers (`WriteMarkers`). One that is late is not written, and is
answered when the log is replicated as far as it goes now: what it asks for is in there.
"""

from __future__ import annotations

from collections.abc import Callable

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines.markers import Stamp
from sexton.node.coordinators import CONSUMER_OFFSETS
from sexton.node.group_offsets import GroupOffsets
from sexton.node.messages import WriteMarkers
from sexton.node.outside import Caller
from sexton.node.produce import Produce
from sexton.node.replica import Acknowledged, Replica
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from sexton.records.control import ControlType, marker_batch

Stamps = Callable[[TopicPartition, WritableTxnMarker], Stamp | None]


@dataclass(slots=True, eq=False)
class _Call:
    caller: Caller
    response: WriteTxnMarkersResponse
    left: int
    stamps: Stamps


class WriteTxnMarkers:
    def __init__(
        self, site: Site, replicas: Replicas, offsets: GroupOffsets, produce: Produce
    ) -> None:
        self._site = site
        self._replicas = replicas
        self._offsets = offsets
        self._produce = produce

    def handle(self, caller: Caller, request: WriteTxnMarkersRequest, _version: int) -> None:
        self._take(caller, request, lambda _partition, _marker: None)

    def of_coordinator(self, caller: Caller, message: WriteMarkers, _version: int) -> None:
        epochs = dict(message.leader_epochs)

        def stamp(partition: TopicPartition, marker: WritableTxnMarker) -> Stamp:
            return Stamp(epochs[partition], marker.coordinator_epoch, message.number)

        self._take(caller, message.request, stamp)

    def _take(self, caller: Caller, request: WriteTxnMarkersRequest, stamps: Stamps) -> None:
        call = _Call(caller, WriteTxnMarkersResponse(), 0, stamps)
        wanted = []
        for marker in request.markers:
            result = WritableTxnMarkerResult(producer_id=marker.producer_id)
            call.response.markers.append(result)
            for topic in marker.topics:
                of_topic = WritableTxnMarkerTopicResult(name=topic.name)
                result.topics.append(of_topic)
                for number in topic.partition_indexes:
                    one = WritableTxnMarkerPartitionResult(partition_index=number)
                    of_topic.partitions.append(one)
                    wanted.append((TopicPartition(topic.name, number), marker, one))
        call.left = len(wanted)
        if not wanted:
            self._site.outside.answer(caller, call.response)
        for partition, marker, one in wanted:
            self._write(call, partition, marker, one)

    def _write(
        self,
        call: _Call,
        partition: TopicPartition,
        marker: WritableTxnMarker,
        result: WritableTxnMarkerPartitionResult,
    ) -> None:
        def written(error: KafkaError) -> None:
            result.error_code = error
            call.left -= 1
            if call.left == 0:
                self._site.outside.answer(call.caller, call.response)

        stamp = call.stamps(partition, marker)
        try:
            replica, role = self._replicas.led(partition)
            if stamp is not None and role.markers.is_late(marker.producer_id, stamp):
                replica.acknowledge(replica.log.end_offset - 1, written)
                return
            end = replica.log.end_offset
            self._append(replica, marker, written)
        except Refused as refused:
            written(refused.error)
            return
        if replica.log.end_offset == end:
            return  # one that is refused ends nothing
        self._produce.ended(partition, marker.producer_id)
        if stamp is not None:
            role.markers.wrote(marker.producer_id, stamp, self._site.clock_ms)

    def _append(self, replica: Replica, marker: WritableTxnMarker, written: Acknowledged) -> None:
        partition = replica.partition
        if partition.topic == CONSUMER_OFFSETS:
            self._offsets.write_marker(partition, marker, written)  # appends it, or says why not
            return
        done = replica.append(batch_of(marker, self._site.now_ms), client=False)
        replica.acknowledge(done.last_offset, written)


def batch_of(marker: WritableTxnMarker, now_ms: int) -> bytes:
    return marker_batch(
        ControlType.COMMIT if marker.transaction_result else ControlType.ABORT,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=now_ms,
    )
