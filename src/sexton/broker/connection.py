"""One client's connection: bytes become requests, answers become bytes, in the same order.

    ┌──────┬─────────┐ ┌──────┬─────────┐
    │ size │ payload │ │ size │ payload │ ...      read as they come, several under way at once
    └──────┴─────────┘ └──────┴─────────┘

Kafka takes up the next request of a connection when the last one is answered. Here they are handed
on at once, so that a producer's pipelined batches replicate together; the protocol only wants their
answers in order, and what a client sends in order is still handled in order. Only a Fetch holds up
what is behind it, as everything does in Kafka: it may wait for long, and one connection shall not
have a hundred of them waiting. And nobody has more than a few requests handled in a row.

Whatever comes from outside can be wrong. A frame that is too large or cannot be decoded costs its
sender the connection and nobody else anything. What a client may cost is in `limits`; how bytes
become frames is in `inbox`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sexton.base.errors import PeerError
from sexton.base.kafka_errors import KafkaError
from sexton.broker.inbox import Inbox
from sexton.broker.large_produce import is_bearable
from sexton.broker.limits import Limits, Shared
from sexton.broker.stream import Stream
from sexton.broker.traffic import Traffic
from sexton.node import api_versions, apis
from sexton.node.outside import Asked, Event, Left
from sexton.node.produce import errors_in
from sexton.protocol import registry
from sexton.protocol.frames import UnsupportedRequest, decode_request, encode_response_parts
from sexton.protocol.messages.api_versions import ApiVersionsRequest
from sexton.protocol.messages.fetch import FetchRequest
from sexton.protocol.messages.produce import ProduceRequest, ProduceResponse
from sexton.protocol.wire import Buffer, Request, Response

if TYPE_CHECKING:
    from sexton.broker.gate import Gate

log = logging.getLogger("sexton.broker.connection")

_CROWDED_S = 0.001
_MOST_IN_A_ROW = 16  # requests of one connection, then others have their turn


@dataclass(slots=True, eq=False)
class Slot:
    """A request that was handed on, and the place of its answer."""

    connection: Connection
    version: int
    correlation_id: int
    size: int
    kind: str
    parts: list[Buffer] | None = None
    answer_bytes: int = 0
    began: float = field(default_factory=time.monotonic)

    def answer(self, response: object) -> None:
        """Never raises: whoever answers has others to answer, too."""
        if self.parts is not None or not self.connection.is_open:
            return
        try:
            assert isinstance(response, Response)
            parts = encode_response_parts(response, self.version, self.correlation_id)
        except Exception:
            log.exception("%s v%d cannot be answered", self.kind, self.version)
            self.connection.close()
            return
        self.connection.traffic.answered(self.kind, time.monotonic() - self.began)
        self.put(parts)

    def put(self, parts: list[Buffer]) -> None:
        """The bytes of the answer."""
        self.parts = parts
        self.answer_bytes = sum(map(len, parts))
        self.connection.ready(self)

    def fail(self) -> None:
        self.connection.close()


@dataclass(slots=True, eq=False)
class _Nobody:
    """A caller that has asked for no answer (acks=0).

    The only way to say that something went wrong is to close the connection, as Kafka does. A
    producer then asks anew who leads; else it would go on sending to who does not, for minutes.
    """

    connection: Connection

    def answer(self, response: object) -> None:
        if isinstance(response, ProduceResponse):
            self.connection.complain(
                "%s wants no answer, and there was an error: %s; the connection is closed",
                ", ".join(sorted(errors_in(response))),
            )
            self.connection.close()
        else:
            log.error("nobody waits for %s", type(response).__name__)

    def fail(self) -> None:
        self.connection.close()


class Connection:
    def __init__(
        self,
        peer: str,
        limits: Limits,
        deliver: Callable[[Event], None],
        ended: Callable[[Connection], None],
        traffic: Traffic | None = None,
        shared: Shared | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.peer = peer
        self.traffic = traffic or Traffic()
        self.client_id: str | None = None
        self.since = self.active = time.monotonic()  # made, and last heard of or written to
        self.settled = False  # it has made a request that only those make who are let in
        self.held_bytes = 0
        self._limits = limits
        self._deliver = deliver
        self._ended = ended
        self._shared = shared or Shared()
        self._gate = gate  # until it is passed
        self._stream: Stream | None = None
        self._inbox = Inbox(self._shared.scratch)
        self._slots: deque[Slot] = deque()
        self._under_way_bytes = 0
        self._ready_bytes = 0  # of answers whose turn it is not yet
        self._waited_bytes = 0  # what had not left when somebody looked
        self._working = False
        self._waits = False  # for its turn
        self._fetch: Slot | None = None  # that is under way
        self._held = False  # by the broker: it is paused
        self._finishing = False  # it goes when it has taken its last answer

    def attach(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def is_open(self) -> bool:
        return self._stream is not None

    @property
    def client_host(self) -> str:
        """Where a member of a group is, as Kafka shows it: an address without a name before it."""
        return f"/{self.peer.rpartition(':')[0]}"

    def is_idle(self, now: float, idle_s: float, gone_s: float) -> bool:
        """Has nothing come or gone for so long, while no answer was due?

        To somebody who has gone no answer is due, after `gone_s` (there may be something to read).
        """
        stream = self._stream
        if stream is None or self._held:
            self.active = now
            return False
        if stream.waiting_bytes != self._waited_bytes:
            self._waited_bytes, self.active = stream.waiting_bytes, now
        silence_s = now - self.active
        if silence_s > idle_s and (self._waited_bytes or not self._slots):
            return True
        return silence_s > gone_s and stream.peer_has_gone

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def finish(self) -> None:
        """Closes it when what was answered has left; nothing more is read."""
        self._finishing = True
        self._settle()

    def lost(self) -> None:
        waiting = [slot for slot in self._slots if slot.parts is None]
        self._slots.clear()
        self._stream = self._fetch = None
        self._inbox.clear()
        self._shared.change(-self.held_bytes)
        self.held_bytes = 0
        for slot in waiting:
            self._deliver(Left(slot))
        self._ended(self)

    def hold(self, held: bool) -> None:
        """The broker does nothing for now: leave what comes in the kernel's buffers."""
        self._held = held
        self.active = time.monotonic()  # nobody is idle for our being so
        if self._stream is None:
            return
        if held:
            self._stream.pause()
        else:
            self._take_frames()

    # ── bytes in ──

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._inbox.room()

    def buffer_updated(self, count: int) -> None:
        self.traffic.bytes_in += count
        self.active = time.monotonic()
        self._inbox.filled(count)
        self._take_frames()

    def _take_frames(self) -> None:
        if self._working:
            return  # an answer that came at once: whoever is at it goes on
        self._working = True
        turn = _MOST_IN_A_ROW
        try:
            while self._stream is not None and turn and not self._is_full() and not self._fetch:
                payload = self._inbox.next_payload(self._is_acceptable)
                if payload is None:
                    break
                self._take(payload)
                turn -= 1
        except Exception:
            log.exception("a request of %s failed: the connection is closed", self.peer)
            self.close()
        finally:
            self._working = False
        self._inbox.keep()
        self._settle(waits=not turn)

    def _settle(self, waits: bool = False) -> None:
        """Reads on, or not; and counts what it holds."""
        stream = self._stream
        if stream is None:
            return
        if self._finishing and not self._slots and not stream.waiting_bytes:
            self.close()
            return
        # While a Fetch waits it reads a little on, to notice if nobody is there any more.
        has_enough = self._fetch is not None and self._inbox.is_half_full
        waits = waits or self._waits
        if waits or has_enough or self._is_full():
            stream.pause()
            if not self._waits and (waits or self._shared.crowded()):
                self._waits = True
                asyncio.get_running_loop().call_later(0 if waits else _CROWDED_S, self._try_again)
        else:
            stream.resume()
        held = self._under_way_bytes + self._ready_bytes + stream.waiting_bytes
        held += self._inbox.held_bytes
        change, self.held_bytes = held - self.held_bytes, held
        self._shared.change(change)

    def _try_again(self) -> None:
        self._waits = False
        self._take_frames()

    def _is_acceptable(self, size: int, key: int | None) -> bool:
        """May a frame begin so? One that announces too much is not waited for."""
        limits = self._limits
        if not 0 <= size <= limits.socket_request_max_bytes:
            self.hang_up(f"a request of {size} bytes")
        elif self._gate is not None and size > limits.sasl_server_max_receive_size:
            self.hang_up(f"a request of {size} bytes before it has authenticated")
        elif size > limits.other_request_max_bytes and key not in (None, ProduceRequest.API_KEY):
            self.hang_up(f"a request of {size} bytes that is no Produce")
        return self._stream is not None

    # ── requests ──

    def _take(self, payload: Buffer) -> None:
        gate = self._gate
        if gate is not None and gate.expects_bare_token:
            gate.bare_token(self.slot("SaslToken", 0, 0, len(payload)), bytes(payload))
            return
        if len(payload) > self._limits.other_request_max_bytes and not is_bearable(payload):
            self.hang_up("a Produce of too many parts")
            return
        try:
            header, request = decode_request(payload)
        except UnsupportedRequest as error:
            self._unsupported(error)
            return
        except PeerError as error:
            self.hang_up(str(error))
            return
        self.client_id = header.client_id
        version, kind = header.request_api_version, type(request).__name__
        if isinstance(request, ProduceRequest) and request.acks == 0 and gate is None:
            self.traffic.asked(kind, len(payload))
            if apis.offers(ProduceRequest, version):
                self.settled = True
                self._deliver(Asked(_Nobody(self), request, version))
            else:
                self.hang_up(f"{kind} v{version}, which this broker does not answer")
            return
        slot = self.slot(kind, version, header.correlation_id, len(payload))
        if isinstance(request, FetchRequest) and not self._is_consumers(request):
            return
        if not apis.offers(type(request), version):
            self._refuse(slot, request)
        elif gate is not None and not isinstance(request, ApiVersionsRequest):
            gate.handle(slot, request)
        else:
            self.settled = gate is None
            if isinstance(request, FetchRequest):
                self._fetch = slot
            self._deliver(Asked(slot, request, version))

    def _is_consumers(self, request: FetchRequest) -> bool:
        """Brokers copy from each other elsewhere: whoever claims to be one here is none.

        What a follower has fetched counts as copied, and the high watermark moves over it.
        """
        if max(request.replica_id, request.replica_state.replica_id) >= 0:
            self.hang_up("a Fetch in the name of a broker")
            return False
        request.max_bytes = min(request.max_bytes, self._limits.fetch_max_bytes)
        request.max_wait_ms = min(request.max_wait_ms, self._limits.fetch_wait_max_ms)
        return True

    def slot(self, kind: str, version: int, correlation_id: int, size: int) -> Slot:
        """A place for the next answer."""
        slot = Slot(self, version, correlation_id, size, kind)
        self.traffic.asked(kind, size)
        self._slots.append(slot)
        self._under_way_bytes += size
        return slot

    def _unsupported(self, error: UnsupportedRequest) -> None:
        """Whoever asks what we speak in a version we do not speak is told in the first one."""
        if error.api_key != ApiVersionsRequest.API_KEY:
            self.hang_up(str(error))
            return
        slot = self.slot("ApiVersionsRequest", 0, error.correlation_id, 0)
        slot.answer(api_versions.unsupported())

    def _refuse(self, slot: Slot, request: Request[Any]) -> None:
        api = registry.find(request.API_KEY)
        assert api is not None
        answer: Any = api.response()
        if hasattr(answer, "error_code"):
            answer.error_code = KafkaError.UNSUPPORTED_VERSION
            slot.answer(answer)
        else:
            self.hang_up(f"{slot.kind} v{slot.version}, which this broker does not answer")

    def hang_up(self, why: str) -> None:
        """The client's fault."""
        self.complain("%s sent %s: the connection is closed", why)
        self.traffic.hung_up += 1
        self.close()

    def complain(self, text: str, why: str) -> None:
        self._shared.complaints.say(text, self.peer, why)

    # ── at the gate ──

    def admit(self) -> None:
        """It has said who it is."""
        self._gate = None
        self.settled = True

    # ── answers ──

    def ready(self, slot: Slot) -> None:
        """Sends the answers whose turn it is."""
        slots, parts = self._slots, list[Buffer]()
        if self._fetch is slot:
            self._fetch = None
        self._ready_bytes += slot.answer_bytes
        while slots and slots[0].parts is not None:
            first = slots.popleft()
            self._under_way_bytes -= first.size
            self._ready_bytes -= first.answer_bytes
            parts += first.parts or ()
        if self._stream is None:
            return
        if parts or slot.kind == "FetchRequest":
            self.traffic.bytes_out += sum(map(len, parts))
            self.active = time.monotonic()
            self._stream.send(parts)
            self._take_frames()
        elif not self._working:
            self._settle()

    def drained(self) -> None:
        """Everything that was sent has left."""
        self.active = time.monotonic()
        self._take_frames()

    def _is_full(self) -> bool:
        limits, stream = self._limits, self._stream
        waiting = self._ready_bytes if stream is None else self._ready_bytes + stream.waiting_bytes
        return (
            self._held
            or self._finishing
            or len(self._slots) >= limits.requests_under_way
            or self._under_way_bytes > limits.request_bytes_under_way
            or waiting > limits.answer_bytes_waiting
            or self._shared.crowded()
        )
