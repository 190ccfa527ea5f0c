"""Every option of a topic or of a broker, with its value and where that comes from.

A value's synonyms are all that were set for it, the one that counts first: see `topic_options`. A
broker has the options of `BrokerConfig`, and those that are the defaults of topics. Of these, the
latter can be changed while it runs; no option of ours is a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.metadata import Image
from sexton.node.config import BrokerConfig
from sexton.node.site import Site
from sexton.node.topic_options import (
    BOOLEAN,
    BROKER_OPTIONS,
    BY_SYNONYM,
    INT,
    LONG,
    STRING,
    TOPIC_OPTIONS,
    TopicOption,
    static_value,
)

# Kafka's ConfigSource.
OF_TOPIC, OF_BROKER, OF_ALL_BROKERS, STATIC, DEFAULT = 1, 2, 3, 4, 5


_ABOUT = "As Kafka's broker option of this name."
_OTHERWISE_CALLED = ("rack", "log_dir", "endpoint")


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str
    source: int


@dataclass(frozen=True, slots=True)
class Value:
    name: str
    value: str | None
    source: int
    kind: int
    about: str
    synonyms: tuple[Synonym, ...]
    read_only: bool = False
    sensitive: bool = False


def topic_values(site: Site, own: Mapping[str, str]) -> list[Value]:
    """All options of a topic for which `own` are set."""
    return [
        _value(option, option.name, _synonyms(site, option, own.get(option.name)))
        for option in TOPIC_OPTIONS.values()
    ]


def broker_values(site: Site) -> list[Value]:
    """All options of this broker."""
    own = [
        _value(option, name, _synonyms(site, option, None), read_only=name not in BROKER_OPTIONS)
        for name, option in {**BY_SYNONYM, **BROKER_OPTIONS}.items()
    ]
    return sorted([*own, *_fixed(site.config)], key=lambda value: value.name)


def all_brokers_values(image: Image) -> list[Value]:
    """What was set for all brokers at once, and nothing else."""
    values = []
    for name, text in sorted(image.options_of("broker", "").items()):
        option = BROKER_OPTIONS[name]
        synonym = Synonym(name, text, OF_ALL_BROKERS)
        values.append(_value(option, name, (synonym,)))
    return values


def _value(
    option: TopicOption, name: str, synonyms: tuple[Synonym, ...], read_only: bool = False
) -> Value:
    value, source = option.default, DEFAULT
    if synonyms:  # else a topic's option that no broker has, or none has set
        value, source = synonyms[0].value, synonyms[0].source
    return Value(name, value, source, option.kind, option.about, synonyms, read_only)


def _synonyms(site: Site, option: TopicOption, own: str | None) -> tuple[Synonym, ...]:
    found = [] if own is None else [Synonym(option.name, own, OF_TOPIC)]
    name = option.synonym
    if name is None:
        return tuple(found)
    for resource_name, source in ((str(site.node), OF_BROKER), ("", OF_ALL_BROKERS)):
        chosen = site.image.options_of("broker", resource_name).get(name)
        if chosen is not None:
            found.append(Synonym(name, chosen, source))
    static = static_value(option, site.config.log, site.config.min_insync_replicas)
    if static != option.default:
        found.append(Synonym(name, static, STATIC))
    if not option.broker_unset:
        found.append(Synonym(name, option.default, DEFAULT))
    return tuple(found)


def _fixed(config: BrokerConfig) -> list[Value]:
    """The options that a broker is started with, and keeps."""
    values = [
        Value(name, text, STATIC, STRING, _ABOUT, (Synonym(name, text, STATIC),), read_only=True)
        for name, text in _by_other_names(config).items()
    ]
    for field in fields(config):
        if field.name in _OTHERWISE_CALLED:
            continue
        name = field.name.replace("_", ".")
        value = getattr(config, field.name)
        if name in BY_SYNONYM or not isinstance(value, bool | int | str):
            continue
        kind = BOOLEAN if isinstance(value, bool) else INT if isinstance(value, int) else STRING
        if kind == INT and name.endswith(".ms"):
            kind = LONG
        text = str(value).lower() if kind == BOOLEAN else str(value)
        same = field.default is not MISSING and value == field.default
        synonyms = [] if same else [Synonym(name, text, STATIC)]
        if field.default is not MISSING and field.default is not None:
            default = str(field.default).lower() if kind == BOOLEAN else str(field.default)
            synonyms.append(Synonym(name, default, DEFAULT))
        source = DEFAULT if same else STATIC
        values.append(Value(name, text, source, kind, _ABOUT, tuple(synonyms), read_only=True))
    return values


def _by_other_names(config: BrokerConfig) -> dict[str, str]:
    """What is not called in Kafka as it is here."""
    found = {"broker.id": str(config.node_id), "log.dirs": config.log_dir}
    if config.rack is not None:
        found["broker.rack"] = config.rack
    if len(config.endpoint) >= 2:
        found["advertised.listeners"] = "PLAINTEXT://{}:{}".format(*config.endpoint)
    return found
