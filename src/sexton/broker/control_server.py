"""Answers on the control socket (`broker.control`): bounded, and for its own user only.

What comes in may be anything. A line longer than `MOST_REQUEST_BYTES`, one that is no JSON object,
or a connection that says nothing for a while costs that connection only; more than `MOST_GUESTS`
connections at once are turned away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

from sexton.base.errors import SextonError
from sexton.broker.control import MOST_REQUEST_BYTES, Json, address
from sexton.broker.home import CONTROL

log = logging.getLogger("sexton.broker.control")

MOST_GUESTS = 16
SILENCE_S = 300.0

Handle = Callable[[Json], Awaitable[Json]]


class ControlServer:
    def __init__(self, directory: Path, handle: Handle) -> None:
        self._directory = directory
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._guests: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Whatever lies in the socket's place is a dead one: the home's lock is ours."""
        with contextlib.suppress(FileNotFoundError):
            (self._directory / CONTROL).unlink()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            with address(self._directory) as where:
                listening.bind(where)
        finally:
            os.umask(before)
        self._server = await asyncio.start_unix_server(
            self._guest, sock=listening, limit=MOST_REQUEST_BYTES
        )

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for guest in list(self._guests):
            guest.cancel()
        await asyncio.gather(*self._guests, return_exceptions=True)
        with contextlib.suppress(FileNotFoundError):
            (self._directory / CONTROL).unlink()

    async def _guest(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._guests) >= MOST_GUESTS or not _is_ours(writer):
            writer.close()
            return
        self._guests.add(task)
        try:
            await self._converse(reader, writer)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the line was too long, or nobody is there any more
        finally:
            self._guests.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            line = await asyncio.wait_for(reader.readline(), SILENCE_S)
            if not line.endswith(b"\n"):
                return
            answer = await self._answer(line)
            writer.write(json.dumps(answer).encode() + b"\n")
            await asyncio.wait_for(writer.drain(), SILENCE_S)

    async def _answer(self, line: bytes) -> Json:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                return _failure("usage", "request", "is not a JSON object", None)
            return {"ok": True, "answer": await self._handle(request)}
        except (ValueError, RecursionError):
            return _failure("usage", "request", "is not JSON", None)
        except SextonError as error:
            return _failure(error.kind, error.subject, error.why, error.hint)
        except Exception as error:
            log.exception("a request on the control socket failed")
            return _failure("unexpected", type(error).__name__, str(error) or "no message", None)


def _failure(kind: str, subject: str, why: str, hint: str | None) -> Json:
    return {"ok": False, "error": {"kind": kind, "subject": subject, "why": why, "hint": hint}}


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """The file's mode keeps others out; this is for file systems that know no modes."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    connection: socket.socket = writer.get_extra_info("socket")
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _process, user, _group = struct.unpack("3i", packed)
    return user in (0, os.getuid())
