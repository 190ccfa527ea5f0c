"""Which options has a topic, what may they be, and where does each value come from?

The options are Kafka's, and one of ours: `compaction.policy`. Most are those of a log; a broker has
an option of another name for each, which gives the default. The first of these counts:

    the topic's own ─▶ this broker's ─▶ all brokers' ─▶ the broker's config ─▶ Kafka's default
    (dynamic, kept by the controller, the first three)        (static)

Some of Kafka's options have no effect here, and are kept for those who set them all the same: what
recompresses, throttles, preallocates or delays. Tiered storage is not there: it cannot be enabled.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields

from sexton.base.errors import ConfigError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.log.config import LogConfig
from sexton.machines.metadata import Image
from sexton.machines.options import POLICY

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)  # Kafka's types
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


@dataclass(frozen=True, slots=True)
class TopicOption:
    name: str
    kind: int  # one of Kafka's types
    default: str
    synonym: str | None  # what a broker calls it
    about: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    broker_unset: bool = False  # a broker's own is unset by default, another unit says it

    def check(self, value: str) -> None:
        """Refuses a value that is none of this option."""
        text = value.strip()
        if self.kind == BOOLEAN:
            self._among(text.lower(), ("true", "false"))
        elif self.kind in (INT, LONG, DOUBLE):
            self._number(text)
        elif self.choices:
            parts = text.split(",") if self.kind == LIST else [text]
            for part in parts:
                self._among(part.strip(), self.choices)

    def _among(self, text: str, choices: tuple[str, ...]) -> None:
        if text not in choices:
            raise _bad(self.name, text, f"it is one of {', '.join(choices)}")

    def _number(self, text: str) -> None:
        try:
            number = float(text) if self.kind == DOUBLE else int(text)
        except ValueError:
            kinds = {INT: "a 32-bit integer", LONG: "a 64-bit integer", DOUBLE: "a number"}
            raise _bad(self.name, text, f"it is {kinds[self.kind]}") from None
        largest = {INT: _INT_MAX, LONG: _LONG_MAX}.get(self.kind)
        most = self.most if self.most is not None else largest
        if (self.least is not None and number < self.least) or (most is not None and number > most):
            bounds = (
                f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"
            )
            raise _bad(self.name, text, f"it is {bounds}")


def _bad(option: str, value: str, why: str) -> Refused:
    return Refused(
        KafkaError.INVALID_CONFIG, f"Invalid value {value} for configuration {option}: {why}"
    )


_FOREVER = str(_LONG_MAX)

TOPIC_OPTIONS: dict[str, TopicOption] = {
    option.name: option
    for option in (
        TopicOption(
            "cleanup.policy", LIST, "delete", "log.cleanup.policy",
            "What happens to old segments: delete, compact, or both.",
            choices=("compact", "delete"),
        ),
        TopicOption(
            "compaction.policy", STRING, "coordinated", "log.compaction.policy",
            "Whether replicas agree on what may be forgotten (coordinated), or each goes by its "
            "own timers as in Apache Kafka (independent).", choices=("coordinated", "independent"),
        ),
        TopicOption(
            "compression.gzip.level", INT, "-1", "compression.gzip.level",
            "Kept, without effect: batches stay as producers compressed them.", -1, 9,
        ),
        TopicOption(
            "compression.lz4.level", INT, "9", "compression.lz4.level",
            "Kept, without effect: batches stay as producers compressed them.", 1, 17,
        ),
        TopicOption(
            "compression.type", STRING, "producer", "compression.type",
            "Kept, without effect: batches stay as producers compressed them.", choices=_CODECS,
        ),
        TopicOption(
            "compression.zstd.level", INT, "3", "compression.zstd.level",
            "Kept, without effect: batches stay as producers compressed them.", -131072, 22,
        ),
        TopicOption(
            "delete.retention.ms", LONG, "86400000", "log.cleaner.delete.retention.ms",
            "The least time to keep a tombstone or a marker after it became the last word.", 0,
        ),
        TopicOption(
            "file.delete.delay.ms", LONG, "60000", "log.segment.delete.delay.ms",
            "Kept, without effect: files are deleted at once.", 0,
        ),
        TopicOption(
            "flush.messages", LONG, _FOREVER, "log.flush.interval.messages",
            "Sync the log after this many records.", 1,
        ),
        TopicOption(
            "flush.ms", LONG, _FOREVER, "log.flush.interval.ms",
            "Sync the log after this time.", 0, broker_unset=True,
        ),
        TopicOption(
            "follower.replication.throttled.replicas", LIST, "", None,
            "Kept, without effect: nothing is throttled.",
        ),
        TopicOption(
            "index.interval.bytes", INT, "4096", "log.index.interval.bytes",
            "How many bytes of a log lie between two entries of its index.", 0,
        ),
        TopicOption(
            "leader.replication.throttled.replicas", LIST, "", None,
            "Kept, without effect: nothing is throttled.",
        ),
        TopicOption(
            "local.retention.bytes", LONG, "-2", "log.local.retention.bytes",
            "Kept, without effect: there is no tiered storage.", -2,
        ),
        TopicOption(
            "local.retention.ms", LONG, "-2", "log.local.retention.ms",
            "Kept, without effect: there is no tiered storage.", -2,
        ),
        TopicOption(
            "max.compaction.lag.ms", LONG, _FOREVER, "log.cleaner.max.compaction.lag.ms",
            "After this time a record is due for compaction, however little there is to clean.", 1,
        ),
        TopicOption(
            "max.message.bytes", INT, "1048588", "message.max.bytes",
            "The largest batch that is taken, after compression.", 0,
        ),
        TopicOption(
            "message.timestamp.after.max.ms", LONG, "3600000",
            "log.message.timestamp.after.max.ms",
            "Kept, without effect: a record may have any time.", 0,
        ),
        TopicOption(
            "message.timestamp.before.max.ms", LONG, _FOREVER,
            "log.message.timestamp.before.max.ms",
            "Kept, without effect: a record may have any time.", 0,
        ),
        TopicOption(
            "message.timestamp.type", STRING, "CreateTime", "log.message.timestamp.type",
            "Whether records have the time of their creation or of their arrival.",
            choices=("CreateTime", "LogAppendTime"),
        ),
        TopicOption(
            "min.cleanable.dirty.ratio", DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio",
            "The share of a log that must be new before it is cleaned.", 0, 1,
        ),
        TopicOption(
            "min.compaction.lag.ms", LONG, "0", "log.cleaner.min.compaction.lag.ms",
            "How long a record is safe from compaction.", 0,
        ),
        TopicOption(
            "min.insync.replicas", INT, "1", "min.insync.replicas",
            "How many replicas must be in sync for a write with acks=all.", 1,
        ),
        TopicOption(
            "preallocate", BOOLEAN, "false", "log.preallocate",
            "Kept, without effect: files grow as they are written.",
        ),
        TopicOption(
            "remote.log.copy.disable", BOOLEAN, "false", None,
            "Kept, without effect: there is no tiered storage.",
        ),
        TopicOption(
            "remote.log.delete.on.disable", BOOLEAN, "false", None,
            "Kept, without effect: there is no tiered storage.",
        ),
        TopicOption(
            "remote.storage.enable", BOOLEAN, "false", None,
            "Cannot be enabled: there is no tiered storage.",
        ),
        TopicOption(
            "retention.bytes", LONG, "-1", "log.retention.bytes",
            "How large a partition may become before old segments go; -1 is without limit.", -1,
        ),
        TopicOption(
            "retention.ms", LONG, "604800000", "log.retention.ms",
            "How old a segment may become before it goes; -1 is without limit.", -1,
            broker_unset=True,
        ),
        TopicOption(
            "segment.bytes", INT, "1073741824", "log.segment.bytes",
            "How large a segment becomes before the next one begins.", 14,
        ),
        TopicOption(
            "segment.index.bytes", INT, "10485760", "log.index.size.max.bytes",
            "How large a segment's index becomes before the next one begins.", 8,
        ),
        TopicOption(
            "segment.jitter.ms", LONG, "0", "log.roll.jitter.ms",
            "Kept, without effect: segments are not rolled at random times.", 0,
            broker_unset=True,
        ),
        TopicOption(
            "segment.ms", LONG, "604800000", "log.roll.ms",
            "How long a segment is written to before the next one begins.", 1,
            broker_unset=True,
        ),
        TopicOption(
            "unclean.leader.election.enable", BOOLEAN, "false", "unclean.leader.election.enable",
            "Whether a replica that is not in sync may lead if no other can; records are lost.",
        ),
    )
}  # fmt: skip

BY_SYNONYM: dict[str, TopicOption] = {
    option.synonym: option for option in TOPIC_OPTIONS.values() if option.synonym
}
# What Kafka's tools set on brokers while replicas move.
_BROKER_ONLY = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
BROKER_OPTIONS: dict[str, TopicOption] = {  # those that can be changed while a broker runs
    **{name: option for name, option in BY_SYNONYM.items() if option.name != POLICY},
    **{
        name: TopicOption(
            name, LONG, _FOREVER, name, "Kept, without effect: nothing is throttled.", 0
        )
        for name in _BROKER_ONLY
    },
}
_LOG_FIELDS = {field.name.replace("_", "."): field.name for field in fields(LogConfig)}


def check_topic_options(options: Mapping[str, str]) -> None:
    """Refuses what a topic cannot be."""
    for name, value in options.items():
        option = TOPIC_OPTIONS.get(name)
        if option is None:
            raise Refused(KafkaError.INVALID_CONFIG, f"Unknown topic config name: {name}")
        option.check(value)
    if options.get("remote.storage.enable", "false").strip().lower() == "true":
        raise Refused(
            KafkaError.INVALID_CONFIG, "remote.storage.enable: there is no tiered storage here"
        )
    try:
        LogConfig().with_options(_of_log(options))
    except ConfigError as error:
        raise Refused(KafkaError.INVALID_CONFIG, f"{error.subject}: {error.why}") from error


# ── what counts ──


def dynamic_options(image: Image, node: int, topic: str | None) -> dict[str, str]:
    """What was set while brokers were running, in a topic's words; its own come last."""
    chosen: dict[str, str] = {}
    for name in ("", str(node)):
        for synonym, value in image.options_of("broker", name).items():
            if synonym in BY_SYNONYM:
                chosen[BY_SYNONYM[synonym].name] = value
    own = {} if topic is None else image.options_of("topic", topic)
    return {name: value for name, value in chosen.items() if name not in own} | own


def log_config(static: LogConfig, options: Mapping[str, str]) -> LogConfig:
    """How a log behaves under these; one that cannot be beside the others is passed over.

    A topic's options are judged without the broker's, which may contradict them: a
    `min.compaction.lag.ms` above the broker's maximum. That must not undo its `cleanup.policy`, for
    then retention would delete what is only to be compacted. The topic's own count first.
    """
    wanted = _of_log(options)
    try:
        return static.with_options(wanted)
    except ConfigError:
        config = static
        for name, value in reversed(wanted.items()):
            with suppress(ConfigError):
                config = config.with_options({name: value})
        return config


def static_value(option: TopicOption, static: LogConfig, min_insync_replicas: int) -> str:
    """What the broker's own config says."""
    if option.name == "min.insync.replicas":
        return str(min_insync_replicas)
    field = _LOG_FIELDS.get(option.name)
    return option.default if field is None else str(getattr(static, field))


def _of_log(options: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value.strip()
        for name, value in options.items()
        if name in _LOG_FIELDS and name in TOPIC_OPTIONS
    }
