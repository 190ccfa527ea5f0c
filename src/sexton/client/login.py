"""Saying who we are to a broker: PLAIN, SCRAM (RFC 5802), OAUTHBEARER (RFC 7628), our side.

    SaslHandshake(mechanism) ──▶ SaslAuthenticate(token) ──▶ ... until nothing is left to say

With SCRAM the password does not leave this process, and the broker proves in its last word that it
knows it, too; one that does not is not the broker we were looking for. A broker chooses how often
the password is hashed; more often than `MOST_ITERATIONS` it would only keep us busy.

With OAUTHBEARER somebody else has given us a token. It is read again for each connection, since
tokens live for minutes; a broker that does not like it says why in one more word, and then refuses.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from sexton.base.errors import ConfigError, PeerError
from sexton.client.connection import Connection, refused
from sexton.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from sexton.protocol.messages.sasl_handshake import SaslHandshakeRequest

PLAIN = "PLAIN"
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = (PLAIN, *HASHES)
OAUTHBEARER = "OAUTHBEARER"
AWS_MSK_IAM = "AWS_MSK_IAM"  # Amazon's own, for Java; other clients send its signature as a token
LEAST_ITERATIONS, MOST_ITERATIONS = 4_096, 1 << 20
_MOST_DIGITS = len(str(MOST_ITERATIONS))  # Python refuses to read thousands of them
_WITH_TOKENS_IN_REQUESTS = range(1, 1 << 15)  # of SaslHandshake; after v0 they come bare

Exchange = Generator[bytes, bytes, None]


@dataclass(frozen=True, slots=True)
class Login:
    mechanism: str
    user: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise not_spoken(self.mechanism)

    async def __call__(self, connection: Connection) -> None:
        """What `ClientConfig.authenticate` wants."""
        await _exchange(connection, self.mechanism, self.tokens(connection.peer))

    def tokens(self, peer: str) -> Exchange:
        """What to say, word by word; send it what the broker answers."""
        if self.mechanism == PLAIN:
            return _plain(self.user, self.password)
        return _scram(HASHES[self.mechanism], self.user, self.password, peer)


def not_spoken(mechanism: str) -> ConfigError:
    hint = f"choose among {', '.join(MECHANISMS)} and {OAUTHBEARER}"
    if mechanism == AWS_MSK_IAM:
        hint = (
            f"the same port takes {OAUTHBEARER} with a token of aws-msk-iam-sasl-signer: keep a "
            "fresh one in a file, and name it as sasl.oauthbearer.token.endpoint.url=file:///..."
        )
    why = f"{mechanism} is not known" if mechanism else "is not given"
    return ConfigError("sasl.mechanism", why, hint)


@dataclass(frozen=True, slots=True)
class BearerLogin:
    """With a token; `token` is called for each connection."""

    token: Callable[[], str] = field(repr=False)

    async def __call__(self, connection: Connection) -> None:
        """What `ClientConfig.authenticate` wants."""
        await _exchange(connection, OAUTHBEARER, _bearer(self.token(), connection.peer))


async def _exchange(connection: Connection, mechanism: str, tokens: Exchange) -> None:
    hello = SaslHandshakeRequest(mechanism)
    chosen = await connection.ask(hello, _WITH_TOKENS_IN_REQUESTS)
    if chosen.error_code:
        if chosen.mechanisms:
            why = f"does not take {mechanism}, but {', '.join(chosen.mechanisms)}"
        else:
            why = f"takes no login, {mechanism} or other"
        raise refused(chosen.error_code, f"{connection.peer} {why}")
    token = next(tokens)
    while True:
        answer = await connection.ask(SaslAuthenticateRequest(token))
        if answer.error_code:
            why = f"{connection.peer}: {answer.error_message or 'not let in'}"
            raise refused(answer.error_code, why)
        try:
            token = tokens.send(answer.auth_bytes)
        except StopIteration:
            connection.believed_for(answer.session_lifetime_ms)
            return


def _bearer(token: str, peer: str) -> Exchange:
    complaint = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if complaint:
        yield b"\x01"  # heard; now the broker refuses, with its reason
        raise PeerError(peer, f"does not take our token: {complaint.decode(errors='replace')}")


def _plain(user: str, password: str) -> Exchange:
    yield f"\0{user}\0{password}".encode()


def _scram(name: str, user: str, password: str, peer: str) -> Exchange:
    nonce = secrets.token_urlsafe(24)
    first = f"n={_escaped(user)},r={nonce}"
    challenge = (yield f"n,,{first}".encode()).decode(errors="replace")
    salt, iterations, both = _challenge(challenge, nonce, peer)
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c=biws,r={both}"  # biws is "n,," in base64
    spoken = f"{first},{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), spoken, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), spoken, name)
    fields = _fields(last.decode(errors="replace"))
    if not hmac.compare_digest(_decoded(fields.get("v", ""), peer), expected):
        why = fields.get("e") or "does not know the password that it asked for"
        raise PeerError(peer, why, "is this the broker you meant?")


def _challenge(text: str, nonce: str, peer: str) -> tuple[bytes, int, str]:
    fields = _fields(text)
    both, count = fields.get("r", ""), fields.get("i", "")
    if not both.startswith(nonce) or len(both) == len(nonce):
        raise PeerError(peer, "answers somebody else's login")
    iterations = int(count) if count.isdecimal() and len(count) <= _MOST_DIGITS else 0
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        why = f"wants the password hashed {count[:20] or 'an unknown number of'} times"
        hint = f"{LEAST_ITERATIONS} to {MOST_ITERATIONS} times are possible"
        raise PeerError(peer, why, hint)
    return _decoded(fields.get("s", ""), peer), iterations, both


def _fields(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _decoded(text: str, peer: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise PeerError(peer, "sends a login token that makes no sense") from None


def _escaped(user: str) -> str:
    return user.replace("=", "=3D").replace(",", "=2C")
