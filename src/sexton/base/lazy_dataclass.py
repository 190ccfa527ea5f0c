"""A dataclass whose methods are written when they are first called.

    from sexton.base.lazy_dataclass import dataclass

    @dataclass(frozen=True, slots=True)
    class Reported:
        node: int
        clean: int

The standard library writes and compiles `__init__`, `__eq__`, `__repr__` and more as soon as a
class is defined, which takes most of a millisecond. We define six hundred of them, one for each
event, effect, request and struct, and a process that serves a few clients makes objects of a few
dozen: half of a broker's start was spent on methods that nobody called.

So here a class gets its fields and slots at once, and for each method a stand-in. Its first call
has the standard library write the real one, puts that in its place and goes on with it. From then
on the class is what `dataclasses.dataclass` would have made, and as fast; a type checker and
`fields`, `replace` and `match` see no difference at any time. What differs: until the first call
`inspect.signature` sees the stand-in, and a frozen class may only inherit from one made here.

It knows the options that we use; where another is needed, there is the standard library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        *, slots: Literal[True], frozen: bool = False, eq: bool = True
    ) -> Callable[[type[T]], type[T]]:
        return lambda cls: _finish(_with_slots(cls), cls, frozen, eq)


def _with_slots(cls: type[T]) -> type[T]:
    """All that needs no code to be written: fields, slots and what `match` looks at."""
    doc = cls.__doc__
    cls.__doc__ = doc or "-"  # a class without one would be given its signature, which takes long
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__doc__ = doc
    return made


def _finish(made: type[T], cls: type[T], frozen: bool, eq: bool) -> type[T]:
    own = cls.__dict__  # a method in the class's own body stays
    for name in ("__init__", "__repr__", "__eq__") if eq else ("__init__", "__repr__"):
        if name not in own:
            setattr(made, name, _stand_in(made, name, frozen))
    if eq and own.get("__hash__") is None:
        made.__hash__ = _stand_in(made, "__hash__", frozen) if frozen else None  # type: ignore
    if frozen:
        for method in (__setattr__, __delattr__, __getstate__, __setstate__):
            setattr(made, method.__name__, method)
    return made


def _stand_in(cls: type[Any], name: str, frozen: bool) -> Callable[..., Any]:
    def first_call(self: object, *arguments: Any, **named: Any) -> Any:
        method = _write(cls, name, frozen)
        setattr(cls, name, method)
        return method(self, *arguments, **named)

    return first_call


def _write(cls: type[Any], name: str, frozen: bool) -> Any:
    """The method as the standard library writes it, for a class that has nothing but the fields."""
    every = cls.__dataclass_fields__
    body = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": "-",
        "__annotations__": {each: field.type for each, field in every.items()},
        **every,
    }
    if hasattr(cls, "__post_init__"):
        body["__post_init__"] = cls.__post_init__  # whether there is one, __init__ has to know
    made = dataclasses.dataclass(
        init=name == "__init__",
        repr=name == "__repr__",
        eq=name == "__eq__",
        unsafe_hash=name == "__hash__",
        frozen=frozen and name == "__init__",  # then it assigns past `__setattr__`
        match_args=False,
        slots=True,
    )(type(cls.__name__, (), body))
    return made.__dict__[name]


# ── the methods of a frozen class, which are the same for all ──


def __setattr__(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def __delattr__(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def __getstate__(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def __setstate__(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
