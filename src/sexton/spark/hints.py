"""Spark shows the text of an error and nothing else, so what to do about it goes into the text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from sexton.base.errors import SextonError

P = ParamSpec("P")
R = TypeVar("R")


def explained(error: SextonError) -> SextonError:
    """The same error with its hint in its text."""
    if error.hint and error.hint not in str(error):
        error.args = (f"{error} ({error.hint})",)
    return error


def explaining(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def explain(*given: P.args, **named: P.kwargs) -> R:
        try:
            return function(*given, **named)
        except SextonError as error:
            raise explained(error) from error.__cause__

    return explain
