"""`sexton up` as its users have it: a process, signals, output on a terminal, real clients."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

from sexton.broker.home import Home

START_S = 60  # on a busy machine; it takes a fraction of a second on an idle one


class Up:
    """A running `sexton up --format json`."""

    def __init__(self, data: Path, *options: object, program: str | None = None) -> None:
        start = ["-c", program] if program else ["-m", "sexton.cli.main"]
        words = ["up", "--format", "json", "--data", str(data), *map(str, options)]
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, *start, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.stdout, self.stderr = self.process.stdout, self.process.stderr
        line = self.stdout.readline()
        self.ready: dict[str, Any] = json.loads(line) if line else {}

    @property
    def bootstrap_servers(self) -> str:
        return str(self.ready["summary"]["bootstrap_servers"])

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        return self.ended()

    def ended(self) -> int:
        self.stdout.close()
        self.errors = self.stderr.read()
        self.stderr.close()
        return self.process.wait(30)


@contextmanager
def up(data: Path, *options: object, program: str | None = None) -> Iterator[Up]:
    running = Up(data, *options, program=program)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end(signal.SIGKILL)
        for stream in (running.stdout, running.stderr):
            stream.close()


def sexton(*words: object, data: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sexton.cli.main", *map(str, words)],
        env=os.environ | {"SEXTON_DATA": str(data)},
        capture_output=True,
        text=True,
        timeout=START_S,
    )


def produce(bootstrap_servers: str, values: range, **settings: str) -> list[int]:
    """Writes numbers to a topic with acks=all; returns those that were acknowledged."""
    acknowledged: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(int(message.value() or b""))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    for value in values:
        producer.produce("numbers", str(value), "key", on_delivery=delivered)
    producer.flush(30)
    return acknowledged


def consume(bootstrap_servers: str, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"reader-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["numbers"])
    found: list[int] = []
    deadline = time.monotonic() + START_S
    while len(found) < count and time.monotonic() < deadline:
        found += [int(m.value() or b"") for m in consumer.consume(500, 0.2) if m.error() is None]
    consumer.close()
    return found


def test_clients_come_and_go_and_topics_stay(tmp_path: Path) -> None:
    with up(tmp_path, "--port", 0) as first:
        assert first.ready["ok"] is True
        assert [b["broker"] for b in first.ready["brokers"]] == [1, 2, 3]
        assert produce(first.bootstrap_servers, range(300)) == list(range(300))
        assert consume(first.bootstrap_servers, 300) == list(range(300))
        began = time.monotonic()
        assert first.end(signal.SIGINT) == 0
        assert time.monotonic() - began < 10
        assert Home(tmp_path).holder is None
    with up(tmp_path) as second:
        assert second.bootstrap_servers == first.bootstrap_servers
        assert leaders(tmp_path) == preferred(tmp_path)  # and not some time later
        assert consume(second.bootstrap_servers, 300) == list(range(300))
        assert second.end(signal.SIGTERM) == 0


def preferred(data: Path) -> list[int]:
    return [int(row["replicas"].split(",")[0]) for row in places(data)]


def leaders(data: Path) -> list[int]:
    return [row["leader"] for row in places(data)]


def places(data: Path) -> list[dict[str, Any]]:
    words = ("cluster", "topics", "__consumer_offsets", "numbers", "--format", "json")
    rows: list[dict[str, Any]] = json.loads(sexton(*words, data=data).stdout)["partitions"]
    return rows


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    with up(tmp_path, "--port", 0) as first:
        acknowledged = produce(first.bootstrap_servers, range(500))
        assert acknowledged == list(range(500))
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
    with up(tmp_path) as second:
        assert second.bootstrap_servers == first.bootstrap_servers
        assert consume(second.bootstrap_servers, 500) == acknowledged
        acknowledged += produce(second.bootstrap_servers, range(500, 600))
        assert consume(second.bootstrap_servers, 600) == acknowledged == list(range(600))


def test_a_second_process_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with up(tmp_path, "--port", 0) as first, up(tmp_path, "--port", 0) as second:
        assert second.ready["ok"] is False
        why = second.ready["error"]["why"]
        assert why == f"process {first.process.pid} runs a cluster there"
        assert second.ended() == 2
        assert "runs a cluster there" in second.errors
        assert len(produce(first.bootstrap_servers, range(3))) == 3


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """With brokers that never come to an end by themselves."""
    program = (
        "import sys, time\n"
        "from sexton.broker.cluster import LocalCluster\n"
        "LocalCluster.stop = lambda self: time.sleep(600)\n"
        "from sexton.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    with up(tmp_path, "--port", 0, program=program) as running:
        running.process.send_signal(signal.SIGINT)
        while "stopping" not in running.stderr.readline():
            pass
        assert running.process.poll() is None
        assert running.end(signal.SIGINT) == 130


def test_other_commands_find_it(tmp_path: Path) -> None:
    with up(tmp_path, "--port", 0, "--brokers", 2) as running:
        answer = json.loads(sexton("cluster", "status", "--format", "json", data=tmp_path).stdout)
        assert answer["summary"]["bootstrap_servers"] == running.bootstrap_servers
        assert [row["state"] for row in answer["brokers"]] == ["up", "up"]
        made = sexton("cluster", "topics", "orders", "--create", data=tmp_path)
        assert made.returncode == 0, made.stderr
        assert "1,2" in made.stdout or "2,1" in made.stdout  # as many replicas as brokers
        killed = sexton("cluster", "kill", 2, "--format", "tsv", data=tmp_path)
        assert killed.stdout == "2\tdown\n"
        assert sexton("cluster", "restart", 2, data=tmp_path).returncode == 0


def test_one_sees_offsets_move(tmp_path: Path) -> None:
    with up(tmp_path, "--port", 0, "--brokers", 1) as running:
        produce(running.bootstrap_servers, range(5))
        with watched(tmp_path, "cluster", "offsets") as screen:
            seen_until(screen, b"numbers")
            produce(running.bootstrap_servers, range(7777))
            seen_until(screen, b"7782")  # where the log ends now


def test_one_sees_a_topic_being_frozen(tmp_path: Path) -> None:
    compacted = ("--create", "--config", "cleanup.policy=compact")
    with up(tmp_path, "--port", 0):
        sexton("cluster", "topics", "orders", *compacted, data=tmp_path)
        with watched(tmp_path, "guard", "status") as screen:
            seen_until(screen, b"topics 1, held 0")
            frozen = sexton("guard", "freeze", "orders", data=tmp_path)
            assert frozen.returncode == 0, frozen.stderr
            seen_until(screen, b"frozen by hand")


@contextmanager
def watched(data: Path, *command: str) -> Iterator[int]:
    """The screen of a command with --watch, which Ctrl-C ends well."""
    with terminal() as (screen, typed):
        watching = subprocess.Popen(
            [sys.executable, "-m", "sexton.cli.main", *command, "--watch"],
            env=os.environ | {"SEXTON_DATA": str(data), "TERM": "xterm", "COLUMNS": "120"},
            stdin=typed,
            stdout=typed,
            stderr=typed,
        )
        try:
            yield screen
            watching.send_signal(signal.SIGINT)
            assert watching.wait(30) == 0
        finally:
            watching.kill()
            watching.wait()


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    screen, typed = os.openpty()
    try:
        yield screen, typed
    finally:
        os.close(screen)
        os.close(typed)


def seen_until(screen: int, text: bytes) -> None:
    seen = b""
    poll = select.poll()  # select() cannot look at a file beyond the 1,024th
    poll.register(screen, select.POLLIN)
    while text not in seen:
        ready = poll.poll(START_S * 1000)
        assert ready, f"{text!r} is not to be seen in {seen[-2000:]!r}"
        seen += os.read(screen, 1 << 16)


def test_metrics_are_served_and_logs_are_json(tmp_path: Path) -> None:
    with up(tmp_path, "--port", 0, "--metrics-port", 0, "--log-format", "json") as running:
        with urllib.request.urlopen(running.ready["summary"]["metrics"], timeout=30) as page:
            text = page.read().decode()
        assert "\nkafka_controller_kafkacontroller_activebrokercount 3\n" in text
        assert running.end(signal.SIGINT) == 0
        lines = [json.loads(line) for line in running.errors.splitlines()]
    assert [line["broker"] for line in lines if line["message"] == "broker is up"] == [1, 2, 3]
    assert lines[-1]["message"] == "stopping"


def test_a_person_reads_where_it_is_and_what_to_do(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "sexton.cli.main", "up", "--port", "0", "--brokers", "1"]
    process = subprocess.Popen(
        [*words, "--log-level", "error"],
        env=os.environ | {"SEXTON_DATA": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert errors == ""
    text = "".join(lines)
    remembered = Home(tmp_path).addresses()
    assert remembered is not None
    assert text.startswith("1 broker ready in ")
    assert f"bootstrap servers  {remembered.bootstrap_servers}\n" in text
    assert f"data               {tmp_path}\n" in text
    assert "sexton cluster offsets --watch\n" in text  # found by $SEXTON_DATA


def refused(tmp_path: Path, *options: object) -> dict[str, Any]:
    with up(tmp_path, *options) as running:
        error: dict[str, Any] = running.ready["error"]
        assert running.ended() == 2, running.errors
        return error


def test_it_listens_where_it_is_told_twice_to(tmp_path: Path) -> None:
    options = ("--host", "0.0.0.0", "--insecure", "--advertised-host", "localhost", "--port", 0)
    with up(tmp_path, *options) as running:
        assert running.bootstrap_servers.startswith("localhost:")
        assert len(produce(running.bootstrap_servers, range(3))) == 3


def test_who_authenticates_may_come_from_anywhere(tmp_path: Path) -> None:
    users = tmp_path / "users"
    subprocess.run(
        [sys.executable, "-m", "sexton.broker.users", str(users), "add", "alice"],
        input="secret\n",
        text=True,
        check=True,
    )
    options = ("--host", "0.0.0.0", "--advertised-host", "localhost", "--port", 0)
    with up(tmp_path / "data", *options, "--set", f"sasl.credentials.file={users}") as running:
        assert running.ready["summary"]["security_protocol"] == "SASL_PLAINTEXT"
        sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
        alice = {"sasl_username": "alice", "sasl_password": "secret"}
        assert len(produce(running.bootstrap_servers, range(3), **sasl, **alice)) == 3
        mallory = alice | {"sasl_password": "guess", "message_timeout_ms": "2000"}
        assert produce(running.bootstrap_servers, range(3), **sasl, **mallory) == []


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        error = refused(tmp_path, "--port", port, "--brokers", 1)
    assert error["subject"] == f"127.0.0.1:{port}"


def test_fewer_brokers_than_have_data_are_refused(tmp_path: Path) -> None:
    with up(tmp_path, "--port", 0, "--brokers", 2) as running:
        assert running.end(signal.SIGINT) == 0
    assert refused(tmp_path, "--brokers", 1)["hint"] == "use --brokers 2, or another --data"
    with up(tmp_path, "--brokers", 3) as more:
        assert more.bootstrap_servers.startswith(running.bootstrap_servers + ",")


def test_a_servers_own_properties_are_taken(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("num.partitions=4\nnum.io.threads=8\n# a comment\n")
    options = ("--port", 0, "--brokers", 1, "--config", properties)
    with up(tmp_path / "data", *options, "--policy", "independent") as running:
        assert running.ready["summary"]["compaction_policy"] == "independent"
        sexton("cluster", "topics", "orders", "--create", data=tmp_path / "data")
        shown = sexton("cluster", "topics", "--format", "tsv", data=tmp_path / "data")
        assert shown.stdout.split("\t")[:2] == ["orders", "4"]
        running.end(signal.SIGINT)
        assert "an option has no effect here  option=num.io.threads\n" in running.errors
