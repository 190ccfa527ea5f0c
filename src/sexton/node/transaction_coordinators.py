"""Who runs the transactions of an id: the machine of its partition of `__transaction_state`.

One machine for each such partition that this broker leads; `machines.transactions` decides. Here is
what it has around it: its log, read when the broker takes over and written before anyone is told;
producer ids; and the markers' way to the leaders of the partitions that took part:

    request ──▶ machine ──▶ append ──▶ replicated ──▶ machine ──▶ answer
                                                         └──────▶ markers ──▶ leaders

A partition that is not there when its transaction ends was deleted, and needs no marker: it was
there when it joined (see `transactions`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import transaction_messages as machine
from sexton.machines.transaction_entries import TransactionConfig
from sexton.machines.transaction_log import from_bytes, to_bytes
from sexton.machines.transaction_states import Tombstone, TransactionRecord
from sexton.machines.transactions import Coordinator
from sexton.node.adding import Adding, Make, Then
from sexton.node.coordinators import TRANSACTION_STATE, Coordinators, stored_batches
from sexton.node.messages import WriteMarkers
from sexton.node.producer_ids import ProducerIds
from sexton.node.replica import Replica
from sexton.node.site import Site
from sexton.node.waking import Waking
from sexton.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from sexton.records.few import few_batch, few_records


class TransactionCoordinators:
    def __init__(self, site: Site, coordinators: Coordinators, producer_ids: ProducerIds) -> None:
        self._site = site
        self._coordinators = coordinators
        self._producer_ids = producer_ids
        self.machines: dict[TopicPartition, Coordinator] = {}
        self.adding = Adding(site, self.request)
        self._waking = Waking(site, lambda at: self._tell(at, machine.Tick()))
        coordinators.keep(TRANSACTION_STATE, self._load, self._unload)

    # ── what is asked of them ──

    def request(self, transactional_id: str, make: Make, then: Then) -> KafkaError:
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

    def list_all(self, event: machine.List) -> list[machine.ListAnswer]:
        """From every coordinator on this broker."""
        answers: list[machine.ListAnswer] = []
        for partition in sorted(self.machines):
            self._tell(partition, replace(event, caller=answers.append))
        return answers

    def check(self) -> None:
        for coordinator in self.machines.values():
            coordinator.check()

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
            self.adding.stepped(record.transactional_id)  # it hears of it after the machine
            return

        def replicated(error: KafkaError) -> None:
            if error == KafkaError.NONE and self.machines.get(partition) is coordinator:
                self._tell(partition, machine.Appended(token))
                self.adding.stepped(record.transactional_id)

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
            errors: dict[TopicPartition, KafkaError] = {}
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
