from __future__ import annotations

import ssl
from pathlib import Path
from ssl import TLSVersion

import pytest

from sexton.base.errors import ConfigError
from sexton.client.login import BearerLogin, Login
from sexton.client.settings import client_config

HANDLER = "sasl.login.callback.handler.class"
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


@pytest.mark.parametrize(
    "options",
    [
        """username='alice' password='say "please"';""",  # as Confluent Cloud shows it
        """username = "alice"\n password = 'say \\"please\\"';""",
        """serviceName="password='no'" username=alice password='say "please"' user_alice="x";""",
    ],
)
def test_a_login_is_read_as_java_reads_it(options: str) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    config = client_config({**SASL, "sasl.jaas.config": f"{module} {options}"})
    assert config.authenticate == Login("PLAIN", "alice", 'say "please"')


def test_tls_checks_who_is_there_unless_told_otherwise() -> None:
    strict = client_config({"security.protocol": "SSL"}).tls
    assert strict is not None
    assert strict.check_hostname and strict.verify_mode is ssl.CERT_REQUIRED
    by_name = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    lenient = client_config(by_name).tls
    assert lenient is not None
    assert not lenient.check_hostname and lenient.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("settings", "lowest", "highest"),
    [
        ({"ssl.protocol": "TLSv1.2"}, None, TLSVersion.TLSv1_2),
        ({"ssl.protocol": "TLS"}, None, None),
        ({"ssl.enabled.protocols": "TLSv1.3"}, TLSVersion.TLSv1_3, TLSVersion.TLSv1_3),
        (
            {"ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1"},
            TLSVersion.TLSv1_2,
            TLSVersion.TLSv1_2,
        ),
        (
            {"ssl.enabled.protocols": "TLSv1.2, TLSv1.3", "ssl.protocol": "TLSv1.3"},
            TLSVersion.TLSv1_2,
            TLSVersion.TLSv1_3,
        ),
    ],
)
def test_versions_of_tls_are_those_that_java_would_take(
    settings: dict[str, str], lowest: TLSVersion | None, highest: TLSVersion | None
) -> None:
    usual = client_config({"security.protocol": "SSL"}).tls
    found = client_config({"security.protocol": "SSL", **settings}).tls
    assert usual is not None and found is not None
    assert found.minimum_version == (lowest or usual.minimum_version)
    assert found.maximum_version == (highest or usual.maximum_version)


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
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites"),
        ({"ssl.engine.factory.class": "x"}, "ssl.engine.factory.class"),
        ({"enable.sasl.oauthbearer.unsecure.jwt": "x"}, "enable.sasl.oauthbearer.unsecure.jwt"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism"),
        (
            {"security.protocol": "SSL", "ssl.protocol": "TLSv1.1"},
            "ssl.enabled.protocols, ssl.protocol",
        ),
        (
            {
                "security.protocol": "SSL",
                "ssl.enabled.protocols": "TLSv1.3",
                "ssl.protocol": "TLSv1.2",
            },
            "ssl.enabled.protocols, ssl.protocol",
        ),
        ({**SASL, "sasl.login.callback.handler.class": "com.x.Vault"}, HANDLER),
        (
            {"config.providers": "file,env", "ssl.key.password": "${env:PASSWORD}"},
            "ssl.key.password",
        ),
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


@pytest.mark.parametrize(
    "names",
    [
        ("sasl.kerberos.service.name", "sasl.login.refresh.window.factor"),
        ("ssl.trustmanager.algorithm", "ssl.provider", "security.providers"),
    ],
)
def test_what_only_a_jvm_needs_is_passed_over(names: tuple[str, ...]) -> None:
    assert client_config(dict.fromkeys(names, "x")) == client_config({})


def test_a_dollar_without_a_config_provider_is_a_dollar() -> None:
    config = client_config({**SASL, "sasl.username": "a", "sasl.password": "${env:X}"})
    assert config.authenticate == Login("PLAIN", "a", "${env:X}")


@pytest.mark.parametrize(
    ("mechanism", "words"), [("AWS_MSK_IAM", "aws-msk-iam-sasl-signer"), ("GSSAPI", "SCRAM")]
)
def test_a_mechanism_that_is_not_spoken_is_named_before_what_belongs_to_it(
    mechanism: str, words: str
) -> None:
    settings = {
        "sasl.client.callback.handler.class": (
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
        ),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
    }
    with pytest.raises(ConfigError) as caught:
        client_config(settings)
    assert caught.value.subject == "sasl.mechanism" and mechanism in caught.value.why
    assert words in str(caught.value.hint)


def test_a_file_for_kafkas_own_token_handler_is_taken(tmp_path: Path) -> None:
    """Its class does what is done here: it reads the file again when a token is due."""
    token = tmp_path / "token"
    token.write_text("t")
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "o.a.k.common.security.oauthbearer.OAuthBearerLoginModule required;",
        "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        "sasl.login.refresh.buffer.seconds": "60",
    }
    own = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    found = client_config({**settings, HANDLER: own}).authenticate
    assert isinstance(found, BearerLogin) and found.token() == "t"
    with pytest.raises(ConfigError) as caught:
        client_config({**settings, HANDLER: "io.strimzi.JaasClientOauthLoginCallbackHandler"})
    assert caught.value.subject == HANDLER


def test_certificates_may_stand_in_the_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        client_config({"security.protocol": "SSL", "ssl.ca.pem": "nonsense"})


def test_every_way_to_log_in_is_offered() -> None:
    with pytest.raises(ConfigError, match="is not given") as caught:
        client_config({"security.protocol": "SASL_SSL"})
    assert caught.value.hint == "choose among PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER"
