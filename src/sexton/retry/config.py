"""How one instance of ordered retry is set up; built once, passed down.

Kafka's own client settings (`settings`) go to the consumer, the producer and our own client alike,
under Kafka's names: brokers, security, timeouts. Those that ordered retry depends on are its own,
and to set one of them is an error rather than a surprise.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from sexton.base.errors import ConfigError
from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_settings import HEADROOM_BYTES, Settings
from sexton.retry.topics import Names

OURS: Final = {
    "group.id": "give group=",
    "enable.auto.commit": "offsets go with the transaction of each round",
    "enable.auto.offset.store": "offsets go with the transaction of each round",
    "isolation.level": "it has to be read_committed",
    "transactional.id": "give instance=",
    "enable.idempotence": "it has to be on",
    "acks": "it has to be all",
}
# librdkafka's words, in any case, for where a group begins that has never committed.
AT_BEGINNING: Final = ("earliest", "beginning", "smallest")
AT_END: Final = ("latest", "end", "largest")
MOST_BYTES = 1_000_000_000  # that librdkafka allows a message
_CONSUMER_ONLY = ("group.", "auto.offset.", "fetch.", "partition.assignment.", "max.poll.",
    "session.", "heartbeat.", "queued.")  # fmt: skip
_PRODUCER_ONLY = ("transaction.", "linger.", "batch.", "compression.", "queue.buffering.",
    "message.", "delivery.", "retries", "partitioner")  # fmt: skip


@dataclass(frozen=True, slots=True)
class RetryConfig:
    names: Names
    group: str
    settings: Mapping[str, str]
    machine: Settings = field(default_factory=Settings)
    workers: int = 1  # a handler that is not thread-safe is safe here
    max_batch: int = 2_000  # messages in a round, and with that in a transaction
    create_topics: bool = True
    replication: int | None = None  # None: as many as the main topic has
    instance: str | None = None  # a name that stays the same when this instance starts again
    accept_growth: bool = False
    transaction_timeout_ms: int = 15_000  # how long a crash can hold others up
    commands_every_s: float = 1.0  # how soon an operator's command is heard
    shutdown_timeout_s: float = 30.0  # for handlers that still run

    def __post_init__(self) -> None:
        for name, given in (("topic", self.names.main), ("group", self.group)):
            if not given:
                raise ConfigError(name, "is empty", "name one")
        for name, value in (("workers", self.workers), ("max_batch", self.max_batch)):
            if value < 1:
                raise ConfigError(name, f"is {value}", "at least 1")
        for name, why in OURS.items():
            if name in self.settings:
                raise ConfigError(name, "cannot be set here", why)
        if not self.settings.get("bootstrap.servers"):
            raise ConfigError("bootstrap_servers", "is not given", 'as in "localhost:9092"')
        if self._reset not in AT_BEGINNING + AT_END:
            why = f"is {self._reset!r}, and a new group has to begin somewhere"
            hint = "earliest (all that the topic has), or latest (what comes from now on)"
            raise ConfigError("auto.offset.reset", why, hint)

    @property
    def begins_at_end(self) -> bool:
        """Where the group reads from if it has never committed."""
        return self._reset in AT_END

    @property
    def _reset(self) -> str:
        return self.settings.get("auto.offset.reset", "earliest").lower()

    @property
    def incremental(self) -> bool:
        """Whether the group moves only the partitions that have to move."""
        strategy = self.settings.get("partition.assignment.strategy", "cooperative-sticky")
        return "cooperative" in strategy or self.settings.get("group.protocol") == "consumer"

    def consumer(self) -> dict[str, Any]:
        common = self._without(_PRODUCER_ONLY)
        wanted: dict[str, Any] = {
            # As many as a few rounds take; librdkafka's own wait for room is a second.
            "queued.min.messages": max(100_000, 4 * self.max_batch),
            "fetch.queue.backoff.ms": 10,
            **common,
            "group.id": self.group,
            # Where a new group begins is found out at the start of each partition. This is for an
            # offset that is gone: at the end, what is still there would be left out.
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        if common.get("group.protocol") != "consumer":
            wanted.setdefault("partition.assignment.strategy", "cooperative-sticky")
        if self.instance is not None:
            wanted.setdefault("group.instance.id", self.instance)
        return wanted

    def producer(self, transactional_id: str, most_bytes: int) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            # A commit sends what is left at once; until then few large batches cost brokers less.
            "linger.ms": 2,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
            # An earlier transaction takes a moment to end: 100 ms would be most of the next one.
            "retry.backoff.ms": 2,
            "retry.backoff.max.ms": 50,
            "message.max.bytes": min(most_bytes + HEADROOM_BYTES, MOST_BYTES),
            **self._without(_CONSUMER_ONLY),
            "acks": "all",
            "enable.idempotence": True,
        }
        if self.machine.mode == "transactional":
            wanted["transactional.id"] = transactional_id
            wanted["transaction.timeout.ms"] = self.transaction_timeout_ms
        return wanted

    def _without(self, prefixes: tuple[str, ...]) -> dict[str, str]:
        return {k: v for k, v in self.settings.items() if not k.startswith(prefixes)}

    def transactional_id(self) -> str:
        """One for each instance: what fences is the group's generation, not this name."""
        name = self.instance or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        return f"{self.transactional_prefix}{name}"

    @property
    def transactional_prefix(self) -> str:
        """What those of all instances begin with."""
        return f"sexton-retry-{self.group}-{self.names.main}-"
