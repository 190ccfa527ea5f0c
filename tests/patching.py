"""Functions of the real code are others for a while, and afterwards as before.

    with patching() as patch:
        old = patch(PartitionLog, "append_as_leader", wrong)

A safety test that has never failed proves nothing: so mistakes are planted, and must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Patch = Callable[[object, str, object], Any]  # owner, name, what takes its place; returns the old
Plant = Callable[[Patch], None]


@contextmanager
def patching() -> Iterator[Patch]:
    undo: list[tuple[object, str, object]] = []

    def patch(owner: object, attribute: str, new: object) -> Any:
        old = vars(owner)[attribute]  # as it is kept: a classmethod stays one
        undo.append((owner, attribute, old))
        setattr(owner, attribute, new)
        return old

    try:
        yield patch
    finally:
        for owner, attribute, old in reversed(undo):
            setattr(owner, attribute, old)
