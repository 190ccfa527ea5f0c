"""Three brokers for each file of tests, shared by all of its tests: every test has its own topics.

A test that kills brokers or changes them starts a cluster of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sexton.testing.embedded import EmbeddedCluster

# Members of a group hear of a change with their next heartbeat: let that be soon.
SOON = {
    "group.consumer.heartbeat.interval.ms": 100,
    "group.min.session.timeout.ms": 1000,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, options=SOON) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> str:
    """A topic with two partitions of three replicas, named after the test."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    cluster.create_topic(name, 2)
    return name
