"""Who answers what administrators, and the clients' own look around, ask of a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexton.node.administration import Administration
from sexton.node.alter_configs import AlterConfigs
from sexton.node.api_versions import ApiVersions
from sexton.node.auto_create import AutoCreate
from sexton.node.create_partitions import CreatePartitions
from sexton.node.create_topics import CreateTopics
from sexton.node.delete_records import DeleteRecords
from sexton.node.delete_topics import DeleteTopics
from sexton.node.describe_cluster import DescribeCluster
from sexton.node.describe_configs import DescribeConfigs
from sexton.node.describe_log_dirs import DescribeLogDirs
from sexton.node.describe_producers import DescribeProducers
from sexton.node.describe_replicas import DescribeReplicas
from sexton.node.describe_topic_partitions import DescribeTopicPartitions
from sexton.node.elect_leaders import ElectLeaders
from sexton.node.list_config_resources import ListConfigResources
from sexton.node.metadata import Metadata
from sexton.node.not_there import NotThere
from sexton.node.outside import Caller
from sexton.node.reassignments import Reassignments
from sexton.node.replicas import Replicas
from sexton.node.site import Site
from sexton.node.transaction_coordinators import TransactionCoordinators
from sexton.node.transaction_reports import TransactionReports
from sexton.node.unregister_broker import UnregisterBroker
from sexton.protocol.messages.alter_configs import AlterConfigsRequest
from sexton.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from sexton.protocol.messages.api_versions import ApiVersionsRequest
from sexton.protocol.messages.create_acls import CreateAclsRequest
from sexton.protocol.messages.create_partitions import CreatePartitionsRequest
from sexton.protocol.messages.create_topics import CreateTopicsRequest
from sexton.protocol.messages.delete_acls import DeleteAclsRequest
from sexton.protocol.messages.delete_records import DeleteRecordsRequest
from sexton.protocol.messages.delete_topics import DeleteTopicsRequest
from sexton.protocol.messages.describe_acls import DescribeAclsRequest
from sexton.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from sexton.protocol.messages.describe_cluster import DescribeClusterRequest
from sexton.protocol.messages.describe_configs import DescribeConfigsRequest
from sexton.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from sexton.protocol.messages.describe_producers import DescribeProducersRequest
from sexton.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from sexton.protocol.messages.describe_transactions import DescribeTransactionsRequest
from sexton.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from sexton.protocol.messages.elect_leaders import ElectLeadersRequest
from sexton.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from sexton.protocol.messages.list_config_resources import ListConfigResourcesRequest
from sexton.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from sexton.protocol.messages.list_transactions import ListTransactionsRequest
from sexton.protocol.messages.metadata import MetadataRequest
from sexton.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from sexton.protocol.messages.sasl_handshake import SaslHandshakeRequest
from sexton.protocol.messages.unregister_broker import UnregisterBrokerRequest
from sexton.protocol.own_messages import DescribeReplicasRequest

Handler = Callable[[Caller, Any, int], None]


def admin_handlers(
    site: Site,
    replicas: Replicas,
    ids: TransactionCoordinators,
    administration: Administration,
    auto_create: AutoCreate,
) -> dict[type, Handler]:
    configs = AlterConfigs(site, administration)
    reassignments = Reassignments(site, administration)
    reports = TransactionReports(site, ids)
    not_there = NotThere(site)
    return {
        ApiVersionsRequest: ApiVersions(site).handle,
        MetadataRequest: Metadata(site, auto_create).handle,
        DescribeClusterRequest: DescribeCluster(site).handle,
        DescribeTopicPartitionsRequest: DescribeTopicPartitions(site).handle,
        CreateTopicsRequest: CreateTopics(site, administration).handle,
        DeleteTopicsRequest: DeleteTopics(site, administration).handle,
        CreatePartitionsRequest: CreatePartitions(site, administration).handle,
        DeleteRecordsRequest: DeleteRecords(site, replicas).handle,
        DescribeConfigsRequest: DescribeConfigs(site).handle,
        AlterConfigsRequest: configs.handle,
        IncrementalAlterConfigsRequest: configs.handle_incremental,
        ListConfigResourcesRequest: ListConfigResources(site).handle,
        ElectLeadersRequest: ElectLeaders(site, administration).handle,
        AlterPartitionReassignmentsRequest: reassignments.alter,
        ListPartitionReassignmentsRequest: reassignments.list,
        DescribeLogDirsRequest: DescribeLogDirs(site, replicas).handle,
        DescribeProducersRequest: DescribeProducers(site, replicas).handle,
        DescribeReplicasRequest: DescribeReplicas(site, replicas).handle,
        DescribeTransactionsRequest: reports.describe,
        ListTransactionsRequest: reports.list,
        UnregisterBrokerRequest: UnregisterBroker(site, administration).handle,
        DescribeAclsRequest: not_there.describe_acls,
        CreateAclsRequest: not_there.create_acls,
        DeleteAclsRequest: not_there.delete_acls,
        DescribeClientQuotasRequest: not_there.describe_quotas,
        DescribeUserScramCredentialsRequest: not_there.describe_users,
        SaslHandshakeRequest: not_there.sasl_handshake,
        SaslAuthenticateRequest: not_there.sasl_authenticate,
    }
