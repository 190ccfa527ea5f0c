"""Facts to JSON and back, by the types of their fields.

Facts travel: to Spark as rows, to the journal from which an audit goes on after an interruption, to
files of findings. All of them are dataclasses of numbers, text, bytes, tuples and mappings, so one
walk over their types serves all. Bytes become base64, the keys of a mapping become text.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

Json = dict[str, Any]


class Plain:
    """What a dataclass of facts inherits."""

    __slots__ = ()

    def to_json(self) -> Json:
        written: Json = _written(self)
        return written

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """What an older version has written may lack a field; then it has its default."""
        fields = _types(cls).items()
        return cls(**{name: _read(kind, written[name]) for name, kind in fields if name in written})


_KNOWN: dict[type[Any], dict[str, Any]] = {}


def _types(cls: type[Any]) -> dict[str, Any]:
    """The type of each field, worked out once for a class."""
    if cls not in _KNOWN:
        hints = get_type_hints(cls, localns={})  # a field may be called `bytes`
        _KNOWN[cls] = {each.name: hints[each.name] for each in dataclasses.fields(cls)}
    return _KNOWN[cls]


def _written(value: Any) -> Any:
    if isinstance(value, Plain):
        return {name: _written(getattr(value, name)) for name in _types(type(value))}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, tuple):
        return [_written(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _written(each) for name, each in value.items()}
    return value


def _read(kind: Any, written: Any) -> Any:
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (other,) = (each for each in of if each is not type(None))  # only `X | None` is used
        return None if written is None else _read(other, written)
    if origin is tuple:
        each = of if of[-1] is not Ellipsis else of[:1] * len(written)
        return tuple(_read(one, value) for one, value in zip(each, written, strict=True))
    if origin is Literal:
        return written
    if origin is not None and issubclass(origin, Mapping):
        return {_read(of[0], name): _read(of[1], value) for name, value in written.items()}
    if issubclass(kind, Plain):
        return kind.from_json(written)
    if kind is bytes:
        return base64.b64decode(written)
    if issubclass(kind, tuple):  # a NamedTuple: TopicPartition
        return kind(*written)
    return kind(written)  # the names of a mapping have become text
