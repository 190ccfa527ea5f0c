"""The port speaks something else than security.protocol says: is that what one is told?"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sexton.base.errors import PeerError
from sexton.cli.failures import NO_ANSWER, failure_of
from sexton.client.connection import WRONG_PROTOCOL, ClientConfig, Connection, connect
from sexton.protocol import decode_request
from sexton.protocol.messages.api_versions import ApiVersionsRequest
from sexton.protocol.messages.metadata import MetadataRequest
from tests.certificates import Certificates, make_certificates
from tests.unit.client.test_connection import broker, well_behaved

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def encrypted(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    return context


async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.transport.abort()


async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1 << 16)
    writer.close()


def failure(serve: Serve, ours: ssl.SSLContext | None, theirs: ssl.SSLContext | None) -> PeerError:
    """How a connection of ours to them fails."""

    async def conversation() -> PeerError:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=theirs)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(PeerError) as caught:
                await connect("127.0.0.1", port, ClientConfig(tls=ours))
        return caught.value

    return asyncio.run(conversation())


@pytest.mark.parametrize("serve", [resets, closes])
def test_tls_where_none_is_spoken(serve: Serve, certificates: Certificates) -> None:
    error = failure(serve, certificates.context(), None)
    assert error.why.removeprefix("cannot be reached: ").strip()
    assert error.hint == WRONG_PROTOCOL


def test_no_tls_where_it_is_spoken(certificates: Certificates) -> None:
    error = failure(closes, None, encrypted(certificates))
    assert error.hint == WRONG_PROTOCOL
    assert "Errno" not in error.why


def test_a_port_that_resets_the_first_question() -> None:
    error = failure(resets, None, None)
    assert error.why.endswith("(asked: ApiVersions)") and "Errno" not in error.why
    assert error.hint == WRONG_PROTOCOL


def test_a_certificate_that_is_not_trusted(certificates: Certificates, tmp_path: Path) -> None:
    stranger = make_certificates(tmp_path / "others").context()
    error = failure(closes, stranger, encrypted(certificates))
    assert "certificate verify failed" in error.why.lower().replace("_", " ")
    assert error.hint == WRONG_PROTOCOL and "ssl.ca.location" in WRONG_PROTOCOL


def lost_at(question: int) -> PeerError:
    """How it fails with a broker that says what it speaks, and hangs up at this question."""
    asked = 0

    async def answer(payload: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += not isinstance(decode_request(payload)[1], ApiVersionsRequest)
        if asked < question:
            await well_behaved(payload, writer)
        else:
            writer.close()

    async def ask(connection: Connection) -> PeerError:
        for _ in range(1, question):
            await connection.ask(MetadataRequest())
        with pytest.raises(PeerError) as caught:
            await connection.ask(MetadataRequest())
        connection.close()
        return caught.value

    async def conversation() -> PeerError:
        async with broker(answer) as (host, port):
            return await ask(await connect(host, port, ClientConfig()))

    return asyncio.run(conversation())


def test_who_wants_a_password_hangs_up_at_the_first_question() -> None:
    assert lost_at(1).hint == WRONG_PROTOCOL
    assert lost_at(2).hint is None, "the control: it has understood us before"


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_where_nobody_listens_the_question_is_another(
    host: str, certificates: Certificates
) -> None:
    for tls in (None, certificates.context()):
        with pytest.raises(PeerError) as caught:
            asyncio.run(connect(host, 1, ClientConfig(tls=tls)))
        assert failure_of(caught.value).hint == NO_ANSWER
