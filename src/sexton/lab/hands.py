"""What clients and operators do in a scenario, wherever the cluster is.

A scenario says `write k=1`. On brokers that listen on sockets that is a call of an ordinary client
(`ClientHands`, below); in the simulator, which has no sockets, a message on its network
(`sim_hands`). The same goes for reading, for waiting, and for an image of a disk.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.lab.looking import Consumed, ReplicaLog, consumed, replica_logs
from sexton.lab.tv2_writer import TRANSACTION_MS, Tv2Writer
from sexton.testing.cluster import Cluster
from sexton.testing.waiting import until

PATIENCE_S: Final = 30


Acks = Literal["all", "1"]


class Hands(Protocol):
    def write(self, topic: str, key: str, value: str | None, *, acks: Acks = "all") -> None:
        """A plain record, acknowledged by all replicas in sync or the leader alone.

        None deletes the key.
        """

    def begin(self, topic: str, producer: str, key: str, value: str, *, bumps: bool) -> None:
        """A transaction with one record, left open. `bumps`: with an epoch of its own (KIP-890)."""

    def end(self, topic: str, producer: str, *, commit: bool) -> None:
        """The transaction is decided; its marker follows."""

    def logs(self, topic: str) -> dict[int, ReplicaLog]:
        """What each broker that answers holds."""

    def consumed(self, topic: str) -> Consumed:
        """What a read_committed consumer is shown by whoever leads."""

    def until(self, ask: Callable[[], bool], what: str) -> None:
        """Waits until the answer is yes."""

    def keep_image(self, topic: str, node: int) -> None:
        """A copy of what a stopped broker has on its disk."""

    def put_back(self, topic: str, node: int) -> None:
        """The disk of a stopped broker is as it was when the copy was made."""

    def close(self) -> None:
        """Nothing is left behind."""


@dataclass(slots=True)
class ClientHands:
    """Ordinary clients, against any brokers that listen on sockets."""

    cluster: Cluster
    _producers: dict[str, Any] = field(default_factory=dict)
    _writers: dict[tuple[str, str], Tv2Writer] = field(default_factory=dict)
    _images: dict[str, tempfile.TemporaryDirectory[str]] = field(default_factory=dict)

    def write(self, topic: str, key: str, value: str | None, *, acks: Acks = "all") -> None:
        self._send(topic, self._producer(f"acks={acks}", {"acks": acks}), key, value)

    def begin(self, topic: str, producer: str, key: str, value: str, *, bumps: bool) -> None:
        name = f"{topic}-{producer}"
        if bumps:
            partition = TopicPartition(topic, 0)
            new = Tv2Writer(self.cluster.bootstrap_servers, partition, name)
            self._writers.setdefault((topic, producer), new).write(key, value)
            return
        known = name in self._producers
        more = {"transactional.id": name, "transaction.timeout.ms": TRANSACTION_MS}
        client = self._producer(name, more)
        if not known:
            client.init_transactions(PATIENCE_S)
        client.begin_transaction()
        self._send(topic, client, key, value)

    def end(self, topic: str, producer: str, *, commit: bool) -> None:
        writer = self._writers.get((topic, producer))
        if writer is not None:
            (writer.commit if commit else writer.abort)()
            return
        client = self._producers[f"{topic}-{producer}"]
        (client.commit_transaction if commit else client.abort_transaction)(PATIENCE_S)

    def _producer(self, name: str, more: dict[str, Any]) -> Any:
        if name not in self._producers:
            settings = {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "acks": "all",
                "linger.ms": 0,
                "log_level": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 50,
                **more,
            }
            self._producers[name] = importlib.import_module("confluent_kafka").Producer(settings)
        return self._producers[name]

    def _send(self, topic: str, client: Any, key: str, value: str | None) -> None:
        failures: list[str] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(error.str())

        text = None if value is None else value.encode()
        client.produce(topic, text, key.encode(), partition=0, on_delivery=delivered)
        left = client.flush(PATIENCE_S)
        if left or failures:
            raise PeerError(topic, f"a record was not taken: {failures or 'no answer'}")

    def logs(self, topic: str) -> dict[int, ReplicaLog]:
        return replica_logs(self.cluster.bootstrap_servers, topic)

    def consumed(self, topic: str) -> Consumed:
        return consumed(self.cluster.bootstrap_servers, topic)

    def until(self, ask: Callable[[], bool], what: str) -> None:
        until(ask, what)

    def keep_image(self, topic: str, node: int) -> None:
        kept = self._images[topic] = tempfile.TemporaryDirectory(prefix="sexton-disk-")
        shutil.copytree(self._place(topic, node), Path(kept.name, "image"))

    def put_back(self, topic: str, node: int) -> None:
        place = self._place(topic, node)
        shutil.rmtree(place)
        shutil.copytree(Path(self._images[topic].name, "image"), place)
        self._images.pop(topic).cleanup()

    def _place(self, topic: str, node: int) -> Path:
        return self.cluster.data_directory(node) / f"{topic}-0"

    def close(self) -> None:
        for image in self._images.values():
            image.cleanup()
        self._images.clear()
        self._producers.clear()
