"""Topics come, grow and go: what they may be called, and on which brokers their replicas live.

Placement stripes replicas over the brokers: the first replica of each partition on the next broker,
the others on those after it, and one further for each time around, so that the brokers beside a
dead one share its load. Where brokers are in racks, a partition has no second replica in one while
there is a rack without. If more replicas are wanted than brokers are alive, those that are away get
some too, as in Kafka: they are not in sync until they are back. Where it starts is the number of
partitions placed so far: the same calls give the same placement, and small topics do not all begin
on one broker.

A topic that is deleted and created again has the old name, but is another topic. Its assignments
have new numbers, so logs of the old one count for nothing; and its leader epochs begin above those
of all topics ever deleted, so that nothing said in the old one's terms is taken for the new one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines.compaction import NodeId
from sexton.machines.controller_events import (
    CreatePartitions,
    CreateTopic,
    Reassign,
    TopicCreated,
)
from sexton.machines.ledger import Ledger
from sexton.machines.metadata import ConfigRecord, Image, PartitionRecord, Removed, TopicRecord
from sexton.machines.reassignment import origin_of

Placement = tuple[NodeId, ...]  # one partition's replicas

# Kafka's Topic.LEGAL_CHARS and MAX_NAME_LENGTH: a partition's directory must fit in 255 characters.
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_LONGEST = 249
# A single request for more is a mistake more often than a wish (Kafka's MAX_PARTITIONS_PER_BATCH).
_MOST_PARTITIONS = 10_000


def create(ledger: Ledger, event: CreateTopic) -> TopicCreated:
    check_name(ledger.image, event.name)
    if ledger.image.topic_by_id(event.topic_id) is not None:
        raise Refused(KafkaError.INVALID_REQUEST, f"the topic id {event.topic_id} is taken already")
    if event.assignment is not None:
        if (event.partitions, event.replication_factor) != (-1, -1):
            raise Refused(
                KafkaError.INVALID_REQUEST,
                f"{event.name} has both an assignment and a number of partitions or replicas; "
                "an assignment says it all",
            )
        placements = checked(ledger.image, event.assignment, first=0)
    else:
        placements = _place(ledger, event.name, event.partitions, event.replication_factor)
    if not event.validate_only:
        ledger.write(TopicRecord(event.name, event.topic_id, event.internal))
        if event.configs:
            options = tuple(sorted(event.configs))
            ledger.write(ConfigRecord("topic", event.name, options))
        _add_partitions(ledger, event.name, 0, placements)
    return TopicCreated(event.topic_id, len(placements), len(placements[0]))


def create_partitions(ledger: Ledger, event: CreatePartitions) -> None:
    ledger.check_topic(event.name)
    existing = ledger.image.partitions_of(event.name)
    more = event.count - len(existing)
    if more <= 0:
        raise Refused(
            KafkaError.INVALID_PARTITIONS,
            f"{event.name} has {len(existing)} partitions already; "
            f"ask for more than that, {event.count} is not an increase",
        )
    factor = len(origin_of(existing[0]))
    if event.assignment is None:
        placements = _place(ledger, event.name, more, factor)
    else:
        if len(event.assignment) != more:
            raise Refused(
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                f"{event.name} is to have {more} new partitions, but the assignment is for "
                f"{len(event.assignment)}",
            )
        placements = checked(ledger.image, event.assignment, len(existing), factor)
    if not event.validate_only:
        _add_partitions(ledger, event.name, len(existing), placements)


def delete(ledger: Ledger, name: str, topic_id: str = "") -> None:
    ledger.check_topic(name)
    if topic_id not in ("", ledger.image.topics[name].topic_id):
        raise Refused(KafkaError.UNKNOWN_TOPIC_ID, f"another topic is called {name} now")
    partitions = [record for _, record in sorted(ledger.image.partitions_of(name).items())]
    counters = ledger.image.counters
    above = max(record.leader_epoch for record in partitions) + 1
    if above > counters.first_leader_epoch:
        ledger.write(replace(counters, first_leader_epoch=above))
    for record in partitions:
        ledger.remove_partition(record)
    if ("topic", name) in ledger.image.configs:
        ledger.write(Removed(("config", "topic", name)))
    ledger.write(Removed(("topic", name)))


# ── names ──


def check_name(image: Image, name: str) -> None:
    """May a new topic be called so? No two names make one metric (KAFKA-2337)."""
    check_spelling(name)
    if name in image.topics:
        raise Refused(
            KafkaError.TOPIC_ALREADY_EXISTS,
            f"the topic {name} exists already; delete it first, or choose another name",
        )
    other = _collision(image, name)
    if other is not None:
        why = f"{name} collides with {other}, as '.' and '_' are alike in metric names"
        raise Refused(KafkaError.INVALID_TOPIC_EXCEPTION, why)


def check_spelling(name: str) -> None:
    """Kafka's rules (Topic.validate)."""
    if not name:
        why = "a topic's name is not empty"
    elif name in (".", ".."):
        why = f"a topic cannot be called {name}, which means something else to a file system"
    elif len(name) > _LONGEST:
        why = f"a topic's name has at most {_LONGEST} characters, this one {len(name)}: {name}"
    elif not _LEGAL.fullmatch(name):
        why = f"{name!r}: a topic's name has ASCII letters, digits, '.', '_' and '-' only"
    else:
        return
    raise Refused(KafkaError.INVALID_TOPIC_EXCEPTION, why)


def _collision(image: Image, name: str) -> str | None:
    if "." not in name and "_" not in name:
        return None
    plain = name.replace(".", "_")
    return min((other for other in image.topics if other.replace(".", "_") == plain), default=None)


# ── placement ──


def striped(
    brokers: list[NodeId],
    partitions: int,
    factor: int,
    start: int,
    racks: Mapping[NodeId, str | None] = MappingProxyType({}),
) -> list[Placement]:
    """The replicas of each of `partitions` new partitions, after `start` earlier ones."""
    count = len(brokers)
    placements = []
    for number in range(start, start + partitions):
        first, turn = number % count, number // count
        others = ((first + 1 + (turn + each) % (count - 1)) % count for each in range(count - 1))
        order = [brokers[index] for index in (first, *others)]
        placements.append(_spread(order, factor, racks))
    return placements


def _spread(order: list[NodeId], factor: int, racks: Mapping[NodeId, str | None]) -> Placement:
    """The first of them, but no second in a rack while there is another."""
    chosen: list[NodeId] = []
    used: dict[str | None, int] = {}
    while len(chosen) < factor:
        left = (node for node in order if node not in chosen)
        node = min(left, key=lambda node: used.get(racks.get(node), 0))
        chosen.append(node)
        used[racks.get(node)] = used.get(racks.get(node), 0) + 1
    return tuple(chosen)


def checked(
    image: Image, assignment: tuple[Placement, ...], first: int, factor: int | None = None
) -> list[Placement]:
    """An assignment that somebody chose, if it can be used."""
    if not assignment:
        raise Refused(
            KafkaError.INVALID_REPLICA_ASSIGNMENT, "an assignment has one partition at least"
        )
    factor = len(assignment[0]) if factor is None else factor
    for number, replicas in enumerate(assignment, first):
        check_replicas(image, replicas, number)
        if len(replicas) != factor:
            raise Refused(
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                f"partition {number} has {len(replicas)} replicas, others have {factor}; "
                "give all partitions the same number",
            )
        if not any(image.active(node) for node in replicas):
            raise Refused(
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                f"no broker of partition {number} is alive; start one of {_listed(replicas)}",
            )
    return list(assignment)


def check_replicas(image: Image, replicas: Placement, number: int) -> None:
    """Are these brokers, each named once?"""
    if not replicas:
        raise Refused(
            KafkaError.INVALID_REPLICA_ASSIGNMENT, f"partition {number} has one replica at least"
        )
    for node in replicas:
        if replicas.count(node) > 1:
            raise Refused(
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                f"partition {number} has broker {node} more than once",
            )
        if node not in image.brokers:
            raise Refused(
                KafkaError.INVALID_REPLICA_ASSIGNMENT,
                f"there is no broker {node} for partition {number}; "
                f"brokers are {_listed(sorted(image.brokers))}",
            )


def check_factor(old: PartitionRecord, event: Reassign) -> None:
    """Some want the number of replicas to stay as it is."""
    if event.replicas is None or event.may_change_factor:
        return
    target = tuple(node for node in old.replicas if node not in old.removing)
    if len(event.replicas) != len(target):
        raise Refused(
            KafkaError.INVALID_REPLICATION_FACTOR,
            f"{old.at} has {len(target)} replicas and is to keep as many, "
            f"but the assignment has {len(event.replicas)}",
        )


def _place(ledger: Ledger, topic: str, partitions: int, factor: int) -> list[Placement]:
    partitions = ledger.config.num_partitions if partitions == -1 else partitions
    factor = ledger.config.default_replication_factor if factor == -1 else factor
    if not 0 < partitions <= _MOST_PARTITIONS:
        raise Refused(
            KafkaError.INVALID_PARTITIONS,
            f"{topic} cannot have {partitions} partitions; ask for 1 to {_MOST_PARTITIONS}",
        )
    if factor < 1:
        raise Refused(
            KafkaError.INVALID_REPLICATION_FACTOR,
            f"{topic} cannot have a replication factor of {factor}; ask for 1 at least",
        )
    brokers = sorted(ledger.image.brokers.items())
    alive = [node for node, broker in brokers if broker.active]
    away = [node for node, broker in brokers if broker.fenced and not broker.in_shutdown]
    if not alive or factor > len(alive) + len(away):
        raise Refused(
            KafkaError.INVALID_REPLICATION_FACTOR,
            f"{topic} is to have {factor} replicas, but {len(alive)} brokers are alive and "
            f"{len(away)} may come back; start more, or ask for fewer replicas",
        )
    racks = {node: broker.rack for node, broker in brokers}
    start = ledger.image.counters.placed
    here = striped(alive, partitions, min(factor, len(alive)), start, racks)
    return [
        (*first, *_rotated(away, start + number)[: factor - len(first)])
        for number, first in enumerate(here)
    ]


def _rotated(nodes: list[NodeId], turn: int) -> list[NodeId]:
    first = turn % len(nodes) if nodes else 0
    return nodes[first:] + nodes[:first]


def _add_partitions(ledger: Ledger, topic: str, first: int, placements: list[Placement]) -> None:
    counters = ledger.image.counters
    number = counters.next_assignment
    ledger.write(
        replace(
            counters,
            next_assignment=number + sum(map(len, placements)),
            placed=counters.placed + len(placements),
        )
    )
    for partition, replicas in enumerate(placements, first):
        isr = tuple(node for node in replicas if ledger.image.active(node))
        record = PartitionRecord(
            topic=topic,
            partition=partition,
            replicas=replicas,
            assignments=tuple(range(number, number + len(replicas))),
            isr=isr,
            leader=isr[0],
            leader_epoch=counters.first_leader_epoch,
        )
        number += len(replicas)
        ledger.write(record)


def _listed(nodes: list[NodeId] | Placement) -> str:
    return ", ".join(map(str, nodes)) or "none"
