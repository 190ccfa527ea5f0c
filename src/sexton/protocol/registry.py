"""Which APIs are there? Kafka's own, and ours from 20000 up.

    api = find(1)                      # or None
    api.name, api.versions             # "Fetch", range(4, 19)
    api.request, api.response          # its classes, imported when first asked for

`api.stable` are the versions that a broker may advertise: Kafka ships some schemas with a last
version that may still change. (A broker also advertises Produce from version 0, which it refuses if
asked, since librdkafka gives up otherwise: KAFKA-18659.)
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, cast

from sexton.base.lazy_dataclass import dataclass
from sexton.protocol.api_table import ROWS
from sexton.protocol.wire import Request, Response

FIRST_PRIVATE_KEY: Final = 20_000


@dataclass(frozen=True, slots=True)
class Api:
    key: int
    name: str
    module: str  # where its two classes are: the name and `Request` or `Response`
    versions: range
    flexible: range
    stable: range

    @property
    def request(self) -> type[Request[Any]]:
        return cast("type[Request[Any]]", self._class("Request"))

    @property
    def response(self) -> type[Response]:
        return cast("type[Response]", self._class("Response"))

    def _class(self, suffix: str) -> object:
        found = _CLASSES.get((self.key, suffix))
        if found is None:
            found = getattr(import_module(self.module), self.name + suffix)
            _CLASSES[self.key, suffix] = found
        return found


_CLASSES: dict[tuple[int, str], object] = {}


def _kafkas_own() -> Iterator[Api]:
    for key, name, module, versions, flexible, unstable in ROWS:
        stable = versions[:-1] if unstable else versions
        yield Api(key, name, f"sexton.protocol.messages.{module}", versions, flexible, stable)


_APIS: dict[int, Api] = {api.key: api for api in _kafkas_own()}


def find(key: int) -> Api | None:
    return _APIS.get(key)


def apis() -> list[Api]:
    """All of them, by key."""
    return [_APIS[key] for key in sorted(_APIS)]


def register(request: type[Request[Any]], response: type[Response]) -> Api:
    """Make an API of our own known; a module does so for its classes once it is imported."""
    name = request.__name__.removesuffix("Request")
    assert response.__name__ == f"{name}Response" and response.__module__ == request.__module__
    assert request.API_KEY == response.API_KEY >= FIRST_PRIVATE_KEY
    assert request.VALID_VERSIONS == response.VALID_VERSIONS
    assert request.FLEXIBLE_VERSIONS == response.FLEXIBLE_VERSIONS
    versions, flexible = request.VALID_VERSIONS, request.FLEXIBLE_VERSIONS
    api = Api(request.API_KEY, name, request.__module__, versions, flexible, versions)
    assert _APIS.setdefault(api.key, api) == api, f"two APIs have the key {api.key}"
    _CLASSES[api.key, "Request"] = request
    _CLASSES[api.key, "Response"] = response
    return api
