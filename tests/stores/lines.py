"""The lines between instances and brokers, which can be slow, stand still or break.

    instance ──▶ 127.0.0.2:port ──▶ 127.0.0.1:port, a broker

A broker tells clients its advertised address. Brokers that listen on 127.0.0.1 and advertise
127.0.0.2 are reached by every client through what listens there, and by each other without it. What
a network does to TCP is done to the bytes that pass: they are late, or none comes through for a
while, or the connection breaks in the middle of whatever was under way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.kafka_node import KafkaNode
from sexton.testing.ports import ReservedPort

OUTSIDE, INSIDE = "127.0.0.2", "127.0.0.1"
_CHUNK = 1 << 16
_UNDER_WAY = 64  # chunks; then whoever sends has to wait


@dataclass(slots=True)
class Line:
    """To one broker."""

    port: int
    latency_s: float = 0.0  # in each direction
    open: asyncio.Event = field(default_factory=asyncio.Event)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    broken: int = 0  # connections, so far

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_broker = await asyncio.open_connection(INSIDE, self.port)
        except OSError:
            writer.close()
            return
        both = {writer, to_broker[1]}
        self.writers |= both
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, to_broker[1]))
                group.create_task(self._carry(to_broker[0], writer))
        except* (OSError, EOFError):
            pass
        finally:
            self.writers -= both
            for each in both:
                each.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Late, and not slow: what comes meanwhile is late by as much."""
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)

        async def arrive() -> None:
            while True:
                due_s, chunk = await under_way.get()
                await asyncio.sleep(due_s - loop.time())
                await self.open.wait()
                writer.write(chunk)
                await writer.drain()

        async with asyncio.TaskGroup() as group:
            group.create_task(arrive())
            while chunk := await reader.read(_CHUNK):
                await under_way.put((loop.time() + self.latency_s, chunk))
            raise EOFError  # ends the other direction too


class Lines:
    """To all brokers; every method may be called from any thread."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = list(ports)
        self._lines: dict[int, Line] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._servers = []
        for port in self._ports:
            line = self._lines[port] = Line(port)
            line.open.set()
            self._servers.append(await asyncio.start_server(line.serve, OUTSIDE, port))

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for port, line in self._lines.items():
            line.open.set()
            await self._cut(port)
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks, timeout=10)

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    # ── what a network does ──

    def delay(self, port: int, latency_ms: int) -> None:
        """Both ways, from now on."""
        self._lines[port].latency_s = latency_ms / 1000

    def stall(self, port: int) -> None:
        """Connections stay, and nothing comes through."""
        self._call(self._set_open(port, False))

    def flow(self, port: int) -> None:
        """Again."""
        self._call(self._set_open(port, True))

    def cut(self, port: int) -> None:
        """All connections break; new ones may be made."""
        self._call(self._cut(port))

    def mend(self) -> None:
        for port in self._ports:
            self.delay(port, 0)
            self.flow(port)

    @property
    def broken(self) -> int:
        return sum(line.broken for line in self._lines.values())

    async def _set_open(self, port: int, is_open: bool) -> None:
        opened = self._lines[port].open
        if is_open:
            opened.set()
        else:
            opened.clear()

    async def _cut(self, port: int) -> None:
        line = self._lines[port]
        line.broken += len(line.writers) // 2
        for writer in list(line.writers):
            writer.transport.abort()


class EmbeddedBehindLines(EmbeddedCluster):
    def __init__(self, brokers: int = 3) -> None:
        super().__init__(brokers, advertised_host=OUTSIDE)

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def port_of(self, node: int) -> int:
        return int(self.address_of(node).rpartition(":")[2])


class KafkaBehindLines(ApacheKafka):
    """Brokers talk to each other on a listener of their own, which no line leads to."""

    def __init__(self, nodes: int = 3) -> None:
        super().__init__(KafkaConfig(nodes=nodes))
        self._between = {node: ReservedPort() for node in self.nodes}

    def port_of(self, node: int) -> int:
        return self.nodes[node].broker_port.number

    @property
    def bootstrap(self) -> str:
        return super().bootstrap.replace(INSIDE, OUTSIDE)

    def close(self) -> None:
        super().close()
        for port in self._between.values():
            port.release()

    def _properties(self, node: KafkaNode) -> dict[str, object]:
        known = super()._properties(node)
        between = f"BETWEEN://{INSIDE}:{self._between[node.node_id].number}"
        outside = str(known["advertised.listeners"]).replace(INSIDE, OUTSIDE)
        protocols = f"{known['listener.security.protocol.map']},BETWEEN:PLAINTEXT"
        return {
            **known,
            "listeners": f"{known['listeners']},{between}",
            "advertised.listeners": f"{outside},{between}",
            "inter.broker.listener.name": "BETWEEN",
            "listener.security.protocol.map": protocols,
        }
