"""The topics beside one that is handled with ordered retry: made as they have to be, and looked at
before every start, of a service (`sexton.retry`) and of a query (`sexton.spark`) alike.

    orders                   main       yours
    orders.billing.retry     compacted  messages that wait, by id
    orders.billing.locks     compacted  which keys they hold, by id
    orders.billing.dead      kept 30 d  messages that nobody could handle

The names carry the group: two groups on one topic fail on different messages. Retention by time or
size would delete messages that still wait, so both working topics are compacted and nothing else;
they roll and clean early, so that they stay as small as what is held. A topic that is not as it has
to be is an error with the command that mends it: we do not change what somebody else has made.

How many replicas there are, how large messages may be and what becomes of dead letters is looked at
once, when a service or a query begins: while replicas are moved Kafka shows the old and the new
ones, somebody may raise the main topic's limit first and the others' next, and nobody that runs is
to end because of that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from sexton.base.errors import ConfigError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.admin import create_topic
from sexton.client.client import Client
from sexton.client.configs import Values, topic_configs
from sexton.client.news import asked_around, until_whole
from sexton.client.retrying import NEWS_MS, PATIENT, Patience
from sexton.client.topology import Topic, Topology
from sexton.machines.retry_settings import DEAD, HEADROOM_BYTES, WORKING, check_partitions

_POLICY, _MOST_BYTES, _IN_SYNC = "cleanup.policy", "max.message.bytes", "min.insync.replicas"
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ASKED = (_POLICY, _MOST_BYTES, _IN_SYNC)
_HIGHEST = 2**31 - 1  # that max.message.bytes can be


@dataclass(frozen=True, slots=True)
class Names:
    main: str
    retry: str
    locks: str
    dead: str

    @classmethod
    def of(
        cls,
        topic: str,
        group: str,
        retry: str | None = None,
        locks: str | None = None,
        dead: str | None = None,
    ) -> Names:
        base = f"{topic}.{group}"
        names = cls(
            topic, retry or f"{base}.retry", locks or f"{base}.locks", dead or f"{base}.dead"
        )
        for name in names.beside:
            if not _LEGAL.fullmatch(name):
                raise ConfigError(name, "cannot be the name of a topic", "name it yourself")
        if len({topic, *names.beside}) < 4:
            raise ConfigError("topics", "main, retry, locks and dead must be four different topics")
        return names

    @property
    def beside(self) -> tuple[str, str, str]:
        return self.retry, self.locks, self.dead


@dataclass(frozen=True, slots=True)
class Shape:
    """What the main topic is like, so that the others can be."""

    partitions: int
    replication: int
    most_bytes: int  # of a record batch
    is_whole: bool = False  # but for its beginning: nothing is compacted away, as far as is known

    @property
    def kept_bytes(self) -> int:
        """So much the largest message may take in the retry and the dead letter topic."""
        return min(self.most_bytes + HEADROOM_BYTES, _HIGHEST)


class _Seen(NamedTuple):
    shape: Shape
    topics: Mapping[str, Topic]
    configs: Mapping[str, Values]


async def prepare(
    client: Client,
    names: Names,
    *,
    create: bool = True,
    replication: int | None = None,
    patience: Patience = PATIENT,
) -> Shape:
    """Makes what is missing, and checks what is there."""
    wanted = (names.main,) if create else (names.main, *names.beside)
    # An address or a name that is wrong is told soon.
    soon = replace(
        patience,
        timeout_ms=min(patience.timeout_ms, NEWS_MS),
        unknown_topic_ms=min(patience.unknown_topic_ms, NEWS_MS),
    )
    found = await _look(client, names, wanted, soon)
    main = _main(found, names)
    options = (await topic_configs(client, [names.main], _ASKED))[names.main]
    shape = Shape(
        len(main.partitions), _replication(main), int(options.get(_MOST_BYTES) or 1_048_588)
    )
    missing = [name for name in names.beside if name not in found]
    if missing and not create:
        raise ConfigError(", ".join(missing), "not there", "create them, or allow create_topics")
    for name in missing:
        await _create(client, names, name, shape, options, replication)
    seen = await _checked(client, names, patience)
    for name in names.beside:
        _check_replication(seen.topics[name], replication or seen.shape.replication)
    _check_dead_policy(names.dead, seen.configs[names.dead])
    for name in (names.retry, names.dead):
        _check_size(name, seen.configs[name], seen.shape)
    return seen.shape


async def check(client: Client, names: Names, patience: Patience = PATIENT) -> Shape:
    """ConfigError if the topics are not what ordered retry can work with, Refused without them."""
    return (await _checked(client, names, patience)).shape


async def _checked(client: Client, names: Names, patience: Patience) -> _Seen:
    found = await _all_of(client, names, patience)
    main = found[names.main]
    configs = await topic_configs(client, [names.main, *names.beside], _ASKED)
    options = configs[names.main]
    shape = Shape(
        len(main.partitions),
        _replication(main),
        int(options[_MOST_BYTES] or 1_048_588),
        is_whole="compact" not in (options.get(_POLICY) or "compact"),
    )
    check_partitions(
        shape.partitions, len(found[names.retry].partitions), len(found[names.locks].partitions)
    )
    if len(found[names.dead].partitions) < shape.partitions:
        why = f"has {len(found[names.dead].partitions)} partitions, main has {shape.partitions}"
        raise ConfigError(names.dead, why, f"give it {shape.partitions}: kafka-topics.sh --alter")
    for name in (names.retry, names.locks):
        _check_policy(name, configs[name])
    return _Seen(shape, found, configs)


async def _all_of(client: Client, names: Names, patience: Patience) -> dict[str, Topic]:
    found = await _look(client, names, (names.main, *names.beside), patience)
    _main(found, names)
    for name in names.beside:
        if not _is_there(name, found):
            why, hint = f"there is no topic {name}", "it has to be created first"
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, why, hint)
    return found


async def _look(
    client: Client, names: Names, wanted: Collection[str], patience: Patience
) -> dict[str, Topic]:
    """All that there is; with what is wanted, unless nobody knows it for `unknown_topic_ms`."""

    look = partial(client.topology, [names.main, *names.beside])

    async def has_all(found: Topology) -> bool:
        return all(_is_there(name, found.topics) for name in wanted)

    ask = partial(asked_around, client, look, patience)
    within_ms, backoff_ms = patience.unknown_topic_ms, patience.backoff_ms
    return (await until_whole(client, ask, has_all, within_ms, backoff_ms)).topics


def _is_there(name: str, found: Mapping[str, Topic]) -> bool:
    return name in found and bool(found[name].partitions)


def _main(found: dict[str, Topic], names: Names) -> Topic:
    if not _is_there(names.main, found):
        hint = "it is yours: create it first, with as many partitions as you want"
        raise ConfigError(names.main, "there is no such topic", hint)
    return found[names.main]


def _check_policy(name: str, configs: Values) -> None:
    policy = configs.get(_POLICY) or ""
    if policy.strip() == "compact":
        return
    why = f"has cleanup.policy={policy}: messages that wait, or the locks of their keys, would be "
    why += "deleted by age" if "delete" in policy else "kept for ever"
    hint = f"kafka-configs.sh --alter --topic {name} --add-config cleanup.policy=compact"
    raise ConfigError(name, why, hint)


def _check_dead_policy(name: str, configs: Values) -> None:
    policy = configs.get(_POLICY) or ""
    if "compact" not in policy:
        return
    why = (
        f"has cleanup.policy={policy}: it would keep the last letter of each key only, and take "
        "none that has no key"
    )
    hint = f"kafka-configs.sh --alter --topic {name} --add-config cleanup.policy=delete"
    raise ConfigError(name, why, hint)


def _check_size(name: str, configs: Values, shape: Shape) -> None:
    """A message that does not fit could neither wait nor die: its partition would stand still."""
    takes = int(configs.get(_MOST_BYTES) or shape.kept_bytes)  # who may not see it may still write
    if takes >= shape.kept_bytes:
        return
    why = (
        f"has max.message.bytes={takes}, and messages of up to {shape.kept_bytes} bytes have to "
        f"fit: the main topic takes {shape.most_bytes}, and headers of ours come on top"
    )
    hint = (
        f"kafka-configs.sh --alter --topic {name} --add-config "
        f"max.message.bytes={shape.kept_bytes}; or lower that of the main topic"
    )
    raise ConfigError(name, why, hint)


def _check_replication(topic: Topic, wanted: int) -> None:
    has = _replication(topic)
    if has < wanted:
        why = f"has {has} replicas and needs {wanted}: it would be lost before the main topic is"
        hint = "add replicas with kafka-reassign-partitions.sh, or accept fewer with replication="
        raise ConfigError(topic.name, why, hint)


def _replication(topic: Topic) -> int:
    return min(len(place.replicas) for place in topic.partitions.values())


async def _create(
    client: Client,
    names: Names,
    name: str,
    shape: Shape,
    main: Values,
    replication: int | None,
) -> None:
    replicas = replication or shape.replication
    configs = {
        _IN_SYNC: str(min(replicas, max(int(main.get(_IN_SYNC) or 1), 2))),
        _MOST_BYTES: str(shape.kept_bytes),
    }
    if name == names.dead:
        configs |= DEAD
    else:
        configs |= WORKING
    try:
        await create_topic(client, name, shape.partitions, replicas, configs)
    except Refused as error:
        if error.error is not KafkaError.TOPIC_ALREADY_EXISTS:  # another instance was quicker
            raise
