"""Random messages of any class and version, and Kafka's own code to compare ours with.

`messages(kind, version)` is a Hypothesis strategy made from what a class says of its fields: those
that the version has take any value, those that it lacks have their defaults. `random_message` makes
the same from a `Random`: a hundred times faster, for sweeps over everything there is.
"""

from __future__ import annotations

import base64
import json
import math
import subprocess
from collections.abc import Iterator
from dataclasses import MISSING, Field
from importlib import import_module
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

from hypothesis import strategies as st

from sexton.protocol import registry
from sexton.protocol.uuids import uuid_text
from sexton.protocol.wire import Message, Wire, parse_versions, wire_fields
from sexton.testing.apache_kafka import tool_command
from sexton.testing.kafka_jars import KafkaJars

SOURCE = Path(__file__).parents[1] / "tools" / "java" / "MessageOracle.java"
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
COORDINATORS = {
    "consumer_offsets": "org.apache.kafka.coordinator.group.generated.",
    "transaction_state": "org.apache.kafka.coordinator.transaction.generated.",
    "consumer_protocol": "org.apache.kafka.common.message.",
}


def kafkas_classes() -> Iterator[tuple[type[Message], str]]:
    """Every generated message class, and the Java class that it should agree with."""
    for api in registry.apis():
        if api.key < registry.FIRST_PRIVATE_KEY:
            for kind in (api.request, api.response):
                yield kind, f"org.apache.kafka.common.message.{kind.__name__}Data"
    for module, package in COORDINATORS.items():
        for kind in vars(import_module(f"sexton.protocol.coordinator.{module}")).values():
            if isinstance(kind, type) and issubclass(kind, Message):
                yield kind, package + kind.__name__


def fields_in(kind: type[Any], version: int) -> Iterator[tuple[Field[Any], Wire]]:
    for field, wire in wire_fields(kind):
        if version in parse_versions(wire.versions):
            yield field, wire


def limits(kind: str) -> tuple[int, int]:
    bits = BITS[kind]
    return (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


# With Hypothesis.


def messages(kind: type[Any], version: int) -> st.SearchStrategy[Any]:
    return st.builds(
        kind,
        **{field.name: _values(field, wire, version) for field, wire in fields_in(kind, version)},
    )


def _values(field: Field[Any], wire: Wire, version: int) -> st.SearchStrategy[Any]:
    if wire.kind == "array":
        values = st.lists(_plain_values(wire.of, version), max_size=3)
    else:
        values = _plain_values(wire.of or wire.kind, version)
    if field.default is not MISSING and (field.default is not None or _nullable(wire, version)):
        values = st.just(field.default) | values
    return st.none() | values if _nullable(wire, version) else values


def _plain_values(of: str | type[Any], version: int) -> st.SearchStrategy[Any]:
    if not isinstance(of, str):
        return messages(of, version)
    match of:
        case "bool":
            return st.booleans()
        case "float64":
            return st.floats(allow_nan=False)
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "string":
            return st.text(max_size=20) | st.just("long" * 50)
        case "bytes" | "records":
            return st.binary(max_size=20) | st.just(bytes(300))
        case _:
            return st.integers(*limits(of))


def _nullable(wire: Wire, version: int) -> bool:
    return version in parse_versions(wire.nullable)


# With a Random.

_TEXTS = ("", "a", "topic-1", "größe", "主題", "\U0001f5dd", "\0", "x" * 126, "y" * 127, "z" * 300)


def random_message(kind: type[Any], version: int, random: Random) -> Any:
    message = kind()
    for field, wire in fields_in(kind, version):
        if random.random() < 0.8:
            setattr(message, field.name, _random_value(wire, version, random))
        elif getattr(message, field.name) is None and not _nullable(wire, version):
            setattr(message, field.name, _random_plain(wire.kind, version, random))
    return message


def _random_value(wire: Wire, version: int, random: Random) -> Any:
    if _nullable(wire, version) and random.random() < 0.2:
        return None
    if wire.kind == "array":
        # Long lists only where they are cheap: 127 elements take a second byte of length.
        longest = 3 if isinstance(wire.of, type) else random.choice((3, 3, 3, 3, 200))
        count = random.randint(0, longest)
        return [_random_plain(wire.of, version, random) for _ in range(count)]
    return _random_plain(wire.of or wire.kind, version, random)


def _random_plain(of: str | type[Any], version: int, random: Random) -> Any:
    if not isinstance(of, str):
        return random_message(of, version, random)
    match of:
        case "bool":
            return random.random() < 0.5
        case "float64":
            return random.choice((0.0, -0.0, 1.5, -1e300, 5e-324, random.random()))
        case "uuid":
            return random.randbytes(16)
        case "string":
            return random.choice(_TEXTS)
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 7, 126, 127, 128, 300)))
        case _:
            lowest, highest = limits(of)
            return random.choice((lowest, highest, 0, 1, random.randint(lowest, highest)))


def mangled(random: Random, data: bytes) -> bytes:
    """Bytes that were a message, after an accident or two."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(changed) + 1)
        match random.randrange(6):
            case 0 if changed:
                changed[min(at, len(changed) - 1)] ^= 1 << random.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                del changed[at : at + random.choice((1, 2, 4))]
            case 3:
                changed[at:at] = changed[: random.randrange(20)]
            case 4:  # a length that lies
                lie = random.choice((b"\x7f\xff\xff\xff", b"\xff\xff", b"\x80", b"\0\x01", b"\x05"))
                changed[at : at + len(lie)] = lie
            case _:
                changed[at : at + 1] = random.randbytes(1)
    return bytes(changed)


# As Kafka's JSON.


def kafka_json(message: Any, version: int, *, with_records: bool) -> dict[str, Any]:
    """A message as Kafka's JsonConverter classes read it, or (without records) write it."""

    def struct(value: Any) -> dict[str, Any]:
        return {
            camel_case(field.name): any_value(getattr(value, field.name), wire)
            for field, wire in fields_in(type(value), version)
            if wire.tag is None or getattr(value, field.name) != default_of(field)
        }

    def any_value(value: Any, wire: Wire) -> Any:
        if value is None:
            return None
        if wire.kind == "array":
            return [plain(each, wire.of) for each in value]
        return plain(value, wire.of or wire.kind)

    def plain(value: Any, of: str | type[Any]) -> Any:
        match of:
            case "uuid":
                return uuid_text(value)
            case "float64" if not math.isfinite(value):
                return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
            case "records" if not with_records:
                return ""
            case "bytes" | "records":
                return base64.b64encode(value).decode()
            case str():
                return value
            case _:
                return struct(value)

    return struct(message)


def default_of(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


# Kafka itself.


class MessageOracle:
    """A JVM with Kafka's generated classes; one question at a time, or many at once."""

    def __init__(self, jars: KafkaJars) -> None:
        command = tool_command(jars, str(SOURCE), [])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def __enter__(self) -> MessageOracle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def ask(self, java_class: str, version: int, **details: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        question = {"class": java_class, "version": version, **details}
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the oracle is gone"
        found = json.loads(answer)
        assert isinstance(found, dict)
        return found
