"""Kafka's broker options, by Kafka's names, as the config of a cluster.

    with_options(ClusterConfig(brokers=3), {"log.segment.bytes": 1 << 20, "num.partitions": 6})

An option belongs to a broker, to the controller (some to both), to what a topic inherits from its
broker (`log.segment.bytes` is a topic's `segment.bytes`), or to the listener. One that nobody here
has is an error, not a shrug: a test that believes it set a timer must not run without it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import Field, fields, replace
from typing import Any, TypeVar

from sexton.base.errors import ConfigError
from sexton.base.kafka_options import spelled
from sexton.broker.cluster import ClusterConfig
from sexton.broker.limits import Limits
from sexton.broker.listener import ListenerConfig
from sexton.log.config import LogConfig
from sexton.machines.controller import ControllerConfig
from sexton.node.config import BrokerConfig
from sexton.node.topic_options import BY_SYNONYM

Config = TypeVar("Config", BrokerConfig, ControllerConfig, ListenerConfig, Limits)

_NOT_AN_OPTION = {
    "node.id", "log", "log.dir", "endpoint", "rack", "host", "port", "limits", "cluster.id",
}  # fmt: skip
_LOG_FIELDS = {f.name.replace("_", ".") for f in fields(LogConfig)}
# What a topic inherits, by the broker's name of it; and what Kafka has for brokers only.
_OF_LOGS = {
    "producer.id.expiration.ms": "producer.id.expiration.ms",
    "compaction.policy": "compaction.policy",
    **{name: option.name for name, option in BY_SYNONYM.items() if option.name in _LOG_FIELDS},
}
_LISTED = "docs/reference/broker-options.md lists them"


def with_options(config: ClusterConfig, options: Mapping[str, object]) -> ClusterConfig:
    """The same cluster with some of Kafka's options set; ConfigError for one it does not have."""
    known = known_options()
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else _LISTED
            raise ConfigError(name, "is not an option of this cluster's brokers", hint)
    of_logs = {
        _OF_LOGS[name]: spelled(value) for name, value in options.items() if name in _OF_LOGS
    }
    broker = _set(config.broker, options)
    limits = _set(config.listener.limits, options)
    return replace(
        config,
        broker=replace(broker, log=broker.log.with_options(of_logs)),
        controller=_set(config.controller, options),
        listener=_set(replace(config.listener, limits=limits), options),
    )


def known_options() -> list[str]:
    """Every name that `with_options` takes."""
    configs = (BrokerConfig, ControllerConfig, ListenerConfig, Limits)
    names = {name for config in configs for name in _options_of(config)}
    return sorted(names | _OF_LOGS.keys())


def _options_of(config: type) -> dict[str, Field[Any]]:
    dotted = {f.name.replace("_", "."): f for f in fields(config)}
    return {name: field for name, field in dotted.items() if name not in _NOT_AN_OPTION}


def _set(config: Config, options: Mapping[str, object]) -> Config:
    chosen: dict[str, Any] = {
        field.name: _parsed(name, options[name], str(field.type))
        for name, field in _options_of(type(config)).items()
        if name in options
    }
    return replace(config, **chosen)


def _parsed(name: str, value: object, kind: str) -> object:
    text = spelled(value)
    try:
        if kind == "bool":
            return {"true": True, "false": False}[text.lower()]
        if kind.startswith("tuple"):
            return tuple(part for part in map(str.strip, text.split(",")) if part)
        return {"int": int, "float": float}.get(kind, str)(text)
    except (KeyError, ValueError):
        wanted = "true or false" if kind == "bool" else "a number"
        raise ConfigError(name, f"is {text!r}", f"{wanted} is needed") from None
