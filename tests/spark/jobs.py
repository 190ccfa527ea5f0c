"""Functions for Spark's workers, which import them by name."""

from __future__ import annotations

import os
from pathlib import Path

from sexton.testing.waiting import until


def square(number: int) -> tuple[int, int]:
    """The square, and which process has worked it out."""
    return number * number, os.getpid()


def picky(number: int) -> int:
    if number == 2:
        raise ValueError("two is not liked here")
    return number


def deadly(argument: tuple[int, str]) -> int:
    """The first attempt at this task ends its process."""
    number, directory = argument
    mark = Path(directory) / f"attempted-{number}"
    if number == 1 and not mark.exists():
        mark.touch()
        os._exit(9)
    return number


def patient(directory: str) -> None:
    """Whichever comes first is done; the others wait until they may go on."""
    place = Path(directory)
    try:
        (place / "first").touch(exist_ok=False)
    except FileExistsError:
        until((place / "goes-on").exists, "a word that it goes on", 300)
