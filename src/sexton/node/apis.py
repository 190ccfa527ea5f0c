"""Every API that a broker answers, with the versions it answers them in.

This table is the only place that says so: ApiVersions shows it to clients, whoever runs a node
turns away what is not in it, and a test compares it with the handlers. What is missing on purpose:
share groups and streams groups, delegation tokens, telemetry, feature updates, moving replicas
between log directories, and what only Kafka's own controllers say to each other.

Produce is advertised from version 0, as Kafka does, although older ones than 3 are refused:
librdkafka gives up on a broker otherwise (KAFKA-18659).
"""

from __future__ import annotations

from typing import Any

from sexton.base.lazy_dataclass import dataclass
from sexton.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sexton.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from sexton.protocol.messages.alter_configs import AlterConfigsRequest
from sexton.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from sexton.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest
from sexton.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sexton.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sexton.protocol.messages.create_acls import CreateAclsRequest
from sexton.protocol.messages.create_partitions import CreatePartitionsRequest
from sexton.protocol.messages.create_topics import CreateTopicsRequest
from sexton.protocol.messages.delete_acls import DeleteAclsRequest
from sexton.protocol.messages.delete_groups import DeleteGroupsRequest
from sexton.protocol.messages.delete_records import DeleteRecordsRequest
from sexton.protocol.messages.delete_topics import DeleteTopicsRequest
from sexton.protocol.messages.describe_acls import DescribeAclsRequest
from sexton.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from sexton.protocol.messages.describe_cluster import DescribeClusterRequest
from sexton.protocol.messages.describe_configs import DescribeConfigsRequest
from sexton.protocol.messages.describe_groups import DescribeGroupsRequest
from sexton.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from sexton.protocol.messages.describe_producers import DescribeProducersRequest
from sexton.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from sexton.protocol.messages.describe_transactions import DescribeTransactionsRequest
from sexton.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from sexton.protocol.messages.elect_leaders import ElectLeadersRequest
from sexton.protocol.messages.end_txn import EndTxnRequest
from sexton.protocol.messages.fetch import FetchRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.heartbeat import HeartbeatRequest
from sexton.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest
from sexton.protocol.messages.join_group import JoinGroupRequest
from sexton.protocol.messages.leave_group import LeaveGroupRequest
from sexton.protocol.messages.list_config_resources import ListConfigResourcesRequest
from sexton.protocol.messages.list_groups import ListGroupsRequest
from sexton.protocol.messages.list_offsets import ListOffsetsRequest
from sexton.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from sexton.protocol.messages.list_transactions import ListTransactionsRequest
from sexton.protocol.messages.metadata import MetadataRequest
from sexton.protocol.messages.offset_commit import OffsetCommitRequest
from sexton.protocol.messages.offset_delete import OffsetDeleteRequest
from sexton.protocol.messages.offset_fetch import OffsetFetchRequest
from sexton.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from sexton.protocol.messages.produce import ProduceRequest
from sexton.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from sexton.protocol.messages.sasl_handshake import SaslHandshakeRequest
from sexton.protocol.messages.sync_group import SyncGroupRequest
from sexton.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from sexton.protocol.messages.unregister_broker import UnregisterBrokerRequest
from sexton.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from sexton.protocol.own_messages import DescribeReplicasRequest
from sexton.protocol.wire import Request


@dataclass(frozen=True, slots=True)
class Offered:
    request: type[Request[Any]]
    first: int
    last: int
    advertised_from: int | None = None  # where that is lower than what is answered

    @property
    def key(self) -> int:
        return self.request.API_KEY

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")


OFFERED: tuple[Offered, ...] = (
    Offered(ProduceRequest, 3, 13, advertised_from=0),
    Offered(FetchRequest, 4, 18),
    Offered(ListOffsetsRequest, 1, 11),
    Offered(MetadataRequest, 0, 13),
    Offered(OffsetCommitRequest, 2, 10),
    Offered(OffsetFetchRequest, 1, 10),
    Offered(FindCoordinatorRequest, 0, 6),
    Offered(JoinGroupRequest, 0, 9),
    Offered(HeartbeatRequest, 0, 4),
    Offered(LeaveGroupRequest, 0, 5),
    Offered(SyncGroupRequest, 0, 5),
    Offered(DescribeGroupsRequest, 0, 6),
    Offered(ListGroupsRequest, 0, 5),
    Offered(SaslHandshakeRequest, 0, 1),
    Offered(ApiVersionsRequest, 0, 4),
    Offered(CreateTopicsRequest, 2, 7),
    Offered(DeleteTopicsRequest, 1, 6),
    Offered(DeleteRecordsRequest, 0, 2),
    Offered(InitProducerIdRequest, 0, 5),
    Offered(OffsetForLeaderEpochRequest, 2, 4),
    Offered(AddPartitionsToTxnRequest, 0, 5),
    Offered(AddOffsetsToTxnRequest, 0, 4),
    Offered(EndTxnRequest, 0, 5),
    Offered(WriteTxnMarkersRequest, 1, 2),
    Offered(TxnOffsetCommitRequest, 0, 5),
    Offered(DescribeAclsRequest, 1, 3),
    Offered(CreateAclsRequest, 1, 3),
    Offered(DeleteAclsRequest, 1, 3),
    Offered(DescribeConfigsRequest, 1, 4),
    Offered(AlterConfigsRequest, 0, 2),
    Offered(DescribeLogDirsRequest, 1, 5),
    Offered(SaslAuthenticateRequest, 0, 2),
    Offered(CreatePartitionsRequest, 0, 3),
    Offered(DeleteGroupsRequest, 0, 2),
    Offered(ElectLeadersRequest, 0, 2),
    Offered(IncrementalAlterConfigsRequest, 0, 1),
    Offered(AlterPartitionReassignmentsRequest, 0, 1),
    Offered(ListPartitionReassignmentsRequest, 0, 0),
    Offered(OffsetDeleteRequest, 0, 0),
    Offered(DescribeClientQuotasRequest, 0, 1),
    Offered(DescribeUserScramCredentialsRequest, 0, 0),
    Offered(DescribeClusterRequest, 0, 2),
    Offered(DescribeProducersRequest, 0, 0),
    Offered(UnregisterBrokerRequest, 0, 0),
    Offered(DescribeTransactionsRequest, 0, 0),
    Offered(ListTransactionsRequest, 0, 2),
    Offered(ConsumerGroupHeartbeatRequest, 0, 1),
    Offered(ConsumerGroupDescribeRequest, 0, 1),
    Offered(ListConfigResourcesRequest, 0, 1),
    Offered(DescribeTopicPartitionsRequest, 0, 0),
    Offered(DescribeReplicasRequest, 0, 0),  # our own
)

_BY_REQUEST: dict[type[Any], Offered] = {each.request: each for each in OFFERED}


def offers(request: type[Any], version: int) -> bool:
    """Does a broker answer this request in this version?"""
    offered = _BY_REQUEST.get(request)
    return offered is not None and offered.first <= version <= offered.last


def advertised() -> list[ApiVersion]:
    """What ApiVersions tells a client, by key."""
    return [
        ApiVersion(
            each.key,
            each.first if each.advertised_from is None else each.advertised_from,
            each.last,
        )
        for each in sorted(OFFERED, key=lambda each: each.key)
    ]
