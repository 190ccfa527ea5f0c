"""Metrics over HTTP, for Prometheus: one page, a handful of visitors, nothing else.

A visitor sends a request of at most `MOST_BYTES` within `PATIENCE_S` and gets one answer; then the
connection is closed. More than `MOST_VISITORS` at once are turned away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sexton.base.errors import ConfigError

MOST_BYTES = 8 << 10
MOST_VISITORS = 16
PATIENCE_S = 5.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    def __init__(self, host: str, port: int, text: Callable[[], str]) -> None:
        self._host = host
        self._port = port
        self._text = text
        self._server: asyncio.Server | None = None
        self._visitors: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        try:
            self._server = await asyncio.start_server(
                self._visit, self._host, self._port, limit=MOST_BYTES
            )
        except OSError as error:
            why = f"cannot listen there: {error.strerror or error}"
            hint = "choose another --metrics-port, or 0 for any that is free"
            raise ConfigError(f"{self._host}:{self._port}", why, hint) from error
        self._port = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/metrics"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for visitor in list(self._visitors):
            visitor.cancel()
        await asyncio.gather(*self._visitors, return_exceptions=True)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._visitors) >= MOST_VISITORS:
            writer.close()
            return
        self._visitors.add(task)
        try:
            async with asyncio.timeout(PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # too long, too slow, or gone
        finally:
            self._visitors.discard(task)
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "only GET\n", whole=True)
        if path == b"/metrics":
            return _response("200 OK", self._text(), whole=method == b"GET")
        return _response("404 Not Found", "see /metrics\n", whole=method == b"GET")


def _response(status: str, text: str, *, whole: bool) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if whole else b"")
