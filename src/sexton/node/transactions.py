"""Transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn.

Versions 0 to 5, 0 to 5, 0 to 4 and 0 to 5, as clients and other brokers call them; the coordinator
of the id answers (`transaction_coordinators`). A producer that adds partitions may have to wait a
little (see `adding`).

Only a partition that this broker has heard of may join. So one that is not there when its
transaction ends was deleted, and needs no marker; a later coordinator has heard no less. Otherwise
it might be news that is still on its way: what was committed there would lie open, and be aborted
along with the producer's next transaction.
"""

from __future__ import annotations

from collections.abc import Callable

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import transaction_messages as machine
from sexton.machines.transaction_versions import Api, spoken, transaction_version
from sexton.node.adding import Adder
from sexton.node.auto_create import AutoCreate
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE, Coordinators
from sexton.node.outside import Caller
from sexton.node.producer_ids import ProducerIds
from sexton.node.site import Site
from sexton.node.transaction_coordinators import TransactionCoordinators
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

Errors = dict[TopicPartition, KafkaError]


class Transactions:
    def __init__(
        self,
        site: Site,
        coordinators: Coordinators,
        producer_ids: ProducerIds,
        ids: TransactionCoordinators,
        auto_create: AutoCreate,
    ) -> None:
        self._site = site
        self._coordinators = coordinators
        self._producer_ids = producer_ids
        self._ids = ids  # who runs each transactional id
        self._auto_create = auto_create

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

        failed = self._ids.request(
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
            self._ids.adding.add(
                adder, partitions, lambda error: finish(dict.fromkeys(partitions, error))
            )
            return

        def then(told: machine.AnyAnswer) -> None:
            assert isinstance(told, machine.VerifyPartitionsAnswer)
            finish(dict(told.errors))

        failed = self._ids.request(
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
        self._ids.adding.add(adder, partitions, added)

    def _not_there(self, partitions: tuple[TopicPartition, ...]) -> Errors:
        """What all of them are told if one is not there; nothing if they all are."""
        known = self._site.image.partitions
        if all(partition in known for partition in partitions):
            return {}
        others, unknown = KafkaError.OPERATION_NOT_ATTEMPTED, KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        return {p: others if p in known else unknown for p in partitions}

    def add_offsets(self, caller: Caller, request: AddOffsetsToTxnRequest, version: int) -> None:
        """The group's partition of `__consumer_offsets` joins the transaction.

        A producer looks for the group's coordinator only afterwards, so it may be the first who has
        a group at all.
        """
        if CONSUMER_OFFSETS in self._site.image.topics:
            self._add_offsets(caller, request, version)
        else:
            self._auto_create.create(
                CONSUMER_OFFSETS, lambda: self._add_offsets(caller, request, version)
            )

    def _add_offsets(self, caller: Caller, request: AddOffsetsToTxnRequest, version: int) -> None:
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
        self._ids.adding.add(adder, (of_group,), finish)

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

        failed = self._ids.request(
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
