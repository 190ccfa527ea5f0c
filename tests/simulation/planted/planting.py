"""Mistakes to plant in the real code, to see whether the simulator finds them.

A safety test that has never failed proves nothing. A plant changes functions of the nodes while it
is in place, and puts them back:

    with planted("markers-without-bound"):
        Run(options).go()          must end with a violation

Each is a function that says in one sentence what is wrong, and is given `patch` to do it with.
Those of the cleaner are in `cleaner_plants`, those of the protocol in `protocol_plants`, those of
state stores in `store_plants`; `recipes` has for each the circumstances under which it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Patch = Callable[[object, str, object], Any]  # owner, name, what takes its place; returns the old
Plant = Callable[[Patch], None]
PLANTS: dict[str, Plant] = {}


def plant(function: Plant) -> Plant:
    PLANTS[function.__name__.replace("_", "-")] = function
    return function


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """The mistake of that name is in the code meanwhile; None plants nothing."""
    undo: list[tuple[object, str, object]] = []

    def patch(owner: object, attribute: str, new: object) -> Any:
        old = vars(owner)[attribute]  # as it is kept: a classmethod stays one
        undo.append((owner, attribute, old))
        setattr(owner, attribute, new)
        return old

    try:
        if name is not None:
            PLANTS[name](patch)
        yield
    finally:
        for owner, attribute, old in reversed(undo):
            setattr(owner, attribute, old)


def wrong(name: str) -> str:
    """What the plant of that name does wrong, in one sentence."""
    return (PLANTS[name].__doc__ or "").split("\n")[0]
