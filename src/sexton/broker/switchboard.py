"""How the nodes of one process talk to each other: message objects, handed over as they are.

    host ──ask──▶ queue ──▶ host ──answer──▶ queue ──▶ host

Nothing is encoded and no socket is in between, which is what makes three replicas in one process
cheap. A link between two nodes can be cut: what is sent over it waits until it is mended, as TCP
would send it again, or until the asker has given up. A node that is down refuses at once, as a
closed port does; and who waits for an answer of it when it goes is told, as by a connection that
ends with its process.

Messages wait in one queue, so that no node is entered a second time while it handles an event, and
a node is told at once of everything that waits for it: what several clients have written goes to a
follower in one answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from sexton.broker.host import Host
from sexton.node.outside import LATEST, Answered, Ask, Asked, Event, NodeId

REFUSED_S = 0.002
MOST_AT_ONCE = 256  # then the sockets have their turn

Link = tuple[NodeId, NodeId]  # from, to


class Switchboard:
    def __init__(self) -> None:
        self.hosts: dict[NodeId, Host] = {}
        self._cuts: dict[Link, list[_Message]] = {}  # with what waits for them to be mended
        self._delays_ms: dict[tuple[NodeId, NodeId], int] = {}
        self._asked: dict[NodeId, dict[_Call, None]] = {}  # who has a question, and which
        self._queue: deque[tuple[Host, int, Event]] = deque()
        self._scheduled = False

    # ── the network's condition ──

    def cut(self, one: NodeId, other: NodeId) -> None:
        for link in ((one, other), (other, one)):
            self._cuts.setdefault(link, [])

    def mend(self, one: NodeId, other: NodeId) -> None:
        for link in ((one, other), (other, one)):
            for message in self._cuts.pop(link, []):
                if message.call.waits:
                    self._send(message)

    def mend_all(self) -> None:
        for link in list(self._cuts):
            self.mend(*link)

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
        delay_ms = self._delays_ms.get((asker.node_id, ask.peer))
        message = _Message(call, ask.request, is_answer=False)
        if delay_ms is None:
            self._send(message)
        else:
            loop.call_later(delay_ms / 1000, self._send, message)

    def answered(self, call: _Call, response: object | None) -> None:
        self._send(_Message(call, response, is_answer=True))

    def _send(self, message: _Message) -> None:
        call = message.call
        link = (call.asker.node_id, call.peer)
        held = self._cuts.get(link[::-1] if message.is_answer else link)
        if held is not None:
            held.append(message)
        elif message.is_answer:
            self.finish(call, message.body)
        elif (peer := self.hosts.get(call.peer)) is None or peer.node is None:
            asyncio.get_running_loop().call_later(REFUSED_S, call.time_out)
        else:
            self._asked.setdefault(call.peer, {})[call] = None
            self.deliver(peer, Asked(call, message.body, LATEST))

    def gone(self, node: NodeId) -> None:
        """A node was killed, stopped or halted: it answers nothing that it was asked."""
        for call in self._asked.pop(node, {}):
            call.fail()

    def finish(self, call: _Call, response: object | None) -> None:
        """The asker hears of it, unless it has heard already."""
        if call.timer is None:
            return
        call.timer.cancel()
        call.timer = None
        self._asked.get(call.peer, {}).pop(call, None)
        if call.asker.life == call.life:
            self.deliver(call.asker, Answered(call.token, response))

    def deliver(self, host: Host, event: Event) -> None:
        """An event for a node, soon and in its turn."""
        self._queue.append((host, host.life, event))
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        """Rounds in which each node hears what has come for it, until nothing comes any more."""
        left = MOST_AT_ONCE
        try:
            while self._queue and left > 0:
                round_, self._queue = self._queue, deque()
                left -= len(round_)
                for host, events in self._by_host(round_).items():
                    host.handle_all(events)
        finally:
            self._scheduled = bool(self._queue)
            if self._queue:
                asyncio.get_running_loop().call_soon(self._work)

    def _by_host(self, waiting: deque[tuple[Host, int, Event]]) -> dict[Host, list[Event]]:
        found: dict[Host, list[Event]] = {}
        for host, life, event in waiting:
            if host.life == life:
                found.setdefault(host, []).append(event)
            elif isinstance(event, Asked):
                event.caller.fail()  # type: ignore[attr-defined]
        return found


@dataclass(slots=True, eq=False)
class _Call:
    """A question under way between two nodes."""

    switchboard: Switchboard
    asker: Host
    life: int
    token: int
    peer: NodeId
    timer: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Does anybody still wait for the answer?"""
        return self.timer is not None and self.asker.life == self.life

    def answer(self, response: object) -> None:
        self.switchboard.answered(self, response)

    def fail(self) -> None:
        self.switchboard.answered(self, None)

    def time_out(self) -> None:
        self.switchboard.finish(self, None)


@dataclass(frozen=True, slots=True, eq=False)
class _Message:
    """One half of a call."""

    call: _Call
    body: object
    is_answer: bool
