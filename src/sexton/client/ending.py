"""An ABORT marker at the end of one partition, for a transaction that nobody else will end.

It is what `kafka-transactions abort` sends: WriteTxnMarkers to the partition's leader, as the
coordinator would, with the producer's id and epoch. The leader refuses an epoch that is too old.
Nobody checks whether the transaction was committed elsewhere; whoever calls this must know.
"""

from __future__ import annotations

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


async def write_abort(
    client: Client,
    partition: TopicPartition,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Returns when the marker is in the leader's log and acknowledged."""
    leader = (await client.place(partition)).leader
    if leader < 0:
        raise Refused(KafkaError.LEADER_NOT_AVAILABLE, f"nobody leads {partition}")
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(partition.topic, [partition.partition])],
        coordinator_epoch=max(0, coordinator_epoch),
    )
    connection = await client.broker(leader)
    answer = await connection.ask(WriteTxnMarkersRequest([marker]))
    try:
        result = answer.markers[0].topics[0].partitions[0]
    except IndexError:
        why = f"WriteTxnMarkers for {partition} is answered without it"
        raise PeerError(connection.peer, why) from None
    if result.error_code:
        raise refused(result.error_code, f"an ABORT marker for {partition}")
