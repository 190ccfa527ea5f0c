"""SCRAM (RFC 5802, RFC 7677) on the server's side: proof of a password that nobody is told.

    client ──  n,,n=alice,r=NONCE                      ──▶
           ◀── r=NONCE+OURS,s=SALT,i=ITERATIONS        ──
           ──  c=biws,r=NONCE+OURS,p=PROOF             ──▶
           ◀── v=SIGNATURE                             ──

What is kept of a password (`Credential`) lets us check the proof and sign the answer; it does not
let anybody log in who steals it. As in Kafka, names and passwords are taken as UTF-8 and not
normalized. Somebody whom we do not know is led through the same steps, with a salt that is always
the same for one name, and fails where a wrong password fails.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import field

from sexton.base.errors import PeerError
from sexton.base.lazy_dataclass import dataclass

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS = 4096  # as RFC 7677 and Kafka want
MOST_ITERATIONS = 1 << 20  # nobody waits longer
_SALT_BYTES = 16
_NONCE_BYTES = 18
_LONGEST_NONCE = 1024


@dataclass(frozen=True, slots=True)
class Credential:
    """What is kept of one user's password, for one mechanism."""

    mechanism: str
    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def fits(self, password: str) -> bool:
        """Takes as long as its iterations say: milliseconds."""
        name = HASHES[self.mechanism]
        salted = hashlib.pbkdf2_hmac(name, password.encode(), self.salt, self.iterations)
        key = hashlib.new(name, _hmac(name, salted, b"Client Key")).digest()
        return hmac.compare_digest(key, self.stored_key)


def make_credential(
    mechanism: str, password: str, iterations: int = LEAST_ITERATIONS, salt: bytes | None = None
) -> Credential:
    assert LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS
    name = HASHES[mechanism]
    salt = salt or secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    stored = hashlib.new(name, _hmac(name, salted, b"Client Key")).digest()
    return Credential(mechanism, salt, iterations, stored, _hmac(name, salted, b"Server Key"))


def nobodys_credential(mechanism: str, user: str, secret: bytes) -> Credential:
    """For a name that nobody has: the same salt every time, and keys that nothing fits."""
    salt = hmac.digest(secret, f"{mechanism} {user}".encode(), "sha256")[:_SALT_BYTES]
    size = hashlib.new(HASHES[mechanism]).digest_size
    return Credential(
        mechanism, salt, LEAST_ITERATIONS, secrets.token_bytes(size), secrets.token_bytes(size)
    )


class Malformed(PeerError):
    """What a client said is no SCRAM."""

    def __init__(self, why: str) -> None:
        super().__init__("SCRAM", why)


@dataclass(slots=True)
class Exchange:
    """One attempt: `first`, then `final`."""

    mechanism: str
    find: Callable[[str], Credential]  # one for every name, `nobodys_credential` if need be
    nonce: Callable[[], str] = lambda: base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
    user: str = ""
    _credential: Credential | None = None
    _nonce: str = ""
    _binding: bytes = b""
    _messages: bytes = b""  # what was said so far, as the proof covers it

    def first(self, message: bytes) -> bytes:
        """Who it is, answered by salt and iterations; Malformed."""
        assert self._credential is None
        text = _text(message)
        flag, _, rest = text.partition(",")
        authorization, _, bare = rest.partition(",")
        if flag not in ("n", "y"):
            raise Malformed("channel binding is not offered")
        fields = bare.split(",")
        if len(fields) < 2 or fields[0][:2] != "n=" or fields[1][:2] != "r=":
            raise Malformed("a name and a nonce have to come first")
        if len(fields) > 2:
            raise Malformed(f"the extension {fields[2][:40]!r} is not known here")
        self.user, nonce = _name(fields[0][2:]), fields[1][2:]
        if not nonce or len(nonce) > _LONGEST_NONCE or not nonce.isascii():
            raise Malformed("the nonce cannot be used")
        if authorization and (authorization[:2] != "a=" or _name(authorization[2:]) != self.user):
            raise Malformed("acting for somebody else is not offered")
        self._credential = credential = self.find(self.user)
        self._nonce = nonce + self.nonce()
        self._binding = f"{flag},{authorization},".encode()
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}".encode()
        self._messages = bare.encode() + b"," + answer + b","
        return answer

    def final(self, message: bytes) -> bytes | None:
        """The proof, answered by our signature; None if it does not prove anything; Malformed."""
        credential = self._credential
        assert credential is not None
        without_proof, comma, proof_text = _text(message).rpartition(",p=")
        fields = without_proof.split(",")
        if not comma or len(fields) < 2 or fields[0][:2] != "c=" or fields[1][:2] != "r=":
            raise Malformed("channel binding, nonce and proof have to come last")
        if _bytes(fields[0][2:]) != self._binding:
            raise Malformed("the channel binding is not the one it began with")
        if not hmac.compare_digest(fields[1][2:].encode(), self._nonce.encode()):
            raise Malformed("the nonce is not the one it was given")
        name = HASHES[self.mechanism]
        said = self._messages + without_proof.encode()
        signature = _hmac(name, credential.stored_key, said)
        proof = _bytes(proof_text)
        if len(proof) != len(signature):
            raise Malformed("the proof has another length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key):
            return None
        return b"v=" + base64.b64encode(_hmac(name, credential.server_key, said))


def _hmac(name: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, name)


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise Malformed("not UTF-8") from None


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("not base64") from None


def _name(text: str) -> str:
    """A name in which commas are written =2C, and equals signs =3D."""
    name = text.replace("=2C", ",").replace("=3D", "=")
    if not name or text.count("=") != text.count("=2C") + text.count("=3D"):
        raise Malformed("the name is not written as RFC 5802 wants")
    return name
