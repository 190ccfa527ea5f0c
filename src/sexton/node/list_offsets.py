"""ListOffsets: the offset at a time, or at one of a log's ends.

Versions 1 to 11; there is no tiered storage, so that what is local is everything (timestamp -4),
and nothing is elsewhere (-5 and -6 are answered with -1). A consumer asks the leader; replica
id -2, a debugging consumer, may ask any replica.

A new leader may not know yet how far its predecessor's high watermark had come. Until its own has
reached the start of its term, a consumer that asks for the end is told to ask again (KIP-207):
it would see the end go backwards.
"""

from __future__ import annotations

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.partition import PartitionLog
from sexton.node.fetch import READ_COMMITTED, check_epoch, last_stable
from sexton.node.outside import Caller
from sexton.node.replica import Leading, Replica
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from sexton.records.few import few_records
from sexton.records.layout import NO_TIMESTAMP

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
CONSUMER, ANY_REPLICA = -1, -2
EPOCH_VERSION = 4  # from here on an answer has a leader epoch
NOT_AVAILABLE_VERSION = 5  # and from here on OFFSET_NOT_AVAILABLE is known
NOT_AVAILABLE = KafkaError.OFFSET_NOT_AVAILABLE


class ListOffsets:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas

    def handle(self, caller: Caller, request: ListOffsetsRequest, version: int) -> None:
        response = ListOffsetsResponse()
        for topic in request.topics:
            answers = [
                self._answer(TopicPartition(topic.name, asked.partition_index), asked, request)
                for asked in topic.partitions
            ]
            for answer in answers:
                if version < EPOCH_VERSION:
                    answer.leader_epoch = -1
                if version < NOT_AVAILABLE_VERSION and answer.error_code == NOT_AVAILABLE:
                    answer.error_code = KafkaError.LEADER_NOT_AVAILABLE
            response.topics.append(ListOffsetsTopicResponse(topic.name, answers))
        self._site.outside.answer(caller, response)

    def _answer(
        self, partition: TopicPartition, asked: ListOffsetsPartition, request: ListOffsetsRequest
    ) -> ListOffsetsPartitionResponse:
        answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
        try:
            if request.replica_id == ANY_REPLICA:
                replica = self._replicas.get(partition)
            else:
                replica, _role = self._replicas.led(partition)
            check_epoch(replica, asked.current_leader_epoch)
            timestamp, offset = self._find(replica, asked.timestamp, request)
        except Refused as refused:
            answer.error_code = refused.error
            return answer
        except CorruptLog:
            answer.error_code = KafkaError.CORRUPT_MESSAGE
            return answer
        answer.timestamp, answer.offset = timestamp, offset
        if offset >= 0:
            answer.leader_epoch = replica.log.epochs.at(offset)
        return answer

    def _find(
        self, replica: Replica, timestamp: int, request: ListOffsetsRequest
    ) -> tuple[int, int]:
        log = replica.log
        if request.replica_id >= 0:
            end = log.end_offset
        elif request.isolation_level == READ_COMMITTED:
            end = last_stable(log)
        else:
            end = log.high_watermark
        if timestamp == LATEST:
            _check_end_is_known(replica, request)
            return -1, end
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return -1, log.log_start_offset
        if timestamp < MAX_TIMESTAMP:
            return -1, -1
        if timestamp == MAX_TIMESTAMP:
            found = _newest(log)
        else:
            found = _first_at(log, timestamp)
        if found is None or found[1] >= end:
            _check_end_is_known(replica, request)
            return -1, -1
        return found


def _check_end_is_known(replica: Replica, request: ListOffsetsRequest) -> None:
    role = replica.role
    if request.replica_id != CONSUMER or not isinstance(role, Leading):
        return
    if replica.log.high_watermark < role.replication.start_offset:
        why = f"the new leader of {replica.partition} does not know yet what is committed"
        raise Refused(NOT_AVAILABLE, why)


def _newest(log: PartitionLog) -> tuple[int, int] | None:
    """The first record with the largest timestamp, as (timestamp, offset).

    A segment knows its largest timestamp, and with it the end of the batch that has it; which
    record of the batch it is, the batch itself says.
    """
    readable = [each for each in log.segments if each.end_offset > log.log_start_offset]
    segment = max(readable or log.segments, key=lambda each: each.max_timestamp.timestamp)
    newest = segment.max_timestamp
    found = segment.find(segment.base_offset + newest.offset)
    if newest.timestamp == NO_TIMESTAMP or found is None:
        return None
    position, header = found
    batch = segment.log.read_at(position, header.size)
    for record in few_records(batch, log.directory):
        if record.timestamp == newest.timestamp:
            return record.timestamp, record.offset
    return None


def _first_at(log: PartitionLog, timestamp: int) -> tuple[int, int] | None:
    """The first record that is not older, as (timestamp, offset).

    A segment may have millions of batches, and nobody is served meanwhile: its indexes say from
    where on one has to look.
    """
    for segment in log.segments:
        below_start = segment.end_offset <= log.log_start_offset
        if below_start or segment.max_timestamp.timestamp < timestamp:
            continue
        start = log.log_start_offset - segment.base_offset
        near = max(start, segment.times.offset_before(timestamp))
        for position, header in segment.headers(segment.offsets.position_before(near)):
            if header.max_timestamp < timestamp or header.is_control:
                continue
            batch = segment.log.read_at(position, header.size)
            for record in few_records(batch, log.directory):
                if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
                    return record.timestamp, record.offset
    return None
