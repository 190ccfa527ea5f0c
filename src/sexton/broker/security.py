"""How clients are let in: TLS, certificates, names and passwords, from Kafka's options.

    ssl.keystore.location      a PEM file with the private key and the certificate chain; or as
                               text: ssl.keystore.key and ssl.keystore.certificate.chain
    ssl.truststore.location    a PEM file with those who may sign clients' certificates; or as
                               text: ssl.truststore.certificates
    ssl.client.auth            none, requested, required
    sasl.credentials.file      users (`broker.users`); this option is our own
    sasl.enabled.mechanisms    all that we have, unless told otherwise

A keystore makes it TLS, users make it SASL, both make it what Kafka calls SASL_SSL.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from sexton.base.errors import ConfigError
from sexton.base.lazy_dataclass import dataclass
from sexton.broker.sasl import MECHANISMS
from sexton.broker.users import Users, load_users

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """A field is the option's name with underscores; an empty text is an option not given."""

    ssl_keystore_type: str = "PEM"
    ssl_keystore_location: str = ""
    ssl_keystore_key: str = field(default="", repr=False)
    ssl_keystore_certificate_chain: str = ""
    ssl_key_password: str = field(default="", repr=False)
    ssl_truststore_type: str = "PEM"
    ssl_truststore_location: str = ""
    ssl_truststore_certificates: str = ""
    ssl_client_auth: str = "none"
    ssl_enabled_protocols: str = "TLSv1.2,TLSv1.3"
    sasl_enabled_mechanisms: str = ",".join(MECHANISMS)
    # Users and their passwords, as `python -m sexton.broker.users` writes them; ours, not Kafka's.
    sasl_credentials_file: str = ""

    @property
    def encrypts(self) -> bool:
        return bool(self.ssl_keystore_location or self.ssl_keystore_key)

    @property
    def has_sasl(self) -> bool:
        return bool(self.sasl_credentials_file)

    @property
    def authenticates(self) -> bool:
        """Does a client have to prove who it is?"""
        return self.has_sasl or (self.encrypts and self.ssl_client_auth == "required")

    @property
    def protocol(self) -> str:
        """Kafka's word for it, which a client has to be told."""
        return ("SASL_" if self.has_sasl else "") + ("SSL" if self.encrypts else "PLAINTEXT")


@dataclass(frozen=True, slots=True)
class Security:
    """The same, loaded."""

    tls: ssl.SSLContext | None
    users: Users | None
    mechanisms: tuple[str, ...]


def load_security(config: SecurityConfig) -> Security:
    users = load_users(Path(config.sasl_credentials_file)) if config.has_sasl else None
    if users is not None and not users.names:
        why = "holds no user, so nobody could come in"
        raise ConfigError(config.sasl_credentials_file, why, "see `python -m sexton.broker.users`")
    return Security(_tls(config), users, _mechanisms(config))


def _mechanisms(config: SecurityConfig) -> tuple[str, ...]:
    chosen = _listed(config.sasl_enabled_mechanisms)
    unknown = [each for each in chosen if each not in MECHANISMS]
    if unknown or not chosen:
        hint = f"choose among {', '.join(MECHANISMS)}"
        raise ConfigError("sasl.enabled.mechanisms", f"cannot offer {', '.join(unknown)}", hint)
    return tuple(chosen)


def _tls(config: SecurityConfig) -> ssl.SSLContext | None:
    for option, kind in (
        ("ssl.keystore.type", config.ssl_keystore_type),
        ("ssl.truststore.type", config.ssl_truststore_type),
    ):
        if kind.upper() != "PEM":
            hint = "convert it: openssl pkcs12 -in keystore.p12 -out keystore.pem -nodes"
            raise ConfigError(option, f"{kind} cannot be read, only PEM", hint)
    if config.ssl_client_auth not in _CLIENT_AUTH:
        hint = f"choose among {', '.join(_CLIENT_AUTH)}"
        raise ConfigError("ssl.client.auth", f"is {config.ssl_client_auth!r}", hint)
    if not config.encrypts:
        if config.ssl_client_auth != "none":
            hint = "give ssl.keystore.location"
            raise ConfigError("ssl.client.auth", "needs TLS, and there is no certificate", hint)
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _choose_versions(context, config)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.verify_mode = _CLIENT_AUTH[config.ssl_client_auth]
    _load_keystore(context, config)
    _load_truststore(context, config)
    return context


def _choose_versions(context: ssl.SSLContext, config: SecurityConfig) -> None:
    chosen = _listed(config.ssl_enabled_protocols)
    if not chosen or any(each not in _VERSIONS for each in chosen):
        hint = f"choose among {', '.join(_VERSIONS)}"
        raise ConfigError("ssl.enabled.protocols", f"is {config.ssl_enabled_protocols!r}", hint)
    versions = sorted(_VERSIONS[each] for each in chosen)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _load_keystore(context: ssl.SSLContext, config: SecurityConfig) -> None:
    password = config.ssl_key_password
    text = config.ssl_keystore_key + "\n" + config.ssl_keystore_certificate_chain + "\n"
    location = config.ssl_keystore_location
    where = "ssl.keystore.location" if location else "ssl.keystore.key"
    try:
        with _as_file(text) if not location else contextlib.nullcontext(location) as path:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=lambda: password)
    except (OSError, ValueError) as error:
        hint = "it holds a private key and the certificates that belong to it, in PEM"
        raise ConfigError(where, f"cannot be used: {_said(error)}", hint) from None


def _load_truststore(context: ssl.SSLContext, config: SecurityConfig) -> None:
    location, text = config.ssl_truststore_location, config.ssl_truststore_certificates
    if not location and not text:
        if config.ssl_client_auth != "none":
            why = "needs to know who may sign clients' certificates"
            raise ConfigError("ssl.client.auth", why, "give ssl.truststore.location")
        return
    try:
        context.load_verify_locations(cafile=location or None, cadata=text or None)
    except (OSError, ValueError) as error:
        where = "ssl.truststore.location" if location else "ssl.truststore.certificates"
        raise ConfigError(where, f"cannot be used: {_said(error)}") from None


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """OpenSSL takes a key from a file only; only we may read this one, and it goes at once."""
    descriptor, name = tempfile.mkstemp(prefix="sexton-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        yield name
    finally:
        Path(name).unlink()


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _said(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
