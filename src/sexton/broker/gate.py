"""Stands before a connection until its client has said who it is.

What comes to a gate is a SASL conversation (`broker.sasl`), and nothing else; ApiVersions is
answered without one, as in Kafka. A failure is told late (`broker.attempts`) and ends the
connection.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from typing import Any

from sexton.base.lazy_dataclass import dataclass
from sexton.broker.attempts import Attempts
from sexton.broker.connection import Slot
from sexton.broker.sasl import Challenge, Conversation, Failed, Known
from sexton.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from sexton.protocol.messages.sasl_handshake import SaslHandshakeRequest
from sexton.protocol.wire import Request

log = logging.getLogger("sexton.broker.gate")

_SIZE = struct.Struct(">i")


@dataclass(slots=True, eq=False)
class Gate:
    conversation: Conversation
    attempts: Attempts
    address: str

    @property
    def expects_bare_token(self) -> bool:
        return self.conversation.bare

    def handle(self, slot: Slot, request: Request[Any]) -> None:
        """Anything but ApiVersions, in a version that we have."""
        if isinstance(request, SaslHandshakeRequest):
            answer = self.conversation.handshake(request.mechanism, slot.version)
            if answer.error_code:
                slot.connection.finish()
            slot.answer(answer)
        elif isinstance(request, SaslAuthenticateRequest):
            self._consider(slot, request.auth_bytes)
        else:
            slot.connection.hang_up(f"{slot.kind} before it has authenticated")

    def bare_token(self, slot: Slot, token: bytes) -> None:
        """After SaslHandshake v0 tokens come without a header."""
        self._consider(slot, token)

    def _consider(self, slot: Slot, token: bytes) -> None:
        connection = slot.connection
        if not self.attempts.may_try(self.address, time.monotonic()):
            connection.hang_up("one of too many attempts to authenticate")
            return
        outcome = self.conversation.token(token)
        match outcome:
            case Challenge(token):
                self._answer(slot, token)
            case Known(user, token):
                log.debug("%s is %r", connection.peer, user)
                connection.admit()
                self._answer(slot, token)
            case Failed():
                self._refuse(slot, outcome)

    def _refuse(self, slot: Slot, failed: Failed) -> None:
        connection = slot.connection
        connection.finish()
        delay_s = self.attempts.failed(self.address, time.monotonic())
        connection.complain("%s could not authenticate: %s", failed.why)
        connection.traffic.unauthenticated += 1
        loop = asyncio.get_running_loop()
        if self.conversation.bare:
            loop.call_later(delay_s, connection.close)
        else:
            answer = SaslAuthenticateResponse(failed.error, failed.why)
            loop.call_later(delay_s, slot.answer, answer)

    def _answer(self, slot: Slot, token: bytes) -> None:
        if self.conversation.bare:
            slot.put([_SIZE.pack(len(token)) + token])
        else:
            slot.answer(SaslAuthenticateResponse(error_message=None, auth_bytes=token))
