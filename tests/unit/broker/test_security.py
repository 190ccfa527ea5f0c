"""Listeners with TLS and SASL, seen from a socket; and what their options may say."""

from __future__ import annotations

import socket
import ssl
import struct
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from sexton.base.errors import ConfigError
from sexton.base.kafka_errors import KafkaError
from sexton.broker.exposure import is_loopback, refuse_exposure
from sexton.broker.listener import ListenerConfig
from sexton.broker.security import SecurityConfig, load_security
from sexton.broker.users import Users, save_users
from sexton.protocol import encode_request
from sexton.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sexton.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sexton.protocol.messages.metadata import MetadataRequest
from sexton.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from sexton.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.certificates import Certificates, make_certificates
from tests.unit.broker.listening import Listening, Peer

LOGIN, WRONG = b"\0alice\0secret", b"\0alice\0wrong"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("users") / "users"
    users = Users()
    users.add("alice", "secret")
    save_users(path, users)
    return str(path)


# ── SASL ──


@pytest.fixture
def guarded(users: str) -> Iterator[Listening]:
    config = ListenerConfig(
        sasl_credentials_file=users,
        connections_setup_max_ms=1_000,
        connection_failed_authentication_delay_ms=50,
    )
    with Listening(config) as listening:
        yield listening
        with listening.connect() as peer:  # whatever has happened, a client is let in
            log_in(peer)
            listening.node.asked.clear()
            peer.send(encode_request(HeartbeatRequest("g"), 4, 1, "x"))
            listening.wait_for(lambda: len(listening.node.asked) == 1)
            listening.answer(0, HeartbeatResponse())
            peer.frame()


def log_in(peer: Peer, token: bytes = LOGIN) -> SaslAuthenticateResponse:
    handshake = peer.ask(SaslHandshakeRequest("PLAIN"), 1, SaslHandshakeResponse)
    assert handshake.error_code == 0
    return peer.ask(SaslAuthenticateRequest(token), 2, SaslAuthenticateResponse)


def test_who_logs_in_is_served(guarded: Listening) -> None:
    with guarded.connect() as peer:
        assert peer.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse).api_keys
        answer = log_in(peer)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
        peer.send(encode_request(HeartbeatRequest("g"), 4, 1, "x"))
        guarded.wait_for(lambda: len(guarded.node.asked) == 1)


@pytest.mark.parametrize("request_", [MetadataRequest(), HeartbeatRequest("g")])
def test_nothing_is_answered_before(
    request_: MetadataRequest | HeartbeatRequest, guarded: Listening
) -> None:
    with guarded.connect() as peer:
        peer.send(encode_request(request_, 4, 1, "x"))
        assert peer.is_closed()
    with guarded.connect() as peer:
        peer.ask(SaslHandshakeRequest("PLAIN"), 1, SaslHandshakeResponse)
        peer.send(encode_request(request_, 4, 1, "x"))
        assert peer.is_closed()
    assert guarded.node.asked == []


def test_what_is_sent_behind_a_failed_login_is_not_read(guarded: Listening) -> None:
    with guarded.connect() as peer:
        peer.send(
            encode_request(SaslHandshakeRequest("PLAIN"), 1, 1, "x")
            + encode_request(SaslAuthenticateRequest(WRONG), 2, 2, "x")
            + encode_request(SaslAuthenticateRequest(LOGIN), 2, 3, "x")
            + encode_request(HeartbeatRequest("g"), 4, 4, "x")
        )
        peer.frame()
        guarded.wait_for(lambda: guarded.listener.connection_count == 0)
        assert guarded.node.asked == []


def test_a_failure_is_told_and_ends_the_connection(guarded: Listening) -> None:
    with guarded.connect() as peer:
        answer = log_in(peer, WRONG)
        assert answer.error_code == KafkaError.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Authentication failed: Invalid username or password"
        assert peer.is_closed()
    assert guarded.listener.traffic.unauthenticated == 1


def test_a_mechanism_that_is_not_there_is_told_with_those_that_are(guarded: Listening) -> None:
    with guarded.connect() as peer:
        answer = peer.ask(SaslHandshakeRequest("GSSAPI"), 1, SaslHandshakeResponse)
        assert answer.error_code == KafkaError.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert peer.is_closed()


def test_a_token_without_a_handshake_is_illegal(guarded: Listening) -> None:
    with guarded.connect() as peer:
        answer = peer.ask(SaslAuthenticateRequest(LOGIN), 2, SaslAuthenticateResponse)
        assert answer.error_code == KafkaError.ILLEGAL_SASL_STATE
        assert peer.is_closed()


def test_old_clients_send_tokens_without_a_header(guarded: Listening) -> None:
    def framed(token: bytes) -> bytes:
        return struct.pack(">i", len(token)) + token

    with guarded.connect() as peer:
        peer.ask(SaslHandshakeRequest("PLAIN"), 0, SaslHandshakeResponse)
        peer.send(framed(LOGIN))
        assert peer.frame() == b""
        assert peer.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse).api_keys
    with guarded.connect() as peer:
        peer.ask(SaslHandshakeRequest("PLAIN"), 0, SaslHandshakeResponse)
        peer.send(framed(WRONG))
        assert peer.is_closed()


def test_before_the_login_frames_are_small_and_time_is_short(guarded: Listening) -> None:
    with guarded.connect() as large, guarded.connect() as slow:
        large.send(struct.pack(">ihhi", 600 << 10, 0, 9, 1))
        assert large.is_closed()
        slow.ask(SaslHandshakeRequest("PLAIN"), 1, SaslHandshakeResponse)
        for _ in range(3):
            slow.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse)
        assert slow.is_closed()
    assert guarded.listener.traffic.idled == 1


def test_guessing_is_stopped_and_others_are_let_in(guarded: Listening) -> None:
    with guarded.connect() as peer:
        log_in(peer)  # before the attack
        with ExitStack() as stack:
            for _ in range(80):
                guess = stack.enter_context(guarded.connect())
                guess.send(
                    encode_request(SaslHandshakeRequest("PLAIN"), 1, 1, "x")
                    + encode_request(SaslAuthenticateRequest(WRONG), 2, 2, "x")
                )
            traffic = guarded.listener.traffic
            guarded.wait_for(lambda: traffic.unauthenticated + traffic.hung_up == 80)
            assert (traffic.unauthenticated, traffic.hung_up) == (50, 30)
            peer.ask(ApiVersionsRequest("x", "1"), 4, ApiVersionsResponse)
    guarded.call(lambda: guarded.listener._attempts.forget(float("inf")))


# ── TLS ──


@pytest.fixture
def encrypted(certificates: Certificates) -> Iterator[Listening]:
    config = ListenerConfig(
        ssl_keystore_location=str(certificates.server), connections_setup_max_ms=1_000
    )
    with Listening(config) as listening:
        yield listening
        listening.still_works(certificates.context())


def test_frames_of_any_size_pass_through_tls(
    encrypted: Listening, certificates: Certificates
) -> None:
    sizes = [0, 1, 100, 16_384, 65_536, 70_000, 300_000, 2_000_000, 5]
    tokens = [Random(size).randbytes(size) for size in sizes]
    with encrypted.connect(certificates.context()) as peer:
        for number, token in enumerate(tokens):
            peer.send(encode_request(SaslAuthenticateRequest(token), 2, number, "x"))
        encrypted.wait_for(lambda: len(encrypted.node.asked) == len(sizes))
        heard = [asked.request.auth_bytes for asked in encrypted.node.asked]  # type: ignore[attr-defined]
        assert heard == tokens
        for number, token in enumerate(tokens):
            encrypted.answer(number, SaslAuthenticateResponse(auth_bytes=token * 3))
        for token in tokens:
            assert peer.frame().endswith(token * 3 + bytes(9))  # session lifetime, no tags


def test_who_does_not_take_answers_is_not_read_from_over_tls(
    encrypted: Listening, certificates: Certificates
) -> None:
    answer = SaslAuthenticateResponse(auth_bytes=bytes(2 << 20))
    encrypted.node.at_once[SaslAuthenticateRequest] = answer
    request = encode_request(SaslAuthenticateRequest(b"x"), 2, 1, "x")
    with encrypted.connect(certificates.context()) as peer:
        peer.send(request * 60)
        encrypted.wait_for(lambda: encrypted.listener.held_bytes > 32 << 20)
        answered = encrypted.listener.traffic.by_api["SaslAuthenticateRequest"].answered
        assert answered <= 17 + 32  # 32 MiB, and what was under way; the rest waits
        for _ in range(60):  # all of them come when they are taken
            assert len(peer.frame()) > 2 << 20


@pytest.mark.parametrize(
    "hello",
    [b"", b"\0\0\0\x10", b"GET / HTTP/1.1\r\n\r\n", bytes(5000)],
    ids=["silence", "Kafka", "HTTP", "zeros"],
)
def test_who_does_not_speak_tls_is_turned_away(hello: bytes, encrypted: Listening) -> None:
    with encrypted.connect() as peer:
        peer.send(hello)
        try:
            while peer.socket.recv(100):
                pass  # an alert, perhaps
        except ConnectionResetError:
            pass
    assert encrypted.node.asked == []


def test_a_reset_during_the_handshake_leaves_nothing(
    encrypted: Listening, certificates: Certificates
) -> None:
    context = certificates.context()
    for cut in (1, 50, 200, 400):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        peer = encrypted.connect()
        peer.send(outgoing.read()[:cut])
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.socket.close()
    encrypted.wait_for(lambda: encrypted.listener.connection_count == 0)


def test_a_client_without_a_certificate_stays_out(certificates: Certificates) -> None:
    config = ListenerConfig(
        ssl_keystore_location=str(certificates.server),
        ssl_truststore_location=str(certificates.authority),
        ssl_client_auth="required",
    )
    with Listening(config) as listening:
        with pytest.raises((ssl.SSLError, EOFError, ConnectionError)):
            listening.still_works(certificates.context())
        listening.still_works(certificates.context(with_own=True))


def test_old_protocols_are_not_spoken(encrypted: Listening, certificates: Certificates) -> None:
    context = certificates.context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        encrypted.connect(context)


# ── options ──


def test_a_key_may_be_given_as_text(certificates: Certificates) -> None:
    text = certificates.server.read_text(encoding="ascii")
    key, chain = text[: text.index("-----BEGIN CERT")], text[text.index("-----BEGIN CERT") :]
    config = ListenerConfig(ssl_keystore_key=key, ssl_keystore_certificate_chain=chain)
    with Listening(config) as listening:
        listening.still_works(certificates.context())
    assert key.splitlines()[1] not in repr(config)


def test_options_that_cannot_be_honoured_are_refused(
    tmp_path: Path, certificates: Certificates
) -> None:
    server, nothing = str(certificates.server), tmp_path / "nothing"
    nothing.touch()
    for wrong in (
        SecurityConfig(ssl_keystore_type="JKS", ssl_keystore_location=server),
        SecurityConfig(ssl_keystore_location=str(tmp_path / "none.pem")),
        SecurityConfig(ssl_keystore_location=str(certificates.authority)),  # it has no key
        SecurityConfig(ssl_keystore_key="what", ssl_keystore_certificate_chain="ever"),
        SecurityConfig(ssl_client_auth="required"),
        SecurityConfig(ssl_client_auth="required", ssl_keystore_location=server),
        SecurityConfig(ssl_client_auth="maybe", ssl_keystore_location=server),
        SecurityConfig(ssl_enabled_protocols="SSLv3", ssl_keystore_location=server),
        SecurityConfig(ssl_truststore_location=str(nothing), ssl_keystore_location=server),
        SecurityConfig(sasl_enabled_mechanisms="GSSAPI"),
        SecurityConfig(sasl_credentials_file=str(nothing)),
        SecurityConfig(sasl_credentials_file=str(tmp_path / "none")),
    ):
        with pytest.raises(ConfigError):
            load_security(wrong)


def test_the_protocol_is_what_the_options_make_it(users: str, certificates: Certificates) -> None:
    server = str(certificates.server)
    for config, protocol, authenticates in (
        (SecurityConfig(), "PLAINTEXT", False),
        (SecurityConfig(ssl_keystore_location=server), "SSL", False),
        (SecurityConfig(ssl_keystore_location=server, ssl_client_auth="required"), "SSL", True),
        (SecurityConfig(sasl_credentials_file=users), "SASL_PLAINTEXT", True),
        (
            SecurityConfig(sasl_credentials_file=users, ssl_keystore_location=server),
            "SASL_SSL",
            True,
        ),
    ):
        assert (config.protocol, config.authenticates) == (protocol, authenticates)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_loopback_needs_no_authentication(host: str) -> None:
    assert is_loopback(host)
    refuse_exposure(host, authenticated=False, insecure=False, option="--host")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.5", "kafka", ""])
def test_beyond_loopback_it_has_to_be_said_twice(host: str) -> None:
    with pytest.raises(ConfigError):
        refuse_exposure(host, authenticated=False, insecure=False, option="--host")
    refuse_exposure(host, authenticated=True, insecure=False, option="--host")
    refuse_exposure(host, authenticated=False, insecure=True, option="--host")
