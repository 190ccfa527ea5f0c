"""What the user asked for, checked before any broker is: `.option(name, value)` to `SourceOptions`.

Names and meanings are those of Spark's own Kafka source where it has them, and Kafka's after
`kafka.`; Spark gives us all names in lower case. A name that nobody knows is an error with the
nearest one, since a misspelt `startingOffset` would otherwise read another range than was meant. So
is a name of Spark's source that does nothing here, and two options that contradict each other.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.client.client import addresses_in
from sexton.client.connection import ClientConfig
from sexton.client.replica import CHUNK_BYTES, Isolation
from sexton.client.retrying import PATIENT, Patience
from sexton.client.settings import client_config
from sexton.spark.bounds import Bound, Edge, offsets_bound, time_bound, times_bound
from sexton.spark.columns import COLUMNS, EXTRA, HEADERS, PATH, REPLICA

EACH = "each"
OPTIONS = (
    "subscribe", "subscribePattern", "assign", "path", "paths", "replica", "columns",
    "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "endingOffsets", "endingTimestamp",
    "endingOffsetsByTimestamp", "failOnDataLoss", "includeHeaders", "includeTransactions",
    "minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "maxBytesPerSecond",
)  # fmt: skip
KAFKA_OPTIONS = (
    "bootstrap.servers", "isolation.level", "default.api.timeout.ms", "request.timeout.ms",
    "retry.backoff.ms", "retry.backoff.max.ms", "max.partition.fetch.bytes", "client.id",
)  # fmt: skip
_SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.")  # `client_config` knows which there are
_NO_GROUP = ("does nothing here: no consumer group is used", "leave it out")
_NO_POLLING = (
    "does nothing here: no consumer's polling is used",
    "leave it out; kafka.default.api.timeout.ms says how long brokers are waited for",
)
_NOT_YET = (
    "is not there yet: a trigger takes what there is",
    "leave it out; for fewer and larger batches, use trigger(processingTime=...)",
)
_BYTES = ("cannot be set: keys and values are bytes", "cast them, as in string(value)")
# What Spark's own source takes or refuses, each with a reason and what to do.
_REFUSED = {
    "groupIdPrefix": _NO_GROUP,
    "kafka.group.id": _NO_GROUP,
    "kafka.enable.auto.commit": _NO_GROUP,
    "kafkaConsumer.pollTimeoutMs": _NO_POLLING,
    "fetchOffset.numRetries": _NO_POLLING,
    "fetchOffset.retryIntervalMs": _NO_POLLING,
    "minOffsetsPerTrigger": _NOT_YET,
    "maxTriggerDelay": _NOT_YET,
    "kafka.auto.offset.reset": ("does nothing here", "say where to begin by startingOffsets"),
    "kafka.key.deserializer": _BYTES,
    "kafka.value.deserializer": _BYTES,
}
_REFUSED_AS = {name.lower(): name for name in _REFUSED}
_NESTED = re.compile(r"\[\^?\]?[^\]]*(\[|&&)")  # of sets of characters, in Java
_SPELLED = {name.lower(): name for name in OPTIONS} | {
    f"kafka.{n}": f"kafka.{n}" for n in KAFKA_OPTIONS
}


@dataclass(frozen=True, slots=True)
class Topics:
    """Which partitions; exactly one of the three is given."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()

    def takes(self, at: TopicPartition) -> bool:
        if self.assigned:
            return at in self.assigned
        if self.pattern is not None:
            return re.fullmatch(self.pattern, at.topic) is not None
        return at.topic in self.names


@dataclass(frozen=True, slots=True)
class SourceOptions:
    topics: Topics | None  # None: everything at `paths`
    paths: tuple[str, ...]
    kafka: Mapping[str, str] = field(repr=False)  # without the prefix; may hold a password
    start: Bound
    end: Bound
    isolation: Isolation
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    replica: int | Literal["each"] | None
    least_partitions: int | None
    most_records: int | None  # in one Spark partition
    most_offsets_per_trigger: int | None
    max_bytes_per_s: float | None
    chunk_bytes: int
    patience: Patience

    @property
    def bootstrap_servers(self) -> str:
        return self.kafka["bootstrap.servers"]

    @property
    def with_transactions(self) -> bool:
        return any(name in EXTRA for name in self.columns)

    def client_config(self, max_bytes_per_s: float | None = None) -> ClientConfig:
        """Made where it is used: a TLS context cannot travel to an executor."""
        return client_config(self.kafka, ClientConfig(max_bytes_per_s=max_bytes_per_s))


def parse(given: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """Whatever is wrong with the options is a ConfigError that names one."""
    options = {name.lower(): value.strip() for name, value in given.items()}
    for name in options:
        _known(name)
    kafka = {n.removeprefix("kafka."): v for n, v in options.items() if n.startswith("kafka.")}
    paths = _paths(options)
    replica = _replica(options, paths)
    _contradictions(options, paths, streaming)
    parsed = SourceOptions(
        topics=_topics(options, paths),
        paths=paths,
        kafka=kafka,
        start=_start(options, streaming),
        end=_end(options),
        isolation=_isolation(kafka),
        fail_on_data_loss=_flag(options, "failondataloss", True),
        columns=_columns(options, paths, replica),
        replica=replica,
        least_partitions=_count(options, "minpartitions"),
        most_records=_count(options, "maxrecordsperpartition"),
        most_offsets_per_trigger=_count(options, "maxoffsetspertrigger"),
        max_bytes_per_s=_count(options, "maxbytespersecond"),
        chunk_bytes=_kafka_count(kafka, "max.partition.fetch.bytes", CHUNK_BYTES),
        patience=Patience(
            timeout_ms=_kafka_count(kafka, "default.api.timeout.ms", PATIENT.timeout_ms),
            backoff_ms=_kafka_count(kafka, "retry.backoff.ms", PATIENT.backoff_ms),
            most_backoff_ms=_kafka_count(kafka, "retry.backoff.max.ms", PATIENT.most_backoff_ms),
        ),
    )
    if not paths:
        _reachable(parsed)
    return parsed


# ── names ──


def _known(name: str) -> None:
    if name in _SPELLED or name.startswith(tuple(f"kafka.{prefix}" for prefix in _SECURITY)):
        return
    if name in _REFUSED_AS:
        spelled = _REFUSED_AS[name]
        raise ConfigError(spelled, *_REFUSED[spelled])
    raise ConfigError(name, "is not an option of this source", _nearest(name))


def _nearest(name: str) -> str:
    if f"kafka.{name}" in _SPELLED:
        return f"did you mean kafka.{name}?"
    prefix, is_near = ("kafka.", 0.85) if name.startswith("kafka.") else ("", 0.6)
    # Kafka's consumer has many settings, all of them alike in length and words.
    there = {each.removeprefix(prefix): full for each, full in _SPELLED.items()}
    close = difflib.get_close_matches(name.removeprefix(prefix), there, n=1, cutoff=is_near)
    if close:
        return f"did you mean {there[close[0]]}?"
    if prefix:
        named = ", ".join(f"kafka.{each}" for each in KAFKA_OPTIONS)
        return f"there are {named}, kafka.security.protocol, kafka.ssl.* and kafka.sasl.*"
    return f"there are {', '.join(OPTIONS)}"


def _contradictions(options: Mapping[str, str], paths: tuple[str, ...], streaming: bool) -> None:
    groups = [
        ("startingtimestamp", "startingoffsetsbytimestamp", "startingoffsets"),
        ("endingtimestamp", "endingoffsetsbytimestamp", "endingoffsets"),
    ]
    for group in groups:
        both = [_SPELLED[name] for name in group if name in options]
        if len(both) > 1:
            raise ConfigError(" and ".join(both), "say the same thing twice", "leave one out")
    if streaming:
        for name in (*groups[1], "path", "paths", "replica"):
            if name in options:
                raise ConfigError(_SPELLED[name], "is for batch reads", "use spark.read")
    elif "maxoffsetspertrigger" in options:
        raise ConfigError("maxOffsetsPerTrigger", "is for streams", "use spark.readStream")
    if paths:
        for name in options:
            if name.startswith("kafka.") and name != "kafka.isolation.level":
                raise ConfigError(name, "means nothing for files", "leave out this or the path")
        for name in (*groups[0][:2], *groups[1][:2], "maxbytespersecond"):
            if name in options:
                raise ConfigError(_SPELLED[name], "means nothing for files", "use offsets")


def _reachable(options: SourceOptions) -> None:
    if "bootstrap.servers" not in options.kafka:
        hint = "write .option('kafka.bootstrap.servers', 'host:port'), or a path to read files"
        raise ConfigError("kafka.bootstrap.servers", "is not given", hint)
    addresses_in(options.bootstrap_servers)
    options.client_config()


# ── values ──


def _topics(options: Mapping[str, str], paths: tuple[str, ...]) -> Topics | None:
    given = [n for n in ("subscribe", "subscribepattern", "assign") if n in options]
    if not given and paths:
        return None
    if len(given) != 1:
        either = " or ".join(_SPELLED[name] for name in given or ("subscribe", "assign"))
        why = "only one of them can be given" if given else "which topics?"
        raise ConfigError(either, why, "write .option('subscribe', 'orders,customers')")
    value = options[given[0]]
    if given[0] == "subscribe":
        names = tuple(dict.fromkeys(filter(None, (part.strip() for part in value.split(",")))))
        if not names:
            raise ConfigError("subscribe", "names no topic", "write topics, with commas")
        return Topics(names=names)
    if given[0] == "subscribepattern":
        return Topics(pattern=_pattern(value))
    return Topics(assigned=_assigned(value))


def _pattern(value: str) -> str:
    """Most of Java's expressions are Python's; where they mean something else, nothing is read."""
    wrong = "" if value else "it is empty"
    if _NESTED.search(re.sub(r"\\.", "", value)):
        wrong = "it has a set in a set, or &&"
    else:
        try:
            re.compile(value)
        except re.error as error:
            wrong = str(error)
    if wrong:
        hint = "write it as Python does: re.fullmatch finds the topics"
        raise ConfigError("subscribePattern", f"{value!r} cannot be understood: {wrong}", hint)
    return value


def _assigned(value: str) -> tuple[TopicPartition, ...]:
    try:
        found = [TopicPartition(t, p) for t, some in json.loads(value).items() for p in some]
        if not all(type(at.partition) is int and at.partition >= 0 for at in found):
            found = []
    except (ValueError, TypeError, AttributeError):
        found = []
    if not found:
        hint = 'write {"orders": [0, 1]}'
        raise ConfigError("assign", f"{value!r} does not name partitions", hint)
    return tuple(found)


def _start(options: Mapping[str, str], streaming: bool) -> Bound:
    if "startingtimestamp" in options:
        bound = time_bound("startingTimestamp", options["startingtimestamp"])
    elif "startingoffsetsbytimestamp" in options:
        text = options["startingoffsetsbytimestamp"]
        bound = times_bound("startingOffsetsByTimestamp", text)
    else:
        default = "latest" if streaming else "earliest"
        bound = offsets_bound("startingOffsets", options.get("startingoffsets", default))
        if bound.edge is Edge.LATEST and not streaming:
            raise ConfigError("startingOffsets", "a batch cannot begin at the end", "use earliest")
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        why = f"is {strategy!r}"
        raise ConfigError("startingOffsetsByTimestampStrategy", why, "error or latest")
    return bound.or_latest() if strategy == "latest" else bound


def _end(options: Mapping[str, str]) -> Bound:
    if "endingtimestamp" in options:
        return time_bound("endingTimestamp", options["endingtimestamp"]).or_latest()
    if "endingoffsetsbytimestamp" in options:
        text = options["endingoffsetsbytimestamp"]
        return times_bound("endingOffsetsByTimestamp", text).or_latest()
    bound = offsets_bound("endingOffsets", options.get("endingoffsets", "latest"))
    if bound.edge is Edge.EARLIEST:
        raise ConfigError("endingOffsets", "a batch cannot end at the beginning", "use latest")
    return bound


def _isolation(kafka: Mapping[str, str]) -> Isolation:
    name = kafka.get("isolation.level", "read_uncommitted").lower()
    if name not in ("read_uncommitted", "read_committed"):
        hint = "read_uncommitted or read_committed"
        raise ConfigError("kafka.isolation.level", f"is {name!r}", hint)
    return Isolation[name.upper()]


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    paths = [options["path"]] if options.get("path") else []
    try:
        paths += json.loads(options.get("paths", "[]"))
    except ValueError:
        raise ConfigError("paths", "is not a JSON list", "use .load(['a', 'b'])") from None
    return tuple(paths)


def _replica(options: Mapping[str, str], paths: tuple[str, ...]) -> int | Literal["each"] | None:
    value = options.get("replica")
    if value is None:
        return None
    if paths:
        raise ConfigError("replica", "means nothing for files", "leave it out")
    if value.lower() == EACH:
        return EACH  # type: ignore[return-value]
    if not value.isdecimal():
        raise ConfigError("replica", f"is {value!r}", "each, or the number of a broker")
    return int(value)


def _columns(
    options: Mapping[str, str], paths: tuple[str, ...], replica: int | str | None
) -> tuple[str, ...]:
    there = list(COLUMNS)
    if _flag(options, "includeheaders", False):
        there.append(HEADERS)
    there += [REPLICA] if replica is not None else []
    there += [PATH] if paths else []
    if _flag(options, "includetransactions", False):
        there += EXTRA
    if "columns" not in options:
        return tuple(there)
    possible = {name.lower(): name for name in (*there, HEADERS, *EXTRA)}
    chosen = []
    for word in filter(None, (part.strip() for part in options["columns"].split(","))):
        if word.lower() not in possible:
            close = difflib.get_close_matches(word.lower(), possible, n=1)
            hint = (
                f"did you mean {possible[close[0]]}?" if close else f"there are {', '.join(there)}"
            )
            raise ConfigError("columns", f"there is no {word}", hint)
        chosen.append(possible[word.lower()])
    if not chosen or len(set(chosen)) < len(chosen):
        raise ConfigError("columns", "names no column, or one twice", "as in key,value,offset")
    return tuple(chosen)


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    value = options.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise ConfigError(_SPELLED[name], f"is {value!r}", "true or false")
    return value == "true"


def _count(options: Mapping[str, str], name: str) -> int | None:
    value = options.get(name)
    if value is None:
        return None
    if not value.isdecimal() or int(value) == 0:
        raise ConfigError(_SPELLED.get(name, name), f"is {value!r}, a number from 1 is needed")
    return int(value)


def _kafka_count(kafka: Mapping[str, str], name: str, default: int) -> int:
    found = _count({f"kafka.{name}": kafka[name]} if name in kafka else {}, f"kafka.{name}")
    return default if found is None else found
