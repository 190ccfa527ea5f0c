"""A running Apache Kafka is not to be cleaned behind its back."""

from __future__ import annotations

import pytest

from sexton.testing.apache_kafka import ApacheKafka
from tests.conftest import RunSexton

pytestmark = pytest.mark.kafka


def test_the_directory_of_a_running_broker_is_refused(
    kafka4: ApacheKafka, run_sexton: RunSexton
) -> None:
    kafka4.admin.create_topic("held", configs={"cleanup.policy": "compact"})
    partition = kafka4.data_directory(1) / "held-0"
    refused = run_sexton("log", "clean", str(partition))
    assert refused.code == 2
    assert "in use by a running broker" in refused.stderr
    assert run_sexton("log", "clean", "--dry-run", str(partition)).code == 0
