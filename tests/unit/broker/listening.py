"""A listener on a real socket, with a node that answers when a test says so."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

from sexton.broker.host import Clock, Host
from sexton.broker.listener import Listener, ListenerConfig
from sexton.broker.switchboard import Switchboard
from sexton.node import apis
from sexton.node.outside import Answer, Asked, Effect, Event, Left
from sexton.protocol import decode_response, encode_request
from sexton.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sexton.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sexton.protocol.wire import Response

T = TypeVar("T")
R = TypeVar("R", bound=Response)

PATIENCE_S = 20.0


class PatientNode:
    """Answers ApiVersions at once, and nothing else before it is told to."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.left: list[object] = []  # who asked and went
        self.answers: list[Effect] = []
        versions = ApiVersionsResponse(api_keys=apis.advertised())
        self.at_once: dict[type, object] = {ApiVersionsRequest: versions}

    def start(self) -> list[Effect]:
        return []

    def hear(self, event: Event, _now_ms: int, _clock_ms: int) -> None:
        if isinstance(event, Left):
            self.left.append(event.caller)
            return
        assert isinstance(event, Asked)
        answer = self.at_once.get(type(event.request))
        if answer is None:
            self.asked.append(event)
        else:
            self.answers.append(Answer(event.caller, answer))

    def settle(self) -> list[Effect]:
        answers, self.answers = self.answers, []
        return answers

    def close(self, _now_ms: int) -> None:
        pass


class Listening:
    """The listener runs in a thread; a test talks to it over sockets."""

    def __init__(self, config: ListenerConfig | None = None) -> None:
        self.node = PatientNode()
        self.jobs = ThreadPoolExecutor(1)
        self.switchboard = Switchboard()
        self.loop = asyncio.new_event_loop()
        self.escaped: list[dict[str, Any]] = []  # what came through to the event loop
        self.loop.set_exception_handler(lambda _loop, context: self.escaped.append(context))
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.host = self.call(self._host)
        self.listener = self.call(
            lambda: Listener(config or ListenerConfig(), self.host, self.switchboard)
        )
        self.call(self.listener.open)

    def _host(self) -> Host:
        board = self.switchboard
        host = Host(1, lambda *_: self.node, board.ask, board.deliver, Clock(), self.jobs)
        host.start()
        return host

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.call(self.listener.release)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE_S)
        self.loop.close()
        self.jobs.shutdown()
        if kind is None:
            assert self.escaped == []

    def call(self, function: Callable[[], T]) -> T:
        """On the listener's thread."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE_S)

    def connect(self, tls: ssl.SSLContext | None = None) -> Peer:
        return Peer(self.listener.port, tls)

    def wait_for(self, condition: Callable[[], bool], what: str = "") -> None:
        wait_for(lambda: self.call(condition), what)

    def answer(self, number: int, response: object) -> None:
        self.call(lambda: self.node.asked[number].caller.answer(response))  # type: ignore[attr-defined]

    def still_works(self, tls: ssl.SSLContext | None = None) -> None:
        """An ordinary client is served."""
        mine = HeartbeatRequest("ordinary")
        with self.connect(tls) as peer:
            assert peer.ask(ApiVersionsRequest("sexton", "1"), 4, ApiVersionsResponse).api_keys
            peer.send(encode_request(mine, 4, 7, "ordinary"))
            self.wait_for(lambda: mine in self._requests(), "the request to arrive")
            self.answer(self._requests().index(mine), HeartbeatResponse(throttle_time_ms=3))
            answer = decode_response(HeartbeatResponse, peer.frame(), 4)
            assert answer == (7, HeartbeatResponse(throttle_time_ms=3))

    def _requests(self) -> list[object]:
        return [asked.request for asked in self.node.asked]


class Peer:
    """The other end of a connection, which may send anything."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, request: Any, version: int, kind: type[R]) -> R:
        self.send(encode_request(request, version, 1, "test"))
        return decode_response(kind, self.frame(), version)[1]

    def frame(self) -> bytes:
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def _exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            more = self.socket.recv(count - len(found))
            if not more:
                raise EOFError(f"closed after {len(found)} of {count} bytes")
            found += more
        return bytes(found)

    def is_closed(self) -> bool:
        """Waits for it; anything else that comes first is a failure."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def wait_for(condition: Callable[[], bool], what: str = "") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what or 'a condition'}"
        time.sleep(0.002)
