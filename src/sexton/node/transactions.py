"""Transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn.

Versions 0 to 5, 0 to 5, 0 to 4 and 0 to 5. `machines.transactions` decides, one machine for each
partition of `__transaction_state` that this broker leads; here are its log, its markers' way to the
brokers, and the calls of clients and of other brokers. Who adds partitions may have to wait a
little (see `adding`).

Only a partition that this broker has heard of may join. So one that is not there when its
transaction ends was deleted, and needs no marker; a later coordinator has heard no less. Otherwise
it might be news that is still on its way: what was committed there would lie open, and be aborted
along with the producer's next transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import transaction_messages as machine
from sexton.machines.transaction_entries import TransactionConfig
from sexton.machines.transaction_log import from_bytes, to_bytes
from sexton.machines.transaction_states import Tombstone, TransactionRecord
from sexton.machines.transaction_versions import Api, spoken, transaction_version
from sexton.machines.transactions import Coordinator
from sexton.node.adding import Adder, Adding
from sexton.node.coordinators import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    Coordinators,
    stored_batches,
)
from sexton.node.messages import WriteMarkers
from sexton.node.outside import Caller
from sexton.node.producer_ids import ProducerIds
from sexton.node.replica import Replica
from sexton.node.site import Site
from sexton.node.waking import Waking
from sexton.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from sexton.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from sexton.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from sexton.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from sexton.records.few import few_batch, few_records

Then = Callable[[machine.AnyAnswer], None]
Errors = dict[TopicPartition, KafkaError]


class Transactions:
    def __init__(self, site: Site, coordinators: Coordinators, producer_ids: ProducerIds) -> None:
        self._site = site
        self._coordinators = coordinators
        self._producer_ids = producer_ids
        self.machines: dict[TopicPartition, Coordinator] = {}
        self._waking = Waking(site, lambda at: self._tell(at, machine.Tick()))
        self._adding = Adding(site, self.request)
        coordinators.keep(TRANSACTION_STATE, self._load, self._unload)

    # ── taking over and handing over ──

    def _load(self, replica: Replica) -> None:
        config = self._site.config
        coordinator = Coordinator(
            TransactionConfig(
                transaction_max_timeout_ms=config.transaction_max_timeout_ms,
                transactional_id_expiration_ms=config.transactional_id_expiration_ms,
                retry_ms=config.retry_backoff_ms,
            )
        )
        self.machines[replica.partition] = coordinator
        where = str(replica.partition)
        found = (
            from_bytes(record.key, record.value, where)
            for _header, batch in stored_batches(replica.log)
            for record in few_records(batch, where)
        )
        records = [record for record in found if record is not None]
        self._tell(replica.partition, machine.Load(records, replica.leader_epoch))

    def _unload(self, partition: TopicPartition) -> None:
        if partition in self.machines:
            self._tell(partition, machine.Unload())
            del self.machines[partition]
            self._waking.forget(partition)

    def _tell(self, partition: TopicPartition, event: machine.Event) -> None:
        coordinator = self.machines.get(partition)
        if coordinator is None:
            return
        for effect in coordinator.handle(event, self._site.now_ms):
            match effect:
                case machine.Append(token, record):
                    self._append(partition, token, record)
                case machine.Answer(caller, answer):
                    cast("Then", caller)(answer)
                case machine.SendMarkers():
                    self._send_markers(partition, effect)
                case machine.NeedProducerId(token):
                    self._need_producer_id(partition, token)
                case machine.WakeAt(at_ms):
                    self._waking.after(partition, at_ms - self._site.now_ms)

    # ── what the machine wants done ──

    def _append(
        self,
        partition: TopicPartition,
        token: int,
        record: TransactionRecord | Tombstone,
    ) -> None:
        coordinator = self.machines[partition]
        try:
            replica = self._coordinators.replica(partition)
            batch = few_batch([to_bytes(record)], self._site.now_ms)
            done = replica.append(batch, client=False)
        except Refused as refused:
            self._soon(partition, coordinator, machine.AppendFailed(token, refused.error))
            self._adding.stepped(record.transactional_id)  # it hears of it after the machine
            return

        def replicated(error: KafkaError) -> None:
            if error == KafkaError.NONE and self.machines.get(partition) is coordinator:
                self._tell(partition, machine.Appended(token))
                self._adding.stepped(record.transactional_id)

        replica.acknowledge(done.last_offset, replicated)

    def _soon(
        self, partition: TopicPartition, coordinator: Coordinator, event: machine.Event
    ) -> None:
        """Not from within the machine's own step."""

        def tell() -> None:
            if self.machines.get(partition) is coordinator:
                self._tell(partition, event)

        self._site.outside.after(0, tell)

    def _need_producer_id(self, partition: TopicPartition, token: int) -> None:
        coordinator = self.machines[partition]

        def granted(producer_id: int | None) -> None:
            event: machine.Event
            if producer_id is None:
                event = machine.ProducerIdFailed(token, KafkaError.COORDINATOR_NOT_AVAILABLE)
            else:
                event = machine.ProducerIdGranted(token, producer_id)
            self._soon(partition, coordinator, event)

        self._producer_ids.grant(granted)

    def _send_markers(self, partition: TopicPartition, effect: machine.SendMarkers) -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        for target in effect.partitions:
            leader = self._coordinators.leader_of(target)
            by_leader.setdefault(leader, []).append(target)
        for leader, targets in sorted(by_leader.items()):
            if leader >= 0:
                self._send_to(partition, effect, leader, targets)
                continue
            for target in targets:
                gone = target not in self._site.image.partitions  # it was there when it joined
                error = None if gone else KafkaError.LEADER_NOT_AVAILABLE
                coordinator = self.machines[partition]
                written = machine.MarkersWritten(effect.token, target, error)
                self._soon(partition, coordinator, written)

    def _send_to(
        self,
        partition: TopicPartition,
        effect: machine.SendMarkers,
        leader: int,
        targets: list[TopicPartition],
    ) -> None:
        coordinator = self.machines[partition]
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for target in targets:
            entry = topics.setdefault(target.topic, WritableTxnMarkerTopic(name=target.topic))
            entry.partition_indexes.append(target.partition)
        marker = WritableTxnMarker(
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            transaction_result=effect.commit,
            topics=list(topics.values()),
            coordinator_epoch=effect.coordinator_epoch,
            transaction_version=effect.version,
        )

        def then(answer: object | None) -> None:
            errors: Errors = {}
            if isinstance(answer, WriteTxnMarkersResponse):
                for told in answer.markers:
                    for topic in told.topics:
                        for one in topic.partitions:
                            where = TopicPartition(topic.name, one.partition_index)
                            errors[where] = KafkaError(one.error_code)
            for target in targets:
                error = errors.get(target, KafkaError.NETWORK_EXCEPTION)
                if self.machines.get(partition) is coordinator:
                    failed = None if error == KafkaError.NONE else error
                    written = machine.MarkersWritten(effect.token, target, failed)
                    self._tell(partition, written)

        epochs = tuple((at, self._site.image.partitions[at].leader_epoch) for at in targets)
        request = WriteMarkers(WriteTxnMarkersRequest(markers=[marker]), effect.token, epochs)
        timeout = self._site.config.request_timeout_ms
        self._site.outside.ask(leader, request, then, timeout)

    # ── calls ──

    def request(
        self, transactional_id: str, make: Callable[[Then], machine.Request], then: Then
    ) -> KafkaError:
        """Hands a request to the machine of this id; an error if it is not here."""
        try:
            partition = self._coordinators.partition_of(TRANSACTION_STATE, transactional_id)
            self._coordinators.replica(partition)
        except Refused as refused:
            if refused.error == KafkaError.COORDINATOR_NOT_AVAILABLE:
                return refused.error
            return KafkaError.NOT_COORDINATOR
        if partition not in self.machines:
            return KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        self._tell(partition, make(then))
        return KafkaError.NONE

    @property
    def loading(self) -> bool:
        """Does this broker coordinate ids of which it has not read everything yet?"""
        partitions = self._site.image.partitions_of(TRANSACTION_STATE).values()
        return any(
            record.leader == self._site.node and record.at not in self.machines
            for record in partitions
        )

    def list(self, event: machine.List) -> list[machine.ListAnswer]:
        """From every coordinator on this broker."""
        answers: list[machine.ListAnswer] = []
        for partition in sorted(self.machines):
            self._tell(partition, replace(event, caller=answers.append))
        return answers

    def init_producer_id(
        self, caller: Caller, request: InitProducerIdRequest, version: int
    ) -> None:
        answer = self._site.outside.answer
        if request.transactional_id is None:
            self._idempotent(caller)
            return
        transactional_id = request.transactional_id

        def then(told: machine.AnyAnswer) -> None:
            assert isinstance(told, machine.InitProducerIdAnswer)
            error = spoken(told.error, Api.INIT_PRODUCER_ID, version)
            answer(
                caller,
                InitProducerIdResponse(
                    error_code=error, producer_id=told.producer_id, producer_epoch=told.epoch
                ),
            )

        failed = self.request(
            transactional_id,
            lambda then: machine.InitProducerId(
                then, transactional_id, request.transaction_timeout_ms, request.producer_id,
                request.producer_epoch,
            ),
            then,
        )  # fmt: skip
        if failed:
            answer(caller, InitProducerIdResponse(error_code=failed, producer_epoch=-1))

    def _idempotent(self, caller: Caller) -> None:
        def granted(producer_id: int | None) -> None:
            response = (
                InitProducerIdResponse(
                    error_code=KafkaError.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1
                )
                if producer_id is None
                else InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
            )
            self._site.outside.answer(caller, response)

        self._producer_ids.grant(granted)

    def add_partitions(
        self, caller: Caller, request: AddPartitionsToTxnRequest, version: int
    ) -> None:
        """By a client, one transaction; or by brokers, several at once."""
        if not request.transactions:
            self._add_for_client(caller, request, version)
            return
        response = AddPartitionsToTxnResponse()
        left = len(request.transactions)

        def settled() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._site.outside.answer(caller, response)

        for one in request.transactions:
            result = AddPartitionsToTxnResult(transactional_id=one.transactional_id)
            response.results_by_transaction.append(result)
            self._add_for_broker(one, result, settled)

    def _add_for_broker(
        self,
        one: AddPartitionsToTxnTransaction,
        result: AddPartitionsToTxnResult,
        settled: Callable[[], None],
    ) -> None:
        partitions = _partitions(one.topics)

        def finish(errors: Errors) -> None:
            result.topic_results = _results(one.topics, errors)
            settled()

        if not one.verify_only:
            if not_there := self._not_there(partitions):
                finish(not_there)
                return
            version = transaction_version(Api.ADD_PARTITIONS_TO_TXN, 5)
            adder = Adder(one.transactional_id, one.producer_id, one.producer_epoch, version)
            self._adding.add(
                adder, partitions, lambda error: finish(dict.fromkeys(partitions, error))
            )
            return

        def then(told: machine.AnyAnswer) -> None:
            assert isinstance(told, machine.VerifyPartitionsAnswer)
            finish(dict(told.errors))

        failed = self.request(
            one.transactional_id,
            lambda then: machine.VerifyPartitions(
                then, one.transactional_id, one.producer_id, one.producer_epoch, partitions
            ),
            then,
        )
        if failed:
            finish(dict.fromkeys(partitions, failed))

    def _add_for_client(
        self, caller: Caller, request: AddPartitionsToTxnRequest, version: int
    ) -> None:
        topics = request.v3_and_below_topics
        partitions = _partitions(topics)

        def finish(errors: Errors) -> None:
            results = _results(topics, errors)
            response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
            self._site.outside.answer(caller, response)

        def added(error: KafkaError) -> None:
            word = spoken(error, Api.ADD_PARTITIONS_TO_TXN, version)
            finish(dict.fromkeys(partitions, word))

        if not_there := self._not_there(partitions):
            finish(not_there)
            return
        adder = Adder(
            request.v3_and_below_transactional_id, request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            transaction_version(Api.ADD_PARTITIONS_TO_TXN, min(version, 3)),
        )  # fmt: skip
        self._adding.add(adder, partitions, added)

    def _not_there(self, partitions: tuple[TopicPartition, ...]) -> Errors:
        """What all of them are told if one is not there; nothing if they all are."""
        known = self._site.image.partitions
        if all(partition in known for partition in partitions):
            return {}
        others, unknown = KafkaError.OPERATION_NOT_ATTEMPTED, KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        return {p: others if p in known else unknown for p in partitions}

    def add_offsets(self, caller: Caller, request: AddOffsetsToTxnRequest, version: int) -> None:
        """The group's partition of `__consumer_offsets` joins the transaction."""

        def finish(error: KafkaError) -> None:
            word = spoken(error, Api.ADD_OFFSETS_TO_TXN, version)
            self._site.outside.answer(caller, AddOffsetsToTxnResponse(error_code=word))

        try:
            of_group = self._coordinators.partition_of(CONSUMER_OFFSETS, request.group_id)
        except Refused as refused:
            finish(refused.error)
            return
        adder = Adder(
            request.transactional_id, request.producer_id, request.producer_epoch,
            transaction_version(Api.ADD_PARTITIONS_TO_TXN, 0),
        )  # fmt: skip
        self._adding.add(adder, (of_group,), finish)

    def end(self, caller: Caller, request: EndTxnRequest, version: int) -> None:
        def then(told: machine.AnyAnswer) -> None:
            assert isinstance(told, machine.EndTransactionAnswer)
            error = spoken(told.error, Api.END_TXN, version)
            self._site.outside.answer(
                caller,
                EndTxnResponse(
                    error_code=error, producer_id=told.producer_id, producer_epoch=told.epoch
                ),
            )

        failed = self.request(
            request.transactional_id,
            lambda then: machine.EndTransaction(
                then, request.transactional_id, request.producer_id, request.producer_epoch,
                request.committed, transaction_version(Api.END_TXN, version),
            ),
            then,
        )  # fmt: skip
        if failed:
            self._site.outside.answer(caller, EndTxnResponse(error_code=failed))

    # ── asked by this broker as the leader of a partition ──

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        adds: bool,
        verified: Callable[[KafkaError], None],
    ) -> None:
        """Is this partition in the transaction? With `adds`, it is from now on."""
        try:
            where = self._coordinators.partition_of(TRANSACTION_STATE, transactional_id)
        except Refused as refused:
            verified(refused.error)
            return
        leader = self._coordinators.leader_of(where)
        if leader < 0:
            verified(KafkaError.NOT_ENOUGH_REPLICAS)  # which clients retry
            return
        one = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=not adds,
            topics=[AddPartitionsToTxnTopic(partition.topic, [partition.partition])],
        )

        def then(answer: object | None) -> None:
            verified(_verdict(answer))

        request = AddPartitionsToTxnRequest(transactions=[one])
        timeout = self._site.config.request_timeout_ms
        self._site.outside.ask(leader, request, then, timeout)

    def check(self) -> None:
        for coordinator in self.machines.values():
            coordinator.check()


def _verdict(answer: object | None) -> KafkaError:
    """What a producer is told. Errors of the way to the coordinator become one it will retry."""
    if not isinstance(answer, AddPartitionsToTxnResponse):
        return KafkaError.NOT_ENOUGH_REPLICAS
    codes = [
        one.partition_error_code
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for one in topic.results_by_partition
    ]
    error = KafkaError(codes[0]) if codes else KafkaError(answer.error_code)
    on_the_way = (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,  # it has yet to hear of what is led here
    )
    return KafkaError.NOT_ENOUGH_REPLICAS if error in on_the_way else error


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.name, n) for topic in topics for n in topic.partitions)


def _results(
    topics: list[AddPartitionsToTxnTopic], errors: Errors
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(n, errors[TopicPartition(topic.name, n)])
                for n in topic.partitions
            ],
        )
        for topic in topics
    ]
