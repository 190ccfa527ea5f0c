"""An output of a query that brokers will not take: whose failure is it?

That of the message whose handler has returned it, as if the handler had raised it. Otherwise the
batch fails, is done again and fails again, until the query ends, with all that was handled beside.

    too large for its topic              never gets better: a dead letter at once (`OutputTooLarge`)
    no such topic, not authorized,       may get better: tried again after the backoff, and a dead
    no key for a compacted topic         letter at the ceiling (`OutputRefused`)

It is the same in `sexton.retry`, which hears of it from its producer. Here the records of many
messages are in one batch when they are sent, so it is found out before: topics are looked at, and
what may be too large is encoded as the sink will encode it. The driver looks at the pipeline's own
topics once in each batch, a task at others when a handler first names them. What brokers refuse all
the same, for reasons of their own, fails the batch with `NotTaken`, which names the messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sexton.base.errors import ConfigError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.configs import topic_configs
from sexton.client.connection import error_name, refused
from sexton.client.retrying import Patience, until_it_works
from sexton.machines.retry_outcomes import OutputRefused, OutputTooLarge, Verdict
from sexton.machines.retry_records import Header
from sexton.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from sexton.spark.asking import with_news
from sexton.spark.background import BackgroundLoop
from sexton.spark.sink_encoding import Encoding, encoded
from sexton.spark.sink_topics import MOST_BYTES, TopicLimits, client_for

_MOST_BYTES, _POLICY = "max.message.bytes", "cleanup.policy"
_VERSIONS = range(8, 1 << 15)  # of Metadata, that say what one may do (KIP-430)
_WRITE = 1 << 4  # Kafka's AclOperation
_NOT_SAID = -(1 << 31)
_WHY = {
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic",
    KafkaError.INVALID_TOPIC_EXCEPTION: "it cannot be the name of a topic",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "not authorized",
}
_FOR_GOOD = (KafkaError.INVALID_TOPIC_EXCEPTION, KafkaError.TOPIC_AUTHORIZATION_FAILED)
OF_RECORDS = frozenset(
    {
        KafkaError.MESSAGE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        KafkaError.POLICY_VIOLATION,
    }
)
_REFUSE = "do not take what was sent:"
_REFUSAL = re.compile(f"{_REFUSE} (.*)")
Rows = Callable[[Iterable[Any]], Iterator[Any]]
# Of a batch of one record: its header, and lengths and times, which take 5 and 10 bytes at most.
_AROUND_BYTES, _AROUND_HEADER_BYTES = 61 + 40, 10


class NotTaken(SextonError):
    """Brokers have refused outputs of a batch, and nobody could know before."""


@dataclass(frozen=True, slots=True)
class Target:
    """A topic that outputs go to."""

    limits: TopicLimits | None  # None: nothing can be written to it
    why: str = ""  # not
    compacted: bool = False


@dataclass(frozen=True, slots=True)
class Taking:
    """What a task has to know to tell which outputs will be taken; small enough to be sent."""

    targets: Mapping[str, Target]
    encoding: Encoding


# ── topics ──


async def targets_of(
    client: Client, topics: Iterable[str], patience: Patience, *, were_there: bool = False
) -> dict[str, Target]:
    """What each topic is for somebody who wants to write to it.

    `were_there`: all have been seen, so a broker that does not know one may have old news.
    """
    names = list(topics)

    def has_all(answer: MetadataResponse) -> bool:
        return not were_there or all(
            topic.partitions or topic.error_code in _FOR_GOOD for topic in answer.topics
        )

    what = f"metadata of {', '.join(names)}"
    ask = lambda: _metadata(client, names)  # noqa: E731  mypy knows its type
    answer = await with_news(client, ask, has_all, patience, what)
    found = {topic.name or "": topic for topic in answer.topics}
    why: dict[str, str] = {}
    for name, topic in found.items():
        if topic.error_code in _WHY:
            why[name] = _WHY[KafkaError(topic.error_code)]
        elif not topic.partitions:
            why[name] = error_name(topic.error_code)
        elif not _may_write(topic.topic_authorized_operations):
            why[name] = _WHY[KafkaError.TOPIC_AUTHORIZATION_FAILED]
    open_to_us = [name for name in names if name not in why]
    configs = await _configs(client, open_to_us, patience)
    told = {name: Target(None, reason) for name, reason in why.items()}
    for name in open_to_us:
        options = configs.get(name, {})
        limits = TopicLimits(
            len(found[name].partitions), int(options.get(_MOST_BYTES) or MOST_BYTES)
        )
        told[name] = Target(limits, compacted="compact" in (options.get(_POLICY) or ""))
    return told


async def _metadata(client: Client, names: list[str]) -> MetadataResponse:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False, include_topic_authorized_operations=True,
    )  # fmt: skip
    answer = await client.ask(request, _VERSIONS)
    if answer.error_code:
        raise refused(answer.error_code, "the cluster's metadata")
    return answer


def _may_write(operations: int) -> bool:
    return operations == _NOT_SAID or bool(operations & _WRITE)


async def _configs(
    client: Client, names: list[str], patience: Patience
) -> Mapping[str, Mapping[str, str | None]]:
    if not names:
        return {}
    asked = (_MOST_BYTES, _POLICY)
    try:
        return await until_it_works(lambda: topic_configs(client, names, asked), patience)
    except Refused:  # whoever may write need not be allowed to see the configuration
        return {}


# ── outputs, in a task ──


class Outputs:
    """Asked of every output, so it is done with little ado."""

    def __init__(self, taking: Taking) -> None:
        self._targets = dict(taking.targets)
        self._encoding = taking.encoding

    def trouble(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Iterable[Header]
    ) -> Verdict | None:
        """What a message fails with if this is an output of it; None: it will be taken."""
        target = self._targets.get(topic) or self._looked_at(topic)
        if target.limits is None:
            return OutputRefused(_text(topic, target.why))
        if target.compacted and key is None:
            return OutputRefused(_text(topic, "it has no key, and the topic is compacted"))
        size = len(key or b"") + len(value or b"") + _AROUND_BYTES
        for name, told in headers:
            size += len(name) * 4 + len(told or b"") + _AROUND_HEADER_BYTES
        if size <= target.limits.most_bytes:
            return None
        why = self._too_large(topic, target.limits, key, value, headers)
        return None if why is None else OutputTooLarge(_text(topic, why))

    def _too_large(
        self,
        topic: str,
        limits: TopicLimits,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[Header],
    ) -> str | None:
        """Compressed it may fit: the sink's own encoder says so."""
        import pyarrow as pa

        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        schema = pa.schema(
            [
                ("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary()),
                ("headers", pa.list_(header)),
            ]
        )  # fmt: skip
        pairs = [{"key": name, "value": told} for name, told in headers]
        row = {"topic": topic, "key": key, "value": value, "headers": pairs}
        batch = pa.RecordBatch.from_pylist([row], schema)
        encoding = replace(self._encoding, topics={topic: limits})
        try:
            for _blob in encoded(encoding, 0, [batch]):
                pass
        except ConfigError as error:
            return f"it {error.why}"
        return None

    def _looked_at(self, topic: str) -> Target:
        with BackgroundLoop() as loop:
            found = loop.run(_look(self._encoding, topic))
        self._targets[topic] = found
        return found


async def _look(encoding: Encoding, topic: str) -> Target:
    async with client_for(encoding.kafka) as client:
        return (await targets_of(client, [topic], encoding.patience))[topic]


# ── what was refused all the same ──


def says_what_was_refused(send: Rows) -> Rows:
    """In a task, of which Spark tells the driver the text of its error and no more."""

    def told(batches: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from send(batches)
        except Refused as error:
            if error.error not in OF_RECORDS:
                raise
            raise NotTaken("brokers", f"{_REFUSE} {error.error.name}: {error.why}") from error

    return told


def refusal_in(text: str) -> str | None:
    """Kafka's name of the error, and what the broker has said about it."""
    found = _REFUSAL.search(text)
    return found[1] if found else None


def not_taken(refusal: str, outputs: Sequence[tuple[str, str, str]], messages: int) -> NotTaken:
    """`outputs`: some of them, as message, key and topic."""
    some = "; ".join(f"{message} (key {key}) to {topic}" for message, key, topic in outputs)
    more = ", ..." if messages > len(outputs) else ""
    of = "that of one message" if messages == 1 else f"one of those of {messages:,} messages"
    why = f"brokers refuse an output, {of} ({refusal}): {some}{more}"
    hint = "fix its topic, or let the handler raise Dead for it; nothing of the batch was written"
    return NotTaken("outputs", why, hint)


def _text(topic: str, why: str) -> str:
    return f"an output to {topic} cannot be written: {why}"
