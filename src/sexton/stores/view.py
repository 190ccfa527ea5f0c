"""The store as `process` sees it: what is committed, and over it what is not yet.

    put, delete ──▶ overlay        memory, until Kafka has confirmed the commit
    get, scan   ◀── overlay over disk

When the commit is confirmed the overlay goes to disk in one write; when it is not, it is dropped,
and nothing has happened. `take` also says what belongs into the changelog: the last value of each
key that was touched, however often that was.

`View` is for everybody else: read-only, what is committed, and up to where.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from sexton.stores.disks import Reading
from sexton.stores.layout import (
    AFTER_DATA,
    CHECKPOINT,
    DATA,
    POSITION,
    decode_checkpoint,
    decode_position,
)
from sexton.stores.serdes import Serde

_ENTRY_BYTES = 100  # what a dictionary's entry takes beside its bytes, about


class Store:
    """Handed to `process`; good for the record at hand only."""

    __slots__ = (
        "_decode_value", "_disk", "_encode_key", "_encode_value", "_get", "_key", "_overlay",
        "offset", "overlay_bytes", "partition", "timestamp_ms", "topic",
    )  # fmt: skip

    def __init__(self, disk: Reading, key: Serde, value: Serde, topic: str, partition: int) -> None:
        self._disk = disk
        self._get = disk.get
        self._key = key
        self._encode_key, self._encode_value = key.encode, value.encode
        self._decode_value = value.decode
        self._overlay: dict[bytes, bytes | None] = {}
        self.overlay_bytes = 0  # about: a key counts once, with its first value
        self.topic, self.partition = topic, partition  # of the input record
        self.offset, self.timestamp_ms = -1, -1

    # ── one key ──

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, what is not committed yet included; `default` if there is none."""
        raw = DATA + self._encode_key(key)
        try:
            value = self._overlay[raw]
        except KeyError:
            value = self._get(raw)
        return default if value is None else self._decode_value(value)

    def put(self, key: Any, value: Any) -> None:
        """None is no value: use `delete`."""
        if value is None:
            raise ValueError("a store has no null values; delete() the key")
        self._set(DATA + self._encode_key(key), self._encode_value(value))

    def delete(self, key: Any) -> None:
        """The key has no value from here on; the changelog gets a tombstone."""
        self._set(DATA + self._encode_key(key), None)

    def _set(self, raw: bytes, value: bytes | None) -> None:
        if raw not in self._overlay:
            self.overlay_bytes += len(raw) + len(value or b"") + _ENTRY_BYTES
        self._overlay[raw] = value

    def __contains__(self, key: Any) -> bool:
        return self.get(key) is not None

    # ── many ──

    def scan(
        self, start: Any = None, end: Any = None, *, backwards: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Keys in [start, end), in the order of their bytes; None is open.

        What is put or deleted meanwhile is seen so; a key that was not there before may be missing.
        """
        return self._between(
            DATA if start is None else DATA + self._encode_key(start),
            AFTER_DATA if end is None else DATA + self._encode_key(end),
            backwards,
        )

    def prefix(self, prefix: Any) -> Iterator[tuple[Any, Any]]:
        """Keys that begin with this one's bytes."""
        raw = DATA + self._encode_key(prefix)
        return self._between(raw, after_prefix(raw), False)

    def _between(self, start: bytes, end: bytes, backwards: bool) -> Iterator[tuple[Any, Any]]:
        overlay = self._overlay
        new = sorted((key for key in overlay if start <= key < end), reverse=backwards)
        hidden = set(new)
        over = ((key, None) for key in new)
        under = (
            pair for pair in self._disk.scan(start, end, backwards=backwards)
            if pair[0] not in hidden
        )  # fmt: skip
        decode_key, decode_value = self._key.decode, self._decode_value
        merged = heapq.merge(over, under, key=lambda pair: pair[0], reverse=backwards)
        for key, committed in merged:
            value = overlay.get(key, committed)  # `process` may have written it since
            if value is not None:
                yield decode_key(key[1:]), decode_value(value)

    # ── for the runtime ──

    def take(self) -> dict[bytes, bytes | None]:
        """What was written since the last commit; the overlay stays until it is applied."""
        return self._overlay


def after_prefix(raw: bytes) -> bytes:
    """The first key that does not begin with it."""
    stem = raw.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1])


class View:
    """A store as it was committed at one moment, and which moment that was."""

    def __init__(self, reading: Reading, key: Serde, value: Serde, role: str) -> None:
        self._reading = reading
        self._key, self._value = key, value
        self.role = role  # of this instance: active, or a standby that may be behind
        checkpoint = decode_checkpoint(reading.get(CHECKPOINT))
        # Everything in the changelog below this is in it, and nothing else.
        self.position = 0 if checkpoint is None else checkpoint.position
        # The first input that is not in it; None: none was ever processed.
        self.input_position = decode_position(reading.get(POSITION))

    def get(self, key: Any, default: Any = None) -> Any:
        """The committed value of a key; `default` if there is none."""
        value = self._reading.get(DATA + self._key.encode(key))
        return default if value is None else self._value.decode(value)

    def __contains__(self, key: Any) -> bool:
        return self._reading.get(DATA + self._key.encode(key)) is not None

    def scan(
        self, start: Any = None, end: Any = None, *, backwards: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Keys in [start, end), in the order of their bytes; None is open."""
        first = DATA if start is None else DATA + self._key.encode(start)
        last = AFTER_DATA if end is None else DATA + self._key.encode(end)
        for key, value in self._reading.scan(first, last, backwards=backwards):
            yield self._key.decode(key[1:]), self._value.decode(value)

    def prefix(self, prefix: Any) -> Iterator[tuple[Any, Any]]:
        """Keys that begin with this one's bytes."""
        raw = DATA + self._key.encode(prefix)
        for key, value in self._reading.scan(raw, after_prefix(raw)):
            yield self._key.decode(key[1:]), self._value.decode(value)
