"""One broker: its parts, and who answers which call.

    registration   its place in the cluster, and news of it
    replicas       its logs and their roles        cleaning, coordination   what may be forgotten
    transactions   of the ids it coordinates       offsets                  of the groups it keeps

`handle` runs to its end for every event and returns what is to be done outside. Whoever has several
events at hand tells them one by one (`hear`) and asks once what is to be done (`settle`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from sexton.log.directory import DataDirectory
from sexton.log.disk import Disk
from sexton.machines.metadata import Image
from sexton.node.admin_apis import admin_handlers
from sexton.node.administration import Administration
from sexton.node.auto_create import AutoCreate
from sexton.node.cleaning import Cleaning
from sexton.node.config import BrokerConfig
from sexton.node.coordination import Coordination
from sexton.node.coordinators import Coordinators
from sexton.node.fetch import Fetch
from sexton.node.find_coordinator import FindCoordinator
from sexton.node.group_admin import GroupAdmin
from sexton.node.group_offset_fetch import GroupOffsetFetch
from sexton.node.group_offsets import GroupOffsets
from sexton.node.groups import Groups
from sexton.node.list_offsets import ListOffsets
from sexton.node.messages import (
    AnnounceRemovable,
    CleanNow,
    CollectProgress,
    ConferNow,
    LeaveCluster,
    RegisterReplicas,
    WriteMarkers,
)
from sexton.node.offset_for_leader_epoch import OffsetForLeaderEpoch
from sexton.node.outside import Answered, Asked, Caller, Effect, Event, Left, Outside, Ran, Woken
from sexton.node.produce import Produce
from sexton.node.producer_ids import ProducerIds
from sexton.node.registration import Registration
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.node.transaction_coordinators import TransactionCoordinators
from sexton.node.transactions import Transactions
from sexton.node.write_txn_markers import WriteTxnMarkers
from sexton.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sexton.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from sexton.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sexton.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sexton.protocol.messages.delete_groups import DeleteGroupsRequest
from sexton.protocol.messages.describe_groups import DescribeGroupsRequest
from sexton.protocol.messages.end_txn import EndTxnRequest
from sexton.protocol.messages.fetch import FetchRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.heartbeat import HeartbeatRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.join_group import JoinGroupRequest
from sexton.protocol.messages.leave_group import LeaveGroupRequest
from sexton.protocol.messages.list_groups import ListGroupsRequest
from sexton.protocol.messages.list_offsets import ListOffsetsRequest
from sexton.protocol.messages.offset_commit import OffsetCommitRequest
from sexton.protocol.messages.offset_delete import OffsetDeleteRequest
from sexton.protocol.messages.offset_fetch import OffsetFetchRequest
from sexton.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from sexton.protocol.messages.produce import ProduceRequest
from sexton.protocol.messages.sync_group import SyncGroupRequest
from sexton.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from sexton.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

Handler = Callable[[Caller, Any, int], None]


class Broker:
    def __init__(
        self, config: BrokerConfig, disk: Disk, random: Random, now_ms: int, clock_ms: int
    ) -> None:
        directory = DataDirectory.open(disk, lambda _partition: config.log, now_ms)
        self.site = site = Site(config, Outside(now_ms, clock_ms), directory, random, Image())
        self.replicas = replicas = Replicas(site)
        self.coordination = Coordination(site, replicas)
        self.cleaning = Cleaning(site, replicas)
        self.coordinators = coordinators = Coordinators(site, replicas)
        self.administration = administration = Administration(site)
        self.auto_create = auto_create = AutoCreate(site, administration)
        self.producer_ids = ProducerIds(site)
        self.transaction_ids = ids = TransactionCoordinators(site, coordinators, self.producer_ids)
        self.transactions = Transactions(site, coordinators, self.producer_ids, ids, auto_create)
        self.groups = groups = Groups(site, coordinators)
        self.offsets = GroupOffsets(site, coordinators, groups, self.transactions.verify)
        group_admin = GroupAdmin(site, coordinators, groups, self.offsets)
        self.produce = Produce(site, replicas, self.transactions.verify)
        self.registration = Registration(site, replicas, self._image_changed)
        self._fetch = Fetch(site, replicas)
        markers = WriteTxnMarkers(site, replicas, self.offsets, self.produce)
        self._handlers: dict[type, Handler] = {
            ProduceRequest: self.produce.handle,
            FetchRequest: self._fetch.handle,
            ListOffsetsRequest: ListOffsets(site, replicas).handle,
            OffsetForLeaderEpochRequest: OffsetForLeaderEpoch(site, replicas).handle,
            FindCoordinatorRequest: FindCoordinator(site, coordinators, auto_create).handle,
            InitProducerIdRequest: self.transactions.init_producer_id,
            AddPartitionsToTxnRequest: self.transactions.add_partitions,
            AddOffsetsToTxnRequest: self.transactions.add_offsets,
            EndTxnRequest: self.transactions.end,
            WriteTxnMarkersRequest: markers.handle,
            WriteMarkers: markers.of_coordinator,
            OffsetCommitRequest: self.offsets.commit,
            TxnOffsetCommitRequest: self.offsets.commit_in_transaction,
            OffsetFetchRequest: GroupOffsetFetch(site, groups, self.offsets).handle,
            OffsetDeleteRequest: group_admin.delete_offsets,
            JoinGroupRequest: groups.handle,
            SyncGroupRequest: groups.handle,
            HeartbeatRequest: groups.handle,
            LeaveGroupRequest: groups.handle,
            ConsumerGroupHeartbeatRequest: groups.handle,
            ConsumerGroupDescribeRequest: group_admin.describe_consumers,
            DescribeGroupsRequest: group_admin.describe,
            ListGroupsRequest: group_admin.list,
            DeleteGroupsRequest: group_admin.delete,
            **admin_handlers(site, replicas, ids, administration, auto_create),
            RegisterReplicas: lambda c, request, _version: self.coordination.register(c, request),
            CollectProgress: lambda c, request, _version: self.coordination.collect(c, request),
            CleanNow: lambda c, request, _version: self.cleaning.clean_now(c, request),
            ConferNow: lambda c, _request, _version: self.coordination.confer_now(c),
            AnnounceRemovable: lambda c, request, _version: self.coordination.announce(c, request),
            LeaveCluster: self.registration.leave,
        }

    def _image_changed(self) -> None:
        self.coordinators.reconcile()
        self.groups.image_changed()
        self.offsets.image_changed()
        self.administration.changed()

    def start(self) -> list[Effect]:
        self.registration.register()
        self.replicas.start_timers()
        self.coordination.start()
        self.cleaning.start()
        self.offsets.start()
        return self.site.outside.take_effects()

    def handle(self, event: Event, now_ms: int, clock_ms: int) -> list[Effect]:
        self.hear(event, now_ms, clock_ms)
        return self.settle()

    def hear(self, event: Event, now_ms: int, clock_ms: int) -> None:
        """One of several events; `settle` ends them all."""
        outside = self.site.outside
        outside.now_ms, outside.clock_ms = now_ms, clock_ms
        match event:
            case Asked(caller, request, version):
                self._handlers[type(request)](caller, request, version)
            case Answered(token, response):
                outside.came_back(token, response)
            case Ran(token, result):
                outside.came_back(token, result)
            case Woken():
                outside.woken()
            case Left(caller):
                self._fetch.left(caller)
        while (action := outside.due()) is not None:
            action()

    def settle(self) -> list[Effect]:
        """What is to be done. A fetch that waited gets what several writers wrote in one answer."""
        stirred = self.site.stirred
        while stirred:
            stirred.popitem()[0].tell_watchers()
        return self.site.outside.take_effects()

    def close(self, now_ms: int) -> None:
        """Leaves the logs in good order; the next start needs no recovery."""
        self.site.directory.close(now_ms, self.site.broker_epoch)

    def check(self) -> None:
        self.replicas.check()
        self.transaction_ids.check()
        self.groups.check()
        self.offsets.check()
