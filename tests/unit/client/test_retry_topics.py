"""A start of ordered retry that nobody answers: is whoever waits for it told soon?"""

from __future__ import annotations

import asyncio
import socket

import pytest

from sexton.base.errors import PeerError
from sexton.client import retry_topics
from sexton.client.client import Client
from sexton.client.retry_topics import Names, prepare

NAMES = Names.of("orders", "billing")


@pytest.mark.parametrize("create", [True, False])
def test_a_wrong_address_is_told_soon(create: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_topics, "NEWS_MS", 100)

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        async with Client(f"127.0.0.1:{port}") as client, asyncio.timeout(20):
            await prepare(client, NAMES, create=create)

    with pytest.raises(PeerError, match="cannot be reached"):
        asyncio.run(run())
