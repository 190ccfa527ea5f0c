"""How one partition's log behaves: Kafka's topic options, with Kafka's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from sexton.base.errors import ConfigError

_DAY_MS = 24 * 60 * 60 * 1000
_FOREVER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """A field is the option's name with underscores: `segment_bytes` is `segment.bytes`."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS  # -1: no limit
    retention_bytes: int = -1  # -1: no limit
    flush_messages: int = (
        _FOREVER  # fsync after this many records; by default at roll and close only
    )
    flush_ms: int = _FOREVER
    max_message_bytes: int = (1 << 20) + 12
    message_timestamp_type: str = "CreateTime"
    producer_id_expiration_ms: int = _DAY_MS
    cleanup_policy: str = "delete"  # delete, compact, or both
    compaction_policy: str = "coordinated"  # ours: `independent` behaves as Apache Kafka does
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _FOREVER
    min_cleanable_dirty_ratio: float = 0.5

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy.split(",")

    @property
    def notes_epochs_by_batches(self) -> bool:
        """As Apache Kafka: an epoch begins with the first of its batches that comes."""
        return self.compaction_policy == "independent"

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy.split(",")

    @property
    def most_segment_ms(self) -> int:
        """How long a segment is written to: no pass looks at it before (Kafka's maxSegmentMs)."""
        return (
            min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
        )

    def with_options(self, options: Mapping[str, str | int]) -> LogConfig:
        """The same with some options, in Kafka's spelling, set otherwise.

        An unknown option or an impossible value is a ConfigError.
        """
        known = {f.name.replace("_", "."): f for f in fields(self)}
        chosen: dict[str, int | float | str] = {}
        for option, value in options.items():
            if option not in known:
                raise ConfigError(option, "is not an option of a log", f"known: {', '.join(known)}")
            chosen[known[option].name] = _parsed(option, value, known[option].type)
        config = replace(self, **chosen)  # type: ignore[arg-type]
        config._check()
        return config

    def _check(self) -> None:
        least = {
            "segment_bytes": 14,
            "segment_ms": 1,
            "segment_index_bytes": 8,
            "index_interval_bytes": 0,
            "retention_ms": -1,
            "retention_bytes": -1,
            "flush_messages": 1,
            "flush_ms": 0,
            "max_message_bytes": 0,
            "producer_id_expiration_ms": 1,
            "delete_retention_ms": 0,
            "min_compaction_lag_ms": 0,
            "max_compaction_lag_ms": 1,
        }
        for name, bound in least.items():
            value = getattr(self, name)
            if value < bound:
                why = f"is {value}, the least possible is {bound}"
                raise ConfigError(name.replace("_", "."), why)
        for part in self.cleanup_policy.split(","):
            if part not in ("compact", "delete"):
                raise ConfigError("cleanup.policy", f"has {part!r}", "compact, delete or both")
        if self.compaction_policy not in ("coordinated", "independent"):
            why = f"is {self.compaction_policy!r}"
            raise ConfigError("compaction.policy", why, "coordinated or independent")
        if not 0 <= self.min_cleanable_dirty_ratio <= 1:
            why = f"is {self.min_cleanable_dirty_ratio}, a share from 0 to 1 is needed"
            raise ConfigError("min.cleanable.dirty.ratio", why)
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            why = f"is {self.min_compaction_lag_ms}, above max.compaction.lag.ms"
            raise ConfigError("min.compaction.lag.ms", why, "raise both or lower this one")
        if self.message_timestamp_type not in ("CreateTime", "LogAppendTime"):
            why = f"is {self.message_timestamp_type!r}"
            raise ConfigError("message.timestamp.type", why, "CreateTime or LogAppendTime")


def _parsed(option: str, value: str | int, kind: object) -> int | float | str:
    """`kind` is the field's annotation, which is text in this module."""
    try:
        if kind == "float":
            return float(value)
        return str(value).replace(" ", "") if kind == "str" else int(value)
    except ValueError:
        raise ConfigError(option, f"is {value!r}, a number is needed") from None
