"""A uuid is 16 bytes here and in messages; to people Kafka shows it in base64, without the `==`."""

from __future__ import annotations

import binascii

from sexton.protocol.wire import ZERO_UUID

__all__ = ["ZERO_UUID", "parse_uuid", "uuid_text"]

_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")


def uuid_text(uuid: bytes) -> str:
    """As Kafka's tools print it: `AAAAAAAAAAAAAAAAAAAAAA` is zero."""
    return binascii.b2a_base64(uuid, newline=False).translate(_TO_URL).decode().rstrip("=")


def parse_uuid(text: str) -> bytes:
    """The uuid that Kafka's tools print so; ValueError if there is none."""
    try:
        encoded = text.encode("ascii").translate(_FROM_URL)
        uuid = binascii.a2b_base64(encoded + b"==", strict_mode=True)
    except ValueError:  # binascii.Error too
        uuid = b""
    if len(uuid) != 16:
        raise ValueError(f"not a uuid in base64, 22 letters long: {text!r}")
    return uuid
