"""A leader of the output was replaced and has not heard of it: are records called missing?

broker 1    led the output, is cut off from the others, and has the first five of ten records
broker 2    leads it now; the source was never led by another
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from sexton.cli.main import main
from sexton.testing.embedded import EmbeddedCluster
from tests.validate.topics import add


@pytest.fixture
def three() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("source", [[2, 3]])
        cluster.create_topic("output", [[1, 2, 3]])
        yield cluster


def write(servers: str, ids: range) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    for topic in ("source", "output"):
        add(producer, topic, [("k", {"id": number}) for number in ids])
    assert producer.flush(60) == 0


def test_what_a_replaced_leader_lacks_is_not_missing(
    three: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    write(three.bootstrap_servers, range(5))
    three.isolate(1)
    three.wait_for("output", 0, lambda state: state.leader != 1)
    write(",".join(three.address_of(node) for node in (2, 3)), range(5, 10))
    where = ("-b", three.bootstrap_servers, "--engine", "local")
    code = main(
        ["validate", "output", *where, "--id", "json:id", "--source", "source", "--complete"]
    )
    assert code == 0, capsys.readouterr().out
