"""Clients that never stop: keyed writes and deletes, transactions that commit and abort."""

from __future__ import annotations

import random
import threading
from collections import Counter
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Producer


class LiveLoad:
    """Writes until it is left; what went wrong in a thread is raised then."""

    def __init__(self, bootstrap_servers: str, topic: str, keys: int, seed: int = 1) -> None:
        self.written: Counter[str] = Counter()
        self._servers = bootstrap_servers
        self._topic = topic
        self._keys = keys
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        jobs = (self._plain, self._transactions)
        self._threads = [
            threading.Thread(target=self._guarded, args=(job, random.Random(seed + number)))
            for number, job in enumerate(jobs)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._errors and error is None:
            raise self._errors[0]

    def has_written_more_than(self, count: int) -> bool:
        return self.written.total() > count

    def _guarded(self, job: Any, rng: random.Random) -> None:
        try:
            job(rng)
        except BaseException as error:  # noqa: BLE001 - told at the end
            self._errors.append(error)

    def _plain(self, rng: random.Random) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 5, "log_level": 0})
        while not self._stop.is_set():
            for _ in range(200):
                self._write(producer, rng, "plain")
            producer.flush(30)
            self._stop.wait(0.01)

    def _transactions(self, rng: random.Random) -> None:
        producer = self._transactional_producer()
        while not self._stop.is_set():
            producer.begin_transaction()
            for _ in range(rng.randrange(1, 40)):
                self._write(producer, rng, "transactional")
            if rng.random() >= 0.4:
                producer.commit_transaction(30)
                self.written["committed"] += 1
                continue
            try:
                producer.abort_transaction(5)
            except KafkaException as error:
                # librdkafka never ends an abort in which messages come back from a leader that
                # was one: they return to a queue that was emptied, and an abort sends nothing.
                if error.args[0].code() != KafkaError._TIMED_OUT:
                    raise
                producer = self._transactional_producer()
            self.written["aborted"] += 1

    def _transactional_producer(self) -> Producer:
        """The one before it, if any, is fenced, and what it left open is aborted."""
        settings = {
            "bootstrap.servers": self._servers,
            "transactional.id": f"{self._topic}-load",
            "log_level": 0,
        }
        producer = Producer(settings)
        producer.init_transactions(30)
        return producer

    def _write(self, producer: Any, rng: random.Random, what: str) -> None:
        key = f"key-{rng.randrange(self._keys)}".encode()
        value = None if rng.random() < 0.3 else rng.randbytes(24)
        producer.produce(self._topic, value, key, partition=rng.randrange(2))
        producer.poll(0)
        self.written["deleted" if value is None else what] += 1
