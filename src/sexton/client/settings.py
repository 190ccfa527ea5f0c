"""Kafka's client settings, as far as they say how to reach a cluster.

    {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", ...}  ──▶  ClientConfig

The names are those of Kafka's own tools, which people have in a properties file, and those that
librdkafka has in their place (`setting_names`). A setting about anything else (batches, groups,
metrics) is not about reaching a cluster, and is passed over; one about security that we do not
understand is an error: to leave it out could mean to send a password in the clear.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sexton.base.errors import ConfigError
from sexton.client.connection import ClientConfig
from sexton.client.login import MECHANISMS, OAUTHBEARER, BearerLogin, Login, not_spoken
from sexton.client.setting_names import USED, must_count

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# An option as Kafka reads it: in quotes of either kind, or a word.
_JAAS = re.compile(
    r"""([^\s=;"']+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)
HANDLER = "sasl.login.callback.handler.class"
# Reads the token where sasl.oauthbearer.token.endpoint.url says, as is done here.
_HANDLERS = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerLoginCallbackHandler"
    for package in ("", "secured.")
)
_TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OF_VERSIONS = ("ssl.enabled.protocols", "ssl.protocol")
_ANY_TLS = ("", "TLS", "SSL")


def client_config(settings: Mapping[str, str], base: ClientConfig | None = None) -> ClientConfig:
    """How to talk to the brokers that these settings are for."""
    config = base or ClientConfig()
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol.startswith("SASL"):
        _check_mechanism(settings)  # if nothing can come of it, that is why
    for name in settings:
        must_count(name)
    if protocol not in _PROTOCOLS:
        hint = f"choose among {', '.join(_PROTOCOLS)}"
        raise ConfigError("security.protocol", f"is {protocol!r}", hint)
    _check_given(settings)
    return replace(
        config,
        client_id=settings.get("client.id", config.client_id),
        request_timeout_ms=_ms(settings, "request.timeout.ms", config.request_timeout_ms),
        tls=_tls(settings) if protocol.endswith("SSL") else None,
        authenticate=_login(settings) if protocol.startswith("SASL") else None,
    )


def _ms(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name, str(default)).strip()
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(name, f"is {text!r}, a number of milliseconds is needed")
    return int(text)


def _check_given(settings: Mapping[str, str]) -> None:
    """Java would ask a config provider for what stands as ${file:/secrets:password}."""
    providers = [each.strip() for each in settings.get("config.providers", "").split(",")]
    for name in sorted(USED & settings.keys()):
        if any(each and f"${{{each}:" in settings[name] for each in providers):
            why = "names a config provider, and none is asked here"
            raise ConfigError(name, why, "give the value itself")


# ── who we are ──


def _mechanism(settings: Mapping[str, str]) -> str:
    named = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or ""
    return named.strip().upper()


def _check_mechanism(settings: Mapping[str, str]) -> None:
    mechanism = _mechanism(settings)
    if mechanism and mechanism not in (*MECHANISMS, OAUTHBEARER):
        raise not_spoken(mechanism)


def _login(settings: Mapping[str, str]) -> Login | BearerLogin:
    mechanism, handler = _mechanism(settings), settings.get(HANDLER, "").strip()
    if handler and not (mechanism == OAUTHBEARER and handler in _HANDLERS):
        hint = "give sasl.username and sasl.password, or for OAUTHBEARER a token"
        raise ConfigError(HANDLER, f"{handler} is a Java class, and none is run here", hint)
    if mechanism == OAUTHBEARER:
        return _bearer(settings)
    in_jaas = {
        name: bare or re.sub(r"\\(.)", r"\1", double or single)
        for name, double, single, bare in _JAAS.findall(settings.get("sasl.jaas.config", ""))
    }
    user = settings.get("sasl.username", in_jaas.get("username"))
    password = settings.get("sasl.password", in_jaas.get("password"))
    login = Login(mechanism, user or "", password or "")
    if not user or password is None:
        hint = 'as in -X sasl.username=alice, or sasl.jaas.config=... username="alice" password=...'
        raise ConfigError("sasl.username, sasl.password", "are not both given", hint)
    return login


def _bearer(settings: Mapping[str, str]) -> BearerLogin:
    """A token that is given, or a file that holds one; to fetch it is somebody else's task."""
    token = settings.get("sasl.oauthbearer.token", "").strip()
    if token:
        return BearerLogin(lambda: token)
    place = settings.get("sasl.oauthbearer.token.endpoint.url", "")
    if not place.startswith("file:"):
        why = f"is {place or 'not given'}, only a file:// with a token can be used"
        hint = "or give the token itself, as sasl.oauthbearer.token"
        raise ConfigError("sasl.oauthbearer.token.endpoint.url", why, hint)
    path = Path(unquote(urlsplit(place).path))

    def read() -> str:
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError as error:
            hint = "it holds the token, which somebody renews there"
            raise ConfigError(str(path), f"cannot be read: {error.strerror}", hint) from None

    read()
    return BearerLogin(read)


# ── who they are ──


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        kind = settings.get(name, "PEM")
        if kind.upper() != "PEM":
            hint = "convert it: openssl pkcs12 -in store.p12 -out store.pem -nodes"
            raise ConfigError(name, f"{kind} cannot be read, only PEM", hint)
    place = settings.get("ssl.truststore.location") or settings.get("ssl.ca.location")
    text = settings.get("ssl.truststore.certificates") or settings.get("ssl.ca.pem")
    try:
        context = ssl.create_default_context(cafile=place or None, cadata=text or None)
    except (OSError, ValueError) as error:
        why = f"cannot be used: {getattr(error, 'strerror', None) or error}"
        hint = "it holds the certificates of those who sign the brokers', in PEM"
        raise ConfigError(place or "ssl.truststore.certificates", why, hint) from None
    if settings.get("ssl.endpoint.identification.algorithm", "https").lower() in ("", "none"):
        context.check_hostname = False
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _limit_versions(context, settings)
    _own_certificate(context, settings)
    return context


def _limit_versions(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    """As in Java: one is a list of those that are taken, the other the highest, if it names one."""
    enabled, highest = (settings.get(name, "").strip() for name in _OF_VERSIONS)
    spoken = dict(_TLS_VERSIONS)
    if enabled:
        listed = [each.strip() for each in enabled.split(",")]
        spoken = {word: version for word, version in spoken.items() if word in listed}
    if highest not in _ANY_TLS:
        up_to = _TLS_VERSIONS.get(highest, ssl.TLSVersion.MINIMUM_SUPPORTED)
        spoken = {word: version for word, version in spoken.items() if version <= up_to}
    if not spoken:
        hint = f"choose among {', '.join(_TLS_VERSIONS)}"
        raise ConfigError(", ".join(_OF_VERSIONS), "leave no version that is spoken here", hint)
    if enabled:
        context.minimum_version = min(spoken.values())
    if enabled or highest not in _ANY_TLS:
        context.maximum_version = max(spoken.values())


def _own_certificate(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    own = settings.get("ssl.keystore.location") or settings.get("ssl.certificate.location")
    if not own:
        return
    password = settings.get("ssl.key.password", "")
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(own, settings.get("ssl.key.location"), lambda: password)
    except (OSError, ValueError) as error:
        why = f"cannot be used: {getattr(error, 'strerror', None) or error}"
        hint = "it holds a private key and the certificates that belong to it, in PEM"
        raise ConfigError(own, why, hint) from None
