"""Metrics over HTTP: what is there is what is true, and every one of them is described."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

import pytest

from sexton.base.errors import ConfigError
from sexton.retry import Message, OrderedRetry
from sexton.retry.metrics import METRICS, Counters
from sexton.testing import EmbeddedCluster
from sexton.testing.waiting import until
from tests.retry.harness import PATIENCE_S, send


def test_metrics_show_what_waits(kafka: EmbeddedCluster) -> None:
    def handle(message: Message) -> None:
        if message.value.startswith(b"0:"):
            raise ValueError("key 0 never works")

    kafka.create_topic("orders", 1)
    send(kafka.bootstrap_servers, "orders", keys=3, numbers=range(4))
    with OrderedRetry(
        handle, topic="orders", group="g", bootstrap_servers=kafka.bootstrap_servers, metrics_port=0
    ) as retry:  # fmt: skip
        until(lambda: sum(each.depth for each in retry.standings) == 4, "key 0 waits", PATIENCE_S)
        address = retry.metrics_address
        assert address is not None
        with urllib.request.urlopen(address, timeout=30) as answer:
            page = answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.replace("metrics", "other"), timeout=30)
    labels = '{topic="orders",group="g",partition="0"}'
    assert f"sexton_retry_depth{labels} 4" in page
    assert f"sexton_retry_locked_keys{labels} 1" in page
    assert 'sexton_retry_attempts_total{topic="orders",group="g",outcome="done"} 8' in page
    assert 'sexton_retry_redirected_total{topic="orders",group="g"} 4' in page
    named = {line.split("{")[0] for line in page.splitlines() if not line.startswith("#")}
    assert named <= set(METRICS)
    for name in named:
        assert re.search(rf"^# TYPE {name} {METRICS[name][0]}$", page, re.MULTILINE)


def test_a_counter_is_the_sum_over_labels_that_are_not_given() -> None:
    counters = Counters("orders", "g")
    assert counters.value("attempts") == counters.value("attempts", outcome="done") == 0
    counters.count("attempts", 3, outcome="done")
    counters.count("attempts", 2, outcome="retry")
    counters.count("dead")
    assert counters.value("attempts") == 5
    assert counters.value("attempts", outcome="retry") == 2
    assert counters.value("dead") == 1


@pytest.mark.parametrize(
    ("name", "labels", "why"),
    [
        ("nonsense", {}, "there is no such counter .there are attempts, redirected, dead"),
        ("depth", {}, "there is no such counter"),  # a gauge: see `standings`
        ("attempts", {"outcome": "doen"}, "has no outcome 'doen' .there is done, retry, dead"),
        ("attempts", {"code": "done"}, "has no label 'code' .there is outcome"),
        ("dead", {"outcome": "dead"}, "has no label 'outcome' .it has none"),
    ],
)
def test_a_question_about_nothing_is_not_answered_with_0(
    name: str, labels: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        Counters("orders", "g").value(name, **labels)
