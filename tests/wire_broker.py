"""A broker of a few lines: it speaks Kafka's protocol on a port, and says what a test wants said.

For answers that a whole broker gives only on a bad day: an object store that is slow, a peer that
moves house. What is under test is the client, down to its sockets.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sexton.protocol import decode_request, encode_response
from sexton.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from sexton.protocol.wire import Response

Answer = Callable[[Any], Response]
Offers = dict[int, tuple[int, int]]  # by API key, the lowest and highest version


@asynccontextmanager
async def wire_broker(answer: Answer, offers: Offers) -> AsyncIterator[tuple[str, int]]:
    """Where it listens; `answer` is asked for everything but ApiVersions."""
    keys = [ApiVersion(18, 0, 4), *(ApiVersion(key, *some) for key, some in offers.items())]
    talking: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking[task] = writer
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                header, request = decode_request(await reader.readexactly(size))
                asks_versions = isinstance(request, ApiVersionsRequest)
                said = ApiVersionsResponse(api_keys=keys) if asks_versions else answer(request)
                writer.write(
                    encode_response(said, header.request_api_version, header.correlation_id)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()[:2]
        yield host, port
    finally:
        server.close()
        for writer in talking.values():
            writer.transport.abort()
        await asyncio.gather(*talking)
