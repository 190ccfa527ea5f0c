"""Produce: batches from clients, appended and acknowledged.

Versions 3 to 13; from 12 on a transactional client leaves it to the partition's leader to add the
partition to its transaction (TV2, KIP-890).

    acks 0    no answer           acks 1   appended here           acks -1   the whole ISR has it
              but to an error

When a request's time is up, each of its partitions that is settled is answered with what came of
it, and the others with REQUEST_TIMED_OUT: what was not replicated in time may still be.

The first batch of a transaction in a partition is appended only after the transaction's coordinator
has said that the transaction is ongoing there. Otherwise a batch that was delayed on the network
could open a transaction that nobody will ever end, and hold up every read_committed reader. A batch
that is refused meanwhile is sent again, and what came behind it must not be written before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.node.outside import Caller
from sexton.node.replica import Replica
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.node.verification import Question, Verification, Verified, Verify, is_open
from sexton.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from sexton.protocol.wire import Buffer
from sexton.records.layout import HEADER_BYTES, BatchHeader

IMPLICIT_ADD_VERSION = 12
ABORTABLE_VERSION = 11  # the first that knows TRANSACTION_ABORTABLE
WATCH_MS = 250  # how often requests that wait are looked at
MOST_SENT_AWAY = 10_000  # of whom something is remembered; they come again within a second
CURRENT_LEADER_VERSION = 10  # from here on an answer can say who leads, and where
TOPIC_ID_VERSION = 13  # from here on topics are named by id
UNSETTLED = KafkaError.REQUEST_TIMED_OUT  # what a partition's answer says until it is settled

_Key = tuple[TopicPartition, int]  # a producer in a partition


@dataclass(slots=True, eq=False)
class _Call:
    """One request until all its partitions are settled; its records are not kept with it."""

    caller: Caller
    acks: int
    transactional_id: str | None
    deadline_ms: int
    response: ProduceResponse
    version: int
    left: int = 0
    sent: bool = False


@dataclass(frozen=True, slots=True)
class _SentAway:
    """A first batch that the coordinator did not agree to, or not yet.

    It comes again to whoever leads then. What another leader has taken is in the log when this one
    leads once more: nothing of an earlier term is waited for.
    """

    term: int  # the partition's leader epoch
    epoch: int
    sequence: int

    def order(self) -> tuple[int, int, int]:
        """The one to remember of several is the highest."""
        return self.term, self.epoch, -self.sequence


class Produce:
    def __init__(self, site: Site, replicas: Replicas, verify: Verify) -> None:
        self._site = site
        self._replicas = replicas
        self._verification = Verification(verify)
        self._sent_away: dict[_Key, _SentAway] = {}  # oldest first
        self._waiting: dict[_Call, None] = {}  # for the ISR
        self._watching = False  # whether somebody of them has waited for too long

    def handle(self, caller: Caller, request: ProduceRequest, version: int) -> None:
        deadline_ms = self._site.clock_ms + request.timeout_ms
        call = _Call(
            caller, request.acks, request.transactional_id, deadline_ms, ProduceResponse(), version
        )
        wanted: list[tuple[TopicPartition, Buffer, PartitionProduceResponse]] = []
        for topic in request.topic_data:
            name = topic.name or self._site.topic_name(topic.topic_id)
            answered = TopicProduceResponse(name=name, topic_id=topic.topic_id)
            call.response.responses.append(answered)
            for data in topic.partition_data:
                result = PartitionProduceResponse(data.index, UNSETTLED, base_offset=-1)
                answered.partition_responses.append(result)
                records = data.records if data.records is not None else b""
                wanted.append((TopicPartition(name, data.index), records, result))
        call.left = len(wanted)
        for partition, records, result in wanted:
            self._take(call, partition, records, result, version)
        if not wanted:
            self._send(call)
        if request.acks == -1 and not call.sent:
            self._waiting[call] = None
            self._watch()

    def ended(self, partition: TopicPartition, producer_id: int) -> None:
        """A marker was appended."""
        self._verification.ended(partition, producer_id)

    def _take(
        self,
        call: _Call,
        partition: TopicPartition,
        records: Buffer,
        result: PartitionProduceResponse,
        version: int,
    ) -> None:
        def append(verified: KafkaError) -> None:
            if verified != KafkaError.NONE:
                self._settle(call, result, verified)
                return
            try:
                self._append(call, partition, records, result)
            except Refused as refused:
                self._refuse(call, partition, result, refused)

        try:
            if version >= TOPIC_ID_VERSION and not partition.topic:
                raise Refused(KafkaError.UNKNOWN_TOPIC_ID, "no topic has this id")
            replica, _role = self._replicas.led(partition)
            if call.acks not in (-1, 0, 1):
                why = f"acks is {call.acks}, not -1, 0 or 1"
                raise Refused(KafkaError.INVALID_REQUIRED_ACKS, why)
            header = _first_header(records)
            if header.is_transactional:
                if call.transactional_id is None:  # then nobody could be asked about it
                    why = "a transactional batch comes with a transactional id"
                    raise Refused(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, why)
                self._append_verified(call, replica, header, version, append)
            else:
                append(KafkaError.NONE)
        except Refused as refused:
            self._refuse(call, partition, result, refused)

    def _append_verified(
        self, call: _Call, replica: Replica, header: BatchHeader, version: int, append: Verified
    ) -> None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        key = (replica.partition, producer_id)

        def in_turn(error: KafkaError) -> None:
            if error == KafkaError.NONE and not is_open(replica, producer_id, epoch):
                error = self._check_first(key, replica.leader_epoch, header, version)
            self._remember(key, replica.leader_epoch, header, error)
            append(error)

        question = Question(
            call.transactional_id or "", producer_id, epoch,
            adds=version >= IMPLICIT_ADD_VERSION, knows_abortable=version >= ABORTABLE_VERSION,
        )  # fmt: skip
        self._verification.ask(replica, question, in_turn)

    def _check_first(self, key: _Key, term: int, header: BatchHeader, version: int) -> KafkaError:
        """May a transaction begin here with this batch? Not if it was sent behind another one.

        A log that knows the producer would notice; to one that does not, any sequence may be next.
        """
        first, before = header.base_sequence, self._sent_away.get(key)
        if version >= IMPLICIT_ADD_VERSION:
            first = 0  # every transaction has an epoch of its own
        elif before is not None and (before.term, before.epoch) == (term, header.producer_epoch):
            first = before.sequence
        if header.base_sequence > first:
            return KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        return KafkaError.NONE

    def _remember(self, key: _Key, term: int, header: BatchHeader, error: KafkaError) -> None:
        """The earliest batch that was sent away in a term, until one is not."""
        if error == KafkaError.NONE:
            self._sent_away.pop(key, None)
            return
        this = _SentAway(term, header.producer_epoch, header.base_sequence)
        before = self._sent_away.pop(key, this)
        self._sent_away[key] = max(this, before, key=_SentAway.order)
        if len(self._sent_away) > MOST_SENT_AWAY:
            del self._sent_away[next(iter(self._sent_away))]

    def _append(
        self,
        call: _Call,
        partition: TopicPartition,
        records: Buffer,
        result: PartitionProduceResponse,
    ) -> None:
        replica, _role = self._replicas.led(partition)
        waits = call.acks == -1
        done = replica.append(records, waits=waits)
        log_start_offset = replica.log.log_start_offset

        def acknowledged(error: KafkaError) -> None:
            if error == KafkaError.NONE and waits:
                error = self._enough_replicas(replica)
            if error == KafkaError.NONE and not call.sent:
                result.base_offset = done.first_offset
                result.log_append_time_ms = done.append_time_ms
                result.log_start_offset = log_start_offset
            self._settle(call, result, error)

        if waits:
            replica.acknowledge(done.last_offset, acknowledged)
        else:
            acknowledged(KafkaError.NONE)

    def _enough_replicas(self, replica: Replica) -> KafkaError:
        if replica.in_sync < self._site.min_insync_replicas(replica.partition):
            return KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return KafkaError.NONE

    def _refuse(
        self,
        call: _Call,
        partition: TopicPartition,
        result: PartitionProduceResponse,
        refused: Refused,
    ) -> None:
        if call.sent:
            return
        result.error_message = refused.why
        record = self._site.image.partitions.get(partition)
        moved = refused.error == KafkaError.NOT_LEADER_OR_FOLLOWER
        if moved and record is not None and call.version >= CURRENT_LEADER_VERSION:
            result.current_leader = LeaderIdAndEpoch(record.leader, record.leader_epoch)
            self._say_where(call.response, record.leader)
        self._settle(call, result, refused.error)

    def _say_where(self, response: ProduceResponse, leader: int) -> None:
        """Once, however many partitions it leads: a client may never have heard of it."""
        endpoint = self._site.endpoint_of(leader)
        if endpoint is not None and NodeEndpoint(*endpoint) not in response.node_endpoints:
            response.node_endpoints.append(NodeEndpoint(*endpoint))

    def _settle(self, call: _Call, result: PartitionProduceResponse, error: KafkaError) -> None:
        if call.sent:
            return  # too late, and what was given away stays as it is
        result.error_code = error
        call.left -= 1
        if call.left == 0:
            self._send(call)

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self._site.outside.after(WATCH_MS, self._time_out_late)

    def _time_out_late(self) -> None:
        self._watching = False
        for call in [c for c in self._waiting if c.deadline_ms <= self._site.clock_ms]:
            self._send(call)
        if self._waiting:
            self._watch()

    def _send(self, call: _Call) -> None:
        if not call.sent and (call.acks != 0 or errors_in(call.response)):
            self._site.outside.answer(call.caller, call.response)
        call.sent = True
        self._waiting.pop(call, None)


def errors_in(response: ProduceResponse) -> set[str]:
    """The names of what went wrong, in any of its partitions."""
    results = (each for topic in response.responses for each in topic.partition_responses)
    return {KafkaError(each.error_code).name for each in results if each.error_code}


def _first_header(records: Buffer) -> BatchHeader:
    if len(records) < HEADER_BYTES:
        raise Refused(KafkaError.CORRUPT_MESSAGE, f"{len(records)} bytes are no record batch")
    return BatchHeader.unpack(records)
