"""Which offsets does a log of commits come to?

The fold of one partition of `__consumer_offsets`, record by record:

    plain record       the group's offset of that partition, from here on
    record of p7       put aside for producer 7
    COMMIT of p7       what was put aside counts, as if it stood where its records stand
    ABORT of p7        what was put aside is dropped
    tombstone          no offset, and nothing put aside

*Where its records stand*: an offset that was committed plainly after them stays. So a group's
offset never goes back, unless a client commits a lower one; and cleaning, which keeps the last
record of a key, does not change what the fold comes to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import NamedTuple

from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines.offset_messages import (
    NO_PRODUCER_ID,
    NO_TOPIC_ID,
    CommittedOffset,
    Marker,
    OffsetRecord,
)


class Key(NamedTuple):
    group: str
    partition: TopicPartition


class Placed(NamedTuple):
    """An offset, and where its record stands: a number that grows along the log."""

    place: int
    value: CommittedOffset


@dataclass(slots=True)
class OffsetTable:
    committed: dict[str, dict[TopicPartition, Placed]] = field(default_factory=dict)  # by group
    pending: dict[int, dict[Key, Placed]] = field(default_factory=dict)  # by producer id
    _open: dict[Key, dict[int, None]] = field(default_factory=dict)  # the producers it waits for

    def get(self, key: Key) -> CommittedOffset | None:
        placed = self.committed.get(key.group, {}).get(key.partition)
        return placed.value if placed is not None else None

    def is_pending(self, key: Key) -> bool:
        return key in self._open

    def keys_of(self, group: str) -> list[Key]:
        """All that the group has committed, or is about to."""
        committed = [Key(group, partition) for partition in self.committed.get(group, {})]
        return list(dict.fromkeys([*committed, *(key for key in self._open if key.group == group)]))

    def keys_of_topics(self, topics: Mapping[str, bytes]) -> list[Key]:
        """Those of topics that were deleted, and not of later ones with the same name."""
        return self._keys(lambda key, value: belongs(key.partition, value, topics))

    def keys_of_no_topic(self, topics: Mapping[str, bytes]) -> list[Key]:
        """Those of topics that are not among these, as far as an offset says which it is of."""
        return self._keys(lambda key, value: not belongs(key.partition, value, topics))

    def _keys(self, meant: Callable[[Key, CommittedOffset], bool]) -> list[Key]:
        found = [
            key
            for group, partitions in self.committed.items()
            for partition, placed in partitions.items()
            if meant(key := Key(group, partition), placed.value)
        ]
        for put_aside in self.pending.values():
            found += [key for key, placed in put_aside.items() if meant(key, placed.value)]
        return list(dict.fromkeys(found))

    def apply(self, entry: OffsetRecord | Marker, place: int) -> list[Key]:
        """Takes in what stands next in the log; returns what it was about."""
        if isinstance(entry, Marker):
            return self._resolve(entry)
        key = Key(entry.group, entry.partition)
        if entry.value is None:
            self._remove(key)
        elif entry.producer_id == NO_PRODUCER_ID:
            self._store(key, Placed(place, entry.value))
        else:
            self.pending.setdefault(entry.producer_id, {})[key] = Placed(place, entry.value)
            self._open.setdefault(key, {})[entry.producer_id] = None
        return [key]

    def _resolve(self, marker: Marker) -> list[Key]:
        resolved = self.pending.pop(marker.producer_id, {})
        for key, placed in resolved.items():
            producers = self._open[key]
            del producers[marker.producer_id]
            if not producers:
                del self._open[key]
            current = self.committed.get(key.group, {}).get(key.partition)
            if marker.commit and (current is None or current.place < placed.place):
                self._store(key, placed)
        return list(resolved)

    def _store(self, key: Key, placed: Placed) -> None:
        partitions = self.committed.setdefault(key.group, {})
        current = partitions.get(key.partition)
        assert current is None or current.place <= placed.place, "an offset goes back"
        partitions[key.partition] = placed

    def _remove(self, key: Key) -> None:
        partitions = self.committed.get(key.group)
        if partitions is not None:
            partitions.pop(key.partition, None)
            if not partitions:
                del self.committed[key.group]
        for producer_id in self._open.pop(key, {}):
            put_aside = self.pending[producer_id]
            del put_aside[key]
            if not put_aside:
                del self.pending[producer_id]

    def check(self) -> None:
        assert all(self.committed.values()) and all(self.pending.values())
        waiting: dict[Key, set[int]] = {}
        for producer_id, put_aside in self.pending.items():
            for key in put_aside:
                waiting.setdefault(key, set()).add(producer_id)
        assert waiting == {key: set(producers) for key, producers in self._open.items()}


def belongs(partition: TopicPartition, value: CommittedOffset, topics: Mapping[str, bytes]) -> bool:
    """Is it an offset of one of these topics, or may it be?"""
    topic_id = topics.get(partition.topic)
    return topic_id is not None and value.topic_id in (NO_TOPIC_ID, topic_id)
