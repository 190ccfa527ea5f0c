"""How the nodes of one process talk to each other: message objects, handed over as they are.

    host ──ask──▶ queue ──▶ host ──answer──▶ queue ──▶ host

Nothing is encoded and no socket is in between, which is what makes three replicas in one process
cheap. A link between two nodes can be cut: what is under way on it is lost, both ways, and the
asker hears nothing until its time is up. A node that is down refuses at once, as a closed port
does.

Messages wait in one queue, so that no node is entered a second time while it handles an event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from sexton.broker.host import Host
from sexton.node.outside import LATEST, Answered, Ask, Asked, Event, NodeId

REFUSED_S = 0.002
MOST_AT_ONCE = 256  # then the sockets have their turn


class Switchboard:
    def __init__(self) -> None:
        self.hosts: dict[NodeId, Host] = {}
        self._cuts: set[tuple[NodeId, NodeId]] = set()
        self._delays_ms: dict[tuple[NodeId, NodeId], int] = {}
        self._queue: deque[tuple[Host, int, Event]] = deque()
        self._handling = False
        self._scheduled = False

    # ── the network's condition ──

    def cut(self, one: NodeId, other: NodeId) -> None:
        self._cuts |= {(one, other), (other, one)}

    def mend(self, one: NodeId, other: NodeId) -> None:
        self._cuts -= {(one, other), (other, one)}

    def mend_all(self) -> None:
        self._cuts.clear()

    def is_cut(self, one: NodeId, other: NodeId) -> bool:
        return (one, other) in self._cuts

    def delay(self, one: NodeId, other: NodeId, ms: int) -> None:
        """What either asks the other is so long under way; 0: it arrives at once again."""
        for link in ((one, other), (other, one)):
            self._delays_ms.pop(link, None)
            if ms > 0:
                self._delays_ms[link] = ms

    # ── messages ──

    @property
    def queued(self) -> int:
        """Messages that wait until somebody takes them."""
        return len(self._queue)

    def ask(self, asker: Host, ask: Ask) -> None:
        call = _Call(self, asker, asker.life, ask.token, ask.peer)
        loop = asyncio.get_running_loop()
        call.timer = loop.call_later(ask.timeout_ms / 1000, call.time_out)
        peer = self.hosts.get(ask.peer)
        if (asker.node_id, ask.peer) in self._cuts:
            return
        if peer is None or peer.node is None:
            loop.call_later(REFUSED_S, call.time_out)
            return
        asked = Asked(call, ask.request, LATEST)
        delay_ms = self._delays_ms.get((asker.node_id, ask.peer))
        if delay_ms is None:
            self.deliver(peer, asked)
        else:
            loop.call_later(delay_ms / 1000, self.deliver, peer, asked)

    def answered(self, call: _Call, response: object) -> None:
        if (call.peer, call.asker.node_id) in self._cuts:
            return
        self._finish(call, response)

    def _finish(self, call: _Call, response: object | None) -> None:
        if call.timer is None:
            return  # it was answered, or its time is up
        call.timer.cancel()
        call.timer = None
        if call.asker.life == call.life:
            self.deliver(call.asker, Answered(call.token, response))

    def deliver(self, host: Host, event: Event) -> None:
        """An event for a node, now if nobody is busy, else soon."""
        self._queue.append((host, host.life, event))
        if not self._handling and not self._scheduled:
            self._work()

    def _work(self) -> None:
        self._scheduled = False
        self._handling = True
        try:
            for _ in range(MOST_AT_ONCE):
                if not self._queue:
                    return
                host, life, event = self._queue.popleft()
                if host.life == life:
                    host.handle(event)
                elif isinstance(event, Asked):
                    event.caller.fail()  # type: ignore[attr-defined]
        finally:
            self._handling = False
            if self._queue:
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._work)


@dataclass(slots=True, eq=False)
class _Call:
    """A question under way between two nodes."""

    switchboard: Switchboard
    asker: Host
    life: int
    token: int
    peer: NodeId
    timer: asyncio.TimerHandle | None = None

    def answer(self, response: object) -> None:
        self.switchboard.answered(self, response)

    def fail(self) -> None:
        self.switchboard.answered(self, None)

    def time_out(self) -> None:
        self.switchboard._finish(self, None)
