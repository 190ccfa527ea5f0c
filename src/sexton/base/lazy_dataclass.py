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
`fields`, `replace` and `match` see no difference at any time. (`inspect.signature` does: until then
it is shown the stand-in.)

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
        assert slots, "without slots there is the standard library"
        return lambda cls: _with_stand_ins(_with_slots(cls, frozen), cls, frozen, eq)


def _with_slots(cls: type[T], frozen: bool) -> type[T]:
    """All that needs no code to be written: fields, slots and what `match` looks at."""
    doc = cls.__doc__
    cls.__doc__ = doc or "-"  # a class without one would be given its signature, which takes long
    inherits = any(base.__dataclass_params__.frozen for base in _dataclasses_above(cls))
    made = dataclasses.dataclass(
        init=False, repr=False, eq=False, slots=True, frozen=frozen and inherits
    )(cls)
    made.__doc__ = doc
    vars(made)["__dataclass_params__"].frozen = frozen  # a subclass has to be the same
    return made


def _dataclasses_above(cls: type[Any]) -> list[Any]:
    return [base for base in cls.__mro__[1:] if "__dataclass_params__" in vars(base)]


def _with_stand_ins(made: type[T], cls: type[T], frozen: bool, eq: bool) -> type[T]:
    methods: dict[str, Any] = {
        name: _stand_in(made, name, frozen) for name in ("__init__", "__repr__")
    }
    if eq:
        methods["__eq__"] = _stand_in(made, "__eq__", frozen)
    if frozen:
        methods |= _FROZEN
    own = cls.__dict__  # what the class says itself stays
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    if eq and own.get("__hash__") is None:  # Python puts None there beside an `__eq__`
        hashed = _stand_in(made, "__hash__", frozen) if frozen else None
        type.__setattr__(made, "__hash__", hashed)
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
    write = dataclasses.dataclass(
        init=name == "__init__",
        repr=name == "__repr__",
        eq=name == "__eq__",
        unsafe_hash=name == "__hash__",
        frozen=frozen and name == "__init__",  # then it assigns past `__setattr__`
        match_args=False,
        slots=True,
    )
    return write(type(cls.__name__, (), body)).__dict__[name]


class _Frozen:
    """The methods that are the same for all frozen classes."""

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    # `copy` and `pickle` would assign one by one.

    def __getstate__(self) -> list[Any]:
        return [getattr(self, each) for each in _names(self)]

    def __setstate__(self, state: list[Any]) -> None:
        for each, value in zip(_names(self), state, strict=True):
            object.__setattr__(self, each, value)


def _names(of: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(of)]


_FROZEN = {
    name: vars(_Frozen)[name]
    for name in ("__setattr__", "__delattr__", "__getstate__", "__setstate__")
}
