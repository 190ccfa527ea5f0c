"""What some pages expect beside the topics: a service that runs, a transaction that is open.

PREPARED[page](world) is entered before the first line of a page and left after its last
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from sexton.cli.main import main
from sexton.client.client import Client
from sexton.client.transaction_lists import describe_transaction
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.certificates import make_certificates
from tests.docs.world import AWAY, World, write
from tests.stores.harness import wait_until_done


@contextmanager
def a_retry_with_a_held_key(world: World, group: str = "billing") -> Iterator[None]:
    """Two messages of customer-42 wait; the first, orders-3-17, has reached its ceiling."""
    from sexton.retry import Message, OrderedRetry

    def handle(message: Message) -> None:
        if message.key == b"customer-42":
            raise ConnectionError("the billing service does not answer")

    end = max(each.log_end for each in world.cluster.offsets("orders", 3).values())
    write(world.cluster, "orders", 3, [("ada", str(number)) for number in range(end, 17)])
    write(world.cluster, "orders", 3, [("customer-42", "a tea"), ("customer-42", "a cake")])
    with OrderedRetry(
        handle, topic="orders", group=group, bootstrap_servers=world.cluster.bootstrap_servers,
        max_attempts=1, at_ceiling="held", commands_every_s=0.1,
    ) as retry:  # fmt: skip
        until(lambda: sum(each.held for each in retry.standings) == 1, "the message is held")
        yield


@contextmanager
def an_application_with_state(world: World) -> Iterator[None]:
    from sexton.stores import App, Store, Task

    def count(key: str, value: bytes, store: Store) -> list[tuple[str, int]]:
        total = store.get(key, 0) + 1
        store.put(key, total)
        return [(key, total)]

    for topic in ("words", "totals"):
        world.cluster.create_topic(topic, 1)
    write(world.cluster, "words", 0, [(word, "") for word in ("kafka", "log", "kafka")])
    task = Task(
        "counts", input="words", output="totals", process=count, input_serdes=("str", "bytes"),
        store_serdes=("str", "int"), output_serdes=("str", "int"),
    )  # fmt: skip
    servers = world.cluster.bootstrap_servers
    with App(
        "word-counts", [task], bootstrap_servers=servers, state_dir=world.here / "state"
    ) as app:
        wait_until_done(app, 3)
        yield


@contextmanager
def a_hanging_transaction(world: World) -> Iterator[None]:
    """Of the transactional id orders-7, in partition 3: all have its record, none its end.

    Broker 3 is down when it is aborted, and then leads though it is not in sync: the others follow
    it and give up the marker, and the coordinator is done with the transaction.
    """
    from confluent_kafka import Producer

    cluster = world.cluster
    producer = Producer({
        "bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "orders-7",
        "log_level": 0,
    })  # fmt: skip
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", key="grace", value="2", partition=3)
    assert producer.flush(60) == 0
    before = cluster.offsets("orders", 3)[1].log_end
    until(lambda: cluster.offsets("orders", 3)[AWAY].log_end == before, "broker 3 has all")
    cluster.kill(AWAY)
    cluster.wait_for("orders", 3, lambda state: AWAY not in state.isr)
    producer.abort_transaction(60)
    until(lambda: cluster.offsets("orders", 3)[1].log_end > before, "the marker is there")
    until(lambda: _state_of(cluster, "orders-7") == "CompleteAbort", "the coordinator is done")
    for node in (1, 2):
        cluster.kill(node)
    cluster.restart(AWAY)
    cluster.wait_for("orders", 3, lambda state: state.leader == -1)
    elect = ["cluster", "elect", "orders-3", "--unclean", "--yes"]
    assert main([*elect, "-b", cluster.address_of(AWAY), "--format", "json"]) == 0
    for node in (1, 2):
        cluster.restart(node)
    cluster.wait_until_in_sync("orders", 3)
    yield


def _state_of(cluster: EmbeddedCluster, transactional_id: str) -> str:
    async def ask() -> str:
        async with Client(cluster.bootstrap_servers) as client:
            return (await describe_transaction(client, transactional_id)).state

    return asyncio.run(ask())


@contextmanager
def certificates(world: World) -> Iterator[None]:
    made = make_certificates(world.here / "made")
    (world.here / "authority.pem").symlink_to(made.authority)
    yield


@contextmanager
def a_cluster_with_tls(world: World) -> Iterator[None]:
    """It is kafka-1:9093; `client.properties` is how to come in."""
    made = make_certificates(world.here / "made")
    (world.here / "authority.pem").symlink_to(made.authority)
    settings = "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location="
    (world.here / "client.properties").write_text(f"{settings}{made.authority}\n")
    options = {"ssl.keystore.location": str(made.server)}
    with EmbeddedCluster(1, options=options) as secured:
        secured.create_topic("orders", 1, {"cleanup.policy": "compact"})
        world.names["kafka-1:9093"] = secured.bootstrap_servers
        yield


Preparing = Callable[[World], AbstractContextManager[None]]
PREPARED: dict[str, Preparing] = {
    "docs/how-to/audit-a-cluster.md": a_cluster_with_tls,
    "docs/how-to/keep-state.md": an_application_with_state,
    "docs/how-to/operate-ordered-retry.md": a_retry_with_a_held_key,
    "docs/how-to/ordered-retry-on-spark.md": partial(
        a_retry_with_a_held_key, group="sexton-sink-billing"
    ),
    "docs/how-to/secure-a-cluster.md": certificates,
    "docs/how-to/untangle-transactions.md": a_hanging_transaction,
    "docs/runbook/hanging-transaction.md": a_hanging_transaction,
}


@contextmanager
def prepared(page: str, world: World) -> Iterator[Path]:
    with PREPARED.get(page, nothing)(world):
        yield world.here


@contextmanager
def nothing(world: World) -> Iterator[None]:
    del world
    yield
