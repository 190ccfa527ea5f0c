"""SCRAM from the client's side: the example of RFC 7677, and brokers that are not what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexton.base.errors import ConfigError, PeerError
from sexton.client import login
from sexton.client.login import MOST_ITERATIONS, BearerLogin, Login
from sexton.client.settings import client_config

NONCE = "rOprNGfwEbeRWgbNEkqO"
BOTH = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CHALLENGE = f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
PROOF = f"c=biws,r={BOTH},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
VERIFIER = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.fixture
def exchange(monkeypatch: pytest.MonkeyPatch) -> login.Exchange:
    """The client has said its first word."""
    monkeypatch.setattr("secrets.token_urlsafe", lambda _bytes: NONCE)
    tokens = Login("SCRAM-SHA-256", "user", "pencil").tokens("broker")
    assert next(tokens) == f"n,,n=user,r={NONCE}".encode()
    return tokens


def test_the_example_of_the_standard(exchange: login.Exchange) -> None:
    assert exchange.send(CHALLENGE) == PROOF
    with pytest.raises(StopIteration):
        exchange.send(VERIFIER)


@pytest.mark.parametrize(
    "last", [b"", b"v=", b"v=AAAA", b"v=not base64!", b"e=invalid-proof", VERIFIER[:-4], b"\xff"]
)
def test_a_broker_that_cannot_prove_itself_is_not_believed(
    exchange: login.Exchange, last: bytes
) -> None:
    exchange.send(CHALLENGE)
    with pytest.raises(PeerError):
        exchange.send(last)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"r=somebody-elses,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(),  # it added nothing of its own
        f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1".encode(),
        f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i={MOST_ITERATIONS + 1}".encode(),
        pytest.param(
            f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i={'9' * 5_000}".encode(), id="5,000 digits"
        ),
        f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=many".encode(),
        f"r={BOTH},s=?,i=4096".encode(),
    ],
)
def test_a_challenge_that_makes_no_sense_is_not_answered(
    exchange: login.Exchange, challenge: bytes
) -> None:
    with pytest.raises(PeerError):
        exchange.send(challenge)


def test_a_name_may_hold_what_separates_fields() -> None:
    first = next(Login("SCRAM-SHA-512", "a,b=c", "x").tokens("broker"))
    assert first.startswith(b"n,,n=a=2Cb=3Dc,r=")


def test_plain_says_it_all_at_once() -> None:
    tokens = Login("PLAIN", "alice", "secret").tokens("broker")
    assert next(tokens) == b"\0alice\0secret"
    with pytest.raises(StopIteration):
        tokens.send(b"")


def test_a_mechanism_that_we_do_not_have_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="GSSAPI is not known"):
        Login("GSSAPI", "alice", "")


def test_nobody_prints_a_password() -> None:
    assert "secret" not in repr(Login("PLAIN", "alice", "secret"))


# ── tokens ──


def test_a_token_is_said_as_the_standard_has_it() -> None:
    tokens = login._bearer("abc.def.", "broker")
    assert next(tokens) == b"n,,\x01auth=Bearer abc.def.\x01\x01"
    with pytest.raises(StopIteration):
        tokens.send(b"")


def test_a_broker_that_complains_is_heard_out() -> None:
    tokens = login._bearer("expired", "broker")
    next(tokens)
    assert tokens.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(PeerError, match="invalid_token"):
        tokens.send(b"")


def test_a_token_is_given_or_read_from_a_file_for_each_connection(tmp_path: Path) -> None:
    said = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    given = client_config({**said, "sasl.oauthbearer.token": " t1 "}).authenticate
    assert isinstance(given, BearerLogin)
    assert given.token() == "t1"
    assert "t1" not in repr(given)
    file = tmp_path / "a token"
    file.write_text("t2\n", encoding="utf-8")
    read = client_config({**said, "sasl.oauthbearer.token.endpoint.url": file.as_uri()})
    assert isinstance(read.authenticate, BearerLogin)
    file.write_text("t3", encoding="utf-8")  # renewed meanwhile
    assert read.authenticate.token() == "t3"
    for where, why in (
        ({}, "is not given"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://idp"}, "only a file"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///nowhere"}, "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=why):
            client_config({**said, **where})
