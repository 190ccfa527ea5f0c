"""Bytes as somebody wants to see them.

auto     text where it is printable UTF-8, else hex after `0x`
text     UTF-8, what is none of it escaped
hex, base64
json     the parsed value in JSON output, compact text elsewhere; auto where it is no JSON
digest   the size and the first half of the SHA-256: comparable, and gives nothing away
none     nothing
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sexton.base.digests import digest
from sexton.base.errors import ConfigError


class Rendering(StrEnum):
    auto = "auto"
    text = "text"
    hex = "hex"
    base64 = "base64"
    json = "json"
    digest = "digest"
    none = "none"


@dataclass(frozen=True, slots=True)
class Renderer:
    """Makes a cell of a key or a value; null is None in every rendering."""

    rendering: Rendering
    most_bytes: int | None = None  # longer ones are cut, and said to be
    parsed: bool = False  # JSON may become objects; else it stays text
    mark_empty: bool = False  # an empty string is shown as `""`, to tell it from null

    def __call__(self, data: bytes | None) -> Any:
        if data is None or self.rendering is Rendering.none:
            return None
        if self.rendering is Rendering.digest:
            return digest(data)
        if not data and self.mark_empty:
            return '""'
        if self.rendering is Rendering.json:
            return self._json(data)
        return self._cut(data, _WRITERS[self.rendering])

    def _json(self, data: bytes) -> Any:
        try:
            value = json.loads(data)
            # NaN, and numbers too large for a float, are read and could not be written again.
            compact = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (ValueError, RecursionError):
            return self._cut(data, auto_text)
        return value if self.parsed else self._cut(compact.encode("utf-8", "surrogatepass"), text)

    def _cut(self, data: bytes, write: Callable[[bytes], str]) -> str:
        if self.most_bytes is None or len(data) <= self.most_bytes:
            return write(data)
        head = data[: self.most_bytes]
        if _is_text(data):  # do not cut a character in two and take the rest for binary
            head = head.decode("utf-8", "ignore").encode()
        return f"{write(head)}… ({len(data)} bytes)"


def _is_text(data: bytes) -> bool:
    try:
        decoded = data.decode()
    except UnicodeDecodeError:
        return False
    return decoded.isprintable() or all(c.isprintable() or c in "\n\r\t" for c in decoded)


def auto_text(data: bytes) -> str:
    return data.decode() if _is_text(data) else f"0x{data.hex()}"


def text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


_WRITERS: dict[Rendering, Callable[[bytes], str]] = {
    Rendering.auto: auto_text,
    Rendering.text: text,
    Rendering.hex: bytes.hex,
    Rendering.base64: lambda data: base64.b64encode(data).decode(),
}


def key_bytes(typed: str, rendering: Rendering) -> bytes:
    """The key that somebody copied from an output of this rendering."""
    try:
        match rendering:
            case Rendering.hex:
                return bytes.fromhex(typed)
            case Rendering.base64:
                return base64.b64decode(typed, validate=True)
            case Rendering.auto if typed.startswith("0x"):
                return bytes.fromhex(typed[2:])
            case _:
                return typed.encode("utf-8", "surrogateescape")
    except (ValueError, binascii.Error):
        if rendering is Rendering.auto:
            return typed.encode("utf-8", "surrogateescape")
        hint = f"keys are given as --keys {rendering} shows them"
        raise ConfigError("--key", f"{typed!r} is no {rendering}", hint) from None
