"""What the user of `sexton repair` asked for, checked as far as one can without a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.cli.guard_reach import DEFAULT_MEMORY
from sexton.cli.naming import topic_and_partition


@dataclass(frozen=True, slots=True)
class Request:
    topic: str
    partition: int | None  # None: all of them
    settings: dict[str, str]
    dry_run: bool = False
    yes: bool = False
    findings: Path | None = None
    throttle_bytes_per_s: int | None = None
    trusted: int | None = None
    tombstones: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    as_on: int | None = None
    state: Path | None = None
    keep_copy: Path | None = None
    memory_topic: str = DEFAULT_MEMORY
    show_keys: bool = False

    @classmethod
    def of(cls, what: str, settings: dict[str, str], **chosen: Any) -> Request:
        return cls(*topic_and_partition(what), settings, **chosen)

    def __post_init__(self) -> None:
        if self.as_on is not None and not self.values:
            raise ConfigError("--as-on", "needs --keep-value")
        if self.findings is not None and (self.tombstones or self.values):
            hint = "leave it out: a new audit is made"
            raise ConfigError("--findings", "does not go with choices about keys", hint)

    @property
    def partitions(self) -> tuple[int, ...] | None:
        return None if self.partition is None else (self.partition,)

    @property
    def only(self) -> tuple[TopicPartition, ...]:
        """As an audit takes it: empty if nothing is left out."""
        return () if self.partition is None else (TopicPartition(self.topic, self.partition),)

    def means(self, at: TopicPartition) -> bool:
        return self.partition in (None, at.partition)

    def __str__(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}:{self.partition}"
