from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.client.login import Login
from sexton.client.settings import client_config

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    r'username="alice" password="say \"please\"";'
)


def test_without_settings_nothing_is_encrypted_and_nobody_says_a_name() -> None:
    config = client_config({"bootstrap.servers": "x:1", "acks": "all"})
    assert config.tls is None and config.authenticate is None


def test_a_name_and_a_password_in_either_spelling() -> None:
    java = client_config({**SASL, "sasl.jaas.config": JAAS})
    assert java.authenticate == Login("PLAIN", "alice", 'say "please"')
    librdkafka = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "bob",
        "sasl.password": "x=y",
    }
    assert client_config(librdkafka).authenticate == Login("SCRAM-SHA-512", "bob", "x=y")


def test_tls_checks_who_is_there_unless_told_otherwise() -> None:
    strict = client_config({"security.protocol": "SSL"}).tls
    assert strict is not None
    assert strict.check_hostname and strict.verify_mode is ssl.CERT_REQUIRED
    by_name = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    lenient = client_config(by_name).tls
    assert lenient is not None
    assert not lenient.check_hostname and lenient.verify_mode is ssl.CERT_REQUIRED


def test_names_and_times_are_taken_over() -> None:
    config = client_config({"client.id": "me", "request.timeout.ms": "1234"})
    assert (config.client_id, config.request_timeout_ms) == ("me", 1234)


@pytest.mark.parametrize(
    ("settings", "subject"),
    [
        ({"security.protocol": "TLS"}, "security.protocol"),
        ({"sasl.oauthbearer.scope.claim.name": "x"}, "sasl.oauthbearer.scope.claim.name"),
        ({**SASL, "sasl.username": "alice"}, "sasl.username, sasl.password"),
        ({**SASL, "sasl.jaas.config": "nonsense"}, "sasl.username, sasl.password"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "ssl.truststore.type"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere.pem"}, "/nowhere.pem"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/no.pem"}, "/no.pem"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms"),
        ({"secuirty.protocol": "SASL_SSL"}, "secuirty.protocol"),
        ({"ssl.truststore.password": "changeit"}, "ssl.truststore.password"),
    ],
)
def test_what_is_not_understood_is_never_left_out(settings: dict[str, str], subject: str) -> None:
    with pytest.raises(ConfigError) as caught:
        client_config(settings)
    assert caught.value.subject == subject


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("secuirty.protocol", "did you mean security.protocol?"),
        ("ssl.truststore.locaton", "did you mean ssl.truststore.location?"),
        ("ssl.truststore.password", "keytool -list -rfc"),  # a Java store, as most files name one
        ("ssl.keystore.password", "openssl pkcs12"),
    ],
)
def test_a_setting_that_is_not_understood_says_what_to_write(name: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        client_config({name: "x"})
    assert words in str(caught.value.hint)


def test_a_setting_about_something_else_is_passed_over() -> None:
    others = ("session.timeout.ms", "metric.reporters", "group.id", "compression.type", "acks")
    assert client_config(dict.fromkeys(others, "x")) == client_config({})


def test_certificates_may_stand_in_the_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        client_config({"security.protocol": "SSL", "ssl.ca.pem": "nonsense"})


def test_every_way_to_log_in_is_offered() -> None:
    with pytest.raises(ConfigError, match="is not given") as caught:
        client_config({"security.protocol": "SASL_SSL"})
    assert caught.value.hint == "choose among PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER"
