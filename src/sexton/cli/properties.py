"""Java's properties files, read as `java.util.Properties` reads them.

People already have such a file for Kafka's own tools (`--command-config client.properties`), with
passwords in it that hold any character; so every rule of the format counts:

    # or ! starts a comment             key=value, key: value, key value
    a \\ at the end goes on below        \\t \\n \\r \\f \\u20ac, and \\x means x for any other x
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sexton.base.errors import ConfigError

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def load_properties(path: Path) -> dict[str, str]:
    """The keys and values in the file at `path`, the last of equal keys winning."""
    try:
        # Latin-1, as Kafka's tools read it; other characters are written as \uXXXX.
        text = path.read_text(encoding="latin-1")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        hint = "name a file of KEY=VALUE lines, as for Kafka's own tools"
        raise ConfigError(str(path), f"cannot be read: {why}", hint) from error
    return parse_properties(text, str(path))


def parse_properties(text: str, where: str = "properties") -> dict[str, str]:
    """The same, from text; `where` names it in errors."""
    properties = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            properties[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise ConfigError(f"{where}:{number}", str(error)) from None
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, line) with comments gone and continuation lines joined."""
    joined: str | None = None
    first = 0
    for number, raw in enumerate(_LINE_END.split(text), start=1):
        line = raw.lstrip(_BLANK)
        if joined is None:
            if not line or line[0] in "#!":
                continue
            joined, first = "", number
        joined += line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:  # an even number is backslashes, each escaped by another
            joined = joined[:-1]
        else:
            yield first, joined
            joined = None
    if joined:
        yield first, joined


def _split(line: str) -> tuple[str, str]:
    """Key and value, still escaped: the key ends at the first bare `=`, `:` or blank."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str) -> str:
    pieces = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            pieces.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == "u":
            digits = text[at + 2 : at + 6]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise ValueError(f"\\u{digits} is not an escape: \\u takes four hexadecimal digits")
            pieces.append(chr(int(digits, 16)))
            at += 6
        else:
            escaped = text[at + 1 : at + 2]
            pieces.append(_CONTROL.get(escaped, escaped))
            at += 2
    # Java writes a character beyond \uFFFF as two escapes.
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
