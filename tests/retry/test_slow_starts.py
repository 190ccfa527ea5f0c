"""Somebody's transaction hangs over the group's offset: a start waits for it, and says so."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sexton.retry import OrderedRetry, tasks_io
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import PATIENCE_S


@pytest.mark.parametrize(("accept_growth", "what"), [(False, "orders"), (True, "orders-0")])
def test_a_start_that_waits_is_told(
    kafka: EmbeddedCluster,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    accept_growth: bool,
    what: str,
) -> None:
    """Before it has joined the group, where it looks for growth, and after."""
    monkeypatch.setattr(tasks_io, "SLOW_S", 0.1)
    kafka.create_topic("orders", 1)
    servers = kafka.bootstrap_servers
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "hangs"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    at = [TopicPartition("orders", 0, 0)]
    producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), PATIENCE_S)
    consumer.close()
    with OrderedRetry(
        lambda _: None, topic="orders", group="g", bootstrap_servers=servers,
        accept_growth=accept_growth,
    ) as retry:  # fmt: skip
        told = f"{what}: has been starting for "
        until(lambda: told in caplog.text, "told", PATIENCE_S / 3)
        producer.abort_transaction(PATIENCE_S)
        retry.wait_until_ready(PATIENCE_S)
        assert retry.count("starts") == 1
