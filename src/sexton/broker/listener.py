"""Where clients connect: a port that is kept while its broker comes and goes.

A broker that is killed and started again must have the same address, or no client finds it. The
port is reserved by a socket that is bound and never listens; the broker listens on one beside it.

Whoever connects costs something before they have said anything. So there may be so many
connections, and so many from one address; who has not made a request after a while goes, and who
has not been heard of for long goes, too; and when all together hold too much memory the one that
holds most has to go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from dataclasses import dataclass, field

from sexton.broker.attempts import Attempts
from sexton.broker.complaints import Complaints
from sexton.broker.connection import Connection
from sexton.broker.gate import Gate
from sexton.broker.host import Host
from sexton.broker.limits import Limits, Shared
from sexton.broker.sasl import Conversation
from sexton.broker.security import SecurityConfig, load_security
from sexton.broker.stream import SocketStream, Stream
from sexton.broker.switchboard import Switchboard
from sexton.broker.tls_stream import TlsStream
from sexton.broker.traffic import Traffic
from sexton.node.outside import Event

log = logging.getLogger("sexton.broker.listener")

BACKLOG = 256
NO_DESCRIPTORS_S = 0.5  # until we try again
MOST_QUEUED = 4096  # events for all brokers; then clients wait in the kernel's buffers
_SWEEPS = 4  # looks at each connection while its time runs
_OFTEN_S, _SELDOM_S = 0.05, 5.0


@dataclass(frozen=True, slots=True)
class ListenerConfig(SecurityConfig):
    """Kafka's names where Kafka has the option; its defaults where they bound anything."""

    host: str = "127.0.0.1"
    port: int = 0  # any
    max_connections: int = 10_000
    max_connections_per_ip: int = 5_000
    connections_max_idle_ms: int = 600_000
    # Until the first request, and until the client has authenticated; ours, not Kafka's.
    connections_setup_max_ms: int = 30_000
    # Of requests and answers, all together; ours, not Kafka's.
    connections_max_memory_bytes: int = 512 << 20
    connection_failed_authentication_delay_ms: int = 100
    limits: Limits = field(default_factory=Limits)


class Listener:
    def __init__(self, config: ListenerConfig, host: Host, switchboard: Switchboard) -> None:
        self._config = config
        self._host = host
        self._switchboard = switchboard
        self._security = load_security(config)
        self._family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        self._reserved = self._bound(config.port)
        self.port: int = self._reserved.getsockname()[1]
        self._listening: socket.socket | None = None
        self._connections: dict[Connection, str] = {}
        self._per_address: dict[str, int] = {}
        self._attempts = Attempts(config.connection_failed_authentication_delay_ms / 1000)
        self._complaints = Complaints(log)
        self._timer: asyncio.TimerHandle | None = None
        self.traffic = Traffic()
        self._shared = Shared(
            config.connections_max_memory_bytes, 0, self._drop_heaviest, self._is_crowded
        )

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def held_bytes(self) -> int:
        """In requests and answers of all connections."""
        return self._shared.held_bytes

    def _bound(self, port: int) -> socket.socket:
        found = socket.socket(self._family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((self._config.host, port))
        except OSError as error:
            found.close()
            from sexton.report.serving import cannot_listen  # which most clusters never need

            raise cannot_listen(self._config.host, port, error, "--port") from error
        return found

    # ── open and closed ──

    def open(self) -> None:
        if self._listening is None:
            self._listening = self._bound(self.port)
            self._listening.listen(BACKLOG)
            self._listening.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listening, self._accept)
            self._sweep_later()

    def close(self) -> None:
        """Nobody gets in, and whoever is in goes; the port is kept."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        for connection in list(self._connections):
            connection.close()

    def release(self) -> None:
        """Gives the port back."""
        self.close()
        self._reserved.close()

    def hold(self, held: bool) -> None:
        for connection in list(self._connections):
            connection.hold(held)

    # ── connections ──

    def _accept(self) -> None:
        for _ in range(BACKLOG):
            if self._listening is None:
                return
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors left: those who are in keep the broker busy
                self._complaints.say("cannot accept connections: %s", error)
                self._accept_later(self._listening)
                return
            self._take(accepted, str(address[0]), int(address[1]))

    def _accept_later(self, listening: socket.socket) -> None:
        """The kernel would say at once again that somebody waits."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)

        def again() -> None:
            if self._listening is listening:
                loop.add_reader(listening, self._accept)

        loop.call_later(NO_DESCRIPTORS_S, again)

    def _take(self, accepted: socket.socket, address: str, port: int) -> None:
        config = self._config
        full = len(self._connections) >= config.max_connections
        here = self._per_address.get(address, 0)
        if full or here >= config.max_connections_per_ip:
            self.traffic.turned_away += 1
            there = len(self._connections)
            self._complaints.say("%s has to go: %d connections are open", address, there)
            _shut(accepted)
            return
        connection = Connection(
            f"{address}:{port}",
            config.limits,
            self._deliver,
            self._ended,
            self.traffic,
            self._shared,
            self._gate(address),
        )
        try:
            stream = self._stream(accepted, connection)
        except OSError:  # it has gone already
            _shut(accepted)
            return
        self.traffic.connections += 1
        self._connections[connection] = address
        self._per_address[address] = here + 1
        connection.attach(stream)
        if self._host.paused:
            connection.hold(True)

    def _stream(self, accepted: socket.socket, connection: Connection) -> Stream:
        tls = self._security.tls
        if tls is None:
            return SocketStream(accepted, connection)
        return TlsStream(accepted, connection, tls)

    def _gate(self, address: str) -> Gate | None:
        users = self._security.users
        if users is None:
            return None
        conversation = Conversation(users, self._security.mechanisms)
        return Gate(conversation, self._attempts, address)

    def _deliver(self, event: Event) -> None:
        self._switchboard.deliver(self._host, event)

    def _ended(self, connection: Connection) -> None:
        address = self._connections.pop(connection, None)
        if address is None:
            return
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    # ── who has to go ──

    def _is_crowded(self) -> bool:
        return self._switchboard.queued > MOST_QUEUED

    def _drop_heaviest(self) -> None:
        heaviest = max(self._connections, key=lambda each: each.held_bytes, default=None)
        if heaviest is not None:
            self.traffic.heaviest += 1
            self._complaints.say(
                "%s has to go: it holds %d of %d bytes",
                heaviest.peer, heaviest.held_bytes, self._shared.held_bytes,
            )  # fmt: skip
            heaviest.close()

    def _sweep_later(self) -> None:
        config = self._config
        shortest_ms = min(config.connections_max_idle_ms, config.connections_setup_max_ms)
        delay_s = min(max(shortest_ms / 1000 / _SWEEPS, _OFTEN_S), _SELDOM_S)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._sweep)

    def _sweep(self) -> None:
        now, config = time.monotonic(), self._config
        idle_s, setup_s = (
            config.connections_max_idle_ms / 1000,
            config.connections_setup_max_ms / 1000,
        )
        if not self._host.paused:
            for connection in list(self._connections):
                unsettled = not connection.settled and now - connection.since > setup_s
                if unsettled or connection.is_idle(now, idle_s, setup_s):
                    self.traffic.idled += 1
                    connection.close()
        self._attempts.forget(now)
        self._sweep_later()


def _shut(accepted: socket.socket) -> None:
    with contextlib.suppress(OSError):
        accepted.close()
