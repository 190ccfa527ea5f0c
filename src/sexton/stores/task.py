"""What an application says of itself: tasks, and how an instance runs them.

    def count(key, value, store):
        total = store.get(key, 0) + 1
        store.put(key, total)
        return [(key, total)]

    Task("counts", input="words", output="totals", process=count,
         input_serdes=("str", "bytes"), store_serdes=("str", "int"), output_serdes=("str", "int"))

`process` is called for one record after the other of a partition, in order. What it writes to the
store and what it returns is committed together with the fact that the record was processed. It may
be called again for a record whose first attempt was never committed, so it changes nothing else.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_type_hints

from sexton.base.errors import ConfigError
from sexton.stores.serdes import Serde, serde_of

if TYPE_CHECKING:
    from sexton.stores.view import Store

Serdes = tuple[Serde | str, Serde | str]  # of keys, of values
BYTES: Serdes = ("bytes", "bytes")


class Output(NamedTuple):
    """One record to write; (key, value) alone goes to the task's output topic."""

    key: Any
    value: Any
    topic: str | None = None
    partition: int | None = None  # None: the one that Java's client would choose for the key


Process = Callable[[Any, Any, "Store"], Iterable[Output | tuple[Any, Any]] | None]


@dataclass(frozen=True, slots=True)
class Task:
    name: str  # part of the names of its changelog and its directories
    input: str  # a topic; each of its partitions is worked on by itself
    process: Process
    output: str | None = None
    input_serdes: Serdes = BYTES
    store_serdes: Serdes = BYTES
    output_serdes: Serdes = BYTES

    def __post_init__(self) -> None:
        if not self.name or set(self.name) - _NAMED:
            why = f"{self.name!r} is not a name for a task"
            raise ConfigError("task", why, "use letters, digits, '.', '_' and '-'")
        for serdes in (self.input_serdes, self.store_serdes, self.output_serdes):
            for each in serdes:
                serde_of(each)


_NAMED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


_LEAST = {
    "commit_interval_ms": 0,  # after each batch of inputs
    "most_overlay_bytes": 1,
    "session_timeout_ms": 1,
    "heartbeat_interval_ms": 1,
    "rebalance_timeout_ms": 1,
    "max_poll_interval_ms": 1,
    "transaction_timeout_ms": 1,
    "restore_timeout_ms": 1,
    "request_timeout_ms": 1,
    "fetch_bytes": 1,
}


@dataclass(frozen=True, slots=True)
class AppConfig:
    """How an instance runs; Kafka's names where Kafka has the same."""

    application_id: str  # the consumer group, and part of all other names
    bootstrap_servers: str
    state_dir: Path = Path("state")  # one for each instance
    standbys: int = 1
    instance: str = field(default_factory=socket.gethostname)  # for people
    store: Literal["rocksdb", "memory"] = "rocksdb"
    settings: Mapping[str, str] = field(default_factory=dict)  # Kafka's client settings
    commit_interval_ms: int = 100
    # Memory that uncommitted work may take; then it is committed early.
    most_overlay_bytes: int = 32 << 20
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 1_000
    rebalance_timeout_ms: int = 60_000
    # How long one call of `process` may take; then others get this instance's tasks.
    max_poll_interval_ms: int = 300_000
    transaction_timeout_ms: int = 60_000
    restore_timeout_ms: int = 300_000
    request_timeout_ms: int = 10_000
    fetch_bytes: int = 1 << 20  # of a partition at once
    replication_factor: int = -1  # of changelogs; -1: the brokers' default
    compression: Literal["none", "lz4", "zstd", "snappy", "gzip"] = "none"
    # For the lab only: believe the local disk on promotion, as Kafka Streams did (KAFKA-16017).
    trust_local_checkpoint: bool = False

    def __post_init__(self) -> None:
        if not self.application_id or set(self.application_id) - _NAMED:
            why = f"{self.application_id!r} is no name"
            raise ConfigError("application_id", why, "use letters, digits, '.', '_' and '-'")
        for option in ("store", "compression"):
            value, choices = getattr(self, option), get_args(get_type_hints(AppConfig)[option])
            if value not in choices:
                raise ConfigError(option, f"is {value!r}, and not one of {', '.join(choices)}")
        if self.standbys < 0:
            raise ConfigError("standbys", f"{self.standbys} copies cannot be kept")
        for option, least in _LEAST.items():
            if getattr(self, option) < least:
                raise ConfigError(option, f"is {getattr(self, option)}, and not at least {least}")
        if self.commit_interval_ms >= self.transaction_timeout_ms:
            why = f"{self.commit_interval_ms} ms is not less than transaction_timeout_ms"
            raise ConfigError("commit_interval_ms", why)

    def changelog(self, task: str) -> str:
        """The name of a task's changelog topic."""
        return f"{self.application_id}-{task}-changelog"

    def transactional_id(self, task: str, partition: int) -> str:
        """Under which one partition of a task writes; only its owner does."""
        return f"{self.application_id}-{task}-{partition}"

    def directory(self, task: str, partition: int) -> Path:
        """Where one partition's store is on this machine."""
        return self.state_dir / self.application_id / f"{task}-{partition}"
