"""A connected socket without copies: read into the reader's own buffers, written from many parts.

asyncio's own transports join what is written and move what is left with every send; for answers of
many megabytes that costs more than the network. This one keeps the parts as they are and hands them
to the kernel by `sendmsg`, once for everything that was sent in one turn of the loop: whoever has
asked several things at once hears of them at once, and is woken once.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import Protocol

from sexton.protocol.wire import Buffer

MOST_PARTS = 64  # in one call; the kernel takes 1024
MOST_READS = 4  # in a row from one socket, then others have their turn
_STILL_SENDS = {1, 2, 3, 4, 5}  # of TCP's states: established, in the making, or closed by us only


class Reader(Protocol):
    """Who is connected to the stream: the same as asyncio's BufferedProtocol."""

    def get_buffer(self, sizehint: int) -> memoryview: ...

    def buffer_updated(self, count: int) -> None: ...

    def drained(self) -> None:
        """What had to wait has left."""

    def lost(self) -> None:
        """The other side has gone, or the connection was closed here; called once.

        After that the stream is of no use to anybody: what is sent goes nowhere.
        """


class Stream(Protocol):
    def send(self, parts: list[Buffer]) -> None: ...

    @property
    def waiting_bytes(self) -> int:
        """How much of what was sent has not left yet."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    @property
    def peer_has_gone(self) -> bool:
        """Whether it is known that nobody sends any more: that shows only while one reads."""

    def close(self) -> None: ...


class SocketStream:
    def __init__(self, connection: socket.socket, reader: Reader) -> None:
        self._socket = connection
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._parts: deque[memoryview] = deque()
        self._waiting = 0
        self._reading = False
        self._closed = False
        connection.setblocking(False)
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.resume()

    # ── reading ──

    def pause(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._socket)
            self._reading = False

    def resume(self) -> None:
        if not self._reading and not self._closed:
            self._loop.add_reader(self._socket, self._read)
            self._reading = True

    def _read(self) -> None:
        for _ in range(MOST_READS):
            buffer = self._reader.get_buffer(-1)
            try:
                count = self._socket.recv_into(buffer)
            except BlockingIOError:
                return
            except OSError:
                count = 0
            if count == 0:
                self.close()
                return
            self._reader.buffer_updated(count)
            if count < len(buffer) or not self._reading:
                return

    @property
    def peer_has_gone(self) -> bool:
        if self._closed:
            return True
        if not hasattr(socket, "TCP_INFO") or self._socket.family == socket.AF_UNIX:
            return False
        return (
            self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] not in _STILL_SENDS
        )

    # ── writing ──

    @property
    def waiting_bytes(self) -> int:
        return self._waiting

    def send(self, parts: list[Buffer]) -> None:
        if self._closed:
            return
        idle = not self._parts
        for part in parts:
            if len(part):
                self._parts.append(memoryview(part))
                self._waiting += len(part)
        if idle and self._parts:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._closed:
            return
        if not self._write():
            self._loop.add_writer(self._socket, self._write_more)
        elif not self._parts and not self._closed:
            self._reader.drained()

    def _write_more(self) -> None:
        if self._write() and not self._closed:
            self._loop.remove_writer(self._socket)
            self._reader.drained()

    def _write(self) -> bool:
        """Is there nothing left to wait for?"""
        try:
            while self._parts:
                sent = self._socket.sendmsg(self._first_parts())
                self._waiting -= sent
                self._drop(sent)
        except BlockingIOError:
            return False
        except OSError:
            self.close()
        return True

    def _first_parts(self) -> list[memoryview]:
        if len(self._parts) <= MOST_PARTS:
            return list(self._parts)
        return [self._parts[number] for number in range(MOST_PARTS)]

    def _drop(self, count: int) -> None:
        while count:
            first = self._parts[0]
            if count < len(first):
                self._parts[0] = first[count:]
                return
            count -= len(first)
            self._parts.popleft()

    # ── ending ──

    def close(self) -> None:
        if self._closed:
            return
        self.pause()
        self._closed = True
        self._write()  # what was sent in this turn
        self._say_goodbye()
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._parts.clear()
        self._waiting = 0
        self._reader.lost()

    def _say_goodbye(self) -> None:
        """TCP says it by itself."""
