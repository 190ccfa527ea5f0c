"""A client that asks another broker each time, and not the one that is down.

Whoever watches a cluster through an outage wants two things that pull apart: not to rely on what
one broker believes, and not to wait for one that does not answer. So questions go round among the
brokers that the metadata calls live; one that fails is left out for a while, and asked again only
when all others have failed, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TypeVar

from sexton.base.errors import PeerError
from sexton.client.client import Address, Client, unreachable
from sexton.client.connection import ClientConfig, Connection
from sexton.client.topology import Topology
from sexton.protocol.wire import Request, Response

R = TypeVar("R", bound=Response)

LEFT_OUT_S = 10.0


class RovingClient(Client):
    def __init__(self, bootstrap_servers: str, config: ClientConfig | None = None) -> None:
        super().__init__(bootstrap_servers, config)
        self._live: tuple[Address, ...] = ()
        self.last_asked = ""  # the broker that answered last
        self._failed: dict[Address, float] = {}  # when each last did

    async def ask(self, request: Request[R], versions: range = range(1 << 15)) -> R:
        """Asks whoever's turn it is; an error is that broker's, and another is next."""
        connection = await self.any_broker()
        try:
            answer = await connection.ask(request, versions)
            self.last_asked = connection.peer
            self._learn(answer)
            return answer
        except PeerError:
            self._leave_out(connection)
            raise

    def begin_with(self, turn: int) -> None:
        """Whose turn it is from now on; the next number is another broker."""
        self._turn = turn

    async def topology(self, topics: Iterable[str] | None = None) -> Topology:
        found = await super().topology(topics)
        self._live = tuple((each.host, each.port) for each in found.brokers.values())
        return found

    async def any_broker(self) -> Connection:
        self._asked_turn = self._turn
        failures: list[PeerError] = []
        for address in self._in_turn():
            try:
                return await self._connected(address)
            except PeerError as error:
                failures.append(error)
                self._failed[address] = time.monotonic()
        raise unreachable(failures)

    def _in_turn(self) -> list[Address]:
        """The live ones in turn, then any that we know of, then those that failed lately."""
        live = list(self._live or self._bootstrap)
        turn = self._turn % len(live)
        known = [(each.host, each.port) for each in self._known.values()]
        everyone = list(dict.fromkeys([*live[turn:], *live[:turn], *self._bootstrap, *known]))
        now = time.monotonic()
        return sorted(everyone, key=lambda at: now - self._failed.get(at, -1e9) < LEFT_OUT_S)

    def _leave_out(self, connection: Connection) -> None:
        for address, each in self._connections.items():
            if each is connection:
                self._failed[address] = time.monotonic()
