"""What is sent in one turn of the loop goes to the kernel at once, and before the end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sexton.broker.stream import SocketStream

MOST = 1 << 20


@dataclass
class Reader:
    drains: int = 0
    ends: int = 0
    end: asyncio.Event = field(default_factory=asyncio.Event)
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(100)))

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, count: int) -> None:
        pass

    def drained(self) -> None:
        self.drains += 1

    def lost(self) -> None:
        self.ends += 1
        self.end.set()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[SocketStream, Reader, socket.socket]]:
    """A stream, who reads from it, and the other side: each of its reads is one of our writes."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    there.setblocking(False)
    reader = Reader()
    stream = SocketStream(here, reader)
    try:
        yield stream, reader, there
    finally:
        stream.close()
        there.close()


def test_several_answers_are_one_write() -> None:
    async def run() -> None:
        async with connected() as (stream, reader, there):
            stream.send([b"one ", b"", b"and "])
            stream.send([b"another"])
            assert stream.waiting_bytes == len(b"one and another")
            came = await asyncio.get_running_loop().sock_recv(there, MOST)
            assert came == b"one and another"
            assert (stream.waiting_bytes, reader.drains) == (0, 1)
            stream.send([b"later"])
            assert await asyncio.get_running_loop().sock_recv(there, MOST) == b"later"
            assert reader.drains == 2

    asyncio.run(run())


def test_what_was_sent_leaves_before_the_end() -> None:
    async def run() -> None:
        async with connected() as (stream, reader, there):
            stream.send([b"goodbye"])
            stream.close()
            assert there.recv(MOST) == b"goodbye"
            assert there.recv(MOST) == b""
            await asyncio.sleep(0)
            assert (reader.drains, reader.ends, stream.waiting_bytes) == (0, 1, 0)

    asyncio.run(run())


def test_a_side_that_has_gone_is_noticed_once() -> None:
    async def run() -> None:
        async with connected() as (stream, reader, there):
            stream.send([b"to nobody"])
            there.close()
            await reader.end.wait()
            stream.send([b"nor this"])
            stream.close()
            assert (reader.drains, reader.ends, stream.waiting_bytes) == (0, 1, 0)

    asyncio.run(run())
