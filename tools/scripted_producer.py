"""Kafka's own Java producers on a leash: each call here is one line to ScriptedProducer.java.

Only the Java client writes the bytes that the Java client writes (its snappy framing, its gzip
header), so the fixtures are written by it and not by librdkafka.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from sexton.testing.apache_kafka import ApacheKafka, tool_command

SOURCE = Path(__file__).parent / "java" / "ScriptedProducer.java"
Headers = Sequence[tuple[str, bytes | None]]


class ScriptedProducers:
    """A JVM that holds any number of producers, by name."""

    def __init__(self, kafka: ApacheKafka) -> None:
        command = tool_command(kafka.jars, str(SOURCE), [kafka.bootstrap])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> ScriptedProducers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def open(self, name: str, **options: object) -> Producer:
        """A new producer; `transactional_id="x"` is Kafka's option transactional.id."""
        spelled = {option.replace("_", "."): str(value) for option, value in options.items()}
        self.tell(name, "open", options=spelled)
        return Producer(self, name)

    def tell(self, producer: str, verb: str, **details: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"producer": producer, "do": verb, **details}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if answer != "ok":
            raise RuntimeError(f"{producer} {verb}: {answer or 'the producers are gone'}")


class Producer:
    """One producer; its records wait for `flush`, which sends them as one batch."""

    def __init__(self, producers: ScriptedProducers, name: str) -> None:
        self._producers = producers
        self.name = name

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None,
        headers: Headers = (),
    ) -> None:
        self._producers.tell(
            self.name,
            "send",
            topic=topic,
            key=_text(key),
            value=_text(value),
            timestamp=timestamp_ms,
            headers=[(name, _text(content)) for name, content in headers],
        )

    def flush(self) -> None:
        self._producers.tell(self.name, "flush")

    def begin(self) -> None:
        self._producers.tell(self.name, "begin")

    def commit(self) -> None:
        self._producers.tell(self.name, "commit")

    def abort(self) -> None:
        self._producers.tell(self.name, "abort")


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
