"""Does the harness give tests a real Kafka, and leave nothing behind?"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig, dump_log_class, run_tool
from sexton.testing.kafka_jars import KafkaJars
from sexton.testing.waiting import until
from tests.kafka_data import kafka_logs

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

QUICK = {  # a dead broker is noticed in a second and a half, not in nine
    "broker.session.timeout.ms": 1500,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 3000,
    "auto.leader.rebalance.enable": False,
}


@pytest.fixture(scope="module")
def three() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(nodes=3, options=QUICK)) as kafka:
        yield kafka


def test_three_brokers_see_each_other(three: ApacheKafka) -> None:
    assert three.admin.brokers() == {1, 2, 3}


def test_a_killed_node_leaves_the_isr_and_comes_back(three: ApacheKafka) -> None:
    partition = TopicPartition("killed", 0)
    three.admin.create_topic("killed", [[1, 2, 3]])
    three.kill(1)
    state = three.admin.await_partition(partition, lambda state: state.isr == (2, 3))
    assert state.leader in (2, 3)
    three.start(1)
    three.admin.await_partition(partition, lambda state: state.isr == (1, 2, 3))
    three.admin.elect_preferred(partition)
    state = three.admin.await_partition(partition, lambda state: state.leader == 1)
    assert state.replicas == (1, 2, 3)


def test_a_clean_restart_keeps_address_and_data(three: ApacheKafka) -> None:
    address, directory = three.nodes[2].address, three.data_directory(2)
    three.restart(2)
    assert (three.nodes[2].address, three.data_directory(2)) == (address, directory)
    assert "node.id=2" in (directory / "meta.properties").read_text(encoding="utf-8")


def test_leadership_goes_where_it_is_told(three: ApacheKafka) -> None:
    partition = TopicPartition("led", 0)
    three.admin.create_topic("led", [[1, 2, 3]])
    for node_id in (3, 2, 1):
        state = three.admin.lead(partition, node_id)
        assert (state.leader, state.replicas[0]) == (node_id, node_id)
        assert three.admin.leaders(partition) == {node_id}


def test_a_partition_moves_to_other_replicas(three: ApacheKafka) -> None:
    three.admin.create_topic("moved", [[1, 2]])
    three.admin.reassign(TopicPartition("moved", 0), [3, 1])
    assert until((three.data_directory(3) / "moved-0").is_dir, "the moved partition on node 3")


def test_a_paused_node_is_fenced_until_it_is_resumed(three: ApacheKafka) -> None:
    partition = TopicPartition("paused", 0)
    three.admin.create_topic("paused", [[1, 3]])
    three.pause(3)
    try:
        three.await_brokers({1, 2}, observers={1, 2})
    finally:
        three.resume(3)
    three.await_ready()
    three.admin.await_partition(partition, lambda state: state.isr == (1, 3))


def test_a_topic_without_a_number_has_as_many_partitions_as_brokers_say() -> None:
    with ApacheKafka(KafkaConfig(options={"num.partitions": 3})) as kafka:
        kafka.create_topic("default")
        assert kafka.partition("default", 2) is not None
        assert kafka.partition("default", 3) is None


@pytest.mark.parametrize("name", ["kafka4", "kafka39"])
def test_configs_change_while_it_runs(name: str, request: pytest.FixtureRequest) -> None:
    kafka: ApacheKafka = request.getfixturevalue(name)
    kafka.admin.create_topic("configured", 2, {"cleanup.policy": "compact"})
    assert kafka.admin.topic_configs("configured")["cleanup.policy"] == "compact"
    kafka.admin.alter_topic("configured", {"segment.ms": 500, "cleanup.policy": None})
    configs = kafka.admin.topic_configs("configured")
    assert (configs["segment.ms"], configs["cleanup.policy"]) == ("500", "delete")
    kafka.admin.alter_broker(1, {"log.cleaner.threads": 2})
    assert kafka.admin.broker_configs(1)["log.cleaner.threads"] == "2"
    kafka.admin.delete_topic("configured")
    assert "configured" not in kafka.admin.topics()


def test_memory_and_processor_time_can_be_read(kafka4: ApacheKafka) -> None:
    assert kafka4.nodes[1].rss_bytes > 50 << 20
    assert kafka4.nodes[1].cpu_s > 0
    cleaner = kafka4.nodes[1].thread_cpu_s("kafka-log-cleaner-thread-0")
    assert 0 < cleaner < kafka4.nodes[1].cpu_s
    assert kafka4.nodes[1].thread_cpu_s("no such thread") == 0


def test_kafkas_own_tool_still_says_what_was_recorded(jars: KafkaJars) -> None:
    (log,) = kafka_logs("txn-many", jars.version)
    (segment,) = log.segments
    arguments = ["--deep-iteration", "--print-data-log", "--files", segment.name]
    said = run_tool(jars, dump_log_class(jars.version), *arguments, directory=log.directory)
    assert said == f"Dumping {segment.name}\n{log.dumps[segment.name]}"


def test_a_tool_that_fails_is_reported_with_its_complaint(jars: KafkaJars) -> None:
    with pytest.raises(PeerError, match="Missing required argument"):
        run_tool(jars, dump_log_class(jars.version), "--deep-iteration")


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        pytest.param(KafkaConfig(options={"num.io.threads": 0}), "num.io.threads", id="format"),
        pytest.param(KafkaConfig(jvm=["-XX:+NoSuchFlag"]), "NoSuchFlag", id="start"),
    ],
)
def test_a_node_that_cannot_start_is_reported_with_its_log(
    config: KafkaConfig, complaint: str
) -> None:
    cluster = ApacheKafka(config)
    with pytest.raises(PeerError, match=re.escape(complaint)), cluster:
        pass
    assert not cluster.directory.exists()


def test_leaving_the_cluster_leaves_nothing() -> None:
    with ApacheKafka() as kafka:
        process = kafka.nodes[1].process
        assert process is not None
        assert kafka.directory.exists()
    assert not kafka.directory.exists()
    assert not alive(process.pid)


def test_a_killed_test_run_leaves_nothing() -> None:
    script = (
        "from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig\n"
        "kafka = ApacheKafka().__enter__()\n"
        "print(kafka.nodes[1].process.pid, kafka.directory, flush=True)\n"
        "import signal; signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid, directory = run.stdout.readline().split()
        assert alive(int(pid))
        run.send_signal(signal.SIGKILL)
    until(lambda: not Path(directory).exists(), "the directory of a killed run removed")
    assert not alive(int(pid))


def alive(pid: int) -> bool:
    """Does the process run? One that is dead but not yet buried by its parent does not."""
    try:
        os.kill(pid, 0)
        return ") Z " not in Path("/proc", str(pid), "stat").read_text(encoding="utf-8")
    except (ProcessLookupError, FileNotFoundError):
        return False
