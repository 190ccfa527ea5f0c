"""A machine is off, and each attempt to reach it takes seconds: how often are they waited for?"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from sexton.base.errors import PeerError
from sexton.client import client as client_module
from sexton.client import dialling
from sexton.client.client import Client
from sexton.client.connection import ClientConfig, connect
from sexton.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from tests.wire_broker import wire_broker

only_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere 127.0.0.2 is no address of ours"
)
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


def resolve_to(monkeypatch: pytest.MonkeyPatch, port: int, *hosts: str) -> None:
    """Each name stands for these addresses, as far as the running loop knows."""

    async def resolve(*_: Any, **__: Any) -> list[Any]:
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*kind, (each, port)) for each in hosts]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)


@only_linux
def test_the_other_addresses_of_a_name_are_tried_while_the_first_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        async with wire_broker(lambda _: MetadataResponse(), {3: (4, 12)}) as (host, port):
            resolve_to(monkeypatch, port, "127.0.0.2", host)
            with dead_machine("127.0.0.2", port):
                (await connect("brokers.example", port, ClientConfig())).close()

    asyncio.run(asyncio.wait_for(run(), 5))


@only_linux
def test_the_other_addresses_of_a_name_are_tried_at_once_if_the_first_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialling, "NEXT_ADDRESS_S", 60.0)

    async def run() -> None:
        async with wire_broker(lambda _: MetadataResponse(), {3: (4, 12)}) as (host, port):
            resolve_to(monkeypatch, port, "127.0.0.2", "127.0.0.3", host)
            (await connect("brokers.example", port, ClientConfig())).close()

    asyncio.run(asyncio.wait_for(run(), 5))


@only_linux
def test_a_name_of_which_no_address_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        resolve_to(monkeypatch, 1, "127.0.0.2", "127.0.0.3")
        with pytest.raises(PeerError, match=r"^brokers\.example:1: .*: connection refused$"):
            await connect("brokers.example", 1, ClientConfig())

    asyncio.run(run())


def test_who_gives_up_in_whatever_moment_leaves_no_socket_open() -> None:
    """The moments are turns of the event loop: before, in and after the one with the answer."""

    async def run() -> None:
        async with silence() as silent:
            for turns in range(12):
                giving_up = asyncio.create_task(connect("127.0.0.1", silent.port, ClientConfig()))
                for _ in range(turns):
                    await asyncio.sleep(0)
                giving_up.cancel()
                await asyncio.wait([giving_up])
                assert giving_up.cancelled()

    with warnings.catch_warnings(record=True, action="always", category=ResourceWarning) as told:
        asyncio.run(run())
        gc.collect()
    assert [str(each.message) for each in told] == []
