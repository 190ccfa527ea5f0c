"""Certificates for tests, made by OpenSSL when needed: an authority, and whom it vouches for."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
_STRICT = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"  # Python 3.13 wants both


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files."""

    authority: Path
    server: Path  # key and certificate, for localhost and 127.0.0.1
    client: Path

    def context(self, *, with_own: bool = False) -> ssl.SSLContext:
        """What a client uses."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if with_own:
            context.load_cert_chain(self.client)
        return context


def make_certificates(directory: Path) -> Certificates:
    directory.mkdir(parents=True, exist_ok=True)
    key, authority = directory / "authority.key", directory / "authority.pem"
    _openssl(
        ["req", "-x509", *_KEY, "-keyout", key, "-out", authority, "-days", "2", "-subj", "/CN=us",
         "-addext", "keyUsage=critical,keyCertSign"]
    )  # fmt: skip
    for name, extension in (
        ("server", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ("client", "extendedKeyUsage=clientAuth"),
    ):
        own, request, signed = (directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
        _openssl(["req", *_KEY, "-keyout", own, "-out", request, "-subj", f"/CN={name}"])
        extensions = directory / f"{name}.ext"
        extensions.write_text(f"{extension}\n{_STRICT}", encoding="ascii")
        _openssl(
            ["x509", "-req", "-in", request, "-CA", authority, "-CAkey", key, "-CAcreateserial",
             "-out", signed, "-days", "2", "-extfile", extensions]
        )  # fmt: skip
        both = own.read_text(encoding="ascii") + signed.read_text(encoding="ascii")
        (directory / f"{name}.pem").write_text(both, encoding="ascii")
    return Certificates(authority, directory / "server.pem", directory / "client.pem")


def _openssl(arguments: list[str | Path]) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
