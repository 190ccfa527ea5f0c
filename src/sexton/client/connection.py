"""One connection to one broker: requests go out numbered, answers come back in the same order.

    ask ──▶ [size, header 7, request] ──▶ broker
    ask ──▶ [size, header 8, request] ──▶         several may be under way
        ◀── [size, header 7, answer ] ◀──

The first question is always what the broker speaks (ApiVersions); after that each request goes out
in the highest version that both sides have and the caller accepts. A broker that does not answer in
time costs the connection: whatever is behind the lost answer could not be told from it. That holds
for an answer that nobody waits for any more, too: else a caller that gives up early would never
notice.

Bytes are read into the frame that will be decoded, and records stay views of it: nothing is copied.
TLS is the stream below (`ClientConfig.tls`); who must say a password does so in
`ClientConfig.authenticate`, with the open connection in hand, before anybody else asks anything. A
broker may say how long it believes that (KIP-368), and hangs up on whoever asks later: shortly
before, a connection `is_worn`, and its owner makes another one in its place.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import ssl
import struct
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from sexton import __version__
from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import IN_WORDS, KafkaError
from sexton.client.dialling import dial
from sexton.protocol import registry
from sexton.protocol.frames import correlation_id, decode_response, encode_request
from sexton.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sexton.protocol.wire import Request, Response

R = TypeVar("R", bound=Response)

_SIZE = struct.Struct(">i")
_ERROR = struct.Struct(">h")
_KNOWS_ALL = range(2**15)
_WORN_AFTER = 0.85  # of a session, as Kafka's clients have it
WRONG_PROTOCOL = (
    "does the port speak what security.protocol says? ssl.ca.location names whom to trust"
)
# What is raised for a name that no host can have, or a port that there is not.
_NO_ADDRESS = (ValueError, IndexError, OverflowError)
_LOWEST_ANSWER = 0  # the version in which a broker says that it lacks a version of ApiVersions


class NoAnswer(PeerError):
    """Nobody is there: no connection, or silence on it."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How to talk to brokers; Kafka's names for what Kafka's clients have, too."""

    client_id: str = "sexton"
    request_timeout_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000
    most_answer_bytes: int = 256 << 20  # a peer that announces more is no Kafka broker
    tls: ssl.SSLContext | None = None  # None: in plain text
    # Says who we are, before anything else is asked.
    authenticate: Callable[[Connection], Awaitable[None]] | None = None
    max_bytes_per_s: float | None = None  # of records, read from any one broker by this client

    @property
    def broker_timeout_ms(self) -> int:
        """How long a broker may take over what it waits for itself, acks of replicas say.

        Less than we wait for its answer, so that it tells for what it waited in vain.
        """
        return max(1, self.request_timeout_ms * 5 // 6)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that was sent, in the order of sending."""

    correlation_id: int
    name: str
    response: type[Response]
    version: int
    future: asyncio.Future[Response]
    timer: asyncio.TimerHandle


class Connection(asyncio.BufferedProtocol):
    """Made by `connect`."""

    def __init__(self, peer: str, config: ClientConfig, asked: Counter[str]) -> None:
        self.peer = peer
        self._asked = asked
        self.features: dict[str, int] = {}  # what the cluster has agreed on, such as group.version
        self._config = config
        self._versions: dict[int, range] = {}  # by API key, what the broker answers
        self._waiting: deque[_Waiting] = deque()
        self._sent = 0
        self._transport: asyncio.Transport | None = None
        self._lost: PeerError | None = None
        self._worn_s: float | None = None  # by the loop's clock; None: never
        self._is_replaced = False  # nobody should ask any more
        self._is_understood = False  # it has answered more than what anybody may ask
        self._size = bytearray(_SIZE.size)
        self._frame: bytearray | None = None  # None: its size is being read
        self._filled = 0

    # ── asking ──

    async def ask(
        self, request: Request[R], versions: range = _KNOWS_ALL, timeout_ms: int | None = None
    ) -> R:
        """The answer to a request, sent in the highest of these versions that the broker has."""
        version = self.version_of(type(request), versions)
        return await self._send(request, version, timeout_ms)

    def version_of(self, request: type[Request[Any]], versions: range = _KNOWS_ALL) -> int:
        """The version in which a request would go out; Refused if there is none."""
        api = registry.find(request.API_KEY)
        assert api is not None
        offered = self._versions.get(api.key)
        if offered is None:
            why = f"{self.peer} does not have the API {api.name}"
            raise Refused(KafkaError.UNSUPPORTED_VERSION, why)
        common = min(api.stable[-1], offered[-1], versions[-1])
        if common < max(api.stable[0], offered[0], versions[0]):
            wanted = range(max(api.stable[0], versions[0]), min(api.stable[-1], versions[-1]) + 1)
            why = f"{self.peer} has {api.name} {_spell(offered)}; {_spell(wanted)} is needed"
            raise Refused(KafkaError.UNSUPPORTED_VERSION, why)
        return common

    async def _send(self, request: Request[R], version: int, timeout_ms: int | None) -> R:
        if self._lost is not None:
            raise PeerError(self.peer, self._lost.why, self._lost.hint)
        assert self._transport is not None
        api = registry.find(request.API_KEY)
        assert api is not None
        self._sent += 1
        frame = encode_request(request, version, self._sent, self._config.client_id)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Response] = loop.create_future()
        patience_ms = self._config.request_timeout_ms if timeout_ms is None else timeout_ms
        why = f"did not answer {api.name} within {patience_ms} ms"
        timer = loop.call_later(patience_ms / 1000, self._too_late, future, why)
        self._waiting.append(_Waiting(self._sent, api.name, api.response, version, future, timer))
        self._transport.write(frame)
        self._asked[api.name] += 1
        return cast("R", await future)

    def _too_late(self, future: asyncio.Future[Response], why: str) -> None:
        if not future.done():
            future.set_exception(NoAnswer(self.peer, why))
        self._hang_up(why)

    async def negotiate(self) -> None:
        """Learns what the broker speaks, and says who we are if it wants to know."""
        version = registry.find(ApiVersionsRequest.API_KEY).stable[-1]  # type: ignore[union-attr]
        answer = await self._ask_versions(version)
        if answer.error_code == KafkaError.UNSUPPORTED_VERSION:
            own = [k for k in answer.api_keys if k.api_key == ApiVersionsRequest.API_KEY]
            highest = own[0].max_version if own else _LOWEST_ANSWER
            version = max(_LOWEST_ANSWER, min(version, highest))
            answer = await self._ask_versions(version)
        if answer.error_code != KafkaError.NONE:
            raise PeerError(self.peer, f"answers ApiVersions with {error_name(answer.error_code)}")
        self._versions = {
            key.api_key: range(key.min_version, key.max_version + 1)
            for key in answer.api_keys
            if key.min_version <= key.max_version  # else it has none of it
        }
        self.features = {each.name: each.max_version_level for each in answer.finalized_features}
        if self._config.authenticate is not None:
            await self._config.authenticate(self)

    async def _ask_versions(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(
            client_software_name="sexton", client_software_version=__version__
        )
        timeout_ms = self._config.socket_connection_setup_timeout_ms
        return await self._send(request, version, timeout_ms)

    # ── bytes, from the event loop ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._size if self._frame is None else self._frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._frame is None:
            if self._filled < _SIZE.size:
                return
            size: int = _SIZE.unpack(self._size)[0]
            if not _SIZE.size <= size <= self._config.most_answer_bytes:
                why = f"announces an answer of {size} bytes: this is no Kafka broker"
                self._hang_up(why, self._hint)
                return
            self._frame, self._filled = bytearray(size), 0
        elif self._filled == len(self._frame):
            frame, self._frame, self._filled = self._frame, None, 0
            self._answered(frame)

    def _answered(self, frame: bytearray) -> None:
        number = correlation_id(frame)
        if not self._waiting or self._waiting[0].correlation_id != number:
            self._hang_up(f"answers a request with the number {number}, which nobody made")
            return
        waiting = self._waiting.popleft()
        waiting.timer.cancel()
        self._is_understood |= waiting.response is not ApiVersionsResponse
        if waiting.future.done():  # whoever asked has given up
            self._close_if_replaced()
            return
        try:
            _number, answer = decode_response(waiting.response, frame, _version_in(waiting, frame))
        except PeerError as error:
            waiting.future.set_exception(PeerError(self.peer, str(error)))
            self._hang_up(str(error))
        else:
            with suppress(asyncio.InvalidStateError):  # Ctrl-C has cancelled it a moment ago
                waiting.future.set_result(answer)
        self._close_if_replaced()

    # ── the end ──

    @property
    def is_open(self) -> bool:
        """False once either side has closed it."""
        return self._lost is None

    @property
    def is_worn(self) -> bool:
        """Its session ends soon; what is under way on it is not torn apart for that."""
        if self._worn_s is None or self._waiting:
            return False
        return asyncio.get_running_loop().time() >= self._worn_s

    def believed_for(self, session_ms: int) -> None:
        """What the broker has said when it let us in; 0: for good."""
        if session_ms > 0:
            now_s = asyncio.get_running_loop().time()
            self._worn_s = now_s + session_ms / 1000 * _WORN_AFTER

    def close(self) -> None:
        """At once; whoever waits for an answer gets an error."""
        self._hang_up("the connection was closed here")

    def close_when_answered(self) -> None:
        """Another one is in its place; what is under way on it still comes."""
        self._is_replaced = True
        self._close_if_replaced()

    def _close_if_replaced(self) -> None:
        if self._is_replaced and not self._waiting:
            self._hang_up("the connection was closed here: its session was renewed on another")

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {_reason(exc)}" if isinstance(exc, OSError) else f": {exc}" if exc else ""
        self._give_up(f"closed the connection{why}", self._hint)

    @property
    def _hint(self) -> str | None:
        """A port that wants TLS or a password hangs up on whoever begins with something else."""
        return None if self._is_understood else WRONG_PROTOCOL

    def _hang_up(self, why: str, hint: str | None = None) -> None:
        self._give_up(why, hint)
        if self._transport is not None:
            self._transport.abort()

    def _give_up(self, why: str, hint: str | None) -> None:
        if self._lost is None:
            self._lost = PeerError(self.peer, why, hint)
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.timer.cancel()
            if not each.future.done():
                error = PeerError(self.peer, f"{why} (asked: {each.name})", hint)
                each.future.set_exception(error)


def _reason(error: OSError) -> str:
    """In the system's words: asyncio's own repeat the address."""
    if (
        error.errno is not None
        and error.errno in errno.errorcode
        and not isinstance(error, ssl.SSLError)
    ):
        return os.strerror(error.errno).lower()
    return error.strerror or str(error) or "the TLS handshake failed"  # it alone says nothing


def _hint_about(error: OSError, config: ClientConfig) -> str | None:
    """Of an error before there was a connection; None: nobody is there."""
    reached = isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
    in_handshake = isinstance(error, ssl.SSLError) or (config.tls is not None and reached)
    return WRONG_PROTOCOL if in_handshake else None


async def connect(
    host: str, port: int, config: ClientConfig, asked: Counter[str] | None = None
) -> Connection:
    """A connection to whoever listens there, once it has said what it speaks.

    `asked` counts, by API, what is sent on it.
    """
    peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"  # as it is written in -b
    loop = asyncio.get_running_loop()
    patience_ms = config.socket_connection_setup_timeout_ms
    try:
        async with asyncio.timeout(patience_ms / 1000):
            _transport, connection = await loop.create_connection(
                lambda: Connection(peer, config, Counter() if asked is None else asked),
                sock=await dial(host, port),
                ssl=config.tls,
                server_hostname=host if config.tls else None,
            )
    except TimeoutError:
        raise NoAnswer(peer, f"no connection within {patience_ms} ms") from None
    except OSError as error:  # an unknown host, a closed port, a certificate that is not trusted
        why = f"cannot be reached: {_reason(error)}"
        raise NoAnswer(peer, why, _hint_about(error, config)) from error
    except _NO_ADDRESS as error:
        hint = "it is from bootstrap.servers, or from a broker's advertised.listeners"
        raise NoAnswer(peer, "is not an address", hint) from error
    try:
        await connection.negotiate()
    except BaseException:
        connection.close()
        raise
    return connection


def error_name(code: int) -> str:
    """Kafka's name of an error code, or the number of one from a later Kafka."""
    return KafkaError(code).name if code in set(KafkaError) else f"error {code}"


def refused(code: int, thing: str, said: str | None = None) -> Refused | PeerError:
    """What to raise for an answer with this code; `said` is the message that came with it."""
    if code not in set(KafkaError):
        return PeerError(thing, f"refused with error {code}, which we do not know")
    error = KafkaError(code)
    said = (said or IN_WORDS.get(error) or "").rstrip(".")
    if _is_named(thing.split()[-1], said):
        return Refused(error, said)
    return Refused(error, f"{thing}: {said}" if said else thing)


def _is_named(name: str, said: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", said) is not None


def _version_in(waiting: _Waiting, frame: bytearray) -> int:
    """A broker without our version of ApiVersions says so in the first one (KIP-511)."""
    if waiting.response is ApiVersionsResponse and len(frame) >= _SIZE.size + _ERROR.size:
        (code,) = _ERROR.unpack_from(frame, _SIZE.size)
        if code == KafkaError.UNSUPPORTED_VERSION:
            return _LOWEST_ANSWER
    return waiting.version


def _spell(versions: range) -> str:
    if len(versions) == 0:
        return "no version that we have"
    first, last = versions[0], versions[-1]
    return f"v{first}" if first == last else f"v{first} to v{last}"
