"""librdkafka without Python in its way: the C library that confluent-kafka brings, called directly.

confluent-kafka makes an object for every record, which costs more than a broker spends on it; with
it one would measure Python. Here a thousand records cross into C in one call, and what comes back
is counted by a compiled callback. Apart from what is named below, the library has its own defaults.

Records are slices of one block of random bytes, which librdkafka does not copy.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import Structure, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import carray, cfunc

from sexton.base.errors import PeerError

CHUNK = 1000  # records in one call
MOST_WAITING = 90_000  # records; the library's own limit is 100,000
TIMEOUT_MS = 60_000
PRODUCER, CONSUMER = 0, 1
_NO_ERROR = 0
_CRITICAL = 2  # syslog's; what it retries is no news, what fails is raised here


class Message(Structure):
    """`rd_kafka_message_t` of rdkafka.h."""

    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("_private", c_void_p),
    )


_LEN_WORD = Message.len.offset // 8


@cfunc("void(voidptr, voidptr)")  # type: ignore[untyped-decorator]
def _consumed(message: Any, sums: Any) -> None:
    """What is called for each record that came: records, bytes, errors."""
    words, sums = carray(message, 9, np.int64), carray(sums, 3, np.int64)
    if words[0] & 0xFFFFFFFF:
        sums[2] += 1
    else:
        sums[0] += 1
        sums[1] += words[_LEN_WORD]


@cfunc("void(voidptr, voidptr, voidptr)")  # type: ignore[untyped-decorator]
def _delivered(_client: Any, message: Any, sums: Any) -> None:
    """What is called for each record that was sent: records, the last error."""
    words, sums = carray(message, 9, np.int64), carray(sums, 2, np.int64)
    sums[0] += 1
    if words[0] & 0xFFFFFFFF:
        sums[1] = words[0]


@cache
def _library() -> ctypes.CDLL:
    """The library that confluent-kafka has loaded, wherever its wheel keeps it."""
    import confluent_kafka  # noqa: F401

    maps = Path("/proc/self/maps").read_text(encoding="utf-8").split("\n")
    path = next(line.split()[-1] for line in maps if "librdkafka" in line)
    found = ctypes.CDLL(path)
    for name in ("conf_new", "new", "topic_new", "queue_new", "consume_queue"):
        getattr(found, f"rd_kafka_{name}").restype = c_void_p
    found.rd_kafka_err2str.restype = c_char_p
    found.rd_kafka_error_string.restype = c_char_p
    for name in ("begin_transaction", "init_transactions", "commit_transaction"):
        getattr(found, f"rd_kafka_{name}").restype = c_void_p
    return found


class Client:
    """A producer or a consumer, connected and told of one topic."""

    def __init__(self, kind: int, bootstrap: str, topic: str, options: Mapping[str, object]):
        self._c = _library()
        self._sums = (c_int64 * 2)()
        said = ctypes.create_string_buffer(512)
        conf = c_void_p(self._c.rd_kafka_conf_new())
        told = {"bootstrap.servers": bootstrap, "log_level": _CRITICAL, **options}
        for name, value in told.items():
            spelled = str(value).lower() if isinstance(value, bool) else str(value)
            if self._c.rd_kafka_conf_set(conf, name.encode(), spelled.encode(), said, 512):
                raise PeerError("librdkafka", said.value.decode())
        self._c.rd_kafka_conf_set_dr_msg_cb(conf, c_void_p(_delivered.address))
        self._c.rd_kafka_conf_set_opaque(conf, self._sums)
        self._rk = c_void_p(self._c.rd_kafka_new(kind, conf, said, 512))
        if self._rk.value is None:
            raise PeerError("librdkafka", said.value.decode())
        self.topic = c_void_p(self._c.rd_kafka_topic_new(self._rk, topic.encode(), None))
        metadata = c_void_p()
        self._check(self._c.rd_kafka_metadata(self._rk, 0, self.topic, byref(metadata), TIMEOUT_MS))
        self._c.rd_kafka_metadata_destroy(metadata)

    def close(self) -> None:
        self._c.rd_kafka_topic_destroy(self.topic)
        self._c.rd_kafka_destroy(self._rk)

    def _check(self, error: int) -> None:
        if error != _NO_ERROR:
            raise PeerError("librdkafka", self._c.rd_kafka_err2str(error).decode())

    def _check_object(self, error: int | None) -> None:
        """Transactions answer with an object, or NULL."""
        if error:
            said = self._c.rd_kafka_error_string(c_void_p(error)).decode()
            self._c.rd_kafka_error_destroy(c_void_p(error))
            raise PeerError("librdkafka", said)


class Producer(Client):
    def __init__(
        self, bootstrap: str, topic: str, record_bytes: int, options: Mapping[str, object]
    ):
        super().__init__(PRODUCER, bootstrap, topic, options)
        self._random = ctypes.create_string_buffer(os.urandom(record_bytes + CHUNK))
        first = ctypes.addressof(self._random)
        self._records = (Message * CHUNK)()
        for number, record in enumerate(self._records):
            record.payload, record.len = first + number, record_bytes

    def send(self, partition: int, count: int) -> None:
        """Hands over up to `CHUNK` records, when there is room for them."""
        while self._c.rd_kafka_outq_len(self._rk) > MOST_WAITING:
            self._c.rd_kafka_poll(self._rk, 10)
        done = self._c.rd_kafka_produce_batch(
            self.topic, c_int32(partition), 0, self._records, count
        )
        if done != count:
            self._check(next(record.err for record in self._records if record.err))

    def send_all(self, records: int, partitions: int) -> None:
        """A chunk to each partition in turn; returns when all are acknowledged."""
        for number, first in enumerate(range(0, records, CHUNK)):
            self.send(number % partitions, min(CHUNK, records - first))
        self.flush()

    def flush(self) -> None:
        self._check(self._c.rd_kafka_flush(self._rk, TIMEOUT_MS))
        self._check(c_int(self._sums[1]).value)

    def init_transactions(self) -> None:
        self._check_object(self._c.rd_kafka_init_transactions(self._rk, TIMEOUT_MS))

    def transaction(self, records: int, partitions: int) -> None:
        """One transaction, spread over the partitions, from begin to committed."""
        self._check_object(self._c.rd_kafka_begin_transaction(self._rk))
        for partition in range(partitions):
            share = records // partitions + (partition < records % partitions)
            if share:
                self.send(partition, share)
        self._check_object(self._c.rd_kafka_commit_transaction(self._rk, TIMEOUT_MS))


class Consumer(Client):
    """Reads partitions from an offset on, without a group."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, options: Mapping[str, object]):
        super().__init__(CONSUMER, bootstrap, topic, options)
        self._partitions = partitions
        self._queue = c_void_p(self._c.rd_kafka_queue_new(self._rk))

    def start(self, offset: int = 0) -> None:
        for partition in range(self._partitions):
            started = self._c.rd_kafka_consume_start_queue(
                self.topic, c_int32(partition), c_int64(offset), self._queue
            )
            if started != 0:
                self._check(self._c.rd_kafka_last_error())

    def take(self, records: int) -> tuple[int, int]:
        """Waits for so many records; answers how many came and how many bytes they were."""
        sums = (c_int64 * 3)()
        callback = c_void_p(_consumed.address)
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while sums[0] < records:
            self._c.rd_kafka_consume_callback_queue(self._queue, 1000, callback, sums)
            if sums[2]:
                raise PeerError("librdkafka", f"{sums[2]} errors in place of records")
            if time.monotonic() > deadline:
                raise PeerError("librdkafka", f"{sums[0]} records of {records} came in time")
        return sums[0], sums[1]

    def close(self) -> None:
        for partition in range(self._partitions):
            self._c.rd_kafka_consume_stop(self.topic, c_int32(partition))
        self._c.rd_kafka_queue_destroy(self._queue)
        super().close()


@contextmanager
def producer(
    bootstrap: str, topic: str, record_bytes: int, options: Mapping[str, object]
) -> Iterator[Producer]:
    made = Producer(bootstrap, topic, record_bytes, options)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def consumer(
    bootstrap: str, topic: str, partitions: int, options: Mapping[str, object]
) -> Iterator[Consumer]:
    made = Consumer(bootstrap, topic, partitions, options)
    try:
        yield made
    finally:
        made.close()
