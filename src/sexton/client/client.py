"""All brokers of one cluster, each reached over one connection that is made when it is needed.

`ask` goes to any broker, `broker(3)` to one of them. A broker's address is remembered after it has
gone from the metadata: one that the controller has fenced can still be looked at, if it runs. But
brokers move, and somebody else may be where one was. So every answer that says where brokers are is
believed at once, and nobody is dialled twice on the same word: it is asked for anew before.

A machine that is off takes seconds to be given up. Whoever waits for the same address shares what
came of it, and `ask` turns to an address that failed only when all others have failed, too, or when
somebody doubts what the others say and it has had the time to come back.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Self, TypeVar

from sexton.base.errors import ConfigError, PeerError, Refused, SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.connection import ClientConfig, Connection, NoAnswer, connect
from sexton.client.quota import ReadQuota
from sexton.client.replica import Replica
from sexton.client.topology import BrokerAddress, PartitionPlace, Topology, topology_of
from sexton.protocol.messages.find_coordinator import FindCoordinatorResponse
from sexton.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from sexton.protocol.wire import Request, Response

R = TypeVar("R", bound=Response)
Address = tuple[str, int]

_METADATA_VERSIONS = range(4, 1 << 15)  # before 4 asking for a topic creates it
LEFT_OUT_S = 10.0  # a machine that is off takes as long to be given up
RENEWED_AGAIN_S = 10.0  # so does this; a session has minutes left when it is worn


class Client:
    def __init__(self, bootstrap_servers: str, config: ClientConfig | None = None) -> None:
        self._bootstrap = addresses_in(bootstrap_servers)
        self._config = config or ClientConfig()
        self.asked: Counter[str] = Counter()  # requests that were sent, by API
        self._known: dict[int, BrokerAddress] = {}
        self._dialled: set[int] = set()  # at the address that is known
        self._connections: dict[Address, Connection] = {}
        self._replaced: list[Connection] = []  # by a new session; somebody may wait on one
        self._locks: dict[Address, asyncio.Lock] = {}  # one attempt at a time for each address
        self._unreached: dict[Address, tuple[float, PeerError]] = {}  # when each last did, and why
        self._silent: dict[Address, float] = {}  # when each last had no word for `topologies`
        self._not_renewed: dict[Address, float] = {}  # when a new session was last tried in vain
        self._quotas: dict[int, ReadQuota] = {}
        self._turn = self._asked_turn = 0  # whom to ask first, next time and last time
        # By kind and key, the broker that coordinates it; whoever is refused there clears it.
        self.coordinators: dict[tuple[int, str], int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection; whoever waits for an answer gets an error."""
        for connection in [*self._connections.values(), *self._replaced]:
            connection.close()
        self._connections.clear()
        await asyncio.sleep(0)  # the loop closes the sockets in its next turn

    # ── asking ──

    async def ask(self, request: Request[R], versions: range = range(1 << 15)) -> R:
        """Asks any broker that answers."""
        connection = await self.any_broker()
        answer = await connection.ask(request, versions)
        self._learn(answer)
        return answer

    async def topology(self, topics: Iterable[str] | None = None) -> Topology:
        """The brokers, and these topics or all, as any broker knows them."""
        return topology_of(await self.ask(_metadata_of(topics), _METADATA_VERSIONS))

    async def topology_by(self, node: int, topics: Iterable[str] | None) -> Topology:
        """The same as one broker knows it, whose turn it may not be."""
        connection = await self.broker(node)
        return topology_of(await connection.ask(_metadata_of(topics), _METADATA_VERSIONS))

    async def topologies(
        self, topics: Sequence[str], nodes: Iterable[int], within_ms: int
    ) -> list[Topology]:
        """The same as each of these brokers, and of the first ones, knows it.

        All are asked at once. One that says nothing in this time is left out, now and for a while.
        """
        known = [self._known[node] for node in nodes if node in self._known]
        addresses = dict.fromkeys([*self._bootstrap, *((each.host, each.port) for each in known)])
        now_s = time.monotonic()
        asking = [
            self._told_by(address, topics, within_ms)
            for address in addresses
            if now_s - self._silent.get(address, -LEFT_OUT_S) >= LEFT_OUT_S
        ]
        return [told for told in await asyncio.gather(*asking) if told is not None]

    async def _told_by(
        self, address: Address, topics: Sequence[str], within_ms: int
    ) -> Topology | None:
        try:
            async with asyncio.timeout(within_ms / 1000):
                connection = await self._connected(address)
                return topology_of(await connection.ask(_metadata_of(topics), _METADATA_VERSIONS))
        except TimeoutError:
            self._silent[address] = time.monotonic()
        except SextonError:
            pass  # it is not there, or cannot say
        return None

    def _learn(self, answer: Response) -> None:
        """Where brokers are, if that is in it."""
        told: list[BrokerAddress] = []
        if isinstance(answer, MetadataResponse):
            told = [BrokerAddress(b.node_id, b.host, b.port, b.rack) for b in answer.brokers]
        elif isinstance(answer, FindCoordinatorResponse):
            found = [each for each in answer.coordinators if not each.error_code and each.host]
            told = [BrokerAddress(each.node_id, each.host, each.port) for each in found]
        for each in told:
            self._known[each.node] = each
            self._dialled.discard(each.node)

    @property
    def broker_timeout_ms(self) -> int:
        """What to write into a request that says how long its broker may take."""
        return self._config.broker_timeout_ms

    async def place(self, partition: TopicPartition) -> PartitionPlace:
        """Who leads a partition now, and who follows."""
        return (await self.topology([partition.topic])).place(partition)

    def replica(self, partition: TopicPartition, node: int, *, leader_epoch: int = -1) -> Replica:
        """One replica of a partition, read straight from its broker."""
        quota = self._quota(node)
        return Replica(lambda: self.broker(node), partition, node, leader_epoch, quota)

    def _quota(self, node: int) -> ReadQuota | None:
        if self._config.max_bytes_per_s is None:
            return None
        if node not in self._quotas:
            self._quotas[node] = ReadQuota(self._config.max_bytes_per_s)
        return self._quotas[node]

    async def replicas(self, partition: TopicPartition) -> list[Replica]:
        """Every assigned replica; one whose broker is down says so when it is asked."""
        place = await self.place(partition)
        return [self.replica(partition, node) for node in place.replicas]

    # ── connections ──

    async def broker(self, node: int) -> Connection:
        """A connection to one broker, by its number."""
        if node not in self._known:
            await self.topology([])
        elif node in self._dialled and not self._is_connected(node):
            with suppress(PeerError, Refused):  # it alone may be up
                await self.topology([])
        address = self._known.get(node)
        if address is None:
            up = ", ".join(map(str, sorted(self._known))) or "none"
            raise NoAnswer(f"broker {node}", "is not up: the cluster does not name it", f"up: {up}")
        try:
            return await self._connected((address.host, address.port))
        except PeerError as error:
            subject = f"broker {node} ({error.subject})"
            raise type(error)(subject, error.why, error.hint) from error
        finally:
            self._dialled.add(node)

    def _is_connected(self, node: int) -> bool:
        address = self._known[node]
        connection = self._connections.get((address.host, address.port))
        return connection is not None and connection.is_open

    async def any_broker(self) -> Connection:
        """Any broker at all: one that is connected, a known one, or one of the first."""
        open_ones = [at for at, connection in self._connections.items() if connection.is_open]
        known = [(each.host, each.port) for each in self._known.values()]
        addresses = list(dict.fromkeys([*open_ones, *self._bootstrap, *known]))
        self._asked_turn = self._turn
        turn = self._turn % len(addresses)
        failures = []
        in_turn = addresses[turn:] + addresses[:turn]
        for address in sorted(in_turn, key=lambda at: at in self._unreached):
            try:
                return await self._connected(address)
            except PeerError as error:
                failures.append(error)
        raise unreachable(failures)

    def look_elsewhere(self) -> None:
        """Another broker is `any_broker` from now on: this one's news may be old.

        To say so again before anybody is asked changes nothing: one answer may be doubted by many,
        and with two brokers every second doubt would lead back to the same.
        """
        self._turn = self._asked_turn + 1
        now_s = time.monotonic()
        for address, (failed_s, _) in list(self._unreached.items()):
            if now_s - failed_s >= LEFT_OUT_S:
                del self._unreached[address]  # it may be back, and alone know better

    async def _connected(self, address: Address) -> Connection:
        came_s = time.monotonic()
        async with self._locks.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is not None and connection.is_open:
                return await self._renewed(address, connection)
            failed_s, error = self._unreached.get(address, (-1.0, None))
            if error is not None and failed_s > came_s:  # while we waited for our turn
                raise type(error)(error.subject, error.why, error.hint)
            return await self._dial(address)

    async def _renewed(self, address: Address, connection: Connection) -> Connection:
        """The same, or another one in its place if its session ends soon."""
        tried_s = self._not_renewed.get(address)
        waits = tried_s is not None and time.monotonic() - tried_s < RENEWED_AGAIN_S
        if waits or not connection.is_worn:
            return connection
        try:
            renewed = await self._dial(address)
        except SextonError:
            self._not_renewed[address] = time.monotonic()
            return connection  # it is good for a while yet
        connection.close_when_answered()
        self._replaced = [each for each in (*self._replaced, connection) if each.is_open]
        return renewed

    async def _dial(self, address: Address) -> Connection:
        try:
            connection = await connect(*address, self._config, self.asked)
        except PeerError as failure:
            self._unreached[address] = time.monotonic(), failure
            raise
        self._unreached.pop(address, None)
        self._not_renewed.pop(address, None)
        self._connections[address] = connection
        return connection


def _metadata_of(topics: Iterable[str] | None) -> MetadataRequest:
    asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=asked, allow_auto_topic_creation=False)


def unreachable(failures: Sequence[PeerError]) -> PeerError:
    """What to say when each address has failed."""
    if len(failures) == 1:
        return failures[0]
    tried = ", ".join(error.subject for error in failures)
    silent = all(isinstance(error, NoAnswer) for error in failures)
    why = f"no broker can be reached; the first: {failures[0].why}"
    return (NoAnswer if silent else PeerError)(tried, why, failures[0].hint)


def addresses_in(bootstrap_servers: str) -> list[Address]:
    """`host:port,host:port`, as every Kafka client takes it; `[::1]:9092` is an IPv6 address."""
    found: list[Address] = []
    for part in filter(None, (part.strip() for part in bootstrap_servers.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            why = f"{part!r} is not an address"
            raise ConfigError("bootstrap.servers", why, "write host:port, several with commas")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise ConfigError("bootstrap.servers", "names no broker", "write host:port")
    return found
