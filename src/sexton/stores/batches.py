"""Outputs and changelog records to finished record batches, without a producer yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.records.columns import Spans
from sexton.records.encoder import Encoder, rows
from sexton.records.layout import BatchHeader, Codec
from sexton.stores.partitioner import Partitioner
from sexton.stores.serdes import Serde

BATCH_BYTES = 512 << 10  # well below max.message.bytes, which is 1 MB

_CODECS = {
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


_LENGTHS = (2, 4)  # a pair, an Output
_KINDS = (tuple, list)  # made once: a union of them would be made anew for every record


class Collected:
    """Records for one partition, in order."""

    __slots__ = ("keys", "times", "values")

    def __init__(self) -> None:
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.times: list[int] = []


class Outputs:
    """What `process` returned since the last commit, by partition."""

    def __init__(
        self, topic: str | None, key: Serde, value: Serde, partitions: dict[str, Partitioner]
    ) -> None:
        self._topic = topic
        self._key, self._value = key.encode, value.encode
        self._partitions = partitions  # of every topic that is written to
        self.by_partition: dict[TopicPartition, Collected] = {}
        self.size_bytes = 0
        self._one: Collected | None = None  # where everything goes, if that is one place
        if topic is not None and partitions[topic].count == 1:
            self._one = self.by_partition[TopicPartition(topic, 0)] = Collected()

    def look(self) -> None:
        """The topic may have grown since; asked before a batch of inputs, not for every output."""
        if self._one is not None and self._topic and self._partitions[self._topic].count > 1:
            self._one = None

    def add(self, made: Any, time_ms: int) -> None:
        """An `Output` or a pair, of somebody who may not have a type checker."""
        if not isinstance(made, _KINDS) or len(made) not in _LENGTHS:
            raise _no_output(made)
        key = None if made[0] is None else self._key(made[0])
        value = None if made[1] is None else self._value(made[1])
        self.size_bytes += len(key or b"") + len(value or b"") + 100
        if self._one is not None and len(made) == 2:
            place = self._one
        else:
            place = self._place(made, key)
        place.keys.append(key)
        place.values.append(value)
        place.times.append(time_ms)

    def _place(self, made: Sequence[Any], key: bytes | None) -> Collected:
        topic, partition = made[2:] if len(made) == 4 else (None, None)
        topic = topic or self._topic
        if topic is None:
            hint = "give the task an output topic, or return Output(key, value, topic)"
            raise ConfigError("output", "there is no topic for what the task returns", hint)
        if partition is None:
            chooser = self._partitions.get(topic)
            if chooser is None:
                hint = "name the partition, or make it the task's output topic"
                raise ConfigError(topic, "its number of partitions is not known", hint)
            partition = chooser.of(key)
        at = TopicPartition(topic, partition)
        found = self.by_partition.get(at)
        if found is None:
            found = self.by_partition[at] = Collected()
        return found


def _no_output(made: object) -> TypeError:
    """Text of two letters would be a key and a value, and a third thing would be left out."""
    return TypeError(
        f"process() returns a list of (key, value) or Output(key, value, topic, partition), and"
        f" this is in it: {made!r:.100}"
    )


class BatchMaker:
    def __init__(self, compression: str) -> None:
        self._codec = _CODECS[compression]
        self._encoder = Encoder()

    def batches(
        self, keys: list[bytes | None], values: list[bytes | None], times: list[int]
    ) -> list[bytearray]:
        if not keys:
            return []
        columns = rows(
            np.array(times, np.int64),
            Spans.from_list(keys),
            Spans.from_list(values),
            batch_bytes=BATCH_BYTES,
            codec=self._codec,
        )
        encoded = self._encoder.encode(columns).data
        return _split(encoded)


def _split(encoded: memoryview) -> list[bytearray]:
    """One batch after the other; each says itself how long it is. Offsets begin at 0 in each."""
    found: list[bytearray] = []
    place = 0
    while place < len(encoded):
        size = BatchHeader.unpack(encoded, place).size
        batch = bytearray(encoded[place : place + size])
        batch[:8] = bytes(8)
        found.append(batch)
        place += size
    return found
