"""What the pages speak of: a cluster with these topics, directories and files, gone afterwards.

    orders     compacted, 6 partitions; on broker 3 the deleted keys user-17 and customer-7 live on
               in partition 3; no other replica remembers that they were deleted
    payments   ids, balances and numbers per key, with an id that comes twice
    counts     a count per key in 18 partitions, one of which goes back
    users      what the table in lake/users was made from
    shipped    made from orders-placed, in the order of its source

The four brokers clean each for itself, as Apache Kafka's do, so that something is wrong here. Their
clock stands still unless it is moved.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sexton.testing.embedded import EmbeddedCluster
from tests.docs.blocks import ROOT

AWAY = 3
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": 500,
    "delete.retention.ms": 1_000,
    "min.cleanable.dirty.ratio": 0,
    "message.timestamp.type": "LogAppendTime",  # segments age by the brokers' clock
}
DELETED = ("user-17", "customer-7")


@dataclass(frozen=True, slots=True)
class World:
    cluster: EmbeddedCluster
    here: Path  # the reader's working directory
    names: dict[str, str] = field(default_factory=dict)  # on a page, and here

    def real(self, text: str) -> str:
        """What a page says, with the names of this world."""
        for told, real in self.names.items():
            text = text.replace(told, real)
        text = re.sub(r"(--(?:http|metrics)-port) \d+", r"\1 0", text)  # any that is free
        return re.sub(r"--start-offset \d+", f"--start-offset {self._last_offset()}", text)

    def _last_offset(self) -> int:
        return self.cluster.offsets("orders", 3)[1].log_end - 1


def build(data: Path) -> None:
    """Makes the brokers' files; `the_world` starts from a copy of them."""
    with _cluster(data) as cluster:
        _fill(cluster)
        _diverge(cluster)


@contextmanager
def the_world(built: Path, here: Path) -> Iterator[World]:
    shutil.copytree(built, here / "data")
    with _cluster(here / "data") as cluster:
        _lay_out(cluster, here)
        yield World(cluster, here, _names(cluster, here))


def _names(cluster: EmbeddedCluster, here: Path) -> dict[str, str]:
    data = str(cluster.data_directory(1))
    hosts = ("kafka-1:9092", "kafka:9092", "localhost:9092", "HOST:PORT")
    return {
        **dict.fromkeys(hosts, cluster.bootstrap_servers),
        "--topic NAME": "--topic orders",
        "LOG_DIR": data,
        "/var/lib/kafka": data,
        "/var/lib/sexton": str(here / "var"),
        "/lake": str(here / "lake"),
        "--as-on 2": f"--as-on {AWAY}",  # who has the value here
    }


def _cluster(data: Path) -> EmbeddedCluster:
    return EmbeddedCluster(brokers=4, compaction="independent", frozen_clock=True, data=data)


def _fill(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("orders", [[1, 2, 3]] * 6, COMPACTED)
    for topic, partitions in (("payments", 6), ("payments-source", 6), ("counts", 18)):
        cluster.create_topic(topic, [[1, 2, 3]] * partitions)
    for topic in ("users", "orders-placed", "shipped"):
        cluster.create_topic(topic, [[1, 2, 3]])
    payments = [("ada", 1, 100), ("ada", 2, 120), ("ada", 2, 120), ("grace", 1, 30)]
    for topic, wanted in (("payments", payments), ("payments-source", payments[:2])):
        write(cluster, topic, 3, [
            (key, json.dumps({"id": f"{key}-{seq}", "seq": seq, "balance": balance}))
            for key, seq, balance in wanted
        ])  # fmt: skip
    counts = [("key_17", count) for count in (108, 109, 110, 105)]
    write(cluster, "counts", 17, [(key, json.dumps({"count": count})) for key, count in counts])
    users = (("ada", "ada@example.org"), ("grace", "grace@example.org"))
    write(cluster, "users", 0, [(key, json.dumps({"email": email})) for key, email in users])
    for topic in ("orders-placed", "shipped"):
        write(cluster, topic, 0, [("ada", json.dumps({"order_id": n})) for n in range(3)])


def _diverge(cluster: EmbeddedCluster) -> None:
    """Broker 3 is away while the others forget that some keys were deleted."""
    write(cluster, "orders", 3, [(key, "1") for key in (*DELETED, "ada")])
    cluster.wait_until_in_sync("orders", 3)
    cluster.kill(AWAY)
    cluster.wait_for("orders", 3, lambda state: AWAY not in state.isr)
    write(cluster, "orders", 3, [(key, None) for key in DELETED])
    for step in range(3):
        cluster.let_time_pass(1_100)
        write(cluster, "orders", 3, [("filler", str(step))])
        cluster.clean(1, 2, 4, force=True)
    cluster.restart(AWAY)
    cluster.wait_until_in_sync("orders", 3)


def _lay_out(cluster: EmbeddedCluster, here: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for node in (1, 2, 3):
        (here / f"broker-{node}").mkdir()
        (here / f"broker-{node}/data").symlink_to(cluster.data_directory(node))
    segments = ROOT / "tests/data/kafka-4.3.1/txn-segments/txn-segments-0"
    shutil.copytree(cluster.data_directory(1) / "orders-3", here / "orders-3")
    snapshot = next(segments.glob("*.snapshot"))
    shutil.copy(snapshot, here / "orders-3/00000000000000000042.snapshot")
    (cluster.data_directory(1) / "orders-3/00000000000000000000.txnindex").touch()
    (here / "tests").symlink_to(ROOT / "tests")
    (here / "var").mkdir()
    (here / "lake").mkdir()
    table = {"user_id": ["ada", "grace"], "email": ["ada@example.org", "grace@example.org"]}
    pq.write_table(pa.table(table), here / "lake/users")
    damaged = here / "txn-segments-0"
    shutil.copytree(segments, damaged)
    (damaged / "00000000000000000006.log").chmod(0o644)
    with (damaged / "00000000000000000006.log").open("r+b") as file:
        file.seek(75)
        byte = file.read(1)
        file.seek(75)
        file.write(bytes([byte[0] ^ 1]))


def write(
    cluster: EmbeddedCluster, topic: str, partition: int, records: list[tuple[str, str | None]]
) -> None:
    """With all replicas' acknowledgement."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=partition)
    assert producer.flush(60) == 0
