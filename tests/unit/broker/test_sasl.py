"""Who is let in by name and password, and what those hear who are not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.base.kafka_errors import KafkaError
from sexton.broker import scram
from sexton.broker.attempts import MOST_FAILURES, REMEMBERED_S, WITHIN_S, Attempts
from sexton.broker.sasl import MECHANISMS, Challenge, Conversation, Failed, Known
from sexton.broker.users import Users, load_users, save_users

# RFC 7677, section 3
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
OURS = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO" + OURS.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO" + OURS.encode() + b","
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange() -> scram.Exchange:
    credential = scram.make_credential("SCRAM-SHA-256", "pencil", 4096, SALT)
    return scram.Exchange("SCRAM-SHA-256", lambda _user: credential, lambda: OURS)


# ── SCRAM ──


def test_the_example_of_rfc_7677() -> None:
    talk = exchange()
    assert talk.first(FIRST) == CHALLENGE
    assert talk.user == "user"
    assert talk.final(FINAL) == SIGNATURE


@pytest.mark.parametrize("at", range(len(FINAL) - 44, len(FINAL) - 1))
def test_another_proof_proves_nothing(at: int) -> None:
    """Any other letter in place of one of the proof."""
    talk = exchange()
    talk.first(FIRST)
    other = b"A" if FINAL[at : at + 1] != b"A" else b"B"
    assert talk.final(FINAL[:at] + other + FINAL[at + 1 :]) is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n",
        b"n,,",
        b"n,,n=user",
        b"n,,r=nonce,n=user",
        b"n,,n=,r=nonce",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=nonce",
        b"n,,n=us=2cer,r=nonce",
        b"n,,n=user,r=nonce,tokenauth=true",
        b"n,,m=what,n=user,r=nonce",
        b"n,a=root,n=user,r=nonce",
        b"n,root,n=user,r=nonce",
        b"p=tls-unique,,n=user,r=nonce",
        b"x,,n=user,r=nonce",
        b"n,,n=\xff,r=nonce",
        b"n,,n=user,r=" + b"x" * 2000,
    ],
)
def test_a_first_message_that_is_none(message: bytes) -> None:
    with pytest.raises(scram.Malformed):
        exchange().first(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        FINAL.replace(b"biws", b"eSws"),  # y,, where it was n,,
        FINAL.replace(b"biws", b"!"),
        FINAL.replace(b"rOpr", b"ROpr"),
        FINAL.replace(b"hNlF$k0", b"hNlF$k"),
        FINAL[: FINAL.index(b",p=")],
        FINAL.replace(b"c=", b"d="),
        FINAL + b"\xff",
        FINAL[: FINAL.index(b",p=")] + b",p=AAAA",
        FINAL[: FINAL.index(b",p=")] + b",p=",
    ],
)
def test_a_last_message_that_is_none(message: bytes) -> None:
    talk = exchange()
    talk.first(FIRST)
    with pytest.raises(scram.Malformed):
        talk.final(message)


def test_names_may_hold_commas_and_equals_signs() -> None:
    talk = exchange()
    talk.first(b"n,a=a=2Cb=3D2C,n=a=2Cb=3D2C,r=nonce")
    assert talk.user == "a,b=2C"


def proof(mechanism: str, password: str, first: bytes, challenge: bytes) -> bytes:
    """What a client does, from the RFC's formulas."""
    name = scram.HASHES[mechanism]
    nonce, salt, count = (part.split("=", 1)[1] for part in challenge.decode().split(","))
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(salt), int(count))
    key = hmac.digest(salted, b"Client Key", name)
    bare = f"c=biws,r={nonce}".encode()
    said = first.removeprefix(b"n,,") + b"," + challenge + b"," + bare
    signature = hmac.digest(hashlib.new(name, key).digest(), said, name)
    mixed = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return bare + b",p=" + base64.b64encode(mixed)


# ── conversations ──


@pytest.fixture(scope="module")
def users() -> Users:
    users = Users()
    users.add("alice", "secret")
    return users


def log_in(users: Users, mechanism: str, user: str, password: str) -> Known | Failed:
    talk = Conversation(users)
    assert talk.handshake(mechanism, 1).error_code == 0
    if mechanism == "PLAIN":
        outcome = talk.token(f"\0{user}\0{password}".encode())
    else:
        first = f"n,,n={user},r=abc".encode()
        challenge = talk.token(first)
        assert isinstance(challenge, Challenge)
        outcome = talk.token(proof(mechanism, password, first, challenge.token))
    assert not isinstance(outcome, Challenge)
    return outcome


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_knows_the_password_is_known(mechanism: str, users: Users) -> None:
    for _ in range(2):  # the second time from memory
        outcome = log_in(users, mechanism, "alice", "secret")
        assert isinstance(outcome, Known)
        assert outcome.user == "alice"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nobody_learns_whether_a_user_exists(mechanism: str, users: Users) -> None:
    wrong = log_in(users, mechanism, "alice", "Secret")
    nobody = log_in(users, mechanism, "mallory", "Secret")
    assert wrong == nobody
    assert isinstance(wrong, Failed)
    assert wrong.error == KafkaError.SASL_AUTHENTICATION_FAILED
    assert "alice" not in wrong.why and "user" not in wrong.why.replace("username", "")


def test_nobodys_salt_is_the_same_every_time(users: Users) -> None:
    once, again = (users.credential("mallory", "SCRAM-SHA-256") for _ in range(2))
    other = users.credential("eve", "SCRAM-SHA-256")
    assert (once.salt, once.iterations) == (again.salt, again.iterations)
    assert once.salt != other.salt
    assert len(once.salt) == len(users.credential("alice", "SCRAM-SHA-256").salt)


@pytest.mark.parametrize(
    "token",
    [b"", b"alice", b"\0alice", b"\0alice\0", b"\0\0secret", b"root\0alice\0secret",
     b"\0alice\0secret\0", b"\0alice\0\xff", b"\0Alice\0secret", b"\0alice\0secret "],
)  # fmt: skip
def test_what_is_no_plain_login(token: bytes, users: Users) -> None:
    talk = Conversation(users)
    talk.handshake("PLAIN", 1)
    assert isinstance(talk.token(token), Failed)


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(users: Users) -> None:
    talk = Conversation(users, ("SCRAM-SHA-512",))
    answer = talk.handshake("PLAIN", 1)
    assert answer.error_code == KafkaError.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["SCRAM-SHA-512"]
    # and there is no second chance
    assert talk.handshake("SCRAM-SHA-512", 1).error_code == KafkaError.ILLEGAL_SASL_STATE


def test_steps_out_of_order_are_illegal(users: Users) -> None:
    early = Conversation(users).token(b"\0alice\0secret")
    assert isinstance(early, Failed)
    assert early.error == KafkaError.ILLEGAL_SASL_STATE
    talk = Conversation(users)
    talk.handshake("PLAIN", 1)
    assert talk.handshake("PLAIN", 1).error_code == KafkaError.ILLEGAL_SASL_STATE
    late = talk.token(b"\0alice\0secret")
    assert isinstance(late, Failed)


def test_a_failed_conversation_stays_so(users: Users) -> None:
    talk = Conversation(users)
    talk.handshake("PLAIN", 1)
    assert isinstance(talk.token(b"\0alice\0wrong"), Failed)
    assert isinstance(talk.token(b"\0alice\0secret"), Failed)


# ── users on disk ──


def test_users_are_kept_without_their_passwords(tmp_path: Path) -> None:
    users = Users()
    users.add("alice", "secret-of-alice")
    users.add("bob", "secret-of-bob")
    path = tmp_path / "users"
    save_users(path, users)
    text = path.read_text(encoding="utf-8")
    assert "secret" not in text
    assert base64.b64encode(b"secret").decode()[:7] not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = load_users(path)
    assert again.credentials == users.credentials
    assert again.has_password("alice", "secret-of-alice")
    assert not again.has_password("alice", "secret-of-bob")


def test_a_password_that_was_right_is_not_after_it_has_changed() -> None:
    users = Users()
    users.add("alice", "old")
    assert users.has_password("alice", "old")
    users.add("alice", "new")
    assert not users.has_password("alice", "old")
    assert users.remove("alice")
    assert not users.has_password("alice", "new")


def test_the_file_can_be_written_from_a_shell(tmp_path: Path) -> None:
    path = tmp_path / "users"

    def run(*arguments: str) -> int:
        command = [sys.executable, "-m", "sexton.broker.users", str(path), *arguments]
        return subprocess.run(command, input=b"pw\n", capture_output=True).returncode

    assert run("add", "alice") == 0
    assert run("add", "bob") == 0
    assert run("remove", "alice") == 0
    assert run("remove", "alice") == run("add", "a:b") == run() == 2
    assert load_users(path).has_password("bob", "pw")
    assert load_users(path).names == ["bob"]


GOOD = "salt=AAAA,stored_key=AAAA,server_key=AAAA,iterations=4096"


@pytest.mark.parametrize(
    "line",
    ["alice", "alice:PLAIN:" + GOOD, "alice:SCRAM-SHA-256:secret", ":SCRAM-SHA-256:" + GOOD,
     "alice:SCRAM-SHA-256:" + GOOD.replace("4096", "1"), "alice:SCRAM-SHA-256:" + GOOD[10:],
     "alice:SCRAM-SHA-256:" + GOOD.replace("AAAA", "A!"),
     "alice:SCRAM-SHA-256:" + GOOD.replace("4096", "99999999999")],
)  # fmt: skip
def test_a_line_that_is_no_user_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"# ours\n\nbob:SCRAM-SHA-256:{GOOD}\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError):
        load_users(path)
    path.write_text(f"# ours\n\nbob:SCRAM-SHA-256:{GOOD}\n", encoding="utf-8")
    assert load_users(path).names == ["bob"]


# ── guessing ──


def test_each_failure_is_told_later_than_the_last() -> None:
    attempts = Attempts(0.1)
    delays = [attempts.failed("there", 100.0) for _ in range(8)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert attempts.failed("elsewhere", 100.0) == 0.1
    assert attempts.failed("there", 101.0 + REMEMBERED_S) == 0.1  # it is forgotten


def test_an_address_fails_only_so_often() -> None:
    attempts = Attempts()
    for _ in range(MOST_FAILURES):
        assert attempts.may_try("there", 100.0)
        attempts.failed("there", 100.0)
    assert not attempts.may_try("there", 100.0 + WITHIN_S)
    assert attempts.may_try("elsewhere", 100.0)
    assert attempts.may_try("there", 100.1 + WITHIN_S)
    attempts.forget(101.0 + REMEMBERED_S)
    assert attempts == Attempts()
