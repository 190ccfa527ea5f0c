"""A few pages over HTTP for a handful of visitors, and nothing else.

A visitor sends a request of at most `MOST_BYTES` within `PATIENCE_S` and gets one answer; then the
connection is closed. More than `MOST_VISITORS` at once are turned away. Only GET and HEAD are
answered; what is shown is decided by whoever gives `page`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from sexton.base.errors import ConfigError

MOST_BYTES = 8 << 10
MOST_VISITORS = 16
PATIENCE_S = 5.0
PLAIN = "text/plain; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    text: str
    kind: str = PLAIN
    code: str = "200 OK"


def cannot_listen(host: str, port: int, error: OSError, option: str) -> ConfigError:
    """What to say to whoever chose that address; `option` is what the port was given with."""
    where, other_host = f"{host}:{port}", f"choose another {option.replace('port', 'host')}"
    if isinstance(error, socket.gaierror):
        return ConfigError(where, f"that name leads to no address: {_said(error)}", other_host)
    # Newer asyncio passes over such addresses, and fails without a number when none is left.
    if error.errno in (errno.EADDRNOTAVAIL, None):
        return ConfigError(where, "this machine does not have that address", other_host)
    hint = f"choose another {option}, or 0 for any that is free"
    return ConfigError(where, f"cannot listen there: {_said(error)}", hint)


def _said(error: OSError) -> str:
    """The system's words; asyncio's own name the address once more."""
    if isinstance(error, socket.gaierror) or error.errno is None:  # its numbers are its own
        text = error.strerror or str(error)
    else:
        text = os.strerror(error.errno)
    return text[:1].lower() + text[1:]


class Server:
    def __init__(
        self, host: str, port: int, page: Callable[[str], Page], *, option: str, headers: str = ""
    ) -> None:
        """`page` by path; `option` is what the user gave the port with."""
        self.host = host
        self.port = port
        self._page = page
        self._option = option
        self._headers = f"{headers}Connection: close\r\n"
        self._server: asyncio.Server | None = None
        self._visitors: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        try:
            self._server = await asyncio.start_server(
                self._visit, self.host, self.port, limit=MOST_BYTES
            )
        except OSError as error:
            raise cannot_listen(self.host, self.port, error, self._option) from error
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"

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
        if method not in (b"GET", b"HEAD"):
            page = Page("only GET\n", code="405 Method Not Allowed")
            return self._response(page, whole=True)
        return self._response(self._page(path), whole=method == b"GET")

    def _response(self, page: Page, *, whole: bool) -> bytes:
        body = page.text.encode()
        head = (
            f"HTTP/1.1 {page.code}\r\nContent-Type: {page.kind}\r\n"
            f"Content-Length: {len(body)}\r\n{self._headers}\r\n"
        )
        return head.encode() + (body if whole else b"")
