"""A log that is emptied and copied anew is as clean as its leader's, if that one vouches for it."""

from __future__ import annotations

import uuid

from sexton.base.partitions import TopicPartition
from sexton.log.config import LogConfig
from sexton.machines import controller as admin
from sexton.machines.compaction import Leader, Progress, Removable
from sexton.node.outside import CONTROLLER
from tests.unit.node.small_cluster import CLIENT, SmallCluster

AT = TopicPartition("t", 0)


def test_where_each_cleans_for_itself_it_claims_nothing() -> None:
    """Nor if the topic is coordinated again, and this replica leads then."""
    config = LogConfig(cleanup_policy="compact", compaction_policy="independent")
    cluster = SmallCluster(2, config)
    create = admin.CreateTopic(None, AT.topic, uuid.UUID(int=7).hex, assignment=((1, 2),))
    cluster.world.send(CLIENT, CONTROLLER, create, lambda _: None, 1_000, 0)
    cluster.wait(5_000)
    replica = cluster.broker(2).replicas.get(AT)
    replica.state.progress, replica.state.removable = Progress(20, 20), Removable(20, 20)
    replica.restart_empty()
    cluster.wait(5_000)
    state, record = replica.state, replica.record
    Leader(2, record.leader_epoch + 1, record.members, state.progress, state.removable).check()
