"""What `sexton up` refuses before anything runs, and what it makes of its options."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NoReturn

import pytest

from sexton.broker import serve
from sexton.broker.cluster import ClusterConfig
from sexton.broker.exposure import is_loopback
from sexton.broker.home import Home
from sexton.broker.serve import MetricsAddress
from tests.conftest import Result, RunSexton


class Started(Exception):
    pass


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Nothing is started; holds what would have been."""
    given: list[Any] = []

    async def start(
        home: Home, config: ClusterConfig, metrics: MetricsAddress | None, _announce: object
    ) -> NoReturn:
        given.extend([home, config, metrics])
        await asyncio.sleep(0)
        raise Started

    monkeypatch.setattr(serve, "serve", start)
    monkeypatch.setenv("SEXTON_DATA", str(tmp_path / "data"))
    return given


def refused(run_sexton: RunSexton, asked: list[Any], *words: object) -> Result:
    answer = run_sexton("up", "--format", "json", *words)
    assert asked == []
    assert answer.code == 2, answer
    assert answer.json["ok"] is False
    return answer


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "some.name"])
def test_strangers_are_kept_out_unless_one_says_twice_that_they_may_come(
    run_sexton: RunSexton, asked: list[Any], host: str
) -> None:
    first = refused(run_sexton, asked, "--host", host).json["error"]
    assert "--insecure" in first["hint"]
    metrics = refused(run_sexton, asked, "--metrics-port", 0, "--metrics-host", host).json
    assert metrics["error"]["subject"] == f"--metrics-host {host}"
    run_sexton("up", "--host", host, "--insecure", "--advertised-host", "here")
    assert asked[1].host == host
    assert asked[1].advertised_host == "here"


def test_an_address_that_nobody_can_connect_to_is_not_told_to_clients(
    run_sexton: RunSexton, asked: list[Any]
) -> None:
    error = refused(run_sexton, asked, "--host", "0.0.0.0", "--insecure").json["error"]
    assert error["hint"] == "name this machine with --advertised-host"


def test_an_address_of_another_machine_is_told_from_a_port_that_is_taken(
    run_sexton: RunSexton, tmp_path: Path
) -> None:
    not_ours = "192.0.2.1"  # kept for documentation (RFC 5737): no machine has it
    answer = run_sexton("up", "--host", not_ours, "--insecure", "--data", tmp_path)
    assert answer.code == 2
    assert answer.stderr.endswith(
        f"error: {not_ours}:0: this machine does not have that address\n"
        "hint: choose another --host\n"
    )


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_only_this_machine_is_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        (("--set", "nonsense"), "--set nonsense"),
        (("--set", "num.partitions="), "num.partitions"),
        (("--set", "zookeeper.connect=x"), "zookeeper.connect"),
        (("--config", "/nowhere/at.all"), "/nowhere/at.all"),
    ],
)
def test_options_that_cannot_be_honoured_are_named(
    run_sexton: RunSexton, asked: list[Any], words: tuple[str, ...], subject: str
) -> None:
    assert refused(run_sexton, asked, *words).json["error"]["subject"] == subject


def test_what_is_set_by_hand_wins_over_the_file_and_both_over_our_defaults(
    run_sexton: RunSexton, asked: list[Any], tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=4\ndefault.replication.factor=2\nnum.io.threads=8\n")
    answer = run_sexton("up", "--config", file, "--set", "num.partitions=6", "--port", 0)
    assert "an option has no effect here  option=num.io.threads\n" in answer.stderr
    config = asked[1]
    assert (config.broker.num_partitions, config.broker.default_replication_factor) == (6, 2)


def test_a_new_cluster_has_three_brokers_and_topics_with_a_replica_on_each(
    run_sexton: RunSexton, asked: list[Any]
) -> None:
    run_sexton("up", "--port", 7000, "--policy", "independent")
    home, config, metrics = asked
    assert config.ports == (7000, 7001, 7002)
    assert config.broker.default_replication_factor == 3
    assert config.broker.log.compaction_policy == "independent"
    assert metrics is None
    assert home.holder is None  # left in good order


def test_one_broker_has_one_replica(run_sexton: RunSexton, asked: list[Any]) -> None:
    run_sexton("up", "--brokers", 1, "--port", 0)
    assert asked[1].broker.default_replication_factor == 1


def test_replicas_are_counted_by_the_brokers_of_last_time(
    run_sexton: RunSexton, asked: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "data/broker-2").mkdir(parents=True)
    run_sexton("up", "--port", 0)
    assert (asked[1].brokers, asked[1].broker.default_replication_factor) == (2, 2)


def test_brokers_that_have_data_are_not_left_out(
    run_sexton: RunSexton, asked: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "data/broker-3").mkdir(parents=True)
    error = refused(run_sexton, asked, "--brokers", 2).json["error"]
    assert error["why"] == "holds the data of 3 brokers, and 2 cannot serve it"


def test_a_file_is_no_data_directory(
    run_sexton: RunSexton, asked: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").touch()
    result = refused(run_sexton, asked, "--data", tmp_path / "notes.txt")
    assert "notes.txt: is a file\nhint: name a directory" in result.stderr
    assert "Errno" not in result.stderr
