"""Is an embedded cluster a Kafka one can break and mend at will?"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sexton.base.errors import ConfigError, Refused
from sexton.broker.cluster import HAND_OVER_S
from sexton.broker.home import Home
from sexton.lab.looking import consumed, replica_logs
from sexton.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from sexton.testing.apache_kafka import ApacheKafka
from sexton.testing.cluster import Cluster
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import TimedOut
from tests.kafka_connection import GROUP, Connection

COMPACT = {"cleanup.policy": "compact"}


@pytest.fixture
def three() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


def produce(cluster: EmbeddedCluster, topic: str, *values: str, key: str | None = None) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for value in values:
        producer.produce(topic, value.encode(), key.encode() if key else None, partition=0)
    assert producer.flush(20) == 0


def values_in(cluster: EmbeddedCluster, topic: str) -> list[str | None]:
    return [record.value for record in consumed(cluster.bootstrap_servers, topic).records]


# ── up and down ──


def test_a_cluster_that_runs_is_not_started_again_and_goes_on() -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders")
        with pytest.raises(ConfigError, match="runs already"):
            cluster.start()
        with pytest.raises(ConfigError, match="runs already"):
            asyncio.run(cluster.__aenter__())
        assert cluster.topics() == ["orders"]


def test_a_killed_broker_costs_no_acknowledged_record(three: EmbeddedCluster) -> None:
    three.create_topic("orders", [[1, 2, 3]])
    produce(three, "orders", "a")
    three.kill(1)
    assert three.wait_for("orders", 0, lambda state: state.leader != 1).isr == (2, 3)
    produce(three, "orders", "b")
    three.restart(1)
    three.wait_until_in_sync("orders")
    three.elect("orders", 0, 1)
    assert values_in(three, "orders") == ["a", "b"]


def test_a_broker_that_comes_back_is_copied_from_at_once() -> None:
    """What others had asked it was lost with it, and its connections end with it as well."""
    options = {"request.timeout.ms": 120_000}  # so long would they wait for a lost answer
    with EmbeddedCluster(options=options) as cluster:
        cluster.create_topic("before", [[1, 2, 3]])
        produce(cluster, "before", "a")  # the others copy from it
        cluster.kill(1)
        cluster.wait_for("before", 0, lambda state: state.leader != 1)
        cluster.restart(1)
        cluster.create_topic("after", [[1, 2, 3]], {"min.insync.replicas": "3"})
        produce(cluster, "after", "b")
        assert cluster.leader_of("after") == 1
        assert values_in(cluster, "after") == ["b"]


def test_a_broker_that_is_stopped_hands_over_first() -> None:
    # Its session would last for long, so nothing but its own word moves the leader.
    options = {"broker.session.timeout.ms": 60_000}
    with EmbeddedCluster(options=options, noticed_after_ms=None) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]])
        cluster.create_topic("alone", [[1]])
        produce(cluster, "orders", "a")
        assert cluster._cluster is not None
        listener, image = cluster._cluster.listeners[1], cluster._cluster.image
        led_when_closed: list[int] = []
        close = listener.close

        def look_and_close() -> None:
            led_when_closed.append(sum(1 for p in image.partitions.values() if p.leader == 1))
            close()

        listener.close = look_and_close  # type: ignore[method-assign]
        cluster.stop(1)
        assert cluster.running() == [2, 3]
        assert led_when_closed[0] == 0
        state, alone = cluster.partition("orders"), cluster.partition("alone")
        assert state is not None and alone is not None
        assert (state.leader, state.isr) == (2, (2, 3))
        assert (alone.leader, alone.isr) == (-1, (1,)), "nobody else has it"
        produce(cluster, "orders", "b")
        cluster.restart(1)
        assert cluster.leader_of("alone") == 1
        cluster.wait_until_in_sync("orders")
        assert values_in(cluster, "orders") == ["a", "b"]


def test_a_broker_that_is_alone_stops_without_waiting_for_anybody() -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 1)
        produce(cluster, "orders", "a")
        began = time.monotonic()
        cluster.restart(1)
        assert time.monotonic() - began < 3
        produce(cluster, "orders", "b")
        assert values_in(cluster, "orders") == ["a", "b"]


@pytest.mark.parametrize("harm", ["isolate", "pause"])
def test_a_broker_that_cannot_say_that_it_leaves_is_stopped_all_the_same(
    three: EmbeddedCluster, harm: str
) -> None:
    three.create_topic("orders", [[1, 2, 3]])
    getattr(three, harm)(1)
    began = time.monotonic()
    three.stop(1)
    assert time.monotonic() - began < HAND_OVER_S
    assert three.wait_for("orders", 0, lambda state: state.leader != 1).isr == (2, 3)


def test_a_producer_hardly_notices_a_rolling_restart() -> None:
    session = {"broker.session.timeout.ms": 60_000}
    with EmbeddedCluster(options=session, noticed_after_ms=None) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]], {"min.insync.replicas": 2})
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all"}
        producer = Producer(settings | {"enable.idempotence": True, "linger.ms": 0})
        written: list[str] = []

        def write_until(done: Callable[[], bool]) -> None:
            while not done():
                written.append(str(len(written)))
                producer.produce("orders", written[-1].encode(), partition=0)
                assert producer.flush(10) == 0, "it waits for a broker that is gone"

        for node in (1, 2, 3):
            operator = threading.Thread(target=cluster.stop, args=[node])
            operator.start()
            write_until(lambda: not operator.is_alive())  # noqa: B023
            seen = len(written)
            write_until(lambda: len(written) > seen + 3)  # noqa: B023
            cluster.restart(node)
            cluster.wait_until_in_sync("orders")
        assert values_in(cluster, "orders") == written


def test_a_stopped_cluster_is_started_again_with_its_data(tmp_path: Path) -> None:
    with EmbeddedCluster(data=tmp_path) as cluster:
        cluster.create_topic("kept", [[1, 2, 3]])
        produce(cluster, "kept", "a")
    with EmbeddedCluster(data=tmp_path) as cluster:
        assert values_in(cluster, "kept") == ["a"]


def test_two_clusters_do_not_share_a_directory(tmp_path: Path) -> None:
    """They would write the same segments, and each what the other does not know of."""
    with EmbeddedCluster(brokers=1, data=tmp_path) as cluster:
        cluster.create_topic("ours", 1)
        with pytest.raises(ConfigError, match=r"runs a cluster there \(choose another `data`\)"):
            EmbeddedCluster(brokers=1, data=tmp_path).__enter__()
        assert Home(tmp_path).holder == os.getpid()  # who was refused has taken nothing away
        with pytest.raises(ConfigError, match="runs a cluster there"):
            Home(tmp_path).take()  # as `sexton up` does
        produce(cluster, "ours", "a")
    home = Home(tmp_path)
    home.take()
    with pytest.raises(ConfigError, match="runs a cluster there"):
        EmbeddedCluster(brokers=1, data=tmp_path).__enter__()
    home.leave()
    with EmbeddedCluster(brokers=1, data=tmp_path) as cluster:
        assert values_in(cluster, "ours") == ["a"]


def test_a_cluster_that_does_not_start_leaves_its_directory(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError):
            EmbeddedCluster(brokers=1, data=tmp_path, port=port).__enter__()
    with EmbeddedCluster(brokers=1, data=tmp_path) as cluster:
        assert cluster.data == tmp_path


def test_a_temporary_directory_goes_with_the_cluster() -> None:
    before = set(threading.enumerate())
    with EmbeddedCluster(brokers=1) as cluster:
        data = cluster.data
        assert cluster.data_directory(1).is_dir()
        (loop,) = (t for t in set(threading.enumerate()) - before if t.name == "sexton-cluster")
    assert not data.exists()
    assert not loop.is_alive()


def test_a_paused_broker_is_fenced_and_comes_back(three: EmbeddedCluster) -> None:
    three.create_topic("orders", [[1, 2, 3]])
    three.pause(3)
    assert three.wait_for("orders", 0, lambda state: 3 not in state.isr).leader == 1
    produce(three, "orders", "a")
    three.resume(3)
    three.wait_until_in_sync("orders", 0, 3)


def test_a_session_can_be_had_as_kafka_has_it() -> None:
    options = {"broker.session.timeout.ms": 1_000, "broker.heartbeat.interval.ms": 100}
    with EmbeddedCluster(options=options, noticed_after_ms=None) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]])
        began = time.monotonic()
        cluster.kill(3)
        cluster.wait_for("orders", 0, lambda state: 3 not in state.isr)
        assert time.monotonic() - began > 0.8


def test_a_machine_that_is_busy_costs_no_broker(three: EmbeddedCluster) -> None:
    three.create_topic("orders", [[1, 2, 3]])
    loop = three._loop
    assert loop is not None
    for _ in range(3):  # nobody is heard for a while, again and again
        loop.call_soon_threadsafe(time.sleep, 1.3)
        produce(three, "orders", "a")
    state = three.partition("orders")
    assert state is not None
    assert (state.leader, state.isr) == (1, (1, 2, 3))


def test_an_isolated_leader_is_replaced(three: EmbeddedCluster) -> None:
    three.create_topic("orders", [[1, 2, 3]])
    three.isolate(1)
    assert three.wait_for("orders", 0, lambda state: state.leader != 1).isr == (2, 3)
    three.heal()
    three.wait_until_in_sync("orders")


def test_a_follower_that_is_cut_off_leaves_the_isr() -> None:
    with EmbeddedCluster(
        options={"replica.lag.time.max.ms": 300, "request.timeout.ms": 500}
    ) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]])
        cluster.cut(1, 3)
        produce(cluster, "orders", "a")  # acknowledged once broker 3 is out
        assert cluster.wait_for("orders", 0, lambda state: 3 not in state.isr).isr == (1, 2)
        cluster.mend(1, 3)
        cluster.wait_until_in_sync("orders")


def test_who_is_held_back_copies_nothing_and_is_in_the_cluster_all_the_same() -> None:
    sessions = {"broker.session.timeout.ms": 1_000, "broker.heartbeat.interval.ms": 100}
    options = {**sessions, "replica.lag.time.max.ms": 2_000, "request.timeout.ms": 500}
    with EmbeddedCluster(options=options) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]])
        cluster.hold_back(3)
        produce(cluster, "orders", "a")  # acknowledged once broker 3 is out, long after a session
        assert cluster.wait_for("orders", 0, lambda state: 3 not in state.isr).isr == (1, 2)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        assert sorted(admin.list_topics(timeout=20).brokers) == [1, 2, 3]
        cluster.let_go(3)
        cluster.wait_until_in_sync("orders")
        assert cluster.offsets("orders")[3].log_end == 1


# ── topics ──


def test_anything_can_be_waited_for(three: EmbeddedCluster) -> None:
    three.create_topic("orders", [[1, 2, 3]])
    three.kill(1)
    three.wait_until(lambda: three.leader_of("orders") == 2)
    with pytest.raises(TimedOut, match=r"pigs fly: not within 0\.01 s"):
        three.wait_until(lambda: False, "pigs fly", 0.01)


def test_a_partition_moves(three: EmbeddedCluster) -> None:
    three.create_topic("moved", [[1, 2]])
    produce(three, "moved", "a")
    three.reassign("moved", 0, [3, 1])
    state = three.partition("moved")
    assert state is not None
    assert set(state.isr) == {1, 3}
    assert (three.data_directory(3) / "moved-0").is_dir()
    assert sorted(replica_logs(three.bootstrap_servers, "moved")) == [1, 3]


def test_a_topic_is_spread_over_three_brokers_unless_one_says_so(three: EmbeddedCluster) -> None:
    three.create_topic("spread", 2)
    three.create_topic("alone", 1, replication_factor=1)
    for topic, count in (("spread", 3), ("alone", 1)):
        state = three.partition(topic)
        assert state is not None
        assert len(state.replicas) == count
    three.delete_topic("alone")
    assert three.topics() == ["spread"]
    assert three.partition("alone") is None


# ── time and cleaning ──


def test_retention_goes_by_a_clock_that_can_be_moved() -> None:
    options = {"log.retention.ms": 3_600_000, "log.segment.bytes": 100}
    with EmbeddedCluster(brokers=1, options=options) as cluster:
        cluster.create_topic("old", 1, {"message.timestamp.type": "LogAppendTime"})
        produce(cluster, "old", "a", "b")
        cluster.let_time_pass(2 * 3_600_000)
        produce(cluster, "old", "c")
        assert values_in(cluster, "old") == ["c"]
        before = cluster.now_ms()
        cluster.advance_clock(timedelta(hours=1))
        assert cluster.now_ms() >= before + 3_600_000


def test_a_frozen_clock_goes_when_it_is_moved() -> None:
    with EmbeddedCluster(brokers=1, frozen_clock=True) as cluster:
        before = cluster.now_ms()
        produce(cluster, "orders", "a")
        assert cluster.now_ms() == before
        cluster.advance_clock(timedelta(seconds=1))
        assert cluster.now_ms() == before + 1_000


def test_cleaning_now_leaves_the_last_record_of_a_key(three: EmbeddedCluster) -> None:
    three.create_topic("latest", [[1, 2, 3]], COMPACT)
    produce(three, "latest", "1", "2", "3", key="k")
    three.clean()
    assert len(values_in(three, "latest")) == 3, "the active segment is not cleaned, as in Kafka"
    three.clean(force=True)
    logs = replica_logs(three.bootstrap_servers, "latest")
    assert {node: log.batches for node, log in logs.items()} == dict.fromkeys((1, 2, 3), ("2:k=3",))
    offsets = three.offsets("latest")
    assert {(o.mcco, o.mtro, o.mxfo, o.mxro) for o in offsets.values()} == {(3, 3, 3, 3)}
    assert [o.node for o in offsets.values() if o.leads] == [1]


def test_one_broker_can_be_cleaned_alone(three: EmbeddedCluster) -> None:
    three.create_topic("latest", [[1, 2, 3]], COMPACT)
    produce(three, "latest", "1", "2", key="k")
    three.clean(2, force=True)
    assert {node: o.mcco for node, o in three.offsets("latest").items()} == {1: 0, 2: 2, 3: 0}
    assert {o.mtro for o in three.offsets("latest").values()} == {0}, "the slowest decides"


# ── groups ──


def test_members_of_new_groups_hear_often_from_their_coordinator() -> None:
    with EmbeddedCluster(brokers=1) as cluster, Connection(cluster.address_of(1)) as connection:
        cluster.create_topic("orders", 1)
        cluster.wait_until(lambda: connection.has_coordinator("g", GROUP))
        joins = ConsumerGroupHeartbeatRequest(
            "g", str(uuid.uuid4()), 0, rebalance_timeout_ms=1_000, subscribed_topic_names=["orders"]
        )
        joins.topic_partitions = []
        answers: list[ConsumerGroupHeartbeatResponse] = []

        def joined() -> bool:  # the coordinator may be reading its log
            answers.append(connection.send(joins, 1, ConsumerGroupHeartbeatResponse))
            return not answers[-1].error_code

        cluster.wait_until(joined)
        assert answers[-1].heartbeat_interval_ms == 500


# ── how it is used ──


def test_every_method_can_be_awaited() -> None:
    async def use() -> None:
        async with EmbeddedCluster(brokers=2) as cluster:
            await cluster.create_topic("orders", [[1, 2]])
            await cluster.elect("orders", 0, 2)
            assert await cluster.leader_of("orders") == 2
            await asyncio.gather(cluster.clean(), cluster.now_ms())
            await cluster.wait_until(lambda: True)

            async def never() -> bool:
                return False

            with pytest.raises(TimedOut, match=r"pigs fly: not within 0\.01 s"):
                await cluster.wait_until(never, "pigs fly", 0.01)
            data = cluster.data
        assert not data.exists()

    asyncio.run(use())


def test_both_clusters_are_the_same_to_a_script() -> None:
    def script(cluster: Cluster) -> str:
        return cluster.bootstrap_servers

    kinds: list[type[Cluster]] = [EmbeddedCluster, ApacheKafka]  # judged by mypy
    assert len(kinds) == 2
    with EmbeddedCluster(brokers=1) as cluster:
        assert script(cluster).startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"brokers": 0}, "at least one broker"),
        ({"options": {"log.segment.byte": 1}}, "log.segment.bytes"),
        ({"options": {"num.partitions": "many"}}, "num.partitions"),
        ({"compaction": "sometimes"}, "compaction.policy"),
        ({"host": "0.0.0.0"}, "insecure=True"),
        ({"host": "0.0.0.0", "advertised_host": "here"}, "insecure=True"),
        ({"host": "0.0.0.0", "insecure": True}, "advertised_host"),
    ],
)
def test_a_wrong_option_is_named_before_anything_starts(
    wrong: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        EmbeddedCluster(**wrong)
    assert complaint in f"{caught.value} {caught.value.hint}"


def test_others_are_let_in_if_that_is_meant() -> None:
    with EmbeddedCluster(1, host="0.0.0.0", advertised_host="127.0.0.1", insecure=True) as cluster:
        assert cluster.bootstrap_servers == cluster.address_of(1)
        produce(cluster, "orders", "a")
        assert values_in(cluster, "orders") == ["a"]


def test_what_cannot_be_done_is_explained(three: EmbeddedCluster) -> None:
    with pytest.raises(ConfigError, match="broker 7: is not in this cluster"):
        three.kill(7)
    with pytest.raises(Refused, match="INVALID_CONFIG"):
        three.create_topic("wrong", 1, {"segment.bytes": "large"})
    three.create_topic("orders", [[1, 2, 3]])
    with pytest.raises(Refused, match="TOPIC_ALREADY_EXISTS"):
        three.create_topic("orders")
    with pytest.raises(TimedOut, match="it is PartitionState"):
        three.wait_for("orders", 0, lambda state: state.leader == 3, timeout_s=0.01)
    three.kill(2)
    with pytest.raises(ConfigError, match="broker 2: does not run"):
        three.clean(2)
    with pytest.raises(ConfigError, match="by -1 ms"):
        three.advance_clock(-1)


def test_a_cluster_that_has_ended_says_so() -> None:
    cluster = EmbeddedCluster(brokers=1)
    with pytest.raises(ConfigError, match="does not run"):
        cluster.leader_of("orders")
    with cluster:
        pass
    with pytest.raises(ConfigError, match="does not run"):
        _ = cluster.bootstrap_servers
    cluster.close()


def test_a_port_can_be_chosen_and_is_refused_when_taken() -> None:
    with EmbeddedCluster(brokers=1) as first:
        port = int(first.address_of(1).rpartition(":")[2])
        taken = EmbeddedCluster(brokers=1, port=port)
        with pytest.raises(ConfigError, match="cannot listen"):
            taken.start()
        assert values_in_new_topic(first) == []


def values_in_new_topic(cluster: EmbeddedCluster) -> list[str | None]:
    cluster.create_topic("new")
    return values_in(cluster, "new")


def test_an_unknown_topic_is_created_by_asking_for_it() -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        produce(cluster, "unheard-of", "a")
        assert values_in(cluster, "unheard-of") == ["a"]
    with EmbeddedCluster(brokers=1, options={"auto.create.topics.enable": False}) as cluster:
        reader = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
        try:
            with pytest.raises(KafkaException, match="Unknown partition"):
                reader.get_watermark_offsets(TopicPartition("unheard-of", 0), timeout=5)
        finally:
            reader.close()


def test_the_first_record_does_not_wait_for_compilers() -> None:
    """Numba takes a second to load: what starts a broker and takes a record must not need it."""
    script = (
        "import sys\n"
        "from confluent_kafka import Producer\n"
        "from sexton.testing.embedded import EmbeddedCluster\n"
        "with EmbeddedCluster() as kafka:\n"
        "    producer = Producer({'bootstrap.servers': kafka.bootstrap_servers})\n"
        "    producer.produce('orders', b'a')\n"
        "    assert producer.flush(20) == 0\n"
        "print('numba' in sys.modules)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout == "False\n"
