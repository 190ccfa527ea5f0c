"""What a pipeline was told, checked before anything runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sexton.base.errors import ConfigError
from sexton.client.client import addresses_in
from sexton.client.retrying import Patience
from sexton.client.settings import client_config
from sexton.records.layout import Codec
from sexton.spark.sink_protocol import RULES, Probe, Rules, unwatched
from sexton.spark.sink_senders import Senders, checked_senders

BATCH_BYTES = 512 << 10  # large batches compress well, and cost a broker less than small ones
TIMEOUT_MS = 120_000
ATTEMPTS = 5
# Kafka's producer settings that mean something here; `client_config` has those of the connection.
NUMBERS = {
    "batch.size": BATCH_BYTES,
    "transaction.timeout.ms": TIMEOUT_MS,
    "default.api.timeout.ms": 60_000,
}
OTHERS = ("bootstrap.servers", "compression.type", "client.id", "request.timeout.ms")
_SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.")
FIXED = {
    "transactional.id": "is made of the pipeline's name",
    "acks": "is always all",
    "enable.idempotence": "is always true",
    "key.serializer": "keys and values are bytes",
    "value.serializer": "keys and values are bytes",
}
_NAME = re.compile(r"[\w.-]{1,200}")


@dataclass(frozen=True, slots=True)
class SinkSettings:
    kafka: Mapping[str, str] = field(repr=False)  # Kafka's names; may hold a password
    topic: str | None
    marker_topic: str
    codec: Codec
    batch_bytes: int
    timeout_ms: int
    patience: Patience
    attempts: int = ATTEMPTS
    after_batch: int | None = None
    probe: Probe = unwatched
    senders: Senders = 1
    rules: Rules = RULES  # like the probe, for tests
    requests_of: int | None = None


def sink_settings(
    *,
    topic: str | None,
    bootstrap_servers: str,
    options: Mapping[str, str] | None = None,
    marker_topic: str | None = None,
    after_batch: int | None = None,
    attempts: int = ATTEMPTS,
    probe: Probe = unwatched,
    senders: object = 1,
    rules: Rules = RULES,
    requests_of: int | None = None,
) -> SinkSettings:
    """`options` are Kafka's, with or without the `kafka.` that Spark puts in front of them."""
    given = {name.removeprefix("kafka."): str(value) for name, value in (options or {}).items()}
    kafka = {**given, "bootstrap.servers": bootstrap_servers}
    for name in kafka:
        _known(name)
    if topic is None and marker_topic is None:
        hint = (
            "with a topic column give marker_topic=, any topic that stays: the marker is kept by it"
        )
        raise ConfigError("topic", "is not given", hint)
    addresses_in(bootstrap_servers)
    client_config(kafka)
    numbers = {name: _number(kafka, name, default) for name, default in NUMBERS.items()}
    patience = Patience(timeout_ms=numbers["default.api.timeout.ms"], backoff_ms=20)
    return SinkSettings(
        kafka, topic, marker_topic or topic or "", _codec(kafka), numbers["batch.size"],
        numbers["transaction.timeout.ms"], patience, attempts, after_batch, probe,
        checked_senders(senders), rules, requests_of,
    )  # fmt: skip


def checked_name(option: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(option, f"is {name!r}", "up to 200 letters, digits, dots, _ and -")
    return name


def _known(name: str) -> None:
    if name in FIXED:
        raise ConfigError(f"kafka.{name}", "cannot be set: " + FIXED[name], "leave it out")
    if name not in NUMBERS and name not in OTHERS and not name.startswith(_SECURITY):
        hint = f"there are {', '.join(sorted((*NUMBERS, *OTHERS)))} and the security settings"
        raise ConfigError(f"kafka.{name}", "is not an option of this sink", hint)


def _codec(kafka: Mapping[str, str]) -> Codec:
    name = kafka.get("compression.type", "none").upper()
    if name not in Codec.__members__:
        hint = ", ".join(codec.name.lower() for codec in Codec)
        raise ConfigError("kafka.compression.type", f"is {name.lower()!r}", f"there are {hint}")
    return Codec[name]


def _number(kafka: Mapping[str, str], name: str, default: int) -> int:
    text = kafka.get(name, str(default)).strip()
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"kafka.{name}", f"is {text!r}, a number from 1 is needed")
    return int(text)
