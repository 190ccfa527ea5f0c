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

from collections.abc import Iterator
from contextlib import contextmanager

from tests.patching import Plant, patching

PLANTS: dict[str, Plant] = {}


def plant(function: Plant) -> Plant:
    PLANTS[function.__name__.replace("_", "-")] = function
    return function


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """The mistake of that name is in the code meanwhile; None plants nothing."""
    with patching() as patch:
        if name is not None:
            PLANTS[name](patch)
        yield


def wrong(name: str) -> str:
    """What the plant of that name does wrong, in one sentence."""
    return (PLANTS[name].__doc__ or "").split("\n")[0]
