"""A machine is off, and each attempt to reach it takes seconds: how often are they waited for?"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sexton.base.errors import PeerError
from sexton.client.client import Client
from sexton.client.connection import ClientConfig
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
