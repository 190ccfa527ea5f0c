"""What a handler is given: a message, how often it was tried, a fencing token, and a way out.

What a handler sends through its message goes into the transaction that also releases the message:
it appears once, or the message is handled again. So it is only kept here while the handler runs,
and forgotten if the handler fails.

The token is for effects that no Kafka transaction covers. A process that was paused while another
took its place may still be inside a handler. A database that remembers the largest token of each
key, and turns away what is smaller, keeps it out: generations grow with every rebalance, and within
one the messages of a key come in the order of their offsets, a retry with the same token as before.
Of different keys they do not: 17 may be tried again after 50 is done. Whoever remembers one thing
for a whole partition can compare generations only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Any, NamedTuple, SupportsIndex

from sexton.retry.headers import Headers, HeadersAt, headers_of, nowhere

# Topic, value, key, partition, headers, and the offset of the message whose handler sent it.
Output = tuple[str, bytes | None, bytes | None, int, Headers, int]
Deserializer = Callable[[bytes | None], Any]
MOST_NAME = 249  # characters, of a topic's name
MOST_NAMES = 1_000  # somebody may make them up from what is in messages
_names: set[str] = set()  # of topics, that were looked at: an output costs a lookup
KeyOf = Callable[[Any], bytes | str | None]  # of what confluent-kafka has polled


class Payload(NamedTuple):
    """A message as it is in the main topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int

    @property
    def size(self) -> int:
        size = len(self.key or b"") + len(self.value or b"")
        if self.headers:
            size += sum(len(name) + len(value or b"") for name, value in self.headers)
        return size


def payload_of(message: Any, headers_at: HeadersAt) -> Payload:
    """Of what confluent-kafka has polled."""
    headers = headers_of(message, headers_at)
    return Payload(message.key(), message.value(), headers, message.timestamp()[1])


class Token(NamedTuple):
    """Larger than every token that an earlier owner of the partition was given; for the messages of
    one key it never becomes smaller, for those of different keys it may."""

    generation: int
    offset: int


class Place(NamedTuple):
    """What all messages of a round have in common."""

    topic: str
    partition: int
    generation: int
    headers_at: HeadersAt = nowhere  # for those that confluent-kafka cannot show


class Message:
    """One message of the main topic. `key` and `value` are as the deserializers made them."""

    # One is made for every message there is: headers and time are looked at when somebody asks.
    __slots__ = ("_from", "_place", "attempts", "error", "key", "offset", "outputs", "value")

    def __init__(
        self, place: Place, offset: int, key: Any, value: Any, of: Any, attempts: int = 0
    ) -> None:
        self._place = place
        self._from = of  # a Payload, or what confluent-kafka has polled
        self.offset = offset
        self.key = key
        self.value = value
        self.attempts = attempts  # runs before this one, all of which failed
        self.outputs: list[Output] | None = None
        self.error: Exception | None = None

    @property
    def topic(self) -> str:
        """The main topic that it came from."""
        return self._place.topic

    @property
    def partition(self) -> int:
        """The partition that it came from."""
        return self._place.partition

    @property
    def payload(self) -> Payload:
        """As it is in the topic."""
        if not isinstance(self._from, Payload):
            self._from = payload_of(self._from, self._place.headers_at)
        payload: Payload = self._from
        return payload

    @property
    def raw_key(self) -> bytes | None:
        """The key's bytes, before any deserializer."""
        return self.payload.key

    @property
    def raw_value(self) -> bytes | None:
        """The value's bytes, before any deserializer."""
        return self.payload.value

    @property
    def headers(self) -> Headers:
        """Pairs of name and value, in the order of the record."""
        return self.payload.headers

    @property
    def timestamp_ms(self) -> int:
        """The record's time, in milliseconds since 1970."""
        return self.payload.timestamp_ms

    @property
    def token(self) -> Token:
        """For effects outside Kafka: keep the largest of each key, and turn away smaller ones."""
        return Token(self._place.generation, self.offset)

    @property
    def id(self) -> str:
        """`orders-3-17`: what commands, logs and dead letters call it."""
        return f"{self._place.topic}-{self._place.partition}-{self.offset}"

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        *,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int = -1,
    ) -> None:
        """Sends with the transaction that releases this message, if the handler does not fail.

        TypeError or ValueError for what no topic could take: while the handler runs it is a mistake
        of this message, later it would be one of its whole round.
        """
        if topic not in _names:
            _check_topic(topic)
        if type(value) is not bytes:
            value = _bytes(value)
        if type(key) is not bytes:
            key = _bytes(key)
        given = _headers(headers) if headers else ()
        if partition != -1:
            partition = _partition(partition)
        output: Output = (topic, value, key, partition, given, self.offset)
        if self.outputs is None:
            self.outputs = [output]
        else:
            self.outputs.append(output)

    def fail(self, error: Exception) -> None:
        """As if the handler had raised this for this message alone: for handlers of batches."""
        self.error = error

    def header(self, name: str) -> bytes | None:
        """The last header of this name."""
        return next((value for each, value in reversed(self.headers) if each == name), None)

    def __repr__(self) -> str:
        return f"<Message {self.id} key={self.key!r} attempts={self.attempts}>"


def _check_topic(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a topic is text, not {type(name).__name__}")
    if not 0 < len(name) <= MOST_NAME or not name.isprintable():
        raise ValueError(f"{name[:50]!r} cannot be the name of a topic")
    if len(_names) >= MOST_NAMES:
        _names.clear()
    _names.add(name)


def _headers(headers: Iterable[object]) -> Headers:
    checked: list[tuple[str, bytes | None]] = []
    for pair in headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"headers are pairs of a name and a value, not {type(pair).__name__}")
        name, value = pair
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is text, not {type(name).__name__}")
        if "\0" in name:
            raise ValueError(f"{name[:50]!r} cannot be the name of a header")
        name.encode()  # or librdkafka would be given a null pointer
        checked.append((name, _bytes(value)))
    return tuple(checked)


def _partition(number: object) -> int:
    if not isinstance(number, SupportsIndex):
        raise TypeError(f"a partition is a number, not {type(number).__name__}")
    partition = index(number)
    if not -1 <= partition < 1 << 31:
        raise ValueError(f"there is no partition {partition}")
    return partition


def _bytes(data: object) -> bytes | None:
    match data:
        case None | bytes():
            return data
        case str():
            return data.encode()
        case bytearray() | memoryview():
            return bytes(data)
        case _:
            raise TypeError(f"bytes, text or None can be sent, not {type(data).__name__}")
