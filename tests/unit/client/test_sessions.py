"""A broker lets us in for a while only: is anybody hung up on because that is over (KIP-368)?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.connection import ClientConfig, Connection
from sexton.client.login import Login
from sexton.protocol.messages.metadata import MetadataRequest, MetadataResponse
from sexton.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from sexton.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from sexton.protocol.wire import Response
from tests.wire_broker import wire_broker

OFFERS = {3: (4, 12), 17: (0, 1), 36: (0, 2)}
CONFIG = ClientConfig(authenticate=Login("PLAIN", "ada", "secret"))


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

    async def run() -> None:
        async with (
            wire_broker(broker.answer, OFFERS) as (host, port),
            Client(f"{host}:{port}", CONFIG) as client,
        ):
            await client.topology([])
            over = asyncio.Event()
            asyncio.get_running_loop().call_later((session_ms + 5) / 1000, over.set)
            await over.wait()
            await client.topology([])

    asyncio.run(run())
    assert broker.logins == logins


class Hesitant(Broker):
    """Lets us in, says for how long, and does not insist; it may let nobody in `later`."""

    def __init__(self, later: KafkaError | None) -> None:
        super().__init__(session_ms=50)
        self._later = later

    def answer(self, request: Any) -> Response:
        if isinstance(request, MetadataRequest):
            return MetadataResponse()
        answer = super().answer(request)
        if self.logins > 1 and isinstance(answer, SaslAuthenticateResponse):
            if self._later is None:
                raise ConnectionError
            answer.error_code = self._later
        return answer


async def worn(client: Client) -> Connection:
    connection = await client.any_broker()
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, over.set)
    await over.wait()
    assert connection.is_worn
    return connection


@pytest.mark.parametrize("later", [KafkaError.SASL_AUTHENTICATION_FAILED, None])
def test_a_session_that_cannot_be_renewed_is_used_while_it_lasts(later: KafkaError | None) -> None:
    """None: the connection is lost. Nobody waits for that twice in a row."""
    broker = Hesitant(later)

    async def run() -> None:
        async with (
            wire_broker(broker.answer, OFFERS) as (host, port),
            Client(f"{host}:{port}", CONFIG) as client,
        ):
            await worn(client)
            for _ in range(4):
                await client.topology([])

    asyncio.run(run())
    assert broker.logins == 2


def test_a_connection_ends_when_another_is_in_its_place_and_all_is_answered() -> None:
    async def run() -> None:
        async with (
            wire_broker(Hesitant(KafkaError.NONE).answer, OFFERS) as (host, port),
            Client(f"{host}:{port}", CONFIG) as client,
        ):
            old = await worn(client)
            new = await client.any_broker()
            assert new is not old
            assert not old.is_open
            asked = [asyncio.create_task(new.ask(MetadataRequest())) for _ in range(2)]
            await asyncio.sleep(0)
            new.close_when_answered()
            assert new.is_open
            await asyncio.gather(*asked)
            assert not new.is_open

    asyncio.run(run())
