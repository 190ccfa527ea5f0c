from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.broker.home import FIRST_PORT, Addresses, Home, are_free, choose_ports, default_home

BEFORE = Addresses("127.0.0.1", (9192, 9193), "127.0.0.1:9192,127.0.0.1:9193")


def test_the_default_home_does_not_depend_on_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SEXTON_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_home() == tmp_path / "sexton/cluster"
    monkeypatch.setenv("SEXTON_DATA", str(tmp_path / "mine"))
    assert default_home() == tmp_path / "mine"
    monkeypatch.delenv("SEXTON_DATA")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_home() == Path("/home/someone/.local/share/sexton/cluster")


def test_a_home_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    home = Home(tmp_path / "new/home")
    home.take()
    assert (tmp_path / "new/home").stat().st_mode & 0o777 == 0o700
    with pytest.raises(ConfigError, match=f"process {os.getpid()} runs a cluster there"):
        Home(home.directory).take()
    assert home.holder == os.getpid()
    home.leave()
    assert not Home(home.directory).holder
    again = Home(home.directory)
    again.take()
    again.leave()


def test_a_home_that_was_left_is_free_though_a_child_has_its_lock_open(tmp_path: Path) -> None:
    """As one has that was forked meanwhile."""
    home = Home(tmp_path)
    home.take()
    assert home._lock is not None
    of_a_child = os.dup(home._lock.fileno())
    home.leave()
    home.take()
    home.leave()
    os.close(of_a_child)


def test_a_lock_goes_with_the_process_that_held_it(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from sexton.broker.home import Home;"
        f"Home(Path({str(tmp_path)!r})).take(); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
    assert (tmp_path / ".lock").read_text() != ""  # it had no time to tidy up
    home = Home(tmp_path)
    home.take()
    home.leave()


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="not a directory"):
        Home(tmp_path / "file/home").take()


def test_addresses_are_remembered(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.addresses() is None
    home.remember(BEFORE)
    assert home.addresses() == BEFORE


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 2, "ports": []}'])
def test_addresses_that_make_no_sense_are_an_error_that_names_the_file(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(ConfigError, match=r"cluster\.json"):
        Home(tmp_path).addresses()


def test_what_is_remembered_is_plain_json(tmp_path: Path) -> None:
    Home(tmp_path).remember(BEFORE)
    assert json.loads((tmp_path / "cluster.json").read_text())["ports"] == [9192, 9193]


def test_brokers_are_counted_by_their_directories(tmp_path: Path) -> None:
    for name in ("broker-1", "broker-12", "broker-x", "controller"):
        (tmp_path / name).mkdir()
    assert Home(tmp_path).brokers == 12


def test_as_many_brokers_as_there_were_or_more(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.number_of_brokers(None) == 3
    assert home.number_of_brokers(1) == 1
    home.remember(BEFORE)
    assert home.number_of_brokers(None) == 2
    assert home.number_of_brokers(5) == 5
    with pytest.raises(ConfigError, match="holds the data of 2 brokers"):
        home.number_of_brokers(1)


def test_asked_for_ports_are_taken_as_they_are() -> None:
    assert choose_ports("127.0.0.1", 3, 7000, BEFORE) == (7000, 7001, 7002)
    assert choose_ports("127.0.0.1", 2, 0, BEFORE) == (0, 0)


def test_ports_of_last_time_are_kept_and_new_brokers_get_any() -> None:
    assert choose_ports("127.0.0.1", 2, None, BEFORE) == (9192, 9193)
    assert choose_ports("127.0.0.1", 4, None, BEFORE) == (9192, 9193, 0, 0)


def test_a_new_cluster_has_kafkas_ports_or_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.broker.home.are_free", lambda _host, _ports: True)
    assert choose_ports("127.0.0.1", 2, None, None) == (FIRST_PORT, FIRST_PORT + 1)
    monkeypatch.setattr("sexton.broker.home.are_free", lambda _host, _ports: False)
    assert choose_ports("127.0.0.1", 2, None, None) == (0, 0)


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        other.listen()
        assert not are_free("127.0.0.1", [port])
    assert are_free("127.0.0.1", [port])
