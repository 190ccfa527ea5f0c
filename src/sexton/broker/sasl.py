"""Who is there? Kafka's SASL conversation, one step after another, without any I/O.

    Greeting ──SaslHandshake──▶ Chosen ──SaslAuthenticate──▶ ... ──▶ Known | Failed

`handshake` and `token` return what to answer. A conversation has one chance: once it has failed,
nothing brings it back, and the connection goes when the answer is out.

PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. SaslHandshake v0 to 1: after v0 tokens come bare, without a
Kafka header. Gaps on purpose: sessions do not end (their lifetime is given as 0, KIP-368), so
nobody has to authenticate again, and whoever tries is told ILLEGAL_SASL_STATE; no delegation
tokens; no GSSAPI, no OAUTHBEARER. Everybody who is let in may do everything: there are no ACLs.
"""

from __future__ import annotations

from dataclasses import field

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.broker import scram
from sexton.broker.users import Users
from sexton.protocol.messages.sasl_handshake import SaslHandshakeResponse

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *scram.HASHES)
_NO_SUCH = "Authentication failed: Invalid username or password"


@dataclass(frozen=True, slots=True)
class Challenge:
    """It goes on."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Known:
    user: str
    token: bytes  # the last word, which the client checks


@dataclass(frozen=True, slots=True)
class Failed:
    error: KafkaError
    why: str  # for the client: nothing in it says whether there is such a user


Outcome = Challenge | Known | Failed


@dataclass(slots=True)
class Conversation:
    users: Users
    mechanisms: tuple[str, ...] = MECHANISMS
    mechanism: str | None = None  # that was chosen
    bare: bool = False  # tokens come without a Kafka header
    _exchange: scram.Exchange | None = field(default=None, repr=False)
    _over: Known | Failed | None = None

    def handshake(self, mechanism: str, version: int) -> SaslHandshakeResponse:
        """Which mechanism; an answer with an error ends the conversation."""
        answer = SaslHandshakeResponse(mechanisms=list(self.mechanisms))
        if self.mechanism is not None or self._over is not None:
            answer.error_code = KafkaError.ILLEGAL_SASL_STATE
        elif mechanism not in self.mechanisms:
            answer.error_code = KafkaError.UNSUPPORTED_SASL_MECHANISM
        else:
            self.mechanism, self.bare = mechanism, version == 0
            return answer
        self._over = Failed(KafkaError(answer.error_code), "the handshake failed")
        return answer

    def token(self, token: bytes) -> Outcome:
        """The next thing that the client says."""
        if self.mechanism is None or self._over is not None:
            why = "SaslAuthenticate request received without a SaslHandshake before it"
            return self._ended(Failed(KafkaError.ILLEGAL_SASL_STATE, why))
        outcome = self._plain(token) if self.mechanism == PLAIN else self._scram(token)
        return outcome if isinstance(outcome, Challenge) else self._ended(outcome)

    def _ended(self, outcome: Known | Failed) -> Known | Failed:
        self._over = outcome
        return outcome

    def _plain(self, token: bytes) -> Known | Failed:
        """RFC 4616: who to act for, NUL, who it is, NUL, the password."""
        try:
            acts_for, user, password = token.decode().split("\0")
        except ValueError:  # not UTF-8, or not three
            return _failed("Invalid SASL/PLAIN response: expected 3 tokens")
        if not user or not password:
            return _failed("Authentication failed: username or password not specified")
        if acts_for not in ("", user):
            return _failed("Authentication failed: acting for another user is not offered")
        return Known(user, b"") if self.users.has_password(user, password) else _failed(_NO_SUCH)

    def _scram(self, token: bytes) -> Outcome:
        mechanism = self.mechanism
        assert mechanism is not None
        try:
            if self._exchange is None:
                self._exchange = scram.Exchange(
                    mechanism, lambda user: self.users.credential(user, mechanism)
                )
                return Challenge(self._exchange.first(token))
            signature = self._exchange.final(token)
        except scram.Malformed as error:
            return _failed(f"Authentication failed: {error.why}")
        if signature is None:
            return _failed(
                "Authentication failed during authentication due to invalid credentials with SASL "
                f"mechanism {mechanism}"
            )
        return Known(self._exchange.user, signature)


def _failed(why: str) -> Failed:
    return Failed(KafkaError.SASL_AUTHENTICATION_FAILED, why)
