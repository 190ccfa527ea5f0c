"""A cluster that is attacked on every port, and clients who are not to notice."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from random import Random
from typing import Any, Literal

import confluent_kafka
import pytest

from sexton.protocol import encode_request
from sexton.protocol.messages.api_versions import ApiVersionsRequest
from sexton.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from sexton.protocol.messages.metadata import MetadataRequest
from sexton.protocol.messages.produce import ProduceRequest
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.kafka_messages import mangled

RECORDS = 3_000
MIB = 1 << 20

Attack = Callable[[socket.socket, Random], None]


def garbage(peer: socket.socket, random: Random) -> None:
    peer.sendall(random.randbytes(random.randrange(1, 5_000)))


def mangled_requests(peer: socket.socket, random: Random) -> None:
    for number in range(20):
        payload = encode_request(MetadataRequest(None), 9, number, "x")[4:]
        payload = mangled(random, payload)
        peer.sendall(struct.pack(">i", len(payload)) + payload)


def announce(peer: socket.socket, random: Random) -> None:
    peer.sendall(struct.pack(">ihhi", 100 * MIB, ProduceRequest.API_KEY, 9, 1))
    peer.sendall(random.randbytes(random.randrange(200_000)))


def never_read(peer: socket.socket, _random: Random) -> None:
    topic = FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=MIB)])
    fetch = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, max_bytes=MIB, topics=[topic])
    with contextlib.suppress(BlockingIOError):
        peer.setblocking(False)
        for number in range(1000):
            peer.send(encode_request(fetch, 11, number, "x"))


def fetch_and_go(peer: socket.socket, _random: Random) -> None:
    """Requests that nobody waits for any more when they could be answered."""
    topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0)])
    fetch = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=2**31 - 1, topics=[topic])
    peer.sendall(encode_request(fetch, 11, 1, "x") * 50)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def half_open(_peer: socket.socket, _random: Random) -> None:
    pass


def flood(peer: socket.socket, _random: Random) -> None:
    peer.sendall(encode_request(ApiVersionsRequest("x", "1"), 4, 1, "x") * 500)


ATTACKS: list[Attack] = [
    garbage, mangled_requests, announce, never_read, fetch_and_go, half_open, flood,
]  # fmt: skip


@pytest.mark.parametrize("policy", ["coordinated", "independent"])
@pytest.mark.parametrize("version", [11, 16])
def test_nobody_vouches_for_a_broker_that_is_away(
    policy: Literal["coordinated", "independent"], version: int
) -> None:
    """Else a record would count as replicated which nobody but the leader has."""
    patient = {"broker.session.timeout.ms": 60_000, "replica.lag.time.max.ms": 60_000}
    with EmbeddedCluster(2, compaction=policy, options=patient, noticed_after_ms=None) as cluster:
        cluster.create_topic("t", [[1, 2]])
        cluster.kill(2)
        servers = {"bootstrap.servers": cluster.address_of(1), "acks": "1"}
        producer = confluent_kafka.Producer(servers)
        producer.produce("t", b"alone", partition=0)
        assert producer.flush(20) == 0
        topic_id = b"" if version < 13 else _topic_id(cluster, "t")
        state = cluster.offsets("t")[1]
        assert (state.high_watermark, state.log_end) == (0, 1)
        for replica_id in (-1, 2):  # a consumer is answered, and vouches for nothing
            asked = FetchPartition(0, fetch_offset=1 if replica_id == 2 else 0)
            topic = FetchTopic("t", topic_id or bytes(16), [asked])
            old, new = (replica_id, -1) if version < 15 else (-1, replica_id)
            fetch = FetchRequest(replica_id=old, max_bytes=MIB, topics=[topic])
            fetch.replica_state = ReplicaState(new, -1)
            host, port = cluster.address_of(1).split(":")
            with socket.create_connection((host, int(port)), 20) as peer:
                peer.sendall(encode_request(fetch, version, 1, "x"))
                assert (peer.recv(1) == b"") == (replica_id == 2)
        assert cluster.offsets("t")[1].high_watermark == 0


def _topic_id(cluster: EmbeddedCluster, topic: str) -> bytes:
    assert cluster._cluster is not None
    return bytes.fromhex(cluster._cluster.image.topics[topic].topic_id)


def attack(ports: list[int], seed: int, over: threading.Event, done: list[int]) -> None:
    random = Random(seed)
    held: list[socket.socket] = []
    while not over.is_set():
        peer = socket.socket()
        peer.settimeout(0.5)
        held.append(peer)
        with contextlib.suppress(OSError):
            peer.connect(("127.0.0.1", random.choice(ports)))
            random.choice(ATTACKS)(peer, random)
            done.append(1)
        if len(held) > 50:
            held.pop(random.randrange(len(held))).close()
        over.wait(0.02)  # they run under the same lock as the brokers, and cost them time
    for peer in held:
        peer.close()


def test_clients_of_a_cluster_under_attack_notice_nothing() -> None:
    with EmbeddedCluster(
        3, options={"connections.setup.max.ms": 1_000, "fetch.wait.max.ms": 1_000}
    ) as cluster:
        cluster.create_topic("t", 3)
        over, done = threading.Event(), list[int]()
        ports = [int(cluster.address_of(node).rpartition(":")[2]) for node in cluster.node_ids]
        attackers = [
            threading.Thread(target=attack, args=(ports, seed, over, done)) for seed in range(2)
        ]
        for each in attackers:
            each.start()
        errors: list[Any] = []
        try:
            config: dict[str, Any] = {
                "bootstrap.servers": cluster.bootstrap_servers,
                "error_cb": errors.append,
                "log_level": 0,
            }
            _produce(config)
            found = _consume(config)
        finally:
            over.set()
            for each in attackers:
                each.join()
        assert sorted(found) == [b"%d" % number for number in sorted(range(RECORDS), key=str)]
        assert errors == []
        assert len(done) > 50
        listeners = cluster._running_cluster.listeners.values()
        until(lambda: all(each.held_bytes == 0 for each in listeners), "memory to come back")
        until(lambda: all(each.connection_count == 0 for each in listeners), "all to be gone")


def _produce(config: dict[str, Any]) -> None:
    producer = confluent_kafka.Producer(config | {"acks": "all", "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce("t", b"%d" % number)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def _consume(config: dict[str, Any]) -> list[bytes]:
    group = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(config | group)
    consumer.subscribe(["t"])
    found: list[bytes] = []
    while len(found) < RECORDS:
        messages = consumer.consume(1000, 30)
        assert messages, f"nothing came after {len(found)}"
        found += [value for message in messages if (value := message.value()) is not None]
    consumer.close()
    return found
