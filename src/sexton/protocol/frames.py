"""Requests and responses as they go over a connection.

    ┌────────┬──────────────────────────────┐
    │ size   │ payload: header, message     │      size: 4 bytes, without itself
    └────────┴──────────────────────────────┘

What is encoded here is a whole frame, ready to send. What is decoded is a payload: whoever reads
from a connection must take off the size, to know how much to wait for, and whether to wait at all.

A response does not say what it answers. Its correlation id does, and it comes first whatever the
version: look at `correlation_id(payload)`, then decode with the class and version of that request.

A request with a key or a version that we do not have cannot be decoded, but it can be answered:
`UnknownApi` and `UnsupportedVersion` carry what an answer needs. Kafka answers ApiVersions so, in
version 0 with UNSUPPORTED_VERSION, and hangs up on the rest.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from sexton.base.errors import PeerError
from sexton.protocol import registry
from sexton.protocol.codec import decode, decode_from, encode_into
from sexton.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from sexton.protocol.wire import Buffer, Message, Request, Response

R = TypeVar("R", bound=Response)

_SIZE = struct.Struct(">i")
_START = struct.Struct(">hhi")  # of a request header in any version


class UnsupportedRequest(PeerError):
    """A request that we cannot decode, with what is needed to answer it all the same."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int, why: str) -> None:
        super().__init__(f"request {api_key} v{api_version}", why)
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


class UnknownApi(UnsupportedRequest):
    """There is no API with this key."""


class UnsupportedVersion(UnsupportedRequest):
    """There is an API with this key, but not in this version."""


def encode_request(
    message: Request[Any], version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """A frame with a request."""
    header = RequestHeader(message.API_KEY, version, correlation_id, client_id)
    return _frame(header, _header_version(message, version), message, version)


def encode_request_parts(
    message: Request[Any], version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    """The same frame in parts, in which large records are not copied."""
    header = RequestHeader(message.API_KEY, version, correlation_id, client_id)
    return _frame_parts(header, _header_version(message, version), message, version)


def decode_request(payload: Buffer) -> tuple[RequestHeader, Request[Any]]:
    """The request of a frame, whichever it is."""
    if len(payload) < _START.size:
        raise PeerError("request", f"a header has at least 8 bytes, but here are {len(payload)}")
    key, version, correlation = _START.unpack_from(payload)
    api = registry.find(key)
    if api is None:
        raise UnknownApi(key, version, correlation, f"there is no API with the key {key}")
    if version not in api.versions:
        why = f"{api.name} has versions {api.versions[0]} to {api.versions[-1]}"
        raise UnsupportedVersion(key, version, correlation, why)
    header_version = request_header_version(version in api.flexible)
    header, position = decode_from(RequestHeader, payload, header_version, 0)
    # Bytes may follow: librdkafka asks for all topics in a form that is three bytes too long, and
    # Kafka does not look at what it does not need.
    request, _ = decode_from(api.request, payload, version, position)
    return header, request


def encode_response(message: Response, version: int, correlation_id: int) -> bytes:
    """A frame with a response."""
    header_version = _header_version(message, version)
    return _frame(ResponseHeader(correlation_id), header_version, message, version)


def encode_response_parts(message: Response, version: int, correlation_id: int) -> list[Buffer]:
    """The same frame in parts, in which large records are not copied."""
    header_version = _header_version(message, version)
    return _frame_parts(ResponseHeader(correlation_id), header_version, message, version)


def decode_response(kind: type[R], payload: Buffer, version: int) -> tuple[int, R]:
    """The correlation id and the response of a frame."""
    flexible = version in kind.FLEXIBLE_VERSIONS
    header_version = response_header_version(kind.API_KEY, flexible)
    header, position = decode_from(ResponseHeader, payload, header_version, 0)
    return header.correlation_id, decode(kind, payload, version, position)


def correlation_id(payload: Buffer) -> int:
    """Which request does this response answer?"""
    if len(payload) < _SIZE.size:
        raise PeerError("response", f"a header has at least 4 bytes, but here are {len(payload)}")
    found: int = _SIZE.unpack_from(payload)[0]
    return found


def _header_version(message: Request[Any] | Response, version: int) -> int:
    flexible = version in message.FLEXIBLE_VERSIONS
    if isinstance(message, Request):
        return request_header_version(flexible)
    return response_header_version(message.API_KEY, flexible)


def _frame(header: Message, header_version: int, message: Message, version: int) -> bytes:
    out = encode_into(bytearray(_SIZE.size), header, header_version)
    out = encode_into(out, message, version)
    _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
    return bytes(out)


def _frame_parts(
    header: Message, header_version: int, message: Message, version: int
) -> list[Buffer]:
    first = encode_into(bytearray(_SIZE.size), header, header_version)
    parts: list[Buffer] = []
    last = encode_into(first, message, version, parts)
    if last:
        parts.append(last)
    _SIZE.pack_into(first, 0, sum(map(len, parts)) - _SIZE.size)
    return parts
