"""Does each of Kafka's broker options reach whoever acts on it?"""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

import sexton
from sexton.base.errors import ConfigError
from sexton.broker.cluster import ClusterConfig
from sexton.broker.limits import Limits
from sexton.broker.listener import ListenerConfig
from sexton.broker.options import known_options, with_options
from sexton.log.config import LogConfig
from sexton.machines.controller_events import ControllerConfig
from sexton.node.config import BrokerConfig


def test_an_option_goes_to_everyone_who_acts_on_it() -> None:
    config = with_options(
        ClusterConfig(),
        {
            "broker.session.timeout.ms": "1500",  # the controller's and the brokers'
            "log.segment.bytes": 1 << 20,  # what a topic inherits
            "log.cleaner.delete.retention.ms": 1000,
            "compaction.policy": "independent",
            "producer.id.expiration.ms": 60_000,
            "auto.create.topics.enable": False,
            "unclean.leader.election.enable": "true",
            "socket.request.max.bytes": 4096,
            "max.connections": 7,
            "group.consumer.assignors": "range, uniform",
        },
    )
    assert config.controller.broker_session_timeout_ms == 1500
    assert config.broker.broker_session_timeout_ms == 1500
    assert config.broker.log.segment_bytes == 1 << 20
    assert config.broker.log.delete_retention_ms == 1000
    assert config.broker.log.compaction_policy == "independent"
    assert config.broker.log.producer_id_expiration_ms == 60_000
    assert config.broker.auto_create_topics_enable is False
    assert config.controller.unclean_leader_election_enable is True
    assert config.listener.limits.socket_request_max_bytes == 4096
    assert config.listener.max_connections == 7
    assert config.broker.group_consumer_assignors == ("range", "uniform")


def test_what_is_not_said_stays_as_it_is() -> None:
    assert with_options(ClusterConfig(brokers=2), {}) == ClusterConfig(brokers=2)


def test_somebody_acts_on_every_option() -> None:
    """One that is taken and then forgotten is worse than one that is refused."""
    read = {
        node.attr
        for path in Path(sexton.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
    }
    for config in (BrokerConfig, ControllerConfig, ListenerConfig, Limits, LogConfig):
        assert [each.name for each in fields(config) if each.name not in read] == []


def test_what_is_set_for_each_broker_by_itself_is_no_option() -> None:
    assert not {"node.id", "endpoint", "log", "log.dir", "host", "port"} & set(known_options())


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("log.segment.byte", 1, "did you mean log.segment.bytes?"),
        ("log.dir", "/data", "docs/reference/broker-options.md lists them"),
        ("zookeeper.connect", "a:1", "docs/reference/broker-options.md lists them"),
        ("num.partitions", "many", "a number is needed"),
        ("auto.create.topics.enable", "yes", "true or false is needed"),
        ("log.segment.bytes", 1, None),
    ],
)
def test_a_wrong_option_is_named(option: str, value: object, hint: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        with_options(ClusterConfig(), {option: value})
    assert caught.value.subject in (option, "segment.bytes")
    assert caught.value.hint == hint
