"""Asking a cluster in which a broker restarts, or has not heard the news yet.

A stream asks before each batch, for months: one broker that is away at that moment must not end it.
So whatever is looked up is asked for again, of another broker each time, until
`default.api.timeout.ms` has passed. Then the error says who did not answer, and what to do.

Before anybody has answered, a failure is most often a mistake: a wrong address, or TLS at a port
without it. So at first it is tried again for a moment only, and a peer that hangs up on our first
words is not asked twice. Later that is a broker which stops. A TLS handshake that fails (a
certificate that is not trusted) will fail again at any time; Kafka's own clients do not wait for it
either.

A topic that is missing in an answer is asked for again, too, but not for long: see `client.news`.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.client.client import Client
from sexton.client.connection import WRONG_PROTOCOL
from sexton.client.news import until_whole
from sexton.client.retrying import NEWS_MS, Patience, Trying
from sexton.client.topology import Topology

T = TypeVar("T")
ARE_THEY_UP = "are brokers of kafka.bootstrap.servers up, and can they be reached from here?"
REMEDY = f"{ARE_THEY_UP} To wait longer, raise kafka.default.api.timeout.ms"
_HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)  # in the handshake


async def answer_to(
    client: Client,
    ask: Callable[[], Awaitable[T]],
    patience: Patience,
    what: str,
    *,
    at_first: bool = False,
) -> T:
    """Of whichever broker gives one in time; `what` is asked for, in the words of an error.

    `at_first`: nobody has answered yet. The moment that failures get then runs from the first of
    them: one try may take long, if a dead address is named before a good one.
    """
    again_ms = NEWS_MS if at_first else sys.maxsize
    trying = Trying(replace(patience, timeout_ms=again_ms))  # raises what does not pass
    last: PeerError | Refused = PeerError("brokers", "do not answer")
    try:
        async with asyncio.timeout(patience.timeout_ms / 1000):
            while True:
                try:
                    return await ask()
                except (PeerError, Refused) as error:
                    if _is_for_good(error, at_first):
                        raise
                    last = error
                    await trying.pause(error)
                    client.look_elsewhere()
    except TimeoutError:
        why = f"not told within {patience.timeout_ms} ms: {last.subject}: {last.why}"
        raise PeerError(what, why, last.hint or REMEDY) from last


async def meet(client: Client, patience: Patience) -> None:
    """The first word of a run with its brokers."""
    try:
        await answer_to(client, client.any_broker, patience, "the cluster", at_first=True)
    except PeerError as error:
        raise PeerError(error.subject, error.why, error.hint or ARE_THEY_UP) from error


def _is_for_good(error: SextonError, at_first: bool) -> bool:
    if at_first and error.hint == WRONG_PROTOCOL:
        return True
    cause: BaseException | None = error
    while isinstance(cause, SextonError):
        cause = cause.__cause__
    return isinstance(cause, ssl.SSLError) and not isinstance(cause, _HUNG_UP)


async def with_news(
    client: Client,
    ask: Callable[[], Awaitable[T]],
    is_whole: Callable[[T], bool],
    patience: Patience,
    what: str,
) -> T:
    """An answer that lacks nothing; what every broker lacks for `NEWS_MS` is not there."""

    async def lacks_nothing(found: T) -> bool:
        return is_whole(found)

    answer = partial(answer_to, client, ask, patience, what)
    return await until_whole(client, answer, lacks_nothing, NEWS_MS, patience.backoff_ms)


async def topics_by(client: Client, names: Iterable[str], patience: Patience) -> Topology:
    """Of these topics; one that is not there is left out."""
    wanted = list(names)

    def has_all(found: Topology) -> bool:
        return all(name in found.topics and found.topics[name].partitions for name in wanted)

    what = f"metadata of {', '.join(wanted)}"
    return await with_news(client, lambda: client.topology(wanted), has_all, patience, what)
