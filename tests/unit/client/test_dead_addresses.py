"""A machine is off, and each attempt to reach it takes seconds: how often are they waited for?"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from sexton.base.errors import PeerError
from sexton.client import client as client_module
from sexton.client.client import Client
from sexton.client.connection import ClientConfig, connect
from sexton.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from tests.wire_broker import wire_broker

QUICK = ClientConfig(request_timeout_ms=200, socket_connection_setup_timeout_ms=200)


@dataclass(slots=True)
class Silent:
    """Takes connections and says nothing: to be noticed by the clock alone, as a dead machine."""

    port: int = 0
    dialled: int = 0


@asynccontextmanager
async def silence() -> AsyncIterator[Silent]:
    silent = Silent()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent.dialled += 1
        try:
            await reader.read()
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        silent.port = server.sockets[0].getsockname()[1]
        yield silent


def test_whoever_waits_for_the_same_broker_hears_together_that_it_is_away() -> None:
    async def run() -> None:
        async with silence() as silent:
            told = [MetadataResponseBroker(1, "127.0.0.1", silent.port)]
            async with (
                wire_broker(lambda _: MetadataResponse(brokers=told), {3: (4, 12)}) as (host, port),
                Client(f"{host}:{port}", QUICK) as client,
            ):
                waiting = (client.broker(1) for _ in range(20))
                found = await asyncio.gather(*waiting, return_exceptions=True)
                assert all(isinstance(each, PeerError) for each in found)
                assert silent.dialled == 1

    asyncio.run(run())


def test_a_question_for_anybody_does_not_wait_for_the_same_dead_one_each_time() -> None:
    async def run() -> None:
        async with (
            silence() as silent,
            wire_broker(lambda _: MetadataResponse(), {3: (4, 12)}) as (host, port),
            Client(f"127.0.0.1:{silent.port},{host}:{port}", QUICK) as client,
        ):
            for _ in range(4):
                await client.topology([])
                client.look_elsewhere()
            assert silent.dialled == 1

    asyncio.run(run())


def test_a_dead_one_is_tried_again_only_by_whoever_doubts_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "LEFT_OUT_S", 0.0)

    async def run() -> None:
        async with (
            silence() as silent,
            wire_broker(lambda _: MetadataResponse(), {3: (4, 12)}) as (host, port),
            Client(f"{host}:{port},127.0.0.1:{silent.port}", QUICK) as client,
        ):
            await client.topology([])
            client.look_elsewhere()
            for _ in range(4):
                await client.topology([])
            assert silent.dialled == 1
            for _ in range(2):  # all addresses
                client.look_elsewhere()
                await client.topology([])
            assert silent.dialled == 2

    asyncio.run(run())


@contextmanager
def dead_machine(host: str, port: int) -> Iterator[None]:
    """An address from which nothing comes back: nobody takes those who wait there, and it is full.

    A listener with room for one; what comes after that is dropped without a word.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((host, port), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is no address of ours")
def test_the_other_addresses_of_a_name_are_tried_while_the_first_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        async with wire_broker(lambda _: MetadataResponse(), {3: (4, 12)}) as (host, port):

            async def resolve(*_: Any, **__: Any) -> list[Any]:
                kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
                return [(*kind, (each, port)) for each in ("127.0.0.2", host)]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
            with dead_machine("127.0.0.2", port):
                (await connect("brokers.example", port, ClientConfig())).close()

    asyncio.run(asyncio.wait_for(run(), 5))
