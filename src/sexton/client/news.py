"""What one broker has not heard of, another may know. How long is it worth asking around?

Brokers hear of a new topic one after the other, and one that is cut off hears nothing. So whoever
is told less than was asked for asks again, of another broker each time. But not for long: most
often it is not there, and somebody waits to be told. The time runs from the first answer on,
however late it came: silence is no news.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sexton.base.errors import PeerError, Refused
from sexton.client.client import Client
from sexton.client.retrying import Patience, until_it_works

T = TypeVar("T")


async def asked_around(client: Client, ask: Callable[[], Awaitable[T]], patience: Patience) -> T:
    """As `until_it_works`, of another broker each time."""

    async def once() -> T:
        try:
            return await ask()
        except (PeerError, Refused):
            client.look_elsewhere()
            raise

    return await until_it_works(once, patience)


async def until_whole(
    client: Client,
    ask: Callable[[], Awaitable[T]],
    is_whole: Callable[[T], Awaitable[bool]],
    within_ms: int,
    backoff_ms: int,
) -> T:
    """An answer that lacks nothing; or the last one: what nobody knows for so long is not there."""
    clock, end_s = asyncio.get_running_loop().time, None
    while True:
        found = await ask()
        end_s = clock() + within_ms / 1000 if end_s is None else end_s
        if await is_whole(found) or clock() >= end_s:
            return found
        client.look_elsewhere()
        await asyncio.sleep(backoff_ms / 1000)
