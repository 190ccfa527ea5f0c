"""What stands before a request and a response.

    request v0   key, version, correlation id     (nobody's any more)
            v1   ... and client id
            v2   ... and tagged fields            if the request's version is flexible
    response v0  correlation id
             v1  ... and tagged fields            if the response's version is flexible

Two exceptions, both so that a client can ask any broker what it speaks: the client id never has a
compact length, and an ApiVersions response always has header v0 (KIP-511).
"""

from __future__ import annotations

from typing import Final

from sexton.base.lazy_dataclass import dataclass
from sexton.protocol import wire

API_VERSIONS: Final = 18


@dataclass(slots=True)
class RequestHeader(wire.Message):
    VALID_VERSIONS = range(3)
    FLEXIBLE_VERSIONS = range(2, 3)

    request_api_key: int = wire.int16()
    request_api_version: int = wire.int16()
    correlation_id: int = wire.int32()
    client_id: str | None = wire.string(
        default=None, versions="1+", nullable="1+", compact=False, ignorable=True
    )


@dataclass(slots=True)
class ResponseHeader(wire.Message):
    VALID_VERSIONS = range(2)
    FLEXIBLE_VERSIONS = range(1, 2)

    correlation_id: int = wire.int32()


def request_header_version(flexible: bool) -> int:
    return 2 if flexible else 1


def response_header_version(api_key: int, flexible: bool) -> int:
    return 1 if flexible and api_key != API_VERSIONS else 0
