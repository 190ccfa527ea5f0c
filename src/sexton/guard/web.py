"""The guard over HTTP: a page for people, metrics for Prometheus, health for whoever restarts it.

    /             what is frozen, why, since when, what it costs
    /status.json  the same for programs
    /metrics      Prometheus's text format
    /healthz      200 while the cluster is seen, 503 with the reason when it is not

It only shows; nothing can be changed here. A visitor sends a request of at most `MOST_BYTES` within
`PATIENCE_S` and gets one answer; more than `MOST_VISITORS` at once are turned away.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict

from sexton.base.errors import ConfigError
from sexton.guard import metrics, page
from sexton.guard.daemon import Daemon
from sexton.guard.status import Status

MOST_BYTES = 8 << 10
MOST_VISITORS = 16
PATIENCE_S = 5.0
HTML, JSON = "text/html; charset=utf-8", "application/json"
PLAIN, PROMETHEUS = "text/plain; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"
HEADERS = (
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
    "Connection: close\r\n"
)


class Web:
    def __init__(self, daemon: Daemon, host: str, port: int) -> None:
        self._daemon = daemon
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._visitors: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        try:
            self._server = await asyncio.start_server(
                self._visit, self._host, self._port, limit=MOST_BYTES
            )
        except OSError as error:
            why = f"cannot listen there: {error.strerror or error}"
            hint = "choose another --http-port, or 0 for any that is free"
            raise ConfigError(f"{self._host}:{self._port}", why, hint) from error
        self._port = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/"

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
        path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
        whole = method == b"GET"
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", PLAIN, "only GET\n", whole=True)
        status = self._daemon.status()
        match path:
            case "/":
                return _response("200 OK", HTML, page.html(status), whole=whole)
            case "/status.json":
                return _response("200 OK", JSON, json_text(status), whole=whole)
            case "/metrics":
                text = metrics.text(status, self._daemon.counters, self._daemon.round_s)
                return _response("200 OK", PROMETHEUS, text, whole=whole)
            case "/healthz":
                trouble = trouble_of(status, self._daemon.guard.config.blind_ms)
                if trouble is None:
                    return _response("200 OK", PLAIN, "ok\n", whole=whole)
                return _response("503 Service Unavailable", PLAIN, trouble + "\n", whole=whole)
            case _:
                return _response("404 Not Found", PLAIN, "see /\n", whole=whole)


def trouble_of(status: Status, blind_ms: int) -> str | None:
    """Why the guard is of no use now. A finding is no reason: a restart would not help."""
    if status.last_seen_ms is None:
        return f"the cluster was never seen: {status.not_seen or 'not looked yet'}"
    if status.now_ms - status.last_seen_ms > blind_ms:
        return f"the cluster cannot be seen: {status.not_seen or 'a look takes too long'}"
    return None


def json_text(status: Status) -> str:
    return json.dumps({**asdict(status), "frozen": status.frozen, "ok": status.ok}) + "\n"


def _response(code: str, kind: str, text: str, *, whole: bool) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{HEADERS}"
    return f"{head}\r\n".encode() + (body if whole else b"")
