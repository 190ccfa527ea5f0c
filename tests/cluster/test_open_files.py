"""A cluster holds many files open: a low limit is raised, and one that cannot be is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("resource")

MANY_TOPICS = """
import logging, resource, sys
from confluent_kafka import Producer
from sexton.testing import EmbeddedCluster

logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (150, int(sys.argv[1])))
with EmbeddedCluster() as cluster:
    for number in range(30):
        cluster.create_topic(f"orders-{number}", 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(30):
        for partition in range(3):
            producer.produce(f"orders-{number}", b"paid", partition=partition)
    print(producer.flush(float(sys.argv[2])))
    producer.purge()
"""


def run(hard_limit: int, patience_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MANY_TOPICS, str(hard_limit), str(patience_s)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_a_low_limit_is_raised() -> None:
    """A hundred partitions with three replicas are more than 150 files."""
    done = run(hard_limit=4096, patience_s=60)
    assert done.stdout == "0\n", done.stderr


def test_a_limit_that_cannot_be_raised_is_named() -> None:
    done = run(hard_limit=150, patience_s=1)
    assert "ulimit -n" in done.stderr, done.stderr
