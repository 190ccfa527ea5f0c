"""The control socket, asked by a real client and by people who mean harm."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError, PeerError, SextonError
from sexton.broker.control import MOST_REQUEST_BYTES, Control, Json, Remote, address
from sexton.broker.control_server import MOST_GUESTS, ControlServer
from sexton.broker.home import CONTROL, Home


async def echo(request: Json) -> Json:
    if request["ask"] == "fail":
        raise ConfigError("broker 9", "is not in this cluster", "there are 1, 2, 3")
    if request["ask"] == "break":
        raise ZeroDivisionError("our bug")
    return {"heard": request}


def talking(directory: Path, talk: Callable[[], Awaitable[None] | None]) -> None:
    """Runs `talk` in a thread beside a control server."""

    async def run() -> None:
        server = ControlServer(directory, echo)
        await server.start()
        try:
            await asyncio.to_thread(talk)
        finally:
            await server.stop()

    asyncio.run(run())


def raw(directory: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    with address(directory) as where:
        connection.connect(where)
    return connection


def test_a_question_has_an_answer(tmp_path: Path) -> None:
    def talk() -> None:
        with Control(tmp_path) as control:
            assert control.ask("kill", broker=2, topics=None) == {
                "heard": {"ask": "kill", "broker": 2}
            }
            assert control.ask("status") == {"heard": {"ask": "status"}}

    talking(tmp_path, talk)
    assert not (tmp_path / CONTROL).exists()


def test_what_goes_wrong_there_is_raised_here(tmp_path: Path) -> None:
    def talk() -> None:
        with Control(tmp_path) as control:
            with pytest.raises(Remote) as caught:
                control.ask("fail")
            assert (caught.value.kind, caught.value.subject) == ("config-error", "broker 9")
            assert caught.value.hint == "there are 1, 2, 3"
            with pytest.raises(Remote, match="our bug"):
                control.ask("break")
            assert control.ask("status")  # the connection is as good as before

    talking(tmp_path, talk)


def test_only_its_own_user_may_connect(tmp_path: Path) -> None:
    def talk() -> None:
        mode = (tmp_path / CONTROL).stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600

    talking(tmp_path, talk)


def test_a_directory_too_deep_for_an_address_is_reached_all_the_same(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-long-name-of-a-directory"] * 6)
    deep.mkdir(parents=True)
    assert len(str(deep)) > 108

    def talk() -> None:
        with Control(deep) as control:
            assert control.ask("status")

    talking(deep, talk)
    assert list(deep.iterdir()) == []


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / CONTROL))
    left.close()

    def talk() -> None:
        with Control(tmp_path) as control:
            assert control.ask("status")

    talking(tmp_path, talk)


def test_where_nobody_runs_a_cluster_one_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no cluster runs there") as caught:
        Control(tmp_path / "nowhere")
    assert caught.value.hint == "start one with `sexton up`, or name its --data"


def test_a_process_that_runs_and_does_not_listen_is_another_matter(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.take()
    with pytest.raises(PeerError, match="does not listen"):
        Control(tmp_path)
    home.leave()


@pytest.mark.parametrize(
    "line",
    [b"\n", b"nonsense\n", b"[]\n", b"1\n", b"\xff\xfe\n", b"[" * 30_000 + b"\n", b'{"a": \n'],
)
def test_what_is_no_request_is_answered_and_costs_nothing(tmp_path: Path, line: bytes) -> None:
    def talk() -> None:
        with raw(tmp_path) as connection, connection.makefile("rb") as lines:
            connection.sendall(line)
            assert json.loads(lines.readline())["error"]["kind"] == "usage"
            connection.sendall(b'{"ask": "status"}\n')
            assert json.loads(lines.readline())["ok"]

    talking(tmp_path, talk)


def test_a_line_without_end_costs_its_connection_only(tmp_path: Path) -> None:
    def talk() -> None:
        with raw(tmp_path) as connection:
            try:
                connection.sendall(b"x" * (MOST_REQUEST_BYTES * 4))
                assert connection.recv(1) == b""
            except (ConnectionResetError, BrokenPipeError):
                pass
        with Control(tmp_path) as control:
            assert control.ask("status")

    talking(tmp_path, talk)


def test_a_crowd_is_turned_away_and_one_may_come_when_it_has_gone(tmp_path: Path) -> None:
    def talk() -> None:
        crowd = [Control(tmp_path) for _ in range(MOST_GUESTS)]
        for each in crowd:
            each.ask("status")  # now it is in
        with Control(tmp_path) as late, pytest.raises(SextonError):
            late.ask("status")
        for each in crowd:
            each.close()
        while True:  # until the server has noticed
            try:
                with Control(tmp_path) as control:
                    control.ask("status")
                return
            except PeerError:
                continue

    talking(tmp_path, talk)
