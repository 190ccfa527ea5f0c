"""Bytes over a line are late, stand still or are lost with it, as the chaos runs ask for."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from tests.stores.lines import INSIDE, OUTSIDE, Lines


def echo(server: socket.socket) -> None:
    """One connection after the other, back as it comes."""
    while True:
        try:
            one, _ = server.accept()
        except OSError:
            return
        while said := one.recv(100):
            one.sendall(said)
        one.close()


def test_a_line_is_late_stands_still_and_breaks() -> None:
    server = socket.create_server((INSIDE, 0))
    port = server.getsockname()[1]
    threading.Thread(target=echo, args=[server], daemon=True).start()
    with server, Lines([port]) as lines:
        with socket.create_connection((OUTSIDE, port), 60) as client:
            client.sendall(b"a")
            assert client.recv(1) == b"a"
            lines.delay(port, 100)
            began_s = time.monotonic()
            client.sendall(b"b")
            assert client.recv(1) == b"b"
            assert time.monotonic() - began_s >= 0.2  # there and back
            lines.stall(port)
            client.sendall(b"c")
            client.settimeout(0.5)
            with pytest.raises(TimeoutError):
                client.recv(1)
            lines.mend()
            client.settimeout(60)
            assert client.recv(1) == b"c"
            lines.cut(port)
            try:
                assert client.recv(1) == b""
            except ConnectionResetError:
                pass
        assert lines.broken == 1
        with socket.create_connection((OUTSIDE, port), 60) as client:
            client.sendall(b"d")
            assert client.recv(1) == b"d"
