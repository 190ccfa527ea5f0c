"""A topic of counters, some of which fall: what the validator is given, and its peers.

    {"account":"0123456789abcdef","count":10000042,"note":"................"}

A record's count rises with its place, so it rises for each key; every so many places it is far too
low. Whoever looks must find exactly these. One partition is one log, and a key is in one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.audit_records import keys_of
from benchmarks.audit_topic import fill, is_everywhere
from sexton.records import Spans, rows
from sexton.records.encoder import Encoder
from sexton.records.tables import Array
from sexton.testing.apache_kafka import ApacheKafka
from sexton.testing.waiting import until

PARTITIONS = 4
RECORDS_A_KEY = 10
CHUNK_ROWS = 1 << 15
FALLS = 25  # in each partition
_HEAD, _MIDDLE = b'{"account":"', b'","count":'
_TAIL = b',"note":"twenty bytes of text"}'
_COUNT_BYTES = 8
_FALLEN = 10_000_000
_FIRST_COUNT = _FALLEN + 1
_START_MS = 1_760_000_000_000
_FAR = 1_000_000_007


@dataclass(frozen=True, slots=True)
class Counters:
    """`count` records of `keys` keys in one partition; `falls` of them go back."""

    count: int
    keys: int
    number: int  # of the partition

    def chunks(self) -> Iterator[Array]:
        """Record batches one after the other; a chunk is valid until the next is asked for."""
        encoder = Encoder()
        for begin in range(0, self.count, CHUNK_ROWS):
            places = np.arange(begin, min(begin + CHUNK_ROWS, self.count), dtype=np.int64)
            accounts = keys_of(places * _FAR % self.keys * PARTITIONS + self.number)
            value = _documents(accounts, self._counts(places))
            time = _START_MS + places // 100
            yield encoder.encode(rows(time, accounts, value, base_offset=begin))

    def _counts(self, places: Array) -> Array:
        counts = _FIRST_COUNT + places
        # Each in another key, and not in its first record: before it the key had a higher count.
        every = (self.count - self.keys) // FALLS
        later = places - self.keys
        counts[(later >= 0) & (later % every == 0) & (later // every < FALLS)] = _FALLEN
        return counts


def _documents(accounts: Spans, counts: Array) -> Spans:
    """JSON of one width, put together column by column."""
    count = len(counts)
    digits = counts[:, None] // 10 ** np.arange(_COUNT_BYTES - 1, -1, -1) % 10 + ord("0")
    size = int(accounts.length[0])
    keys = accounts.data.reshape(count, size)
    fixed = [np.broadcast_to(np.frombuffer(part, np.uint8), (count, len(part))) for part in
             (_HEAD, _MIDDLE, _TAIL)]  # fmt: skip
    text = np.concatenate([fixed[0], keys, fixed[1], digits.astype(np.uint8), fixed[2]], axis=1)
    width = text.shape[1]
    return Spans(
        text.reshape(-1),
        (np.arange(count) * width).astype(np.int32),
        np.full(count, width, np.int32),
    )


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    bootstrap: str
    parts: Sequence[Counters]

    @property
    def records(self) -> int:
        return sum(part.count for part in self.parts)

    @property
    def keys(self) -> int:
        return sum(part.keys for part in self.parts)

    @property
    def falls(self) -> int:
        return FALLS * len(self.parts)


def filled_topic(kafka: ApacheKafka, name: str, records: int) -> Topic:
    options = {"segment.bytes": (1 << 31) - 1, "segment.ms": 2**40, "retention.ms": -1}
    kafka.create_topic(name, PARTITIONS, options)
    count = records // PARTITIONS
    parts = [Counters(count, count // RECORDS_A_KEY, n) for n in range(PARTITIONS)]
    asyncio.run(fill(kafka.bootstrap, name, parts))  # type: ignore[arg-type]  # they have chunks
    until(lambda: asyncio.run(is_everywhere(kafka.bootstrap, name, parts)), "all records", 300)  # type: ignore[arg-type]
    return Topic(name, kafka.bootstrap, parts)
