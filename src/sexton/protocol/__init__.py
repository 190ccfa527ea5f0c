"""Kafka's requests and responses, to and from bytes.

    from sexton.protocol import decode_request, encode_request
    from sexton.protocol.messages.fetch import FetchRequest

    frame = encode_request(FetchRequest(max_wait_ms=500), 12, correlation_id=7, client_id="me")
    header, request = decode_request(frame[4:])

The message classes are in `messages`, a module for each API; what coordinators store in internal
topics is in `coordinator`. A message is a plain dataclass that can be passed around without being
encoded; `wire` says how to write one by hand. The names below are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sexton.protocol.codec import EncodeError, decode, decode_from, encode, encode_into
    from sexton.protocol.frames import (
        UnknownApi,
        UnsupportedRequest,
        UnsupportedVersion,
        correlation_id,
        decode_request,
        decode_response,
        encode_request,
        encode_request_parts,
        encode_response,
        encode_response_parts,
    )
    from sexton.protocol.headers import RequestHeader
    from sexton.protocol.uuids import ZERO_UUID, parse_uuid, uuid_text
    from sexton.protocol.versioned import (
        decode_key,
        decode_value,
        decode_versioned,
        encode_key,
        encode_versioned,
    )

_HOME = {
    "EncodeError": "codec",
    "RequestHeader": "headers",
    "UnknownApi": "frames",
    "UnsupportedRequest": "frames",
    "UnsupportedVersion": "frames",
    "ZERO_UUID": "uuids",
    "correlation_id": "frames",
    "decode": "codec",
    "decode_from": "codec",
    "decode_key": "versioned",
    "decode_request": "frames",
    "decode_response": "frames",
    "decode_value": "versioned",
    "decode_versioned": "versioned",
    "encode": "codec",
    "encode_into": "codec",
    "encode_key": "versioned",
    "encode_request": "frames",
    "encode_request_parts": "frames",
    "encode_response": "frames",
    "encode_response_parts": "frames",
    "encode_versioned": "versioned",
    "parse_uuid": "uuids",
    "uuid_text": "uuids",
}

__all__ = [
    "ZERO_UUID",
    "EncodeError",
    "RequestHeader",
    "UnknownApi",
    "UnsupportedRequest",
    "UnsupportedVersion",
    "correlation_id",
    "decode",
    "decode_from",
    "decode_key",
    "decode_request",
    "decode_response",
    "decode_value",
    "decode_versioned",
    "encode",
    "encode_into",
    "encode_key",
    "encode_request",
    "encode_request_parts",
    "encode_response",
    "encode_response_parts",
    "encode_versioned",
    "parse_uuid",
    "uuid_text",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
