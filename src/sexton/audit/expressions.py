"""What a user means by "the count" of a record, said in a word or two.

    EXPRESSION   [SOURCE] [READING]
    SOURCE       value (where none is named), key, header:NAME, timestamp, offset, partition
    READING      text     the bytes as they are
                 int      decimal digits: 110
                 float    a decimal number: 1.5e3
                 int32, int64, double     big-endian, as Kafka's own serializers write them
                 json:a.b                 a member of a JSON object, and after it int, float or text

    int               the value is a number in digits
    json:count        the member `count` of the value
    key json:user.id  a member of the key
    header:seq int64  eight bytes in a header

Several, joined by commas, make up one id: `key, json:seq`. There is nothing to run in here, only
places to look at: an expression from a stranger can do no harm.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from sexton.base.errors import ConfigError
from sexton.base.lazy_dataclass import dataclass

Source = Literal["value", "key", "header", "timestamp", "offset", "partition"]
Kind = Literal["text", "int", "float", "int32", "int64", "double"]
PLACES: Final[tuple[Source, ...]] = ("timestamp", "offset", "partition")  # numbers already
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_SOURCES: Final = ("value", "key", *PLACES)
_EXAMPLES: Final = "int, json:count, key json:id, header:seq int64, timestamp"


@dataclass(frozen=True, slots=True)
class Expression:
    """One place in a record, and how to read what is there."""

    source: Source
    header: str  # the name of one, else empty
    path: tuple[str, ...]  # in a JSON object; empty: the whole
    kind: Kind

    def __str__(self) -> str:
        words = [f"header:{self.header}" if self.source == "header" else self.source]
        words += [f"json:{'.'.join(self.path)}"] if self.path else []
        if self.source not in PLACES:
            words.append(self.kind)
        return " ".join(words)


def number(text: str, option: str) -> Expression:
    """An expression whose value can be compared: digits, unless it says otherwise."""
    found = _parsed(text, option, "int")
    if found.kind == "text":
        hint = "numbers are read as int, float, int32, int64 or double"
        raise ConfigError(option, f"{text!r} reads text, and a number is needed", hint)
    return found


def one(text: str, option: str) -> Expression:
    """An expression for any value, taken as it is written unless it says otherwise."""
    return _parsed(text, option, "text")


def parts(text: str, option: str) -> tuple[Expression, ...]:
    """Expressions that make up one id or key, joined by commas."""
    found = tuple(_parsed(part, option, "text") for part in text.split(","))
    for each in found:
        if each.kind in ("float", "double"):
            hint = "leave the word out: an id is compared byte by byte"
            raise ConfigError(option, f"{each.kind} cannot tell ids apart", hint)
    return found


def _parsed(text: str, option: str, usual: Kind) -> Expression:
    words = text.split()
    if not words:
        raise ConfigError(option, "is empty", f"such as {_EXAMPLES}")
    source: Source = "value"
    header = ""
    path: tuple[str, ...] = ()
    kind: Kind | None = None
    left = list(words)
    if left[0].startswith("header:"):
        source, header = "header", left.pop(0).removeprefix("header:")
        if not header:
            raise ConfigError(option, "header: names no header", "such as header:seq int")
    elif left[0] in _SOURCES:
        source = left.pop(0)  # type: ignore[assignment]
    if left and left[0].startswith("json:"):
        path = tuple(left.pop(0).removeprefix("json:").split("."))
        if not all(path):
            raise ConfigError(option, f"{text!r} names no member", "such as json:count, json:a.b")
    if left and left[0] in KINDS:
        kind = left.pop(0)  # type: ignore[assignment]
    if left:
        hint = f"such as {_EXAMPLES}"
        raise ConfigError(option, f"{left[0]!r} in {text!r} is not understood", hint)
    if source in PLACES and (path or kind):
        raise ConfigError(option, f"{source} is a number already", f"write {source} alone")
    if path and kind in ("int32", "int64", "double"):
        hint = "after json: there may be int, float or text"
        raise ConfigError(option, f"JSON has no {kind}", hint)
    if source in PLACES:
        kind = "int"
    return Expression(source, header, path, kind or usual)
