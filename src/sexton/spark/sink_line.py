"""The driver's line to Kafka: kept while batches come, hung up when none has come for a while.

To connect, and to learn what a broker speaks, takes as long as a small batch does. So a stream
keeps what it has made for one batch until the next. After any error the next batch begins with a
new line, whatever the error was about. Brokers that a run has met are waited for when they go away;
those that it has never met are most often mistyped, and that is told soon (`asking`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from sexton.client.client import Client
from sexton.client.retrying import Patience
from sexton.spark.asking import meet
from sexton.spark.background import BackgroundLoop
from sexton.spark.sink_topics import client_for

KEPT_S = 60.0  # well below the ten minutes after which brokers hang up


@dataclass(frozen=True, slots=True)
class Talk:
    """A client, and the loop that it runs in."""

    loop: BackgroundLoop
    client: Client

    @classmethod
    def begin(cls, kafka: Mapping[str, str]) -> Self:
        client = client_for(kafka)
        return cls(BackgroundLoop().__enter__(), client)

    def end(self) -> None:
        try:
            self.loop.run(self.client.close())
        finally:
            self.loop.__exit__()


class Line:
    """Of one stream, which has one batch at a time."""

    def __init__(self, kafka: Mapping[str, str], kept_s: float = KEPT_S) -> None:
        self._kafka = kafka
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._kept: Talk | None = None
        self._timer: threading.Timer | None = None
        self._has_met_brokers = False

    def meet(self, talk: Talk, patience: Patience) -> None:
        """Before anything is asked."""
        if not self._has_met_brokers:
            talk.loop.run(meet(talk.client, patience))
            self._has_met_brokers = True

    @contextmanager
    def talk(self) -> Iterator[Talk]:
        talk = self._taken() or Talk.begin(self._kafka)
        try:
            yield talk
        except BaseException:
            talk.end()
            raise
        self._keep(talk)

    def hang_up(self) -> None:
        talk = self._taken()
        if talk is not None:
            talk.end()

    def _taken(self) -> Talk | None:
        with self._lock:
            talk, self._kept = self._kept, None
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        return talk

    def _keep(self, talk: Talk) -> None:
        timer = threading.Timer(self._kept_s, self.hang_up)
        timer.daemon = True
        with self._lock:
            self._kept, self._timer = talk, timer
        timer.start()
