"""A name may stand for several addresses, and the first be of a machine that is off.

Waiting for it would use up all the time that there is, so the next address is tried as soon as one
fails or has kept silent for a moment, and the first that answers is taken (RFC 8305). asyncio can
do the same, but leaves an open socket to nobody if it is cancelled in the moment of the answer.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

NEXT_ADDRESS_S = 0.25

Attempt = asyncio.Task[socket.socket]


async def dial(host: str, port: int) -> socket.socket:
    """A socket, connected to the first address that answers; OSError: none does."""
    loop = asyncio.get_running_loop()
    attempts: list[Attempt] = []
    answered: Attempt | None = None
    try:
        for info in await _addresses(host, port):
            attempts.append(loop.create_task(_connected(*info)))
            answered = await _answered(attempts, NEXT_ADDRESS_S)
            if answered is not None:
                break
        else:
            answered = await _answered(attempts, None)
    finally:
        for each in attempts:
            if each is not answered:
                each.cancel()
                each.add_done_callback(_hang_up)
    return (answered or attempts[0]).result()  # or why the first was in vain


async def _addresses(host: str, port: int) -> list[tuple[Any, ...]]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:  # a name: somebody must be asked, which takes a thread
        loop = asyncio.get_running_loop()
        return list(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))


async def _connected(family: int, kind: int, protocol: int, _: str, address: Any) -> socket.socket:
    found = socket.socket(family, kind, protocol)
    try:
        found.setblocking(False)
        await asyncio.get_running_loop().sock_connect(found, address)
    except BaseException:
        found.close()
        raise
    return found


async def _answered(attempts: list[Attempt], patience_s: float | None) -> Attempt | None:
    """One that has a connection; None: all have failed, or, with `patience_s`, none has one yet."""
    while waiting := [each for each in attempts if not each.done()]:
        await asyncio.wait(waiting, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        for each in attempts:
            if each.done() and each.exception() is None:
                return each
        if patience_s is not None:
            break
    return None


def _hang_up(attempt: Attempt) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()
