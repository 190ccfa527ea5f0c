"""Who could reach this cluster, and may they?

Whoever reaches a listener that asks nobody who they are can read and delete everything. On the
loopback interface that is whoever can run programs here; beyond it, anybody. So beyond loopback a
listener authenticates its clients, or it has been told twice: once where to listen, once that this
is meant.
"""

from __future__ import annotations

import ipaddress

from sexton.base.errors import ConfigError

HINT = "set up authentication (sasl.credentials.file), stay on 127.0.0.1, or add {}"
ANYWHERE = ("0.0.0.0", "::")


def refuse_exposure(
    host: str, *, authenticated: bool, insecure: bool, option: str, consent: str = "--insecure"
) -> None:
    """ConfigError if `host` is open to others and nothing keeps them out.

    `consent` is how whoever asks would say that this is meant.
    """
    if is_loopback(host) or authenticated or insecure:
        return
    why = "would let anybody on that network in, without authentication"
    raise ConfigError(f"{option} {host}", why, HINT.format(consent))


def refuse_nowhere(host: str, advertised_host: str | None, *, option: str, advertised: str) -> None:
    """ConfigError if clients would be told an address that leads nowhere."""
    if host in ANYWHERE and advertised_host is None:
        why = "is not an address to give to clients"
        raise ConfigError(f"{option} {host}", why, f"name this machine with {advertised}")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name: nobody knows what it means tomorrow
