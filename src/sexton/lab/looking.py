"""What does an ordinary consumer see, and what does each replica hold?

An application sees a topic through the leader only; `consumed` is what it would see, by a client
like any other. `replica_logs` asks every broker for its own copy, which no application does, and
lays replicas that ought to agree side by side, batch by batch.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sexton.base.errors import Missing, PeerError, Refused
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.committed import committed_batches
from sexton.client.connection import ClientConfig
from sexton.client.replica import Chunk, Isolation, RawBatch, Replica, ReplicaOffsets
from sexton.records.control import first_control_record
from sexton.testing.waiting import TimedOut

PATIENCE_S: Final = 30.0
_QUICK = ClientConfig(socket_connection_setup_timeout_ms=2_000, request_timeout_ms=5_000)


@dataclass(frozen=True, slots=True)
class Shown:
    """One record, as an application gets it."""

    offset: int
    key: str
    value: str | None  # None: a tombstone


@dataclass(frozen=True, slots=True)
class Consumed:
    """All that a consumer was given from the start of a partition on, and where it had to stop."""

    records: tuple[Shown, ...]
    position: int

    @property
    def latest(self) -> dict[str, str]:
        """The last value of every key that lives."""
        found = {record.key: record.value for record in self.records}
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """One broker's copy of a partition."""

    node: int
    offsets: ReplicaOffsets
    batches: tuple[str, ...]  # in words, such as `0:@k=1`, `1:COMMIT`, `2:-k`, `3:()`
    committed: tuple[Shown, ...]  # what a read_committed consumer would be shown
    aborted: tuple[tuple[int, int], ...]  # producer and first offset, by this replica's account
    stored: dict[int, str] = field(default_factory=dict)  # by last offset, the words again

    @property
    def latest(self) -> dict[str, str]:
        return Consumed(self.committed, 0).latest

    @property
    def is_stuck(self) -> bool:
        """Does a transaction that nobody will end here hold readers back?"""
        return self.offsets.last_stable < self.offsets.high_watermark

    def __str__(self) -> str:
        return f"{self.node}: " + " ".join(self.batches)


def consumed(
    bootstrap_servers: str, topic: str, partition: int = 0, isolation: str = "read_committed"
) -> Consumed:
    """Reads a partition from its start with an ordinary consumer, until there is no more."""
    library = _confluent_kafka()
    consumer = library.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "sexton-lab",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "log_level": 0,  # brokers that are down are often the point
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
        }
    )
    records: list[Shown] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        consumer.assign([library.TopicPartition(topic, partition, 0)])
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                records.append(
                    Shown(message.offset(), _text(message.key()) or "", _text(message.value()))
                )
            elif error.code() == library.KafkaError._PARTITION_EOF:
                return Consumed(tuple(records), message.offset())
            elif not error.retriable():
                raise PeerError(f"{topic}-{partition}", error.str())
    finally:
        consumer.close()
    raise TimedOut(f"the end of {topic}-{partition}", f"not within {PATIENCE_S:g} s")


def replica_logs(bootstrap_servers: str, topic: str, partition: int = 0) -> dict[int, ReplicaLog]:
    """Every replica that answers, by its broker's number."""
    return asyncio.run(_replica_logs(bootstrap_servers, TopicPartition(topic, partition)))


async def _replica_logs(bootstrap_servers: str, partition: TopicPartition) -> dict[int, ReplicaLog]:
    found: dict[int, ReplicaLog] = {}
    async with Client(bootstrap_servers, _QUICK) as client:
        for replica in await client.replicas(partition):
            try:
                found[replica.node] = await read_log(replica)
            except (PeerError, Refused):
                pass  # it is down, or has no such replica yet
    return dict(sorted(found.items()))


async def read_log(replica: Replica) -> ReplicaLog:
    """One replica, whole: for logs of a few hundred records."""
    everything = [chunk async for chunk in replica.read()]
    settled = [chunk async for chunk in replica.read(isolation=Isolation.READ_COMMITTED)]
    return log_of(await replica.offsets(), everything, settled)


def log_of(
    offsets: ReplicaOffsets, everything: Sequence[Chunk], settled: Sequence[Chunk]
) -> ReplicaLog:
    """What was read from one replica, without and with read_committed, in words."""
    stored = {
        batch.header.last_offset: words_of(batch)
        for chunk in everything
        for batch in chunk.batches()
    }
    aborted = {
        (entry.producer_id, entry.first_offset) for chunk in settled for entry in chunk.aborted
    }
    return ReplicaLog(
        offsets.node,
        offsets,
        tuple(stored.values()),
        shown_in(settled),
        tuple(sorted(aborted)),
        stored,
    )


def shown_in(chunks: Sequence[Chunk]) -> tuple[Shown, ...]:
    """What a consumer makes of them that reads committed records only."""
    return tuple(
        Shown(record.offset, _text(record.key) or "", _text(record.value))
        for chunk in chunks
        for batch in committed_batches(chunk)
        for record in batch.records()
    )


def words_of(batch: RawBatch) -> str:
    """`0:@k=1` is a value in a transaction, `1:-k` a tombstone, `2:()` a batch that was emptied."""
    header = batch.header
    mark = "@" if header.is_transactional else ""
    if header.is_control:
        marker = first_control_record(batch.data, f"offset {header.base_offset}")
        kind = "()" if marker is None else marker.name
        return f"{header.last_offset}:{kind}"
    words = []
    for record in batch.records():
        key, value = _text(record.key), _text(record.value)
        what = f"-{key}" if value is None else f"{key}={value}"
        words.append(f"{record.offset}:{mark}{what}")
    return " ".join(words) or f"{header.last_offset}:{mark}()"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _confluent_kafka() -> Any:
    try:
        return importlib.import_module("confluent_kafka")
    except ImportError:
        hint = 'pip install "sexton[testing]"'
        raise Missing("confluent-kafka", "is not installed", hint) from None
