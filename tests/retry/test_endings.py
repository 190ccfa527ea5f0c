"""An instance that is told to end does so soon, and leaves nothing running behind it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from sexton.node.transactions import Transactions
from sexton.retry import OrderedRetry
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import PATIENCE_S

SOON_S = 10.0  # a sixth of the time for which it would wait


def _retry(servers: str, **more: Any) -> OrderedRetry:
    return OrderedRetry(
        lambda _: None, topic="orders", group="g", bootstrap_servers=servers, **more
    )


def _threads_of_librdkafka() -> list[str]:
    names = [each.read_text().strip() for each in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if name.startswith("rdk:")]


def test_whoever_waits_for_a_producer_id_ends_when_he_is_told_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = threading.Event()
    monkeypatch.setattr(Transactions, "init_producer_id", lambda *_: asked.set())
    with EmbeddedCluster(brokers=1) as kafka:
        kafka.create_topic("orders", 1)
        with _retry(kafka.bootstrap_servers):
            assert asked.wait(PATIENCE_S)
            began_s = monotonic()
        assert monotonic() - began_s < SOON_S


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no names elsewhere")
@pytest.mark.parametrize("mode", ["transactional", "compensating"])
def test_one_that_has_ended_keeps_no_connections(mode: str) -> None:
    """As long as somebody holds it, and a decorated handler is held by its module."""
    with EmbeddedCluster(brokers=1) as kafka:
        kafka.create_topic("orders", 1)
        before = len(_threads_of_librdkafka())
        with _retry(kafka.bootstrap_servers, mode=mode) as retry:
            retry.wait_until_ready(PATIENCE_S)
            assert len(_threads_of_librdkafka()) > before
        until(lambda: len(_threads_of_librdkafka()) <= before, "they end", 20, lambda: mode)
        assert retry.count("starts") == 1
