"""How one talks to a running `sexton up` about what Kafka's protocol has no words for.

A Unix socket in the data directory, one JSON object a line, an answer for each:

    {"ask": "kill", "broker": 2}
    {"ok": true, "answer": {"broker": 2, "state": "down"}}
    {"ok": false, "error": {"kind": "config-error", "subject": "broker 9", "why": ..., "hint": ...}}

Only the user who runs the cluster can connect: the socket's mode says so, and the other side's user
is asked for besides. A path in an address has room for about a hundred characters; to a directory
deeper than that the way leads through `/proc/self/fd`.

This module is the asking side, and what both sides share; `control_server` answers.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sexton.base.errors import ConfigError, PeerError, SextonError
from sexton.broker.home import CONTROL, Home

MOST_REQUEST_BYTES = 64 << 10
MOST_ANSWER_BYTES = 256 << 20
MOST_PATH_BYTES = 100  # sockaddr_un has room for 108 on Linux, 104 elsewhere
PATIENCE_S = 60.0
REMEDY = "start one with `sexton up`, or name its --data"

Json = dict[str, Any]


class Remote(SextonError):
    """What went wrong on the other side, in its words."""

    def __init__(self, kind: str, subject: str, why: str, hint: str | None) -> None:
        super().__init__(subject, why, hint)
        self._kind = kind

    @property
    def kind(self) -> str:
        return self._kind


@contextmanager
def address(directory: Path) -> Iterator[str]:
    """The socket's address, short enough while the block lasts."""
    path = str(directory / CONTROL)
    if len(os.fsencode(path)) <= MOST_PATH_BYTES:
        yield path
        return
    if not Path("/proc/self/fd").is_dir():
        hint = "choose one with a shorter path"
        raise ConfigError(str(directory), "is too deep for a Unix socket", hint)
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{CONTROL}"
    finally:
        os.close(opened)


class Control:
    """A connection to a running cluster."""

    def __init__(self, directory: Path, remedy: str = REMEDY) -> None:
        """`remedy` is for whoever finds no cluster there."""
        self._directory = directory
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE_S)
        try:
            with address(directory) as where:
                self._socket.connect(where)
        except OSError as error:
            self._socket.close()
            raise _nobody(directory, error, remedy) from error
        self._lines = self._socket.makefile("rb")

    def ask(self, what: str, **arguments: object) -> Json:
        """The answer; whatever the other side complains about is raised here."""
        request = {"ask": what} | {k: v for k, v in arguments.items() if v is not None}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            line = self._lines.readline(MOST_ANSWER_BYTES)
        except OSError as error:
            raise self._broken(f"no answer: {error}") from error
        if not line.endswith(b"\n"):
            raise self._broken("it ended the connection")
        try:
            answer = json.loads(line)
            if answer["ok"]:
                return dict(answer["answer"])
            wrong = answer["error"]
            raise Remote(wrong["kind"], wrong["subject"], wrong["why"], wrong["hint"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._broken(f"an answer that makes no sense: {error}") from error

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _broken(self, why: str) -> PeerError:
        return PeerError(f"the cluster in {self._directory}", why)


def _nobody(directory: Path, error: OSError, remedy: str) -> SextonError:
    if isinstance(error, PermissionError):
        return ConfigError(str(directory), "belongs to another user's cluster")
    holder = Home(directory).holder
    if holder is None:
        return ConfigError(str(directory), "no cluster runs there", remedy)
    return PeerError(f"the cluster in {directory}", f"process {holder} does not listen: {error}")
