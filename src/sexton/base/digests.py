"""Keys and values are somebody's data: what stands for one where nobody is to read it?

    sha256:9834876dcfb05cb167a5c24953eba58c/3       half of the hash, and how many bytes there are

It is the same wherever sexton prints one, so that a key of an audit's finding can be found again in
a dump of the log by whoever may see it.
"""

from __future__ import annotations

import hashlib

DIGITS = 32


def hex_digest(data: bytes) -> str:
    """128 bits in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def digest(data: bytes) -> str:
    return f"sha256:{hex_digest(data)}/{len(data)}"
