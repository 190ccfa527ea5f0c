"""Who could reach this cluster, and may they?

Whoever reaches a listener that asks nobody who they are can read and delete everything. On the
loopback interface that is whoever can run programs here; beyond it, anybody. So beyond loopback a
listener authenticates its clients, or it has been told twice: once where to listen, once that this
is meant.
"""

from __future__ import annotations

import ipaddress

from sexton.base.errors import ConfigError

HINT = "set up authentication (sasl.credentials.file), stay on 127.0.0.1, or add --insecure"


def refuse_exposure(host: str, *, authenticated: bool, insecure: bool, option: str) -> None:
    """ConfigError if `host` is open to others and nothing keeps them out."""
    if is_loopback(host) or authenticated or insecure:
        return
    why = "would let anybody on that network in, without authentication"
    raise ConfigError(f"{option} {host}", why, HINT)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name: nobody knows what it means tomorrow
