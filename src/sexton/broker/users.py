"""Who may come in, kept so that whoever reads the file learns no password.

    alice:SCRAM-SHA-256:salt=...,stored_key=...,server_key=...,iterations=4096
    alice:SCRAM-SHA-512:salt=...,stored_key=...,server_key=...,iterations=4096

The fields are those that Kafka writes for a credential. SCRAM works from them directly. For PLAIN
the password that was sent is salted as often, which takes milliseconds; one that was right is
remembered by a hash that only this process can make, so that the next time takes none.

    python -m sexton.broker.users FILE add alice       asks for the password, or reads it from stdin
    python -m sexton.broker.users FILE remove alice
"""

from __future__ import annotations

import base64
import binascii
import getpass
import hmac
import os
import secrets
import sys
from dataclasses import field
from pathlib import Path

from sexton.base.errors import ConfigError, SextonError
from sexton.base.lazy_dataclass import dataclass
from sexton.broker.scram import (
    HASHES,
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    Credential,
    make_credential,
    nobodys_credential,
)

_MOST_REMEMBERED = 10_000


@dataclass(slots=True)
class Users:
    """Names, and what proves each one's password without being the password."""

    credentials: dict[tuple[str, str], Credential] = field(default_factory=dict)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _were_right: dict[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> list[str]:
        """Everyone, by the alphabet."""
        return sorted({user for user, _ in self.credentials})

    def add(self, user: str, password: str, iterations: int = LEAST_ITERATIONS) -> None:
        """With one password for every mechanism."""
        _check_name(user)
        if not password:
            raise ConfigError(f"user {user}", "has no password")
        for mechanism in HASHES:
            self.credentials[user, mechanism] = make_credential(mechanism, password, iterations)
        self._were_right.pop(user, None)

    def remove(self, user: str) -> bool:
        """Whether there was anybody of that name."""
        mechanisms = [mechanism for name, mechanism in self.credentials if name == user]
        for mechanism in mechanisms:
            del self.credentials[user, mechanism]
        self._were_right.pop(user, None)
        return bool(mechanisms)

    def credential(self, user: str, mechanism: str) -> Credential:
        """For every name: nobody learns from it whether somebody has that name."""
        found = self.credentials.get((user, mechanism))
        return found or nobodys_credential(mechanism, user, self._secret)

    def has_password(self, user: str, password: str) -> bool:
        """Whether it is theirs; as slow for those who are not there."""
        digest = hmac.digest(self._secret, f"{user}\0{password}".encode(), "sha256")
        if hmac.compare_digest(self._were_right.get(user, b""), digest):
            return True
        known = [m for m in HASHES if (user, m) in self.credentials] or [next(iter(HASHES))]
        if not self.credential(user, known[0]).fits(password):
            return False
        if len(self._were_right) < _MOST_REMEMBERED:
            self._were_right[user] = digest
        return True


def load_users(path: Path) -> Users:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            str(path), f"cannot be read: {error}", "see `sexton.broker.users`"
        ) from None
    users = Users()
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            try:
                user, credential = _parsed(line)
            except (ValueError, KeyError, binascii.Error) as error:
                hint = (
                    "a line is USER:MECHANISM:salt=...,stored_key=...,server_key=...,iterations=N"
                )
                raise ConfigError(f"{path} line {number}", f"is no user: {error}", hint) from None
            users.credentials[user, credential.mechanism] = credential
    return users


def save_users(path: Path, users: Users) -> None:
    """Replaces the file, at once or not at all; only its owner may read it."""
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        for (user, _), credential in sorted(users.credentials.items()):
            file.write(f"{user}:{credential.mechanism}:{_written(credential)}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _written(credential: Credential) -> str:
    salt, stored, server = (
        base64.b64encode(each).decode()
        for each in (credential.salt, credential.stored_key, credential.server_key)
    )
    count = credential.iterations
    return f"salt={salt},stored_key={stored},server_key={server},iterations={count}"


def _parsed(line: str) -> tuple[str, Credential]:
    user, mechanism, text = line.strip().split(":")
    if mechanism not in HASHES:
        raise ValueError(f"{mechanism!r} is none of {', '.join(HASHES)}")
    _check_name(user)
    fields = dict(each.split("=", 1) for each in text.split(","))
    salt, stored, server = (
        base64.b64decode(fields[name], validate=True)
        for name in ("salt", "stored_key", "server_key")
    )
    iterations = int(fields["iterations"])
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise ValueError(f"iterations are {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    return user, Credential(mechanism, salt, iterations, stored, server)


def _check_name(user: str) -> None:
    if not user or user != user.strip() or any(c in ":\n\r\0#" for c in user):
        hint = "no colon, no line break, no space around it"
        raise ConfigError(f"user {user!r}", "is not a name that can be kept", hint)


def main(arguments: list[str]) -> int:
    if len(arguments) != 3 or arguments[1] not in ("add", "remove"):
        print("usage: python -m sexton.broker.users FILE add|remove USER", file=sys.stderr)  # noqa: T201
        return 2
    path, verb, user = Path(arguments[0]), arguments[1], arguments[2]
    try:
        users = load_users(path) if path.exists() else Users()
        if verb == "add":
            asked = sys.stdin.isatty()
            password = getpass.getpass("password: ") if asked else sys.stdin.readline().rstrip("\n")
            users.add(user, password)
        elif not users.remove(user):
            raise ConfigError(f"user {user}", "is not in this file")
        save_users(path, users)
    except SextonError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
