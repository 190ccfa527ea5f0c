"""Which member is to read which partition?

The server's assignors of KIP-848, by name. Each is a function from what members subscribe to and
what they have been given before to what they are to have:

    range     topic by topic, each member a stretch of it; for joins of topics with equal partitions
    uniform   as many for each as for any other, over all topics

Both keep for a member what it had, as far as that is fair. Where all members subscribe to the same
topics both deal as Apache Kafka's do (members in the order of their ids; Kafka's order is that of
Java's hashes). Where they do not, Kafka's `uniform` has an algorithm of its own; ours gives each
partition to the one with the fewest of those who want it, and moves partitions until no move
makes two members more equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from sexton.base.lazy_dataclass import dataclass

TopicId = bytes
Partitions = dict[TopicId, tuple[int, ...]]  # each tuple sorted, none empty
One = tuple[TopicId, int]


@dataclass(frozen=True, slots=True)
class Subscriber:
    topics: frozenset[TopicId]  # only such as exist
    had: Partitions = field(default_factory=dict)


Subscribers = dict[str, Subscriber]
Counts = dict[TopicId, int]  # partitions of every topic that somebody subscribes to
Assignor = Callable[[Subscribers, Counts], dict[str, Partitions]]


def assign_range(members: Subscribers, counts: Counts) -> dict[str, Partitions]:
    given: dict[str, dict[TopicId, list[int]]] = {name: {} for name in members}
    for topic in sorted(counts):
        wanting = [name for name in sorted(members) if topic in members[name].topics]
        if wanting:
            had = {name: members[name].had.get(topic, ()) for name in wanting}
            for name, partitions in _stretches(counts[topic], had).items():
                given[name][topic] = partitions
    return {name: _tidy(topics) for name, topics in given.items()}


def _stretches(count: int, had: dict[str, tuple[int, ...]]) -> dict[str, list[int]]:
    """`quota` partitions of a topic for each; one more for some, first those that had more."""
    quota, extra = divmod(count, len(had))
    kept: dict[str, list[int]] = {}
    wanted: dict[str, int] = {}
    for name, partitions in had.items():
        valid = [partition for partition in partitions if partition < count]
        take = quota
        if len(valid) > quota and extra > 0:
            take, extra = quota + 1, extra - 1
        else:
            wanted[name] = quota - len(valid)
        kept[name] = valid[:take]
    taken = {partition for partitions in kept.values() for partition in partitions}
    free = iter([partition for partition in range(count) if partition not in taken])
    for name, missing in wanted.items():
        if extra > 0:
            missing, extra = missing + 1, extra - 1
        kept[name] += [next(free) for _ in range(missing)]
    return kept


def assign_uniform(members: Subscribers, counts: Counts) -> dict[str, Partitions]:
    if not members:
        return {}
    first = next(iter(members.values())).topics
    if all(member.topics == first for member in members.values()):
        return _deal(members, {topic: counts[topic] for topic in sorted(first)})
    return _balance(members, counts)


def _deal(members: Subscribers, counts: Counts) -> dict[str, Partitions]:
    """All want the same: the fair share for each, what it had first."""
    quota, extra = divmod(sum(counts.values()), len(members))
    given: dict[str, dict[TopicId, list[int]]] = {}
    room: dict[str, int] = {}
    taken: set[One] = set()
    for name in sorted(members):
        left = quota
        if extra > 0:
            left, extra = quota + 1, extra - 1
        given[name] = {}
        for topic, partitions in sorted(members[name].had.items()):
            valid = [p for p in partitions if p < counts.get(topic, 0) and (topic, p) not in taken]
            given[name][topic] = valid[:left]
            taken.update((topic, partition) for partition in valid[:left])
            left -= len(valid[:left])
        room[name] = left
    every = ((topic, p) for topic, count in counts.items() for p in range(count))
    free = iter([one for one in every if one not in taken])
    for name, left in room.items():
        for _ in range(left):
            one = next(free, None)
            if one is not None:
                given[name].setdefault(one[0], []).append(one[1])
    return {name: _tidy(topics) for name, topics in given.items()}


def _balance(members: Subscribers, counts: Counts) -> dict[str, Partitions]:
    wanting = {t: [n for n in sorted(members) if t in members[n].topics] for t in sorted(counts)}
    owner: dict[One, str] = {}
    load = dict.fromkeys(sorted(members), 0)
    for name in load:
        for topic, partitions in members[name].had.items():
            if name in wanting.get(topic, ()):
                valid = [(topic, p) for p in partitions if p < counts[topic]]
                new = [one for one in valid if one not in owner]
                owner.update(dict.fromkeys(new, name))
                load[name] += len(new)
    # Whose partitions few may read are dealt first: the others can go anywhere afterwards.
    for topic in sorted(counts, key=lambda t: (len(wanting[t]), t)):
        for partition in range(counts[topic]):
            if (topic, partition) not in owner and wanting[topic]:
                name = min(wanting[topic], key=lambda n: load[n])
                owner[topic, partition] = name
                load[name] += 1
    moved = True
    while moved:  # each move makes the sum of squares smaller, so this ends
        moved = False
        for (topic, partition), name in owner.items():
            least = min(wanting[topic], key=lambda n: load[n])
            if load[name] - load[least] > 1:
                owner[topic, partition] = least
                load[name], load[least] = load[name] - 1, load[least] + 1
                moved = True
    given: dict[str, dict[TopicId, list[int]]] = {name: {} for name in load}
    for (topic, partition), name in owner.items():
        given[name].setdefault(topic, []).append(partition)
    return {name: _tidy(topics) for name, topics in given.items()}


def _tidy(topics: dict[TopicId, list[int]]) -> Partitions:
    return {t: tuple(sorted(partitions)) for t, partitions in sorted(topics.items()) if partitions}


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
