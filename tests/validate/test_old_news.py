"""A broker has not heard yet that a topic was deleted and made again: does it end a stream?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sexton.audit.validation import Rules
from sexton.base.errors import ConfigError
from sexton.client.client import Client
from sexton.client.topology import Topology
from sexton.survey import validating_tasks
from sexton.survey.validating_plan import Asked
from sexton.survey.validating_state import COMMITTED
from sexton.survey.validating_stream import Following, LocalSteps
from sexton.testing.embedded import EmbeddedCluster
from tests.validate.topics import add, filled


def told_of(broker: EmbeddedCluster, topic: str) -> Topology:
    async def look() -> Topology:
        async with Client(broker.bootstrap_servers) as client:
            return await client.topology([topic])

    return asyncio.run(look())


def make_again(broker: EmbeddedCluster, topic: str) -> Topology:
    """With 110, 105; returns what was said of the one before."""
    before = told_of(broker, topic)
    broker.delete_topic(topic)
    broker.create_topic(topic, 1)
    write(broker, topic, "110", "105")
    return before


def write(broker: EmbeddedCluster, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    add(producer, topic, [("a", value) for value in values])
    assert producer.flush(60) == 0


def first_hear(
    monkeypatch: pytest.MonkeyPatch, news: Topology, times: int = 2, leader_too: int = 0
) -> None:
    """So often whoever is asked has these news, and so often the leader itself."""
    left, left_of_leader = times, leader_too

    class Behind(Client):
        async def topology(self, topics: Iterable[str] | None = None) -> Topology:
            nonlocal left
            left -= bool(asked := list(topics or ()))
            return news if left >= 0 and asked else await super().topology(asked)

        async def topology_by(self, node: int, topics: Iterable[str] | None) -> Topology:
            nonlocal left_of_leader
            left_of_leader -= 1
            return news if left_of_leader >= 0 else await super().topology_by(node, topics)

    monkeypatch.setattr(validating_tasks, "Client", Behind)


def following(broker: EmbeddedCluster, topic: str, checkpoint: Path) -> Following:
    asked = Asked(broker.bootstrap_servers, topic, Rules(value="int"))
    return Following(asked, checkpoint, LocalSteps(1))


@pytest.mark.parametrize("leader_too", [0, 2])
def test_old_news_do_not_end_a_stream_of_the_topic_that_is_there(
    broker: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leader_too: int
) -> None:
    topic = filled(broker, [("a", "1")])
    before = make_again(broker, topic)
    stream = following(broker, topic, tmp_path)
    assert len(stream.step() or ()) == 1
    write(broker, topic, "104")
    first_hear(monkeypatch, before, leader_too=leader_too)
    assert [each.value for each in stream.step() or ()] == ["104"]


def test_a_stream_that_begins_means_the_topic_that_is_there(
    broker: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(broker, [("a", "1")])
    first_hear(monkeypatch, make_again(broker, topic))
    assert len(following(broker, topic, tmp_path).step() or ()) == 1
    assert following(broker, topic, tmp_path).step() is None  # nothing new, and the same topic


def test_a_topic_that_was_made_again_is_told_whatever_old_news_say(
    broker: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the checkpoint is of the topic before."""
    topic = filled(broker, [("a", "1")])
    stream = following(broker, topic, tmp_path)
    assert stream.step() == []
    first_hear(monkeypatch, make_again(broker, topic))
    with pytest.raises(ConfigError, match="deleted and made again"):
        stream.step()


def test_a_topic_that_had_no_id_before_an_upgrade_is_the_same(
    broker: EmbeddedCluster, tmp_path: Path
) -> None:
    topic = filled(broker, [("a", "110")])
    assert following(broker, topic, tmp_path).step() == []
    told = json.loads((tmp_path / COMMITTED).read_text(encoding="utf-8"))
    told["topic_id"] = "00" * 16
    (tmp_path / COMMITTED).write_text(json.dumps(told), encoding="utf-8")
    write(broker, topic, "105")
    assert len(following(broker, topic, tmp_path).step() or ()) == 1
    told = json.loads((tmp_path / COMMITTED).read_text(encoding="utf-8"))
    assert told["topic_id"] == told_of(broker, topic).topic(topic).topic_id.hex()
