"""A broker lets us in for a while only: is anybody hung up on because that is over (KIP-368)?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sexton.client.client import Client
from sexton.client.connection import ClientConfig
from sexton.client.login import Login
from sexton.protocol.messages.metadata import MetadataResponse
from sexton.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from sexton.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from sexton.protocol.wire import Response
from tests.wire_broker import wire_broker

OFFERS = {3: (4, 12), 17: (0, 1), 36: (0, 2)}


class Broker:
    """Hangs up, as Kafka does, on whoever asks in a session that is over."""

    def __init__(self, session_ms: int) -> None:
        self.logins = 0
        self._session_ms = session_ms
        self._ends_s = 0.0

    def answer(self, request: Any) -> Response:
        now_s = asyncio.get_running_loop().time()
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        if isinstance(request, SaslAuthenticateRequest):
            self.logins += 1
            self._ends_s = now_s + self._session_ms / 1000
            return SaslAuthenticateResponse(session_lifetime_ms=self._session_ms)
        if self._session_ms and now_s > self._ends_s:
            raise ConnectionError
        return MetadataResponse()


@pytest.mark.parametrize(("session_ms", "logins"), [(300, 2), (0, 1)])
def test_a_session_is_renewed_before_the_broker_ends_it(session_ms: int, logins: int) -> None:
    """0: it does not end."""
    broker = Broker(session_ms)
    config = ClientConfig(authenticate=Login("PLAIN", "ada", "secret"))

    async def run() -> None:
        async with (
            wire_broker(broker.answer, OFFERS) as (host, port),
            Client(f"{host}:{port}", config) as client,
        ):
            await client.topology([])
            over = asyncio.Event()
            asyncio.get_running_loop().call_later((session_ms + 5) / 1000, over.set)
            await over.wait()
            await client.topology([])

    asyncio.run(run())
    assert broker.logins == logins
