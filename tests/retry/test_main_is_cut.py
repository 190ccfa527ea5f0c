"""Where the main topic does not have the position of its group: nothing is left out in silence."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from sexton.base.partitions import TopicPartition as Place
from sexton.retry import Message, OrderedRetry
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import PATIENCE_S, send
from tests.stores.harness import delete_before
from tests.stores.unclean import changed_history


def _commit(servers: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    said = f"sexton.retry 1 W={offset} of=1"
    consumer.commit(offsets=[TopicPartition("orders", 0, offset, said)], asynchronous=False)
    consumer.close()


def _service(
    servers: str, handled: list[bytes], reset: str = "earliest", **more: Any
) -> OrderedRetry:
    def handle(message: Message) -> None:
        handled.append(message.value)

    return OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=servers,
        settings={"auto.offset.reset": reset}, **more,
    )  # fmt: skip


def test_a_topic_that_ends_before_the_position_is_not_read(
    kafka: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """An unclean election has cut it, say: what is written now lies in front of the position."""
    servers, handled = kafka.bootstrap_servers, list[bytes]()
    kafka.create_topic("orders", 1)
    send(servers, "orders", 1, range(3))
    _commit(servers, 5)
    with _service(servers, handled) as retry:
        until(
            lambda: "orders-0: ends at 3, and the group g has committed 5" in caplog.text,
            "told",
            PATIENCE_S,
        )
        assert [each.ready for each in retry.standings] == [False]
        send(servers, "orders", 1, range(3, 4))
    assert not handled
    _commit(servers, 3)  # as an operator does who has looked
    with _service(servers, handled):
        until(lambda: handled, "it is handled", PATIENCE_S)
    assert handled == [b"0:3"]


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_what_was_deleted_before_it_was_handled_is_told(
    kafka: EmbeddedCluster, caplog: pytest.LogCaptureFixture, reset: str
) -> None:
    """And the rest is handled. Where a new group would begin is of no account."""
    servers, handled = kafka.bootstrap_servers, list[bytes]()
    kafka.create_topic("orders", 1)
    send(servers, "orders", 1, range(5))
    _commit(servers, 1)
    delete_before(servers, Place("orders", 0), 3)
    with caplog.at_level(logging.WARNING), _service(servers, handled, reset) as retry:
        until(lambda: len(handled) == 2, "the rest is handled", PATIENCE_S)
        assert retry.count("reports", code="deleted") == 1
    assert handled == [b"0:3", b"0:4"]
    assert "orders-0: deleted: 2 offsets from 1 on were deleted unread" in caplog.text


def test_one_that_is_cut_while_it_is_read_is_not_read_on(caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka begins anew with what was handled long ago, and what is written now lies there."""
    with EmbeddedCluster(3) as cluster:
        servers, handled = cluster.bootstrap_servers, list[bytes]()
        cluster.create_topic("orders", [[1, 2]])
        with _service(servers, handled, replication=3) as retry:
            send(servers, "orders", 1, range(3))
            until(lambda: len(handled) == 3, "they are handled", PATIENCE_S)
            cluster.kill(2)
            cluster.wait_for("orders", 0, lambda state: state.isr == (1,))
            send(servers, "orders", 1, range(3, 6))
            until(lambda: retry.standings[0].position == 6, "all are handled", PATIENCE_S)
            changed_history(cluster, "orders")
            send(servers, "orders", 1, range(6, 8))
            told = "orders-0: ends at 5, and the group g has committed 6"
            until(lambda: told in caplog.text, "told", PATIENCE_S)
            send(servers, "orders", 1, range(8, 10))
            told = "orders-0: parts at 3 from what was handled, and the group g has committed 6"
            until(lambda: told in caplog.text, "that it is longer by now helps nobody", PATIENCE_S)
            assert [each.ready for each in retry.standings] == [False]
    assert handled == [b"0:%d" % number for number in range(6)]
