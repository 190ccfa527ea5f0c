"""A topic's partition, and the directory name that Kafka gives it."""

from __future__ import annotations

import re
from typing import NamedTuple

from sexton.base.errors import ConfigError

# Kafka's Topic.LEGAL_CHARS and MAX_NAME_LENGTH; `-delete`, `-future` and `-stray` directories carry
# a 32-digit suffix after a dot and are no live partitions.
_DIRECTORY = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})")


class TopicPartition(NamedTuple):
    """One partition of a topic: `orders-3` in text and as a directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def from_directory(cls, name: str) -> TopicPartition:
        """The partition that a directory called `name` holds, or ConfigError."""
        match = _DIRECTORY.fullmatch(name)
        if match is None:
            raise ConfigError(
                name, "is not the name of a partition's directory", "expected TOPIC-PARTITION"
            )
        return cls(match["topic"], int(match["partition"]))
